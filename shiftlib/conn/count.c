/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many connections are guarded, move, leave and wait; and what follows for all of them. */
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/count.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/pace.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/young.h"

/* So many that move at once are answered in the time in which one repeats itself. */
#define COUNT_MANY	64
#define COUNT_BUSY_MAXS 4 /* longest pauses between two repetitions */

/*
 * Where thousands move at once, answers take longer than for a connection that moves alone. A
 * connection that did not wait for its answer would repeat itself, and be answered again,
 * before any was done.
 */
uint64_t sh_count_busy_ns(uint64_t now)
{
	uint32_t together = sh_conns.moving > sh_conns.faulted ? sh_conns.moving : sh_conns.faulted;
	uint64_t max = sh.config.core.resend_max_ns;
	uint64_t ns = sh.config.core.resend_min_ns * (COUNT_MANY + together) / COUNT_MANY;
	uint64_t paced = sh_pace_ns(&sh_conns.pace, now, COUNT_BUSY_MAXS * max);

	ns = ns < max ? ns : max;
	return paced > ns ? paced : ns;
}

void sh_count_guarded(struct sh_qp *qp, bool on)
{
	uint32_t one = on ? 1 : UINT32_MAX;

	if (qp->counted.guarded == on)
		return;
	qp->counted.guarded = on;
	sh_conns.guarded += one;
	qp->scq->guarded += one;
	qp->rcq->guarded += one;
}

static void count_moving(struct sh_qp *qp, bool on) SH_LOCKED
{
	if (qp->counted.moving == on)
		return;
	qp->counted.moving = on;
	sh_conns.moving += on ? 1 : UINT32_MAX;
	if (!on)
		return;
	sh_give_way_fault();
	sh_setup_end();
}

/*
 * Counts connections of the context that leave, or prepare to. While there are some, a region
 * is on the NIC that they go to when ibv_reg_mr returns, and gone from there when ibv_dereg_mr
 * does.
 */
static void count_leaving(struct sh_qp *qp, bool on) SH_LOCKED
{
	if (qp->counted.leaving == on)
		return;
	qp->counted.leaving = on;
	qp->ctx->moving += on ? 1 : UINT32_MAX;
	if (on)
		sh_young_move(qp->ctx);
}

static bool count_leaves(const struct sc_conn *c)
{
	return (c->move != SC_MOVE_NONE && c->move != SC_MOVE_ENDED) ||
	       c->sw.phase == SC_SWITCH_PREP || c->sw.phase == SC_SWITCH_FENCED;
}

static void count_away(struct sh_qp *qp, bool on)
{
	if (qp->counted.away == on)
		return;
	qp->counted.away = on;
	sh_conns.away += on ? 1 : UINT32_MAX;
}

static void count_waiting(struct sh_qp *qp, bool on, uint64_t now) SH_LOCKED
{
	if (qp->counted.waiting == on)
		return;
	qp->counted.waiting = on;
	qp->counted.waiting_since = now;
	sh_pace_wait(&sh_conns.pace, on, now);
}

void sh_count_core(struct sh_qp *qp, uint64_t now)
{
	const struct sc_conn *c = &qp->core;

	count_waiting(qp, c->resend_at && c->move != SC_MOVE_ENDED, now);
	count_moving(qp, c->move != SC_MOVE_NONE && c->move != SC_MOVE_ENDED);
	count_leaving(qp, count_leaves(c));
	count_away(qp, qp->active->epoch || c->move != SC_MOVE_NONE);
}

void sh_count_none(struct sh_qp *qp)
{
	sh_count_guarded(qp, false);
	count_moving(qp, false);
	count_leaving(qp, false);
	count_away(qp, false);
	count_waiting(qp, false, sh_now_ns());
}
