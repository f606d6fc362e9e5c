/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fence of an ordered switch: later sends are withheld until all before it is complete. Verbs
 * have no request that does nothing, so the application's last one is the fence if it is signaled.
 * Else the fence is a WRITE or READ of no bytes, of a kind that the application was seen to post:
 * its peer's QP may not allow the other one, and would break.
 */
#include "providers/ledger/cq.h"
#include "providers/ledger/move.h"
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"

/*
 * True if something out may not run again, whether it ran or not: an atomic, or a READ before a
 * fenced request.
 */
static bool unrepeatable(const struct sp_qp *qp)
{
	bool read = false;

	for (uint32_t n = led_tail(qp); n != led_given(qp); n++) {
		enum sp_request_kind kind = led_kind_of(qp, n);

		if (kind == SP_REQ_ATOMIC ||
		    (read && (led_slot(qp, n)->wr.send_flags & IBV_SEND_FENCE)))
			return true;
		read |= kind == SP_REQ_READ;
	}
	return false;
}

/* Free slots still have what they had, except for those of refused posts. */
static void look_what_peer_allows(struct sp_qp *qp)
{
	uint32_t n = qp->sq.head, kept = qp->sq.mask + 1 - (led_written(&qp->sq) - n);
	uint32_t left = n > kept ? kept : n;

	for (; left; left--) {
		enum ibv_wr_opcode opcode = led_slot(qp, --n)->wr.opcode;

		if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			atomic_store(&qp->may_write, true);
		if (opcode == IBV_WR_RDMA_READ)
			atomic_store(&qp->may_read, true);
	}
}

/* True if a signaled request is out. Nothing behind it is complete before it is. */
static bool awaits_completion(const struct sp_qp *qp)
{
	for (uint32_t n = led_tail(qp); n != led_pub(qp); n++)
		if (led_completes(qp, n))
			return true;
	return false;
}

/* True if the last request's end shows without a request of ours. */
static bool last_tells(const struct sp_qp *qp)
{
	return led_completes(qp, led_pub(qp) - 1) ||
	       (*led_mark(qp, led_pub(qp) - 1) & LED_MARK_DELIVERED);
}

/* -EAGAIN: no room. All locks held. */
static int fence_post(struct sp_qp *qp)
{
	struct led_hidden *fence = &qp->tx->hidden[LED_HIDDEN_FENCE];
	struct ibv_send_wr *bad;

	fence->slot.wr.opcode = atomic_load(&qp->may_write) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	fence->n = led_pub(qp);
	if (qp->tx->dev->saved.post_send(qp->tx->real, &fence->slot.wr, &bad))
		return -EAGAIN;
	fence->out = true;
	led_count_fence(&qp->sq, fence->n);
	return 0;
}

/*
 * All locks held. Only one request of our own is out at a time: each takes a place that is not
 * ours, in the completion queue too. So while a completion is awaited, its request is the fence so
 * far, and fence_follow() posts behind it.
 */
static int fence_lay(struct sp_qp *qp)
{
	const struct led_hidden *fence = &qp->tx->hidden[LED_HIDDEN_FENCE];

	if (qp->sq.owes)
		return -EAGAIN;
	if (led_tail(qp) == led_pub(qp) || last_tells(qp))
		return 0;
	if (fence->out)
		return fence->n == led_pub(qp) ? 0 : -EAGAIN;
	look_what_peer_allows(qp);
	if (!atomic_load(&qp->may_write) && !atomic_load(&qp->may_read))
		return -EAGAIN;
	return awaits_completion(qp) ? 0 : fence_post(qp);
}

/* All locks held. If the post fails, it is tried at the next look. */
static void fence_follow(struct sp_qp *qp)
{
	if (!qp->tx->hidden[LED_HIDDEN_FENCE].out && !last_tells(qp) && !awaits_completion(qp))
		(void)fence_post(qp);
}

/*
 * Begins an ordered switch. If no fence can be laid now, posts go on to the next signaled request,
 * which is the fence then: an application whose full queue had no signaled request would not get
 * on.
 */
int led_qp_fence(struct sp_qp *qp, bool *unrepeatable_before)
{
	int err = -EINVAL;

	*unrepeatable_before = false;
	if (!led_qp_lock_soon(qp))
		return -EAGAIN;
	if (!(qp->tx_mode & (LED_HOLD | LED_FAILED))) {
		err = fence_lay(qp);
		*unrepeatable_before = unrepeatable(qp);
		qp->tx_mode |= err ? LED_FENCE_NEXT : LED_FENCE;
	}
	led_qp_unlock(qp);
	return err;
}

bool led_qp_fenced(struct sp_qp *qp)
{
	bool on, fenced;

	if (!led_qp_lock_soon(qp))
		return false;
	on = (qp->tx_mode & LED_FENCE) && !(qp->tx_mode & (LED_HOLD | LED_FAILED)) &&
	     !led_error_seen(qp->tx);
	fenced = on && led_tail(qp) == led_pub(qp);
	if (on && !fenced)
		fence_follow(qp);
	led_qp_unlock(qp);
	return fenced;
}
