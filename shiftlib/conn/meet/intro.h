/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The introduction of connections through the KV. Lock held. */
#ifndef SHIFTLIB_CONN_MEET_INTRO_H
#define SHIFTLIB_CONN_MEET_INTRO_H

#include "kvclient/kv.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/loop/loop.h"

struct sh_conn_part;
struct sh_qp;

/* In struct sh_qp. */
struct sh_intro {
	uint64_t start_at; /* the background thread begins, not the application's */
	uint64_t next_at, interval, since, put_again_at, asked_at;
	uint64_t look_at;	/* when the peer's record is looked for */
	uint64_t news_interval; /* no sooner is it looked for at a hint */
	uint64_t progressed;	/* its completions when it began to wait */
	uint64_t introduced_to; /* the instance that the core was told of last */
	struct list_node line;	/* in sh_intros.line or waiting, or alone */
	bool queued;		/* in line, or being asked about */
	bool waits;		/* in sh_intros.waiting instead */
	bool published, told;
	bool no_store;	  /* it did not answer when it was asked last */
	bool refused;	  /* it was said that its peer's record is wrong */
	bool gid_unknown; /* the NIC does not tell what the application connected from */
};

struct sh_intros {
	struct kv *kv;
	struct sh_worker *worker;
	bool said;		      /* that the KV cannot be used */
	bool warned;		      /* that the job has no secret */
	struct sh_job job;	      /* takes all that is in line */
	bool running;		      /* it will look at the line again */
	struct list_node line;	      /* connections */
	struct list_node waiting;     /* those that are not introduced yet: ahead.c */
	struct list_node withdrawals; /* of connections that have ended */
	uint32_t n_withdrawals;	      /* in that list */
	uint64_t withdraw_at;	      /* when they wait no longer; 0: none waits */
	bool hurried;		      /* those that are there wait no longer */
	uint32_t contacts;	      /* with the store, when it was last asked */
	char prefix[KV_PREFIX_MAX];   /* of all keys; empty: not found out yet */
};

extern struct sh_intros sh_intros;

void sh_intro_start(struct sh_qp *qp);

/* At exit, before sh.stopping is set: its worker, which is given nothing any more; NULL: there was none. */
struct sh_worker *sh_intros_take_worker(void);

extern const struct sh_module sh_intros_module;
extern const struct sh_conn_part sh_intro_part;

#endif
