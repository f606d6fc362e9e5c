/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Where the receives of a shared receive queue go, and when its QPs take them. */
#ifndef SHIFTLIB_CONN_PARTS_SRQ_H
#define SHIFTLIB_CONN_PARTS_SRQ_H

#include "shiftlib/base/locked.h"
#include "shiftlib/replica/srq.h"

struct sh_conn_part;
struct sh_qp;
struct sh_carrier;

/* Can the application's own QP be connected? Not if its queue has given its receives away. */
bool sh_srq_connectable(const struct sh_qp *qp) SH_LOCKED;
/*
 * srq_clean.c: a queue that gave its receives away is made one that can be used again, for queue
 * pairs that are to be connected there. sh_srq_await: until qp can be; false: it cannot.
 */
void sh_srq_clean_run(struct sh_srq *srq, uint64_t now) SH_LOCKED;
bool sh_srq_await(struct sh_qp *qp) SH_DROPS;
/* A carrier has left: what nobody takes goes elsewhere. */
void sh_srq_check(struct sh_srq *srq) SH_LOCKED;
/* IBV_EVENT_QP_LAST_WQE_REACHED. True: the application must not see it (now). */
bool sh_srq_last_receive(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED;
/* srq_few.c: moves one receive if a ring with users has none. told: by the engine, just now. */
void sh_srq_few_run(struct sh_srq *srq, bool told, uint64_t now) SH_LOCKED;
void sh_srq_silence(struct sh_qp *qp)
	SH_LOCKED; /* the QP is being destroyed: the event is not raised any more */

/* The engine's callbacks, on the data path; lock not held. */
void sh_srq_cb_stuck(void *srq);
void sh_srq_cb_limit(void *srq);
int sh_srq_cb_lkey(void *srq, uint8_t path, uint32_t key, uint32_t *out);

extern const struct sh_module sh_srqs_module;
extern const struct sh_conn_part sh_srq_part;

#endif
