/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The insides of events.c and made.c: ids, made-up events, and the lock of both. */
#ifndef SHIFTLIB_CM_INTERNAL_H
#define SHIFTLIB_CM_INTERNAL_H

#include <pthread.h>

#include "shiftlib/base/list.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/cm/events.h"

/* An id that is connected. */
struct cm_id {
	struct list_node link;
	struct rdma_cm_id *id;
	const struct ibv_qp *qp; /* NULL: destroyed */
	bool leaves, told;
	bool ending;	/* over, says SHIFT, and the kernel is to tell it */
	uint32_t waits; /* ... number of times that this is waited for yet */
	bool faulted;	/* there was a fault when an event was kept */
	/* The ledger: bits of events that the program is owed, unless a fault has caused them. */
	uint32_t kept;
	int status;   /* status of the last of these */
	bool removed; /* removed with its device: the kernel knows it no more */
	bool dying; /* being destroyed: who does that frees it; its late events are judged still */
	bool apart; /* true if the kernel's word of its end is not what the program heard */
	uint64_t due_at; /* asked, or leaving: decided then; 0: nothing is open */
	uint64_t since;	 /* time at which it was opened */
};

enum cm_made_state {
	CM_POKING, /* a job has it */
	CM_POKED,  /* the kernel will wake the channel */
	CM_DIRECT, /* the poke failed: whoever asks next gets it */
	CM_GIVEN,  /* the program has it, and will acknowledge it */
};

/* A made-up event. */
struct cm_made {
	struct sh_job job; /* first */
	struct list_node link;
	struct rdma_cm_event event;
	struct rdma_event_channel *channel;
	const struct shift_cm_real *real;
	enum cm_made_state state;
	bool woken; /* the job's result */
};

struct cm_state {
	pthread_mutex_t lock;
	pthread_cond_t poked; /* a job is through with its channel */
	struct sh_cm_oracle oracle;
	const struct shift_cm_real *real; /* the verbs of the last call: there are some */
	struct list_node ids, made;
	struct sh_table by_id, by_qp;
	struct sh_worker *worker;
	char mark; /* context of ids that poke */
};

extern struct cm_state sh_cm;

/* made.c; lock held. The program gets such an event of that id. */
void sh_cm_made_up(struct cm_id *entry, enum rdma_cm_event_type type, int status);
/* Returns a made-up event for that channel, in that state; NULL: none. */
struct cm_made *sh_cm_made_next(const struct rdma_event_channel *channel, enum cm_made_state state);
/*
 * Returns the event that the channel was woken for; NULL: it has gone with its id. Lock given up
 * meanwhile.
 */
struct cm_made *sh_cm_made_poked(const struct rdma_event_channel *channel);
/*
 * Drop an id's events, or send them where the id went. Afterwards no job uses the id's channel, or
 * its former one. Lock given up meanwhile.
 */
void sh_cm_made_drop(const struct rdma_cm_id *id);
void sh_cm_made_follow(const struct rdma_cm_id *id);

#endif
