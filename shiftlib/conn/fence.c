/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fence of an ordered switch: a signaled request behind all that was posted, later ones
 * withheld. When it has completed, nothing is outstanding on this side, and a move has nothing
 * to send again.
 */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/late.h"

#define FENCE_POLL_MIN_NS (20 * SH_NS_PER_US)
#define FENCE_POLL_MAX_NS SH_NS_PER_MS

static void fence_poll_later(struct sh_qp *qp, uint64_t now)
{
	qp->fence.next_at = now + qp->fence.interval;
	if (qp->fence.interval < FENCE_POLL_MAX_NS)
		qp->fence.interval *= 2;
}

/*
 * A switch is no need, so it waits for what a move would have to wait for with all sends
 * withheld: regions that are gone have left the NIC that it leads to, and the peer has heard of
 * them.
 */
static bool fence_may_lead(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_carrier *to = sh_carrier_find(qp, qp->core.sw.target);

	return to && !to->to_rts && sh_late_over(qp->ctx, to->path) &&
	       (!qp->peer || (int32_t)(qp->peer->keys_acked - qp->fence.keys) >= 0);
}

/* No room in the ring for the fence yet: what is there completes, and makes some. */
static bool fence_try(struct sh_qp *qp) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_FENCE_LAID, .epoch = qp->fence.number };

	(void)sp_cq_collect(qp->scq->sp); /* nobody else may poll */
	if (sp_qp_fence(qp->sp, &event.atomics))
		return false;
	qp->fence.laid = true;
	sh_conn_event(qp, &event);
	return true;
}

static bool fence_passed(struct sh_qp *qp)
{
	if (sp_cq_collect(qp->scq->sp))
		return false;
	return sp_qp_fenced(qp->sp);
}

static void fence_poll(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	uint32_t number = qp->fence.number;

	qp->fence.next_at = 0;
	if (!qp->fence.laid && (!fence_may_lead(qp) || !fence_try(qp))) {
		fence_poll_later(qp, now);
		return;
	}
	if (qp->fence.number != number)
		return; /* the core thought better of it */
	if (!fence_passed(qp) || !fence_may_lead(qp)) {
		fence_poll_later(qp, now);
		return;
	}
	sh_mailbox_read(); /* an error found on the way comes first */
	if (qp->fence.number == number)
		sh_conn_about(qp, SC_EV_FENCED, SC_REASON_NONE, number);
}

void sh_fence_lay(struct sh_qp *qp, uint32_t number)
{
	uint64_t now = sh_now_ns();

	qp->fence.number = number;
	qp->fence.laid = false;
	qp->fence.keys = sh_keys_last();
	qp->fence.since = now;
	qp->fence.interval = FENCE_POLL_MIN_NS;
	qp->fence.next_at = now; /* not at once: the core is in the middle of its step */
	sh_kick();
}

void sh_fence_forget(struct sh_qp *qp)
{
	qp->fence.number = 0;
	qp->fence.next_at = 0;
	qp->fence.laid = false;
}

void sh_fence_lift(struct sh_qp *qp)
{
	sh_fence_forget(qp);
	switch (sp_qp_resume(qp->sp)) {
	case 0: break;
	case -ENOENT: sh_move_key_missing(qp); break;
	default: sh_move_publish(qp, sh_now_ns()); break;
	}
}

static uint64_t fence_next_timer(const struct sh_qp *qp)
{
	return qp->fence.next_at;
}

const struct sh_conn_part sh_fence_part = {
	.name = "fence",
	.clock = { .next_timer = fence_next_timer, .run = fence_poll },
};
