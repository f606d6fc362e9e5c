/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "providers/mlx5/log.h"
#include "providers/mlx5/qp.h"
#include "providers/mlx5/wqe.h"

static const char *why_not_logged(const struct sp_qp *qp)
{
	if (qp->type != IBV_QPT_RC || !qp->max_post)
		return "it sends nothing that could be logged";
	if (qp->sig_bits) /* a NIC may complete them whatever their flags say */
		return "each of its requests is signaled (sq_sig_all)";
	return NULL;
}

static void log_set(struct ring_sq *sq, const struct sp_log *log)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)sq->log.wqe;
	uint8_t *raddr = sq->log.wqe + sizeof(*ctrl);
	uint64_t word = htole64(sp_log_word(log->tag, 0));

	sq->log = (struct ring_log){ .every = log->every, .left = log->every };
	ring_ctrl_opcode_set(ctrl, 0, MLX5_OPCODE_RDMA_WRITE);
	ctrl->qpn_ds = htobe32(RING_LOG_DS | sq->qpn_field);
	ring_seg_raddr(raddr, log->addr, log->rkey);
	(void)ring_seg_inline(raddr + sizeof(struct mlx5_wqe_raddr_seg), sizeof(word));
	memcpy(sq->log.wqe + RING_LOG_NUMBER_AT, &word, sizeof(word));
}

/* Rings that somebody else writes to are left alone. */
const char *ring_qp_log(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log)
{
	const char *why = why_not_logged(qp);
	struct sp_carrier *c;

	if (why || !log)
		return why;
	ring_qp_lock(qp);
	c = sp_carrier_at(qp, epoch);
	if (c && !c->left && !(qp->tx_mode & (RING_FOREIGN | RING_FAILED))) {
		log_set(&c->sq, log);
		if (c == qp->tx)
			qp->tx_mode |= RING_LOG;
	}
	ring_qp_unlock(qp);
	return NULL;
}

/*
 * Takes what was written from WQEBB `from` on, and not published, out of the log's count: the next
 * log WQE is due as if it had never been. The WQEs are still in the ring.
 */
void ring_log_take_back(struct ring_sq *sq, uint32_t from)
{
	uint64_t every = sq->log.every, counted = 0;

	if (!every)
		return;
	for (; from != sq->cur_post; from += ring_wqe_bbs(sq, from))
		counted += ring_log_counts(ring_ctrl_opcode(ring_sq_ctrl(sq, from)));
	sq->log.left = (sq->log.left + counted - 1) % every + 1;
}

/*
 * Counts the outstanding requests with numbers before that one. The numbers are the ring's; hidden
 * NOPs have some too.
 */
static int32_t walk_to(const struct ring_sq *sq, uint32_t number)
{
	struct ring_walk w;
	int32_t ran = 0;

	if (!ring_walk_start(&w, sq))
		return 0;
	while (ring_walk_next(&w) >= 0 && (int32_t)(w.n - number) <= 0)
		ran++;
	return ran;
}

/* A number that nobody has posted contradicts everything. */
int32_t ring_qp_logged(struct sp_qp *qp, uint32_t number)
{
	const struct ring_sq *sq;
	int32_t ran;

	ring_qp_lock(qp);
	sq = &qp->tx->sq;
	ran = (int32_t)(number - atomic_load(&sq->tail));
	if ((int32_t)(number - sq->head) > 0)
		ran = INT32_MAX;
	else if (ran > 0)
		ran = walk_to(sq, number);
	ring_qp_unlock(qp);
	return ran;
}
