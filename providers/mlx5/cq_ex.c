/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Polling by ibv_start_poll, ibv_next_poll, ibv_end_poll and the readers. ex_lock keeps other
 * start_polls out; the CQ's own lock is taken only to step, so that the shell can collect between
 * two steps. While a completion is looked at, no slot is given back to the NIC.
 */
#include <assert.h>

#include "providers/mlx5/cqe.h"
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/hold.h"

RING_INLINE struct sp_cq *cq_of(const struct ibv_cq_ex *ex)
{
	return ring_cq_known(ex->context, ex->handle);
}

/*
 * Keeps the CQE for the readers: a copy if it lies in a ring of another NIC, which may go away
 * while they look.
 */
RING_INLINE void keep_cqe(struct sp_cq *cq, const struct sp_cq_ring *ring,
			  const struct mlx5_cqe64 *cqe)
{
	cq->cur.cqe = cqe;
	if (ring_unlikely(ring != &cq->ring)) {
		cq->cur_soft.cqe = *cqe;
		cq->cur.cqe = &cq->cur_soft.cqe;
	}
}

/*
 * Steps as poll_anything() does for ibv_poll_cq(): what was fed is older than what lies in the
 * rings.
 */
static bool step_anything(struct sp_cq *cq)
{
	cq->owes = true;
	return ring_foreign_next(cq, true, &cq->cur, &cq->cur_soft) ||
	       ring_cq_next_slow(cq, &cq->cur, &cq->cur_soft) ||
	       ring_foreign_next(cq, false, &cq->cur, &cq->cur_soft);
}

static bool step_slow(struct sp_cq *cq)
{
	struct sp_cq_ring *ring = cq->active;
	struct mlx5_cqe64 *cqe;

	cq->cur.cqpn = RING_NO_QPN; /* the carrier may have gone since the last step */
	if (cq->more)
		return step_anything(cq);
	while ((cqe = ring_cqe_at(ring, ring->ci))) {
		ring->ci++;
		if (ring_cq_take(ring, cqe, &cq->cur)) {
			keep_cqe(cq, ring, cqe);
			return true;
		}
	}
	return false;
}

static bool show_slow(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	if (!step_slow(cq))
		return false;
	cq->held = true;
	ex->wr_id = cq->cur.wr_id;
	ex->status = cq->cur.status;
	return true;
}

/*
 * Takes a send. The id is read first: once the tail has moved, the slot may be another request's.
 */
RING_INLINE uint64_t take_send(struct sp_carrier *c, const struct mlx5_cqe64 *cqe)
{
	struct ring_sq *sq = &c->sq;
	uint32_t idx = be16toh(cqe->wqe_counter) & sq->mask;
	uint64_t wr_id = sq->wrid[idx];

	atomic_store_explicit(&sq->tail, sq->wqe_head[idx] + 1, memory_order_release);
	return wr_id;
}

RING_INLINE uint64_t take_recv(struct sp_carrier *c)
{
	struct ring_rq *rq = &c->rq;
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	uint64_t wr_id = rq->wrid[tail & rq->mask];

	atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
	return wr_id;
}

/* True for a good completion whose data lie in the buffer, with the opcode of its request. */
RING_INLINE bool is_plain(uint32_t op_own, uint8_t op)
{
	return op_own >> 4 < MLX5_CQE_RESIZE_CQ &&
	       !(op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)) &&
	       (op_own >> 4 != MLX5_CQE_REQ || (op != MLX5_OPCODE_NOP && op != MLX5_OPCODE_UMR));
}

/*
 * Steps to the usual completion, without a call: 0, or ENOENT, there is none. EAGAIN: it needs the
 * long way, and nothing was done. The carrier is not kept: it may go before the next step.
 */
RING_INLINE int step(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	struct sp_cq_ring *ring = cq->active;
	uint32_t ci = ring->ci;
	struct mlx5_cqe64 *cqe = ring_cqe_slot(ring, ci);
	uint32_t op_own = ring_cqe_own(cqe), sop_qpn;
	struct sp_carrier *c;

	if (ring_unlikely(cq->more))
		return EAGAIN;
	if (!ring_cqe_valid(ring, ci, op_own))
		return ENOENT;
	sop_qpn = be32toh(cqe->sop_drop_qpn);
	c = ring_carrier_of(ring->dev, sop_qpn & 0xffffff);
	if (ring_unlikely(!is_plain(op_own, sop_qpn >> 24) || !c ||
			  atomic_load_explicit(&c->attn, memory_order_relaxed)))
		return EAGAIN;
	ring->ci = ci + 1;
	cq->held = true;
	keep_cqe(cq, ring, cqe);
	cq->cur.qpn = c->app_qpn;
	cq->cur.op = sop_qpn >> 24;
	ex->wr_id = op_own >> 4 == MLX5_CQE_REQ ? take_send(c, cqe) : take_recv(c);
	ex->status = IBV_WC_SUCCESS;
	return 0;
}

