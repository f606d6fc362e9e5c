/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The builders of ibv_wr_*: requests built call by call, between wr_start and wr_complete under
 * sq_lock.
 */
#include "providers/mlx5/doorbell.h"
#include "providers/mlx5/log.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/wr.h"
#include "providers/mlx5/wr_build.h"

RING_INLINE void fail(struct sp_qp *qp, int err)
{
	if (!qp->b.err)
		qp->b.err = err;
}

/* -- begin and end ---------------------------------------------------------------------------- */

static void use_builders(struct sp_qp *qp, uint32_t mode);

static RING_NOINLINE void start_slow(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	int err = ring_tx_enter(qp);
	uint32_t mode;

	if (qp->tx_mode & RING_FOREIGN) {
		sp_unlock(&qp->sq_lock);
		ring_wr_restore(qp);
		ex->wr_start(ex);
		return;
	}
	mode = ring_tx_direct(qp) ? qp->tx_mode & (RING_XLAT | RING_LOG) : 0;
	if (qp->b.mode != mode)
		use_builders(qp, mode);
	qp->b.limit = ring_tx_limit(qp);
	if (err)
		fail(qp, err);
	if (ring_tx_direct(qp))
		return;
	qp->b.sq = &qp->hold;
	qp->b.post_rb = qp->hold.cur_post;
	qp->b.fm_rb = qp->hold.fm_cache;
	qp->b.psn_rb = qp->hold.psn_ahead;
	if (!qp->hold_made)
		fail(qp, ENOMEM);
}

RING_INLINE void start_locked(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	struct ring_builder *b = &qp->b;
	struct ring_sq *sq = &qp->tx->sq;

	b->sq = sq;
	b->limit = qp->max_post;
	b->post_rb = sq->cur_post;
	b->fm_rb = sq->fm_cache;
	b->psn_rb = sq->psn_ahead;
	qp->two_sided_rb = qp->two_sided;
	b->nreq = 0;
	b->inl = false;
	b->err = ring_unlikely(qp->max_gs < 0) ? EINVAL : 0;
	if (ring_unlikely(qp->tx_mode != b->mode))
		start_slow(qp, ex);
}

/* The rare ways are calls at the end: the usual one then has no registers to save. */
static RING_NOINLINE void start_waiting(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	sp_lock_wait(&qp->sq_lock);
	start_locked(qp, ex);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_unlikely(!sp_trylock(&qp->sq_lock)))
		start_waiting(qp, ex);
	else
		start_locked(qp, ex);
}

static RING_NOINLINE void roll_back(struct sp_qp *qp)
{
	struct ring_builder *b = &qp->b;

	ring_log_take_back(b->sq, b->post_rb);
	ring_sq_unwrite(b->sq, b->post_rb, b->nreq);
	b->sq->fm_cache = b->fm_rb;
	b->sq->psn_ahead = b->psn_rb;
	qp->two_sided = qp->two_sided_rb;
	qp->tx_xlat.missing = false;
}

static RING_NOINLINE int complete_slow(struct sp_qp *qp)
{
	struct ring_builder *b = &qp->b;
	struct ring_batch batch = { b->ctrl, b->nreq, b->ds, b->inl, b->post_rb };
	int err = b->err;

	if (err)
		roll_back(qp);
	else
		ring_tx_commit(qp, b->sq, &batch);
	ring_tx_unlock(qp);
	return err;
}

RING_INLINE int complete_ring(struct sp_qp *qp, struct ring_bf *bf)
{
	const struct ring_builder *b = &qp->b;

	ring_doorbell_ring(bf, b->sq, b->ctrl, b->nreq, b->ds, b->inl);
	sp_unlock(&qp->sq_lock);
	return 0;
}

static RING_NOINLINE int complete_waiting(struct sp_qp *qp, struct ring_bf *bf)
{
	sp_lock_wait(&bf->lock);
	return complete_ring(qp, bf);
}

RING_INLINE int complete(struct sp_qp *qp)
{
	struct ring_builder *b = &qp->b;
	struct ring_bf *bf = qp->tx->bf;

	if (ring_unlikely(!b->nreq)) {
		sp_unlock(&qp->sq_lock);
		return 0;
	}
	b->sq->head += b->nreq;
	ring_doorbell_record(qp->tx);
	if (ring_unlikely(!sp_trylock(&bf->lock)))
		return complete_waiting(qp, bf);
	return complete_ring(qp, bf);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_unlikely((uint32_t)qp->b.err | qp->tx_mode))
		return complete_slow(qp);
	return complete(qp);
}

