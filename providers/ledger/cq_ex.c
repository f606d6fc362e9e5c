/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_start_poll, ibv_next_poll, ibv_end_poll and the readers: over ibv_poll_cq of one completion at a
 * time, so that one made in software, or by another NIC, reads the same. ex_lock keeps other start_polls
 * out; the CQ's own lock is taken only to step, so that the shell can collect between two steps.
 */
#include "providers/ledger/cq.h"

LED_INLINE struct sp_cq *cq_of(const struct ibv_cq_ex *ex)
{
	return atomic_load_explicit(&led_cqs[ex->context->cmd_fd][ex->handle],
				    memory_order_relaxed);
}

static int step(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	struct led_taken taken;
	bool found = false;

	sp_lock(&cq->lock);
	cq->polls++;
	if (led_unlikely(cq->slow)) {
		found = led_cq_next(cq, &cq->cur);
		led_cq_refresh(cq);
	} else {
		while (!found && cq->ring.poll(cq->ring.real, 1, &cq->cur) == 1)
			found = led_take(&cq->ring, &cq->cur, &taken);
	}
	sp_unlock(&cq->lock);
	if (!found)
		return ENOENT;
	ex->wr_id = cq->cur.wr_id;
	ex->status = cq->cur.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sp_cq *cq = cq_of(ex);
	int ret;

	if (led_unlikely(attr->comp_mask))
		return EINVAL;
	sp_lock(&cq->ex_lock);
	ret = step(cq, ex);
	if (ret)
		sp_unlock(&cq->ex_lock);
	return ret;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return step(cq_of(ex), ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	sp_unlock(&cq_of(ex)->ex_lock);
}

/* -- readers: of the completion that the caller holds ----------------------------------------- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.imm_data; /* or invalidated_rkey, in the same place */
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->cur.dlid_path_bits;
}

/* Only what the provider offered is replaced: a NULL stays NULL, as it says what was granted. */
/* clang-format off: a list, one name a line */
#define LED_EX_FUNCS(X)                                                                            \
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
	X(read_dlid_path_bits)
/* clang-format on */

void led_cq_ex_install(struct sp_cq *cq)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq->ibv;

#define SAVE_AND_SET(f)                                                                            \
	cq->saved_ex.f = ex->f;                                                                    \
	if (ex->f)                                                                                 \
		ex->f = f;
	LED_EX_FUNCS(SAVE_AND_SET)
}

void led_cq_ex_restore(struct sp_cq *cq)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq->ibv;

#define RESTORE(f) ex->f = cq->saved_ex.f;
	LED_EX_FUNCS(RESTORE)
}
