/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The keeping builders of ibv_wr_*, for requests that cannot be forwarded: built call by call,
 * between wr_start and wr_complete under sq_lock, into the ledger. The provider gets them from
 * there as a list.
 */
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"
#include "providers/ledger/wr.h"

LED_INLINE void fail(struct sp_qp *qp, int err)
{
	if (!qp->b.err)
		qp->b.err = err;
}

/* -- begin and end ---------------------------------------------------------------------------- */

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	int err = qp->b.err;

	if (led_unlikely(err))
		led_unpost(qp, qp->b.n);
	else
		err = led_sends_posted(qp, qp->b.n);
	sp_unlock(&qp->sq_lock);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	led_unpost(qp, qp->b.n);
	sp_unlock(&qp->sq_lock);
}

/* -- builders --------------------------------------------------------------------------------- */

/* Begins a request. NULL: an error, which wr_complete returns. */
LED_INLINE union led_send *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	union led_send *slot = led_slot(qp, qp->sq.head);

	if (led_unlikely(qp->b.err))
		return NULL;
	if (led_unlikely(qp->sq.head == qp->sq.limit &&
			 qp->sq.head == led_limit(qp, qp->sq.head))) {
		fail(qp, ENOMEM);
		return NULL;
	}
	slot->own.wr_id = ex->wr_id;
	slot->wr.opcode = opcode;
	slot->wr.send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	slot->wr.sg_list = slot->own.sge;
	slot->wr.num_sge = 0;
	qp->sq.head++;
	qp->sq.two_sided += led_kind(opcode) == SP_REQ_TWO_SIDED;
	qp->b.slot = slot;
	return slot;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	union led_send *slot = begin(ex, IBV_WR_SEND_WITH_IMM);

	if (slot)
		slot->wr.imm_data = imm;
}

static void begin_rdma(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
		       enum ibv_wr_opcode opcode, __be32 imm)
{
	union led_send *slot = begin(ex, opcode);

	if (!slot)
		return;
	slot->wr.imm_data = imm;
	slot->wr.wr.rdma.remote_addr = addr;
	slot->wr.wr.rdma.rkey = rkey;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(ex, rkey, addr, IBV_WR_RDMA_WRITE, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_rdma(ex, rkey, addr, IBV_WR_RDMA_WRITE_WITH_IMM, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(ex, rkey, addr, IBV_WR_RDMA_READ, 0);
}

static void begin_atomic(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare_add,
			 uint64_t swap, enum ibv_wr_opcode opcode)
{
	union led_send *slot = begin(ex, opcode);

	if (!slot)
		return;
	slot->wr.wr.atomic.remote_addr = addr;
	slot->wr.wr.atomic.compare_add = compare_add;
	slot->wr.wr.atomic.swap = swap;
	slot->wr.wr.atomic.rkey = rkey;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	begin_atomic(ex, rkey, addr, compare, swap, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_atomic(ex, rkey, addr, add, 0, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/* Keeps the request whole, and writes into its slot what all have. */
static void begin_wide(struct ibv_qp_ex *ex, struct ibv_send_wr *wr)
{
	union led_send *slot = begin(ex, wr->opcode);
	int err;

	if (!slot)
		return;
	wr->send_flags = slot->wr.send_flags;
	err = led_put_wide(led_qp_of_ex(ex), slot, wr);
	if (err)
		fail(led_qp_of_ex(ex), err);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV };

	wr.invalidate_rkey = rkey;
	begin_wide(ex, &wr);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV };

	wr.invalidate_rkey = rkey;
	begin_wide(ex, &wr);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = *info;
	begin_wide(ex, &wr);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	fail(led_qp_of_ex(ex), EOPNOTSUPP);
}

/* -- setters ---------------------------------------------------------------------------------- */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	union led_send *slot = qp->b.slot;

	if (led_unlikely(qp->b.err))
		return;
	if (led_unlikely(n > qp->sq.max_sge)) {
		fail(qp, EINVAL);
		return;
	}
	if (led_unlikely(n > LED_SLOT_SGES))
		slot->wr.sg_list = led_many_sges(&qp->sq, slot);
	led_count_now(&qp->sq, slot->wr.opcode, led_copy_sges(slot->wr.sg_list, list, (uint32_t)n));
	slot->wr.num_sge = (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	union led_send *slot = qp->b.slot;
	size_t length = 0, i;
	uint8_t *at;

	if (led_unlikely(qp->b.err))
		return;
	for (i = 0; i < n; i++)
		length += list[i].length;
	if (!length)
		return;
	if (length > qp->sq.max_inline || (!qp->sq.inlined && led_inline_make(&qp->sq))) {
		fail(qp, ENOMEM);
		return;
	}
	at = led_inline_at(&qp->sq, slot);
	slot->own.sge[0] = (struct ibv_sge){ .addr = (uintptr_t)at, .length = (uint32_t)length };
	slot->wr.num_sge = 1;
	slot->wr.send_flags |= IBV_SEND_INLINE;
	led_count_now(&qp->sq, slot->wr.opcode, (uint32_t)length);
	for (i = 0; i < n; at += list[i].length, i++)
		memcpy(at, list[i].addr, list[i].length);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

const struct ibv_qp_ex led_wr_kept = {
	.wr_start = led_wr_start,
	.wr_complete = wr_complete,
	.wr_abort = wr_abort,
	.wr_send = wr_send,
	.wr_send_imm = wr_send_imm,
	.wr_send_inv = wr_send_inv,
	.wr_send_tso = wr_send_tso,
	.wr_rdma_write = wr_rdma_write,
	.wr_rdma_write_imm = wr_rdma_write_imm,
	.wr_rdma_read = wr_rdma_read,
	.wr_atomic_cmp_swp = wr_atomic_cmp_swp,
	.wr_atomic_fetch_add = wr_atomic_fetch_add,
	.wr_bind_mw = wr_bind_mw,
	.wr_local_inv = wr_local_inv,
	.wr_set_sge = wr_set_sge,
	.wr_set_sge_list = wr_set_sge_list,
	.wr_set_inline_data = wr_set_inline_data,
	.wr_set_inline_data_list = wr_set_inline_data_list,
};