/* Completes requests that lie in the carrier's ring, with the carrier's keys. */
int ring_xlat_wr_complete(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = qp_of(ex);

	if (ring_unlikely((uint32_t)qp->b.err | qp->tx_xlat.missing))
		return complete_slow(qp);
	return complete(qp);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = qp_of(ex);

	roll_back(qp);
	ring_tx_unlock(qp);
}

/* -- builders --------------------------------------------------------------------------------- */

RING_INLINE bool begin_send(struct sp_qp *qp, struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct ring_builder *b = &qp->b;

	if (ring_likely(qp->type == IBV_QPT_RC))
		return begin(qp, ex, opcode, 0);
	b->setters = 0;
	if (!begin(qp, ex, opcode, sizeof(struct mlx5_wqe_av) / 16))
		return false;
	if (ring_unlikely(b->data == b->sq->end))
		b->data = b->sq->buf;
	return true;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin_send(qp_of(ex), ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct sp_qp *qp = qp_of(ex);

	if (begin_send(qp, ex, IBV_WR_SEND_WITH_IMM))
		qp->b.ctrl->imm = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct sp_qp *qp = qp_of(ex);

	if (begin_send(qp, ex, IBV_WR_SEND_WITH_INV))
		qp->b.ctrl->imm = htobe32(rkey);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	fail(qp_of(ex), EOPNOTSUPP);
}

RING_INLINE bool begin_rdma(struct sp_qp *qp, struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			    enum ibv_wr_opcode opcode)
{
	uint8_t *at = begin(qp, ex, opcode, sizeof(struct mlx5_wqe_raddr_seg) / 16);

	if (at)
		ring_seg_raddr(at, addr, rkey);
	return at;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp_of(ex), ex, rkey, addr, IBV_WR_RDMA_WRITE);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct sp_qp *qp = qp_of(ex);

	if (begin_rdma(qp, ex, rkey, addr, IBV_WR_RDMA_WRITE_WITH_IMM))
		qp->b.ctrl->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp_of(ex), ex, rkey, addr, IBV_WR_RDMA_READ);
}

RING_INLINE void atomic_op(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t swap,
			   uint64_t compare_add, enum ibv_wr_opcode opcode)
{
	uint8_t *at = begin(qp_of(ex), ex, opcode, 2);

	if (!at)
		return;
	qp_of(ex)->atomics.use = RING_ATOMICS_USED;
	ring_seg_raddr(at, addr, rkey);
	ring_seg_atomic(at + 16, opcode == IBV_WR_ATOMIC_CMP_AND_SWP, swap, compare_add);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	atomic_op(ex, rkey, addr, swap, compare, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic_op(ex, rkey, addr, 0, add, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void umr_op(struct sp_qp *qp, struct ibv_qp_ex *ex, uint32_t old_key, uint32_t new_key,
		   const struct ibv_mw_bind_info *info, enum ibv_wr_opcode opcode, uint8_t pseudo)
{
	struct ring_builder *b = &qp->b;
	int err;

	if (!begin(qp, ex, opcode, 0))
		return;
	atomic_store_explicit(&qp->others.windows, true, memory_order_relaxed);
	b->ctrl->imm = htobe32(old_key);
	err = ring_umr_build(b->sq, &b->data, &b->ds, IBV_MW_TYPE_2, new_key, info);
	if (err) {
		b->err = err;
		return;
	}
	b->sq->wr_data[b->sq->cur_post & b->sq->mask] = pseudo;
	b->sq->fm_cache = MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE;
	finish(qp);
	b->sq->psn_ahead--; /* a UMR sends no packet */
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	umr_op(qp_of(ex), ex, mw->rkey, rkey, info, IBV_WR_BIND_MW, RING_OP_BIND_MW);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	static const struct ibv_mw_bind_info nothing;

	umr_op(qp_of(ex), ex, rkey, 0, &nothing, IBV_WR_LOCAL_INV, RING_OP_LOCAL_INV);
}

static void ring_xlat_wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	qp_of(ex)->tx_xlat.missing = true;
	wr_send_inv(ex, rkey);
}

static void ring_xlat_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
				 const struct ibv_mw_bind_info *info)
{
	qp_of(ex)->tx_xlat.missing = true;
	wr_bind_mw(ex, mw, rkey, info);
}

static void ring_xlat_wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	qp_of(ex)->tx_xlat.missing = true;
	wr_local_inv(ex, rkey);
}

