/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The promises, at every step. Buffers are in other use as soon as the application may know that a
 * request is over: what touches them later breaks a promise. An error needs an excuse, and the model,
 * which knows the truth, looks whether it holds.
 */
#include "shiftlib/core/internal.h"
#include "sim_app.h"
#include "sim_check.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_owner.h"
#include "sim_path.h"
#include "sim_stay.h"
#include "sim_uid.h"
#include "sim_world.h"

static const char *side(uint32_t end)
{
	static const char *const names[SIM_ENDS] = { "A0", "B0", "A1", "B1", "A2", "B2" };

	return names[end];
}

/* ---- what was written, read, received ------------------------------------------------------- */

static bool writes_cell(const struct sim_request *r)
{
	return (r->kind == SP_REQ_WRITE && !r->uid.on) || r->with_write;
}

static void raise_floor(struct sim_world *w, uint32_t writer, const struct sim_request *r,
			uint32_t request)
{
	uint32_t *floor = &w->end[writer ^ 1].cell[r->cell].floor;

	if (writes_cell(r) && *floor < request + 1)
		*floor = request + 1;
}

/* The last write before `last` to that cell, + 1. */
static uint32_t written_before(const struct sim_end *writer, uint32_t cell, uint32_t last)
{
	for (; last; last--) {
		const struct sim_request *r = &writer->requests[last - 1];

		if (r->cell == cell && writes_cell(r))
			break;
	}
	return last;
}

/*
 * P3, from here on: all writes of this end before `last` are in the peer's memory. To the writer they
 * may be complete and lost with the peer's NIC; whoever has a completion there, finds them.
 */
static void check_written(struct sim_world *w, uint32_t writer, uint32_t last, bool received)
{
	struct sim_end *e = &w->end[writer], *peer = &w->end[writer ^ 1];
	uint32_t need;

	for (uint32_t i = 0; i < last; i++)
		raise_floor(w, writer, &e->requests[i], i);
	if (!received && peer->writes_were_lost)
		return;
	for (uint32_t c = 0; c < SIM_CELLS; c++) {
		need = written_before(e, c, last);
		for (uint32_t half = 0; half < 2; half++)
			if (peer->cell[c].half[half] < need)
				sim_violation(w, "P3: memory of %s lacks write %u",
					      side(writer ^ 1), need - 1);
	}
}

void sim_check_write(struct sim_world *w, uint32_t end, uint32_t request)
{
	const struct sim_request *r = &w->end[end ^ 1].requests[request];

	if (w->end[end].app.closed)
		return;
	if (request < w->end[end].cell[r->cell].floor)
		sim_violation(w, "P5: late write %u into memory of %s that is in other use",
			      request, side(end));
}

void sim_check_receive(struct sim_world *w, uint32_t end, uint32_t receive)
{
	if (w->end[end].receive_given[receive] && !w->end[end].app.closed)
		sim_violation(w, "P2: receive %u of %s is written again", receive, side(end));
}

void sim_check_response(struct sim_world *w, uint32_t end, uint32_t request)
{
	if (w->end[end].requests[request].seen && !w->end[end].app.closed)
		sim_violation(w, "P5: late answer of request %u into memory of %s", request,
			      side(end));
}

/* A READ sees all writes before it, and none behind a fence behind it. */
static void check_read(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_end *e = &w->end[end];
	struct sim_request *r = &e->requests[request];
	uint32_t i, before = 0;
	bool fence = false;

	for (i = 0; i < request; i++)
		if (e->requests[i].cell == r->cell && writes_cell(&e->requests[i]))
			before = i + 1;
	if (r->low < before)
		sim_violation(w, "P3: READ %u of %s is older than write %u", request, side(end),
			      before - 1);
	for (i = request + 1; i < e->app.n_posted && !fence; i++)
		fence = e->requests[i].send_fence;
	if (fence && r->high >= i && !e->laid.misled)
		sim_violation(w, "P3: READ %u of %s saw write %u, which was fenced", request,
			      side(end), r->high - 1);
}

