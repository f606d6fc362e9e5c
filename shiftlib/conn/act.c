/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a connection's core: each goes to the file that carries it out. */
#include "providers/engine.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/act.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/count.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/standby.h"
#include "shiftlib/conn/stay.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/heartbeat.h"

static void act_guard(struct sh_qp *qp, bool on) SH_LOCKED
{
	sp_qp_guard(qp->sp, on);
	sh_count_guarded(qp, on);
	if (!on)
		return;
	sh_carrier_link_mark(&qp->carriers.own); /* before, its errors were not withheld */
	if (!sh_conns.check_at)
		sh_conns.check_at = sh_now_ns() + sh.config.watch_ns;
	SH_PARTS_TELL(step.guarded, qp);
	sh_heartbeat_soon(); /* the first one that can be moved: heartbeats begin */
}

static void act_withhold(struct sh_qp *qp, const struct sc_action *action) SH_LOCKED
{
	SH_PARTS_TELL(move.begins, qp, action->reason);
	sh_move_withhold(qp);
	SH_PARTS_TELL(move.withheld, qp, action->epoch);
}

void sh_act(struct sh_qp *qp, const struct sc_action *action)
{
	switch (action->type) {
	case SC_ACT_STANDBY_MAKE: sh_standby_make(qp, action->epoch, action->path); break;
	case SC_ACT_STANDBY_CONNECT: sh_standby_connect(qp, action->epoch, &action->address); break;
	case SC_ACT_STANDBY_DROP: sh_carrier_drop(qp, action->epoch); break;
	case SC_ACT_SEND_STANDBY: sh_messages_send_standby(qp, &action->standby, action->on); break;
	case SC_ACT_SEND_STATE: sh_messages_send_state(qp, &action->state); break;
	case SC_ACT_GUARD: act_guard(qp, action->on); break;
	case SC_ACT_WITHHOLD: act_withhold(qp, action); break;
	case SC_ACT_QUIESCE: sh_quiesce_begin(qp, action->epoch); break;
	case SC_ACT_RECOUNT: sh_quiesce_recount(qp); break;
	case SC_ACT_SEAL: sh_quiesce_seal(qp); break;
	case SC_ACT_ASK_PSN: SH_PARTS_TELL(move.ask_psn, qp, action->epoch); break;
	case SC_ACT_LAY_RECEIVES: sh_move_lay(qp, action->epoch); break;
	case SC_ACT_SETTLE: sh_move_settle(qp, action); break;
	case SC_ACT_FENCE: sh_fence_lay(qp, action->epoch); break;
	case SC_ACT_UNFENCE: sh_fence_lift(qp); break;
	case SC_ACT_STAY: sh_stay(qp, action); break;
	case SC_ACT_FAIL:
		sh_move_fail(qp, action->reason);
		qp->app.state = IBV_QPS_ERR; /* query_qp must say so once errors were told */
		break;
	case SC_ACT_DROP_OLD: sh_carriers_drop_old(qp, action->epoch); break;
	case SC_ACT_REPORT: sh_level_report(qp, action); break;
	}
}

static uint64_t core_next_timer(const struct sh_qp *qp)
{
	return qp->core.timer_at;
}

static void core_timer(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_TIMER };
	uint32_t number;

	event.idle = sp_qp_sending(qp->sp, &number) == SP_SENDING_NONE;
	sh_conn_event(qp, &event);
	sh_stay_say_unanswered(qp, now);
}

const struct sh_conn_part sh_core_part = {
	.name = "core",
	.clock = { .next_timer = core_next_timer, .run = core_timer },
};