/* The rare ways are calls at the end: the usual one then has no registers to save. */
static RING_NOINLINE int start_slow(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	struct sp_cq_ring *ring = cq->active;
	uint32_t ci = ring->ci;
	bool found = show_slow(cq, ex), owed;

	/* nobody ends a poll that found nothing: give back the slots of what was withheld */
	if (!found && (cq->more || ci != ring->ci)) {
		ring_cq_update_ci(cq);
		ring_late_poll(cq);
		ring_foreign_tell(cq);
	}
	owed = !found && cq->watched && ring_cq_owed(cq);
	sp_unlock(&cq->lock);
	if (found)
		return 0;
	sp_unlock(&cq->ex_lock);
	if (owed)
		cq->dev->cb->give_way();
	return ENOENT;
}

static RING_NOINLINE int start_waiting(struct sp_cq *cq, struct ibv_cq_ex *ex,
				       struct sp_lock *first)
{
	sp_lock_wait(first);
	if (first != &cq->lock)
		sp_lock(&cq->lock);
	return start_slow(cq, ex);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sp_cq *cq = cq_of(ex);
	int ret;

	if (ring_unlikely(attr->comp_mask))
		return EINVAL;
	if (ring_unlikely(!sp_trylock(&cq->ex_lock)))
		return start_waiting(cq, ex, &cq->ex_lock);
	if (ring_unlikely(!sp_trylock(&cq->lock)))
		return start_waiting(cq, ex, &cq->lock);
	ret = step(cq, ex);
	if (ring_unlikely(ret == EAGAIN))
		return start_slow(cq, ex);
	sp_unlock(&cq->lock);
	if (ret)
		sp_unlock(&cq->ex_lock);
	return ret;
}

static RING_NOINLINE int next_slow(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	bool found = show_slow(cq, ex);

	sp_unlock(&cq->lock);
	return found ? 0 : ENOENT;
}