static void check_result(struct sim_world *w, uint32_t end, uint32_t request)
{
	struct sim_request *r = &w->end[end].requests[request];

	r->seen = true;
	if (r->bad)
		sim_violation(w, "P6: bad request %u of %s completed well", request, side(end));
	if (r->uid.on)
		sim_uid_completed(w, end, request);
	if ((r->kind != SP_REQ_READ && r->kind != SP_REQ_ATOMIC) || r->uid.on)
		return;
	if (!r->answered)
		sim_violation(w, "P1: request %u of %s completed without its data", request,
			      side(end));
	else if (r->kind == SP_REQ_READ)
		check_read(w, end, request);
	else if (r->low != r->old_value && !w->end[end].laid.misled)
		sim_violation(w, "X3: atomic %u of %s completed with %u, not with %u", request,
			      side(end), r->low, r->old_value);
	else if (r->executed != 1 && !w->end[end].laid.misled)
		sim_violation(w, "P4: atomic %u of %s executed %u times", request, side(end),
			      r->executed);
	else if (r->kind == SP_REQ_ATOMIC)
		sim_owner_seen(w, end, request);
}

/* ---- completions ---------------------------------------------------------------------------- */

void sim_check_completed_send(struct sim_world *w, uint32_t end, const struct sim_completion *c)
{
	struct sim_end *e = &w->end[end];
	struct sim_app *app = &e->app;

	if (c->index < app->send_next || c->index >= app->n_posted) {
		sim_violation(w, "P1: completion of request %u of %s comes twice", c->index,
			      side(end));
		return;
	}
	for (; app->send_next < c->index; app->send_next++) {
		if (e->requests[app->send_next].signaled || app->send_failed)
			sim_violation(w, "P1: completion of request %u of %s is missing",
				      app->send_next, side(end));
		check_result(w, end, app->send_next);
	}
	app->send_next = c->index + 1U;
	if (c->error) {
		app->send_failed = true;
		return;
	}
	if (app->send_failed)
		sim_violation(w, "P1: success of request %u of %s behind an error", c->index,
			      side(end));
	sim_label(end, "see %u", c->index);
	check_result(w, end, c->index);
	check_written(w, end, c->index + 1U, false);
}

static uint32_t request_of_message(const struct sim_end *e, uint32_t message)
{
	uint32_t i = 0;

	while (i < SIM_REQUESTS - 1 &&
	       (e->requests[i].kind != SP_REQ_TWO_SIDED || e->requests[i].message != message))
		i++;
	return i;
}

void sim_check_completed_receive(struct sim_world *w, uint32_t end, const struct sim_completion *c)
{
	struct sim_end *e = &w->end[end];
	uint32_t request;

	if (!c->error)
		sim_label(end ^ 1, "take %u %u", c->index, c->message);
	if (c->index != e->app.recv_next) {
		sim_violation(w, "P1: receive %u of %s comes instead of %u", c->index, side(end),
			      e->app.recv_next);
		return;
	}
	e->app.recv_next++;
	if (c->error)
		return;
	e->receive_given[c->index] = true;
	if (c->message != c->index || e->receive_message[c->index] != c->index)
		sim_violation(w, "P2: receive %u of %s has message %u", c->index, side(end),
			      c->message);
	request = request_of_message(&w->end[end ^ 1], c->message);
	check_written(w, end ^ 1, request + w->end[end ^ 1].requests[request].with_write, true);
}

void sim_check_app_error(struct sim_world *w, uint32_t end)
{
	uint32_t fine =
		SIM_EXCUSE_BAD | SIM_EXCUSE_KILLED | SIM_EXCUSE_CLOSED | SIM_EXCUSE_UNPROTECTED;

	if (!w->end[end].failed && !(w->excuse[end >> 1] & fine))
		sim_violation(w, "P1: an error of a protected connection was passed on to %s",
			      side(end));
}

/* ---- errors need an excuse ------------------------------------------------------------------ */

static bool outstanding(const struct sim_end *e, uint8_t kind, bool send_fence)
{
	for (uint32_t i = e->retired; i < e->app.n_posted; i++)
		if (e->requests[i].published && e->requests[i].kind == kind)
			return true;
	for (uint32_t i = e->retired; send_fence && i < e->app.n_posted; i++)
		if (e->requests[i].published && e->requests[i].send_fence)
			return true;
	return false;
}

