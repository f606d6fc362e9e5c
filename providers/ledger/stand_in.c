/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Stand-ins. The application finds its own shared queue in ibv_qp.srq, though the QP was made on
 * another queue that stands in for it. When a provider polls, it looks there for the receive of a
 * completion (libmlx5), and has to find the queue that it made the QP with.
 */
#include "providers/ledger/srq.h"
#include "providers/ledger/stand_in.h"

/* The CQ's lock is held, as around any poll. */
static int poll_for_stand_ins(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct sp_cq *cq = led_cq_of(ibv->context, ibv->handle);
	struct sp_qp *qp;
	int got;

	for (qp = cq->stand_ins; qp; qp = qp->stand_in.next) {
		qp->stand_in.shown = qp->ibv->srq;
		qp->ibv->srq = qp->stand_in.srq;
	}
	got = cq->dev->saved.poll_cq(ibv, n, wc);
	for (qp = cq->stand_ins; qp; qp = qp->stand_in.next)
		qp->ibv->srq = qp->stand_in.shown;
	return got;
}

/* Called before the application sees the QP. The CQ's lock is held. */
void led_stand_in_link(struct sp_qp *qp)
{
	if (!qp->srq || qp->ibv->srq == qp->srq->ibv)
		return;
	qp->stand_in.srq = qp->ibv->srq;
	qp->stand_in.next = qp->rcq->stand_ins;
	qp->rcq->stand_ins = qp;
	qp->rcq->ring.poll = poll_for_stand_ins;
}

/* Unlinks a QP that is going to be destroyed: its provider sweeps its completions. */
void led_stand_in_unlink(struct sp_qp *qp)
{
	struct sp_qp **at = &qp->rcq->stand_ins;

	if (!qp->stand_in.srq)
		return;
	while (*at != qp)
		at = &(*at)->stand_in.next;
	*at = qp->stand_in.next;
	qp->ibv->srq = qp->stand_in.srq;
	if (!qp->rcq->stand_ins)
		qp->rcq->ring.poll = qp->dev->saved.poll_cq;
}