static RING_NOINLINE int next_waiting(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	sp_lock_wait(&cq->lock);
	return next_slow(cq, ex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct sp_cq *cq = cq_of(ex);
	int ret;

	if (ring_unlikely(!sp_trylock(&cq->lock)))
		return next_waiting(cq, ex);
	ret = step(cq, ex);
	if (ring_unlikely(ret == EAGAIN))
		return next_slow(cq, ex);
	sp_unlock(&cq->lock);
	return ret;
}

static RING_NOINLINE void end_slow(struct sp_cq *cq)
{
	cq->owes = false;
	ring_cq_update_ci(cq);
	ring_late_poll(cq);
	ring_foreign_tell(cq);
	sp_unlock(&cq->lock);
	sp_unlock(&cq->ex_lock);
}

static RING_NOINLINE void end_waiting(struct sp_cq *cq)
{
	sp_lock_wait(&cq->lock);
	cq->held = false;
	end_slow(cq);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct sp_cq *cq = cq_of(ex);

	if (ring_unlikely(!sp_trylock(&cq->lock))) {
		end_waiting(cq);
		return;
	}
	cq->held = false;
	if (ring_unlikely(cq->more || cq->owes)) {
		end_slow(cq);
		return;
	}
	ring_store_record(&cq->active->dbrec[RING_CQ_SET_CI], cq->active->ci & 0xffffff);
	sp_unlock(&cq->lock);
	sp_unlock(&cq->ex_lock);
}

/* -- readers: of the completion that the caller holds ----------------------------------------- */

RING_INLINE const struct ring_comp *cur(const struct ibv_cq_ex *ex)
{
	return &cq_of(ex)->cur;
}

/*
 * Opcodes by the opcode that was posted, or that a NOP or UMR stands for; what is missing is
 * IBV_WC_SEND.
 */
static const uint8_t req_opcodes[256] = {
	[MLX5_OPCODE_RDMA_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[MLX5_OPCODE_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[MLX5_OPCODE_RDMA_READ] = IBV_WC_RDMA_READ,
	[MLX5_OPCODE_ATOMIC_CS] = IBV_WC_COMP_SWAP,
	[MLX5_OPCODE_ATOMIC_FA] = IBV_WC_FETCH_ADD,
	[RING_OP_BIND_MW] = IBV_WC_BIND_MW,
	[RING_OP_LOCAL_INV] = IBV_WC_LOCAL_INV,
};
static_assert(IBV_WC_SEND == 0, "what is missing in req_opcodes");

/* Returns the opcode of an error, which has none, or of a completion that libmlx5 polled. */
static RING_NOINLINE enum ibv_wc_opcode opcode_rare(const struct ring_comp *c)
{
	return c->cqe->op_own >> 4 == RING_CQE_FOREIGN ? c->op : 0;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	const struct ring_comp *c = cur(ex);

	switch (c->cqe->op_own >> 4) {
	case MLX5_CQE_REQ: return req_opcodes[c->op];
	case MLX5_CQE_RESP_WR_IMM: return IBV_WC_RECV_RDMA_WITH_IMM;
	case MLX5_CQE_RESP_SEND:
	case MLX5_CQE_RESP_SEND_IMM:
	case MLX5_CQE_RESP_SEND_INV: return IBV_WC_RECV;
	default: return opcode_rare(c);
	}
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return ring_cqe_error(cur(ex)->cqe)->vendor_err_synd;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return be32toh(cur(ex)->cqe->byte_cnt);
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	const struct mlx5_cqe64 *cqe = cur(ex)->cqe;

	/* ibv_wc_read_invalidated_rkey takes host order */
	if (cqe->op_own >> 4 == MLX5_CQE_RESP_SEND_INV)
		return be32toh(cqe->imm_inval_pkey);
	return cqe->imm_inval_pkey;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cur(ex)->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return be32toh(cur(ex)->cqe->flags_rqpn) & 0xffffff;
}

static RING_NOINLINE unsigned int wc_flags_rare(const struct mlx5_cqe64 *cqe, unsigned int flags)
{
	return cqe->op_own >> 4 == RING_CQE_FOREIGN ? be16toh(cqe->wqe_counter) : flags;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	const struct mlx5_cqe64 *cqe = cur(ex)->cqe;
	unsigned int flags = be32toh(cqe->flags_rqpn) >> 28 & 3 ? IBV_WC_GRH : 0;

	switch (cqe->op_own >> 4) {
	case MLX5_CQE_RESP_WR_IMM:
	case MLX5_CQE_RESP_SEND_IMM: return flags | IBV_WC_WITH_IMM;
	case MLX5_CQE_RESP_SEND_INV: return flags | IBV_WC_WITH_INV;
	default: break;
	}
	if (ring_unlikely(cqe->op_own >= MLX5_CQE_RESIZE_CQ << 4))
		return wc_flags_rare(cqe, flags);
	return flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return be16toh(cur(ex)->cqe->slid);
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return be32toh(cur(ex)->cqe->flags_rqpn) >> 24 & 0xf;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cur(ex)->cqe->ml_path & 0x7f;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return be64toh(cur(ex)->cqe->timestamp);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return be16toh(cur(ex)->cqe->vlan_info);
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	/* the tag's 20 bits lie where others have the QPN (PRM: CQE, flow tag) */
	return be32toh(cur(ex)->cqe->sop_drop_qpn) & 0xfffff;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *tm)
{
	const struct ibv_tmh *tmh = &cur(ex)->cqe->tmh;

	tm->tag = be64toh(tmh->tag);
	tm->priv = be32toh(tmh->app_ctx);
}

/* Only what the provider offered is replaced: a NULL stays NULL, as it says what was granted. */
/* clang-format off: a list, one name a line */
#define RING_EX_FUNCS(X)                                                                           \
	X(start_poll)                                                                              \
	X(next_poll)                                                                               \
	X(end_poll)                                                                                \
	X(read_opcode)                                                                             \
	X(read_vendor_err)                                                                         \
	X(read_byte_len)                                                                           \
	X(read_imm_data)                                                                           \
	X(read_qp_num)                                                                             \
	X(read_src_qp)                                                                             \
	X(read_wc_flags)                                                                           \
	X(read_slid)                                                                               \
	X(read_sl)                                                                                 \
	X(read_dlid_path_bits)                                                                     \
	X(read_completion_ts)                                                                      \
	X(read_cvlan)                                                                              \
	X(read_flow_tag)                                                                           \
	X(read_tm_info)
/* clang-format on */

void ring_cq_ex_install(struct sp_cq *cq)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq->ibv;

#define SAVE_AND_SET(f)                                                                            \
	cq->saved_ex.f = ex->f;                                                                    \
	if (ex->f)                                                                                 \
		ex->f = f;
	RING_EX_FUNCS(SAVE_AND_SET)
}

void ring_cq_ex_restore(struct sp_cq *cq)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq->ibv;

#define RESTORE(f) ex->f = cq->saved_ex.f;
	RING_EX_FUNCS(RESTORE)
}