/* What the application saw complete last may be lost with the peer's NIC, and nothing tells. */
static bool saw_write_last(const struct sim_end *e)
{
	uint32_t i = e->app.send_next;

	while (i && (e->requests[i - 1].kind == SP_REQ_LOCAL || e->requests[i - 1].nop))
		i--;
	return i && (e->requests[i - 1].kind == SP_REQ_WRITE ||
		     e->requests[i - 1].kind == SP_REQ_ATOMIC);
}

enum { STOCK_ENDS = SIM_EXCUSE_KILLED | SIM_EXCUSE_CLOSED | SIM_EXCUSE_BAD };

/* It waited its full time, and in that time there was no way, or no way to know the counts. */
static uint32_t excuse_of_waiting(struct sim_world *w, uint32_t end)
{
	const struct sc_config *cfg = &w->config;
	uint64_t patience = cfg->silence_ns;

	if (cfg->retry_time_ns && cfg->retry_time_ns < patience)
		patience = cfg->retry_time_ns;
	if (w->end[end].was_sick && w->end[end ^ 1].was_sick)
		return SIM_EXCUSE_BOTH_SICK;
	if (w->now < patience ||
	    (w->flap.halted < patience && sim_path_was_way(w, w->now - patience)))
		return 0;
	/* who is halted in the middle of a move ends it as who is dead does: see sim_stay.h for before */
	if (!sim_path_stock_over(w) && !(w->excuse[end >> 1] & STOCK_ENDS) &&
	    w->flap.halted < patience)
		sim_violation(w, "P9: %s ends where stock would still retry", side(end));
	return w->flap.halted < patience ? SIM_EXCUSE_NO_WAY : SIM_EXCUSE_HALTED;
}

static uint32_t excuse_of(struct sim_world *w, uint32_t end, enum sc_reason reason)
{
	const struct sim_end *e = &w->end[end], *peer = &w->end[end ^ 1];

	switch (reason) {
	case SC_REASON_ATOMIC:
		if (sim_uid_is(w, end))
			return sim_uid_may_end(w, end) ? SIM_EXCUSE_ATOMIC : 0;
		return outstanding(e, SP_REQ_ATOMIC, false) ? SIM_EXCUSE_ATOMIC : 0;
	case SC_REASON_FENCED_READ:
		return outstanding(e, SP_REQ_READ, true) ? SIM_EXCUSE_FENCED_READ : 0;
	case SC_REASON_MISCOUNT:
		return peer->cqes_were_lost || e->cqes_were_lost || saw_write_last(e)
			       ? SIM_EXCUSE_MISCOUNT
			       : 0;
	case SC_REASON_PEER_FATAL: return peer->failed ? w->excuse[end >> 1] : 0;
	case SC_REASON_PEER_APPLICATION: return w->excuse[end >> 1] & SIM_EXCUSE_BAD;
	case SC_REASON_KEY: /* it was all that was missing: what the peer should have said of its log */
	case SC_REASON_TRANSPORT:
	case SC_REASON_PORT:
	case SC_REASON_DEVICE:
	case SC_REASON_PEER:
	case SC_REASON_SILENCE:
	case SC_REASON_NO_STANDBY:
	case SC_REASON_DEADLINE: return excuse_of_waiting(w, end);
	case SC_REASON_NONE:
	case SC_REASON_ORDER:
	case SC_REASON_RETURN:
	case SC_REASON_PEER_CLOSED:
	case SC_REASON_APPLICATION:
	case SC_REASON_RESOURCE:
	case SC_REASON_HOME:
	case SC_REASON_OVERRUN: /* the simulation's queues have room */
	case SC_REASONS: return 0;
	}
	return 0;
}

/* Errors are allowed where a promise forbids more, not for convenience. */
void sim_check_fail(struct sim_world *w, uint32_t end, enum sc_reason reason)
{
	uint32_t *excuse = &w->excuse[end >> 1];
	uint32_t any =
		SIM_EXCUSE_KILLED | SIM_EXCUSE_CLOSED | SIM_EXCUSE_BAD | SIM_EXCUSE_UNPROTECTED;
	bool peaceful = w->peaceful[end >> 1] == w->end[end].conn.epoch && w->peaceful[end >> 1];
	uint32_t found;

	if (w->end[end].failed)
		return; /* the engine had refused what may not run */
	found = excuse_of(w, end, reason);
	*excuse |= found;
	sim_trace(w, end, "    FAILS: %s", sc_reason_name(reason));
	if (peaceful && (reason == SC_REASON_ATOMIC || reason == SC_REASON_FENCED_READ) &&
	    !(*excuse & any))
		sim_violation(w, "P7: a switch in order ends %s: %s", side(end),
			      sc_reason_name(reason));
	if (!found && !(*excuse & any))
		sim_violation(w, "P7: %s fails without need: %s", side(end),
			      sc_reason_name(reason));
}

