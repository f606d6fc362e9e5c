/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Entry of the core: takes one event, writes the actions and the time of the next timer. */
#include "shiftlib/core/internal.h"

#include <string.h>

#ifdef SC_MUTANTS
enum sc_mutant sc_mutant;
#endif

#define MS (1000ULL * 1000)

void sc_config_default(struct sc_config *config)
{
	*config = (struct sc_config){
		.resend_min_ns = 2 * MS,
		.resend_max_ns = 100 * MS,
		.retry_stretch = SC_RETRY_STRETCH,
		.silence_ns = 1500 * MS,
		.deadline_ns = 10000 * MS,
		.packet_lifetime_ns = 100 * MS,
		.settle_ns = 10 * MS,
		.exact = true,
		.exact_ns = 500 * MS,
		.fence_ns = 1000 * MS,
		.stay_ns = 10000 * MS,
		.standby_ns = 2000 * MS,
		.choose_min_ns = 20 * MS,
		.choose_max_ns = 10000 * MS,
	};
}

void sc_init(struct sc_conn *conn, const struct sc_config *config)
{
	memset(conn, 0, sizeof(*conn));
	conn->config = *config;
}

bool sc_protected(const struct sc_conn *conn)
{
	return conn->guarded && conn->move == SC_MOVE_NONE &&
	       (sc_standby_ready(conn) || sc_rest_possible(conn));
}

bool sc_rests(const struct sc_conn *conn)
{
	return sc_protected(conn) && !sc_standby_ready(conn);
}

struct sc_action *sc_emit(struct sc_frame *x, enum sc_action_type type)
{
	struct sc_action *a = &x->out->a[x->out->n];

	SC_ASSERT(x->out->n < SC_MAX_ACTIONS);
	x->out->n++;
	memset(a, 0, sizeof(*a));
	a->type = type;
	return a;
}

void sc_report(struct sc_frame *x)
{
	struct sc_action *a = sc_emit(x, SC_ACT_REPORT);

	a->on = x->c->guarded;
	a->path = sc_rests(x->c) ? (uint8_t)sc_paths_choose(x->c) : x->c->path;
	a->reason = x->c->reason;
	a->epoch = x->c->epoch;
}

void sc_guard(struct sc_frame *x, bool on)
{
	if (x->c->guarded == on)
		return;
	x->c->guarded = on;
	sc_emit(x, SC_ACT_GUARD)->on = on;
}

void sc_backoff_start(uint64_t *at, uint64_t *interval, uint64_t now, uint64_t first)
{
	*interval = first;
	*at = now + first;
}

void sc_backoff_next(uint64_t *at, uint64_t *interval, uint64_t now, uint64_t max)
{
	*interval = *interval * 2 < max ? *interval * 2 : max;
	*at = now + *interval;
}

/* ---- timers --------------------------------------------------------------------------------- */

static void core_timer_earlier(struct sc_conn *c, uint64_t at)
{
	if (at && (!c->timer_at || at < c->timer_at))
		c->timer_at = at;
}

static void core_timer_schedule(struct sc_conn *c)
{
	c->timer_at = 0;
	core_timer_earlier(c, c->resend_at);
	if (c->move == SC_MOVE_ENDED)
		return;
	core_timer_earlier(c, c->standby.resend_at);
	core_timer_earlier(c, c->standby.deadline_at);
	core_timer_earlier(c, c->standby.choose_at);
	core_timer_earlier(c, c->standby.rest_until);
	core_timer_earlier(c, c->sw.deadline_at);
	core_timer_earlier(c, c->sw.next_at);
	core_timer_earlier(c, c->stay.look_at);
	core_timer_earlier(c, sc_stay_until(c));
	core_timer_earlier(c, c->exact.asked_until);
	core_timer_earlier(c, sc_patience_dark_until(c));
	if (!sc_moving(c))
		return;
	core_timer_earlier(c, c->deadline_at);
	core_timer_earlier(c, c->retry.at);
	core_timer_earlier(c, c->lifetime_until);
}

static void core_timer_run(struct sc_frame *x)
{
	sc_move_timer(x);
	if (x->c->move == SC_MOVE_ENDED)
		return;
	sc_patience_timer(x);
	if (x->c->move == SC_MOVE_ENDED)
		return;
	sc_switch_timer(x);
	sc_stay_timer(x);
	sc_exact_timer(x);
	sc_state_timer(x);
	sc_standby_timer(x);
}

static void core_send_again(struct sc_frame *x)
{
	sc_state_send_again(x);
	sc_standby_send_again(x);
}

/* ---- dispatch ------------------------------------------------------------------------------- */

static void core_dispatch(struct sc_frame *x)
{
	switch (x->ev->type) {
	case SC_EV_INTRODUCED: sc_standby_introduced(x); break;
	case SC_EV_STANDBY_MADE: sc_standby_made(x); break;
	case SC_EV_STANDBY_CONNECTED: sc_standby_connected(x); break;
	case SC_EV_STANDBY_FAILED: sc_standby_failed(x); break;
	case SC_EV_STANDBY_LOST: /* the standby may have come into use meanwhile */
	case SC_EV_FAULT: sc_move_fault(x); break;
	case SC_EV_MSG_STANDBY: sc_standby_message(x); break;
	case SC_EV_MSG_STATE: sc_state_message(x); break;
	case SC_EV_MSG_UNKNOWN: sc_end_unknown(x); break;
	case SC_EV_APP_ERROR: sc_end_app_error(x); break;
	case SC_EV_APP_CLOSED: sc_end_app_closed(x); break;
	case SC_EV_WITHHELD: sc_exact_withheld(x); break;
	case SC_EV_QUIESCED: sc_move_quiesced(x); break;
	case SC_EV_PSN: sc_exact_answered(x); break;
	case SC_EV_RECEIVES_LAID: sc_move_laid(x); break;
	case SC_EV_SETTLED: sc_move_settled(x); break;
	case SC_EV_PATHS: sc_paths_changed(x); break;
	case SC_EV_FENCE_LAID: sc_switch_laid(x); break;
	case SC_EV_FENCED: sc_switch_fenced(x); break;
	case SC_EV_STAYS: sc_stay_looked(x); break;
	case SC_EV_PATH_UP: core_send_again(x); break;
	case SC_EV_DARK: sc_patience_dark(x); break;
	case SC_EV_TIMER: core_timer_run(x); break;
	case SC_EVENT_TYPES: break;
	}
}

/* Does what has become possible by the event, of whatever type. */
static void core_advance(struct sc_frame *x)
{
	sc_rest_update(x);
	sc_standby_choose(x);
	sc_stay_advance(x);
	sc_move_advance(x);
	sc_exact_advance(x);
	sc_switch_advance(x);
}

void sc_step(struct sc_conn *conn, const struct sc_event *event, uint64_t now_ns,
	     struct sc_actions *actions)
{
	struct sc_frame x = { .c = conn, .ev = event, .now = now_ns, .out = actions };

	actions->n = 0;
	if (conn->move == SC_MOVE_ENDED)
		sc_end_event(&x);
	else
		core_dispatch(&x);
	if (conn->move != SC_MOVE_ENDED)
		core_advance(&x);
	core_timer_schedule(conn);
}
