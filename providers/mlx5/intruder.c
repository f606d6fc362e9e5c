/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Intruders: programs that write to rings that the engine drives, or take their completions, by
 * direct verbs.
 */
#include "providers/mlx5/bf.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/qp.h"

static bool record_is(const struct sp_carrier *c, int which, uint32_t index)
{
	__be32 record = __atomic_load_n(&c->dbrec[which], __ATOMIC_ACQUIRE);

	return (be32toh(record) & 0xffff) == (index & 0xffff);
}

static void seen_foreign(struct sp_qp *qp, bool first)
{
	uint32_t none = RING_HAND_NONE;

	atomic_compare_exchange_strong(&qp->others.hand, &none,
				       first ? RING_HAND_FIRST : RING_HAND_INTRUDES);
}

/*
 * Somebody who posts past us (mlx5dv users) has moved the doorbell record of the application's own
 * QP. All stores of ours to a record are made under its queue's lock, which is held.
 */
bool ring_qp_own_tx(struct sp_qp *qp)
{
	struct sp_carrier *c = sp_carrier_zero(qp);
	bool ours = record_is(c, MLX5_SND_DBR, c->sq.cur_post + c->nops_withdrawn);

	if (!ours) {
		seen_foreign(qp, !c->sq.cur_post);
		ring_bf_share(c->dev, c->bf->reg, c->bf->size);
	}
	return ours;
}

/* pub is not kept where a post rings as soon as it was written; nor is it by ring_qp_fail. */
bool ring_qp_own_rx(struct sp_qp *qp)
{
	struct sp_carrier *c = sp_carrier_zero(qp);
	bool fast = c == qp->rx && !(qp->rx_mode & ~RING_FIRST);
	bool ours = (qp->rx_mode & RING_FAILED) ||
		    record_is(c, MLX5_RCV_DBR, fast ? c->rq.head : c->rq.pub);

	if (!ours)
		seen_foreign(qp, !c->rq.head);
	return ours;
}

/*
 * Looks whether somebody else takes the CQ's completions. A holder between start_poll and end_poll
 * owes slots.
 */
static void cq_check_taken(struct sp_qp *qp, struct sp_cq *cq)
{
	uint32_t record;

	if (!sp_trylock(&cq->lock))
		return;
	record = be32toh(__atomic_load_n(&cq->ring.dbrec[RING_CQ_SET_CI], __ATOMIC_ACQUIRE));
	if (!cq->held && !cq->owes && (record & 0xffffff) != (cq->ring.ci & 0xffffff))
		seen_foreign(qp, !cq->ring.ci);
	sp_unlock(&cq->lock);
}

/* If a lock is held now, the application holds it, in a verb of ours: the next look tells. */
static void look_for_others(struct sp_qp *qp)
{
	if (sp_trylock(&qp->sq_lock)) {
		ring_qp_own_tx(qp);
		ring_tx_unlock(qp);
	}
	if (sp_trylock(&qp->rq_lock)) {
		ring_qp_own_rx(qp);
		sp_unlock(&qp->rq_lock);
	}
	cq_check_taken(qp, qp->scq);
	if (qp->rcq != qp->scq)
		cq_check_taken(qp, qp->rcq);
}

const char *ring_qp_reason(struct sp_qp *qp, bool *intruder)
{
	if (!atomic_load(&qp->others.hand))
		look_for_others(qp);
	*intruder = atomic_load(&qp->others.hand) == RING_HAND_INTRUDES;
	if (*intruder)
		return "somebody else writes to rings that SHIFT drives (direct verbs): SHIFT "
		       "leaves it alone";
	if (atomic_load(&qp->others.hand))
		return "somebody else posts to its rings (direct verbs): SHIFT leaves it alone";
	if (atomic_load(&qp->others.windows))
		return "it uses memory windows, which exist on one NIC only";
	return NULL;
}