/* ---- what is laid again must not meet itself (P5) ------------------------------------------- */

void sim_check_resubmit(struct sim_world *w, uint32_t end)
{
	sim_reach(w, 5);
	for (uint32_t i = 1; i <= w->n_qps; i++) {
		const struct sim_qp *qp = &w->qp[i], *dst = &w->qp[qp->dst];

		if (qp->qpn == w->end[end].active || !qp->dst)
			continue;
		if (qp->end == end && sim_nic_works(w, dst) &&
		    (qp->in_flight || sim_nic_may_send(w, qp)))
			sim_violation(w,
				      "P5: %s resubmits while an old carrier of its peer may "
				      "execute (QP %u)",
				      side(end), dst->qpn);
		if (qp->end == (end ^ 1) && sim_nic_works(w, dst) && qp->in_flight &&
		    dst->end == end && dst->qpn != w->end[end].active)
			sim_violation(w,
				      "P5: %s resubmits while its old carrier may be answered "
				      "(QP %u)",
				      side(end), dst->qpn);
	}
}

/* Whoever runs something on a new carrier knows that the peer is there, receives and all. */
void sim_check_publish(struct sim_world *w, uint32_t end, const struct sim_qp *qp)
{
	const struct sim_end *peer = &w->end[end ^ 1];
	const struct sim_qp *other = &w->qp[qp->dst];

	if (!qp->epoch || peer->app.closed || w->host[(end ^ 1) & 1].dead || peer->failed)
		return;
	if (other->end != (end ^ 1) || other->epoch != qp->epoch || other->dst != qp->qpn)
		sim_violation(w, "P2: %s runs on QP %u, which is not connected to its own kind",
			      side(end), qp->qpn);
	if (sc_epoch_cmp(w->qp[peer->recv_to].epoch, qp->epoch) < 0)
		sim_violation(w, "P5: %s runs on carrier %u before its peer is there", side(end),
			      qp->epoch);
}

/* ---- one step of the core ------------------------------------------------------------------- */

static bool setup(const struct sc_action *a)
{
	switch (a->type) {
	case SC_ACT_STANDBY_MAKE:
	case SC_ACT_STANDBY_CONNECT:
	case SC_ACT_STANDBY_DROP:
	case SC_ACT_SEND_STANDBY:
	case SC_ACT_SEND_STATE:
	case SC_ACT_GUARD:
	case SC_ACT_REPORT: return true;
	case SC_ACT_WITHHOLD:
	case SC_ACT_QUIESCE:
	case SC_ACT_RECOUNT:
	case SC_ACT_SEAL:
	case SC_ACT_ASK_PSN:
	case SC_ACT_LAY_RECEIVES:
	case SC_ACT_SETTLE:
	case SC_ACT_FENCE:
	case SC_ACT_UNFENCE:
	case SC_ACT_STAY:
	case SC_ACT_FAIL:
	case SC_ACT_DROP_OLD: return false;
	}
	return false;
}

static void check_quiet(struct sim_world *w, uint32_t end, const struct sc_actions *out)
{
	bool loud = w->disturbed || w->excuse[end >> 1] & SIM_EXCUSE_BAD;

	if (loud)
		return;
	if (w->end[end].guarded)
		sim_reach(w, 8);
	for (uint32_t i = 0; i < out->n; i++)
		if (!setup(&out->a[i]))
			sim_violation(w, "P8: %s with nothing wrong",
				      sc_action_name(out->a[i].type));
}

