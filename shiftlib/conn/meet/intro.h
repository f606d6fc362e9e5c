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

/*
 * At exit, before sh.stopping is set: its worker, which is given nothing any more; NULL: there
 * was none.
 */
struct sh_worker *sh_intros_take_worker(void);

extern const struct sh_module sh_intros_module;
extern const struct sh_conn_part sh_intro_part;

#endif