/* -- pointing the application's QP at them ---------------------------------------------------- */

/* Only what the provider offered is replaced: a NULL stays NULL. */
/* clang-format off: lists, one name a line */
#define RING_WR_ALIKE(X)                                                                           \
	X(wr_send)                                                                                 \
	X(wr_send_imm)                                                                             \
	X(wr_send_tso)                                                                             \
	X(wr_start)                                                                                \
	X(wr_abort)

/* Builders for carriers with other keys; wr_complete for those with a log too. */
#define RING_WR_KEYED(X)                                                                           \
	X(wr_atomic_cmp_swp)                                                                       \
	X(wr_atomic_fetch_add)                                                                     \
	X(wr_bind_mw)                                                                              \
	X(wr_local_inv)                                                                            \
	X(wr_rdma_read)                                                                            \
	X(wr_rdma_write)                                                                           \
	X(wr_rdma_write_imm)                                                                       \
	X(wr_send_inv)

/* Setters for carriers with a log. */
#define RING_WR_INLINE(X)                                                                          \
	X(wr_set_inline_data)                                                                      \
	X(wr_set_inline_data_list)

/* Setters for either, and both. */
#define RING_WR_SETTERS(X)                                                                         \
	X(wr_set_sge)                                                                              \
	X(wr_set_sge_list)
/* clang-format on */

/*
 * sq_lock is held: between wr_start and wr_complete the application calls these, and no other
 * thread may. wr_start is called without the lock and stays what it is.
 */
static void use_builders(struct sp_qp *qp, uint32_t mode)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;
	bool xlat = mode & RING_XLAT, log = mode & RING_LOG;

#define USE(f, to)                                                                                 \
	if (qp->ex.saved->f)                                                                       \
		ex->f = to;
#define USE_KEYED(f)  USE(f, xlat ? ring_xlat_##f : f)
#define USE_INLINE(f) USE(f, log ? ring_log_##f : ring_##f)
#define USE_SETTER(f)                                                                              \
	USE(f, log ? (xlat ? ring_log_xlat_##f : ring_log_##f) : xlat ? ring_xlat_##f : ring_##f)
	RING_WR_KEYED(USE_KEYED)
	RING_WR_INLINE(USE_INLINE)
	RING_WR_SETTERS(USE_SETTER)
	USE(wr_complete, xlat || log ? ring_xlat_wr_complete : wr_complete)
	qp->b.mode = mode;
}

/* Repeated after each modify to RESET and to RTS: libmlx5 then sets wr_complete anew. */
void ring_wr_install(struct sp_qp *qp)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;

#define SET_TO(f, to)                                                                              \
	if (ex->f && ex->f != (to)) {                                                              \
		qp->ex.saved->f = ex->f;                                                           \
		ex->f = to;                                                                        \
	}
#define SET(f) SET_TO(f, f)
#define SET_KEYED(f)                                                                               \
	if (ex->f != ring_xlat_##f)                                                                \
	SET(f)
#define SET_INLINE(f)                                                                              \
	if (ex->f != ring_log_##f)                                                                 \
	SET_TO(f, ring_##f)
#define SET_SETTER(f)                                                                              \
	if (ex->f != ring_xlat_##f && ex->f != ring_log_##f && ex->f != ring_log_xlat_##f)         \
	SET_TO(f, ring_##f)
	RING_WR_ALIKE(SET)
	SET_TO(wr_set_ud_addr, ring_wr_set_ud_addr)
	RING_WR_KEYED(SET_KEYED)
	SET_KEYED(wr_complete)
	RING_WR_INLINE(SET_INLINE)
	RING_WR_SETTERS(SET_SETTER)
	/* A reset leads back to its own NIC; the next post may be ibv_post_send's. */
	if (qp->b.mode)
		use_builders(qp, qp->b.mode & qp->tx_mode);
}

void ring_wr_restore(struct sp_qp *qp)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;

#define RESTORE(f)                                                                                 \
	if (qp->ex.saved->f)                                                                       \
		ex->f = qp->ex.saved->f;
	RING_WR_ALIKE(RESTORE)
	RESTORE(wr_set_ud_addr)
	RING_WR_KEYED(RESTORE)
	RESTORE(wr_complete)
	RING_WR_INLINE(RESTORE)
	RING_WR_SETTERS(RESTORE)
}