/* Who begins to go back knows that the path has stood still. */
static void check_begin(struct sim_world *w, uint32_t end, const struct sc_event *event,
			const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;
	const struct sim_view *v = &w->host[end & 1].view[c->standby.path];

	if (c->send != SC_SEND_WAIT_SIGNALED || before->send == SC_SEND_WAIT_SIGNALED)
		return;
	w->totals->ordered++;
	if (event->type == SC_EV_MSG_STATE || c->sw.reason == SC_REASON_ORDER)
		return;
	if (!v->up || w->now < v->since + (v->since > SIM_MS ? SIM_HOLDDOWN_NS : 0))
		sim_violation(w, "P7: %s goes back to path %u, which was up for only %llu us",
			      side(end), c->standby.path,
			      (unsigned long long)(w->now - v->since) / 1000);
}

static void check_fenced(struct sim_world *w, uint32_t end, const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;

	if (c->sw.phase == SC_SWITCH_FENCED && before->sw.phase != SC_SWITCH_FENCED &&
	    sim_engine_busy(w, end))
		sim_violation(w, "P5: %s says FENCED with requests outstanding", side(end));
	if (before->sw.phase == SC_SWITCH_FENCED && c->sw.phase == SC_SWITCH_NONE &&
	    sim_engine_busy(w, end))
		sim_violation(w, "P5: %s leaves in order with requests outstanding", side(end));
}

/* Who leaves because both are fenced is right about the peer. */
static void check_both_fenced(struct sim_world *w, uint32_t end, const struct sc_event *event,
			      const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn, *peer = &w->end[end ^ 1].conn;
	bool told = event->type == SC_EV_MSG_STATE && event->state.epoch == before->epoch &&
		    !event->state.stranded;

	if (c->epoch == before->epoch || before->move != SC_MOVE_NONE || sc_staying(before) ||
	    (event->type != SC_EV_FENCED && !told))
		return;
	if (peer->epoch == before->epoch && peer->move == SC_MOVE_NONE &&
	    (peer->sw.phase != SC_SWITCH_FENCED || peer->sw.no != before->sw.no))
		sim_violation(w, "P5: %s leaves in order, and its peer is not fenced", side(end));
}

/* After the own FENCED only the peer's word leads back: it may have left. */
static void check_back(struct sim_world *w, uint32_t end, const struct sc_event *event,
		       const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;

	if (before->sw.phase == SC_SWITCH_FENCED && c->sw.phase == SC_SWITCH_CANCEL &&
	    event->type != SC_EV_MSG_STATE)
		sim_violation(w, "P5: %s goes back after its FENCED by itself", side(end));
}

static bool left_sick(const struct sim_world *w, uint32_t end)
{
	return w->qp[w->end[end].active].suspect || w->qp[w->end[end ^ 1].active].suspect;
}

/*
 * A switch that nothing but the wish for order began must not end a connection. It is begun by who leaves
 * first: who is fenced, and whose peer a fault has driven away, follows in order.
 */
static void check_peace(struct sim_world *w, uint32_t end, const struct sc_event *event,
			const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;
	uint32_t *peaceful = &w->peaceful[end >> 1];

	if (event->type == SC_EV_FAULT || c->move == SC_MOVE_STRANDED)
		*peaceful = 0;
	if (c->epoch == before->epoch)
		return;
	if ((event->type == SC_EV_TIMER || event->type == SC_EV_FENCED) && !left_sick(w, end) &&
	    w->end[end ^ 1].conn.epoch != c->epoch)
		*peaceful = c->reason == SC_REASON_RETURN || c->reason == SC_REASON_ORDER ? c->epoch
											  : 0;
	else if (*peaceful != c->epoch)
		*peaceful = 0;
}

/* Protected, and nothing befell it before. */
static bool safe(const struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];

	return e->guarded && !e->failed && !e->app_error_told && !e->was_sick;
}

