/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The introduction of connections through the KV. */
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
	bool said;		      /* logged: the KV cannot be used */
	bool warned;		      /* logged: the job has no secret */
	struct sh_job job;	      /* takes all that is in line */
	bool running;		      /* the job runs, and will look at the line again */
	struct list_node line;	      /* connections */
	struct list_node waiting;     /* connections that are not introduced yet: ahead.c */
	struct list_node withdrawals; /* withdrawals of ended connections */
	uint32_t n_withdrawals;	      /* in that list */
	uint64_t withdraw_at;	      /* when they wait no longer; 0: none waits */
	bool hurried;		      /* withdrawals that are there wait no longer */
	uint32_t contacts;	      /* number of contacts with the store, when last asked */
	char prefix[KV_PREFIX_MAX];   /* prefix of all keys; empty: not found out yet */
};

extern struct sh_intros sh_intros;

void sh_intro_start(struct sh_qp *qp) SH_LOCKED;

/*
 * Returns the KV's worker at exit, before sh.stopping is set; it gets no more work. NULL: there
 * was none.
 */
struct sh_worker *sh_intros_take_worker(void) SH_LOCKED;

extern const struct sh_module sh_intros_module;
extern const struct sh_conn_part sh_intro_part;

#endif
