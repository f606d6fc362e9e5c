/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The lists of failed queues that a CQ has. Compiled into each engine's failed.c, over the engine's
 * own struct sp_qp and struct sp_cq, whose headers come first. Under the CQ's lock.
 */
#ifndef SHIFT_FAILED_QUEUES_H
#define SHIFT_FAILED_QUEUES_H

/* The engine's: true if the queue has something to flush. */
static bool failed_tx_waiting(struct sp_qp *qp);
static bool failed_rx_waiting(struct sp_qp *qp);

/* True if failed queues have completions that nobody has polled. */
static inline bool sp_failed_waiting(const struct sp_cq *cq)
{
	struct sp_qp *qp;

	for (qp = cq->failed_tx; qp; qp = qp->tx_failed.next)
		if (failed_tx_waiting(qp))
			return true;
	for (qp = cq->failed_rx; qp; qp = qp->rx_failed.next)
		if (failed_rx_waiting(qp))
			return true;
	return false;
}

/* Fails both queues: n_delivered requests complete well first, then one with `first`. */
static inline void sp_failed_link(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
				  uint32_t n_delivered)
{
	qp->tx_failed = (struct sp_failed){ .on = true,
					    .delivered = n_delivered,
					    .first = first,
					    .vendor_err = vendor_err,
					    .next = qp->scq->failed_tx };
	qp->scq->failed_tx = qp;
	qp->rx_failed = (struct sp_failed){ .on = true, .next = qp->rcq->failed_rx };
	qp->rcq->failed_rx = qp;
}

static inline void sp_failed_unlink(struct sp_qp *qp)
{
	struct sp_qp **at;

	for (at = &qp->scq->failed_tx; *at && *at != qp;)
		at = &(*at)->tx_failed.next;
	if (*at)
		*at = qp->tx_failed.next;
	for (at = &qp->rcq->failed_rx; *at && *at != qp;)
		at = &(*at)->rx_failed.next;
	if (*at)
		*at = qp->rx_failed.next;
	qp->tx_failed = qp->rx_failed = (struct sp_failed){ 0 };
}

#endif