void sim_check_step(struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before, const struct sc_actions *out)
{
	const struct sc_conn *c = &w->end[end].conn;

	check_quiet(w, end, out);
	check_begin(w, end, event, before);
	check_fenced(w, end, before);
	check_peace(w, end, event, before);
	check_both_fenced(w, end, event, before);
	sim_stay_check(w, end, event, before);
	if (c->move != SC_MOVE_ENDED)
		check_back(w, end, event, before);
	if (c->sw.phase == SC_SWITCH_CANCEL && before->sw.phase != SC_SWITCH_CANCEL)
		w->totals->cancels++;
	if (c->move == SC_MOVE_STRANDED && before->move != SC_MOVE_STRANDED)
		w->totals->stranded++;
	if (c->epoch != before->epoch) {
		w->totals->moves++;
		w->moves[end >> 1]++;
	}
	if (safe(w, end) && safe(w, end ^ 1))
		w->excuse[end >> 1] &= ~(uint32_t)SIM_EXCUSE_UNPROTECTED;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Nobody is told of an unsignaled request that was acknowledged. */
static bool completions_missing(const struct sim_end *e)
{
	for (uint32_t i = e->app.send_next; i < e->app.n_posted; i++)
		if (e->requests[i].signaled || e->app.send_failed)
			return true;
	return false;
}

/* As on stock: who is unprotected, or whose peer closed or was killed, may wait for ever. */
static void check_completions(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	uint32_t excuse = w->excuse[end >> 1];
	bool peer_gone = excuse & (SIM_EXCUSE_KILLED | SIM_EXCUSE_CLOSED);
	bool unprotected = excuse & SIM_EXCUSE_UNPROTECTED;
	bool sick = w->qp[e->active].suspect && (e->app_error_told || peer_gone);
	bool for_ever = peer_gone && !w->config.retry_time_ns; /* the QP retries so long */
	bool sends_may_wait = !e->failed && (unprotected || sick || for_ever);
	bool receives_may_wait = unprotected || peer_gone || (sick && !e->failed);

	if (completions_missing(e) && !sends_may_wait)
		sim_violation(w, "P7: request %u of %s never completes", e->app.send_next,
			      side(end));
	if (e->app.recv_next < e->app.n_receives_posted && !receives_may_wait)
		sim_violation(w, "P7: receive %u of %s never completes", e->app.recv_next,
			      side(end));
}

/* Back on the default NIC, protected, everything done, nothing left over. */
static void check_home(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	const struct sc_conn *c = &e->conn;
	uint32_t live = 0;

	if (e->app.n_posted != e->app.n_requests || completions_missing(e) ||
	    e->app.recv_next != e->app.n_receives)
		sim_violation(w,
			      "P7: work of %s is not done: %u of %u posted, %u seen, %u of %u "
			      "received",
			      side(end), e->app.n_posted, e->app.n_requests, e->app.send_next,
			      e->app.recv_next, e->app.n_receives);
	if (c->send != SC_SEND_DEFAULT || c->recv != SC_RECV_DEFAULT || c->move != SC_MOVE_NONE ||
	    c->path || w->qp[e->active].path)
		sim_violation(w, "P7: %s is not back: %s, %s, path %u", side(end),
			      sc_send_state_name(c->send), sc_move_phase_name(c->move), c->path);
	if (!sc_protected(c))
		sim_violation(w, "P7: %s is not protected again", side(end));
	for (uint32_t i = 0; i < e->n_carriers; i++)
		live += w->qp[e->carriers[i]].state != SIM_QP_GONE &&
			w->qp[e->carriers[i]].epoch != 0;
	if (live > 1U + (w->qp[e->active].epoch != 0))
		sim_violation(w, "P7: %s has %u carriers left over", side(end), live - 2);
	if (w->restless && e->stepped_at + SIM_REST_NS > w->now)
		sim_violation(w, "P8: %s does not come to rest", side(end));
	check_written(w, end, e->app.n_requests, !e->laid.writes_only);
	sim_uid_check_done(w, end);
}

static bool is_alive(const struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];

	return !e->failed && !e->app.failed && !e->app.closed && !w->host[end & 1].dead &&
	       e->conn.move != SC_MOVE_ENDED && !e->app_error_told;
}

void sim_check_end(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->n_ends && !w->violation[0]; i++) {
		if (w->end[i].app.closed || w->host[i & 1].dead)
			continue;
		sim_engine_collect(w, i);
		if (is_alive(w, i) && is_alive(w, i ^ 1) &&
		    !(w->excuse[i >> 1] & SIM_EXCUSE_UNPROTECTED)) {
			if (w->moves[i >> 1])
				sim_reach(w, 7);
			check_home(w, i);
		} else {
			check_completions(w, i);
		}
	}
	sim_uid_check_end(w);
}
