/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Polling by ibv_start_poll, ibv_next_poll, ibv_end_poll and the readers: over ibv_poll_cq, so that
 * a completion made in software, or by another NIC, reads the same. The provider's own start_poll
 * would hold a lock of its own to end_poll, and the application's code in between may wait for just
 * what a move would bring. ex_lock keeps other start_polls out; the CQ's own lock is taken only to
 * step, so that the shell can collect between two steps.
 */
#include "providers/ledger/backlog.h"

LED_INLINE struct sp_cq *cq_of(const struct ibv_cq_ex *ex)
{
	return atomic_load_explicit(&led_cqs[ex->context->cmd_fd][ex->handle],
				    memory_order_relaxed);
}

/* -- steps: called with the lock, which they drop ---------------------------------------------- */

LED_INLINE int show(struct sp_cq *cq, struct ibv_cq_ex *ex, const struct ibv_wc *wc)
{
	cq->now = wc;
	ex->wr_id = wc->wr_id;
	ex->status = wc->status;
	sp_unlock(&cq->lock);
	return 0;
}

LED_INLINE int show_none(struct sp_cq *cq)
{
	sp_unlock(&cq->lock);
	return ENOENT;
}

/* Returns EAGAIN if the caller has to give way once it holds no lock. */
LED_INLINE int show_none_owed(struct sp_cq *cq)
{
	bool owed = cq->watched && led_cq_owed(cq);

	sp_unlock(&cq->lock);
	return owed ? EAGAIN : ENOENT;
}

static LED_NOINLINE int show_last(struct sp_cq *cq, struct ibv_cq_ex *ex, const struct ibv_wc *wc)
{
	led_cq_refresh(cq);
	return show(cq, ex, wc);
}

LED_INLINE int show_ahead(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	const struct ibv_wc *wc = cq->ahead.at++;

	if (led_unlikely(!led_has_ahead(cq)))
		return show_last(cq, ex, wc);
	return show(cq, ex, wc);
}

/* A caller that wants more behind this completion asks again. */
static LED_NOINLINE int step_slow(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	bool found = led_cq_next(cq, &cq->cur);

	cq->ahead.at = cq->ahead.end = cq->ahead.wc + LED_BATCH;
	led_cq_refresh(cq);
	return found ? show(cq, ex, &cq->cur) : show_none_owed(cq);
}

/*
 * Nothing is ahead. A thread that arms meanwhile does so before the ring is looked at, or asks what
 * was found there.
 */
LED_INLINE int poll_more(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	int got;

	cq->polls++;
	if (led_unlikely(cq->slow))
		return step_slow(cq, ex);
	atomic_store(&cq->slow_to_arm, true);
	got = cq->ring.poll(cq->ring.real, LED_BATCH, cq->ahead.wc);
	if (got < 1 || led_cq_take_ahead(cq, got) < 1) {
		atomic_store_explicit(&cq->slow_to_arm, false, memory_order_release);
		return show_none(cq);
	}
	cq->ahead.at++;
	return show(cq, ex, cq->ahead.wc);
}

static LED_NOINLINE int give_way(struct sp_cq *cq)
{
	cq->dev->cb->give_way();
	return ENOENT;
}

static LED_HOT int start_more(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	int ret = poll_more(cq, ex);

	if (ret)
		sp_unlock(&cq->ex_lock);
	if (led_unlikely(ret == EAGAIN))
		return give_way(cq);
	return ret;
}

static LED_NOINLINE int start_late(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	sp_lock(&cq->ex_lock);
	sp_lock(&cq->lock);
	return led_has_ahead(cq) ? show_ahead(cq, ex) : start_more(cq, ex);
}

static LED_NOINLINE int start_behind(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	sp_lock(&cq->lock);
	return led_has_ahead(cq) ? show_ahead(cq, ex) : start_more(cq, ex);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sp_cq *cq = cq_of(ex);

	if (led_unlikely(attr->comp_mask))
		return EINVAL;
	if (led_unlikely(!sp_trylock(&cq->ex_lock)))
		return start_late(cq, ex);
	if (led_unlikely(!sp_trylock(&cq->lock)))
		return start_behind(cq, ex);
	return led_has_ahead(cq) ? show_ahead(cq, ex) : start_more(cq, ex);
}

/* If the provider gave fewer than asked for, there are no more. */
static LED_HOT int next_more(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	if (cq->slow || cq->ahead.end == cq->ahead.wc + LED_BATCH)
		return poll_more(cq, ex) ? ENOENT : 0;
	return show_none(cq);
}

static LED_NOINLINE int next_late(struct sp_cq *cq, struct ibv_cq_ex *ex)
{
	sp_lock_wait(&cq->lock);
	return led_has_ahead(cq) ? show_ahead(cq, ex) : next_more(cq, ex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct sp_cq *cq = cq_of(ex);

	if (led_unlikely(!sp_trylock(&cq->lock)))
		return next_late(cq, ex);
	return led_has_ahead(cq) ? show_ahead(cq, ex) : next_more(cq, ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	sp_unlock(&cq_of(ex)->ex_lock);
}

/* -- readers: of the completion that the caller holds ----------------------------------------- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->imm_data; /* or invalidated_rkey, in the same place */
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now->dlid_path_bits;
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
