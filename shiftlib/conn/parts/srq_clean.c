/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues that gave their receives away, and that queue pairs of the application
 * are bound to: those that were reset, and those that were being set up. The NIC still has what
 * was given away. A reclaim QP takes all that, with messages that carry nothing; then the queue
 * is empty, and can be used again.
 */
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/srq.h"

#define CLEAN_LOOK_NS	(100 * SH_NS_PER_MS) /* the reclaim QP has closer looks of its own */
#define CLEAN_ASLEEP_NS (2 * SH_NS_PER_MS)
#define CLEAN_WAIT_NS	(5 * SH_NS_PER_S) /* a verb of the application waits so long */

/* Can the messages of a reclaim QP arrive on the default NIC? */
static bool can_clean(const struct sh_ctx *ctx)
{
	return !ctx->dead && sh_nic_up(ctx->nic);
}

/*
 * Is a queue pair, made on that queue, not connected yet? shadow: NULL for the application's
 * own queue.
 */
static bool set_up_on(const struct sh_srq *srq, const struct sh_shadow_srq *shadow)
{
	const struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && qp->sp && qp->own.srq == shadow &&
		    (qp->app.state == IBV_QPS_RESET || qp->app.state == IBV_QPS_INIT))
			return true;
	return false;
}

static void clean(struct sh_srq *srq, struct sp_srq_ring *ring, const struct sh_shadow_srq *shadow,
		  uint64_t now) SH_LOCKED
{
	struct sp_srq_state state = sh_srq_ring_state(ring);

	if (!state.spoiled || !can_clean(srq->ctx) || !set_up_on(srq, shadow))
		return;
	if (!state.stale && !sp_srq_renew(ring)) {
		sh_log(SH_LOG_INFO, "shared receive queue: that on %s can be used again",
		       srq->ctx->nic->name);
		return;
	}
	(void)sh_reclaim_from(srq, ring, state.stale, now);
	srq->look_at = sh_earlier_ns(srq->look_at, now + CLEAN_LOOK_NS);
}

void sh_srq_clean_run(struct sh_srq *srq, uint64_t now)
{
	const struct sh_shadow_srq *shadow;

	clean(srq, sp_srq_own(srq->sp), NULL, now);
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		clean(srq, shadow->ring, shadow, now);
}

bool sh_srq_await(struct sh_qp *qp)
{
	uint64_t until = sh_now_ns() + CLEAN_WAIT_NS;

	sh_job_begin(&qp->busy);
	while (!sh_srq_connectable(qp) && can_clean(qp->ctx) && sh_now_ns() < until) {
		qp->srq->look_at = sh_now_ns();
		sh_kick();
		sh_wait_some(CLEAN_ASLEEP_NS);
	}
	sh_job_end(&qp->busy);
	return sh_srq_connectable(qp);
}
