/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One end of a connection: gives events to the core, carries its actions out (conn/act.c). */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many moves at once are many; the longest pause, in pauses of the core: conn/count.c. */
#define CONN_MANY      64
#define CONN_BUSY_MAXS 4

static void answer(struct storm_world *w, const struct sc_event *event)
{
	if (w->queue.n == STORM_QUEUED) {
		fprintf(stderr, "storm: too many queued events\n");
		exit(1);
	}
	w->queue.event[w->queue.n++] = *event;
}

/* ---- actions --------------------------------------------------------------------------------- */

/* While standbys are made nothing costs time. */
static void make(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	(void)end;
	answer(w, &(struct sc_event){ .type = SC_EV_STANDBY_MADE, .epoch = a->epoch });
}

static void connect_standby(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	(void)end;
	answer(w, &(struct sc_event){ .type = SC_EV_STANDBY_CONNECTED, .epoch = a->epoch });
}

static void send_standby(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	const struct storm_end *e = &w->end[end];
	struct storm_message m = { .end = end ^ 1, .standby = true, .standby_msg = a->standby };

	for (uint32_t path = STORM_PATHS; path-- > 0;)
		if (a->on || path == a->path)
			storm_host_say(w, e->host, e->peer, path, &m);
}

/* Sends the state over every path; the path that is being left comes last. */
static void send_state(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	const struct storm_end *e = &w->end[end];
	struct storm_message m = { .end = end ^ 1, .state_msg = a->state };

	for (uint32_t path = STORM_PATHS; path-- > 0;)
		storm_host_say(w, e->host, e->peer, path, &m);
}

static void quiesce(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	(void)a;
	storm_host_command(w, w->end[end].host, end);
}

static void lay(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	(void)end;
	answer(w, &(struct sc_event){ .type = SC_EV_RECEIVES_LAID, .ok = true, .epoch = a->epoch });
}

static void settle(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	struct storm_end *e = &w->end[end];

	w->n_settled += !e->settled_at;
	e->settled_at = w->host[e->host].clock;
	answer(w, &(struct sc_event){ .type = SC_EV_SETTLED, .ok = true, .epoch = a->epoch });
}

/*
 * Answers the question if something outstanding here has to be waited for. Nothing is, and the
 * answer takes no time.
 */
static void stay(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	(void)end;
	if (a->on)
		answer(w, &(struct sc_event){ .type = SC_EV_STAYS, .epoch = a->epoch });
}

static void fail(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	fprintf(stderr, "storm: end %u of host %u fails after %.3f ms: %s\n", end, w->end[end].host,
		(double)(w->now - w->sum.noticed_at) / 1e6, sc_reason_text(a->reason));
	exit(1);
}

/* Does an action. A new action of the core needs a line here about a storm: the compiler asks. */
static void act(struct storm_world *w, uint32_t end, const struct sc_action *a)
{
	switch (a->type) {
	case SC_ACT_STANDBY_MAKE: make(w, end, a); break;
	case SC_ACT_STANDBY_CONNECT: connect_standby(w, end, a); break;
	case SC_ACT_SEND_STANDBY: send_standby(w, end, a); break;
	case SC_ACT_SEND_STATE: send_state(w, end, a); break;
	case SC_ACT_QUIESCE: quiesce(w, end, a); break;
	case SC_ACT_LAY_RECEIVES: lay(w, end, a); break;
	case SC_ACT_SETTLE: settle(w, end, a); break;
	case SC_ACT_STAY: stay(w, end, a); break;
	case SC_ACT_FAIL: fail(w, end, a); break;
	case SC_ACT_FENCE: /* no path is drained, so nobody switches in order */
	case SC_ACT_UNFENCE:
	case SC_ACT_ASK_PSN:	  /* no NIC has shown that it tells the truth */
	case SC_ACT_RECOUNT:	  /* each first count is final */
	case SC_ACT_STANDBY_DROP: /* the rest take no time, and nobody waits for an answer */
	case SC_ACT_GUARD:
	case SC_ACT_WITHHOLD:
	case SC_ACT_SEAL:
	case SC_ACT_DROP_OLD:
	case SC_ACT_REPORT: break;
	}
}

/* ---- the core -------------------------------------------------------------------------------- */

/* One of thousands that move at once waits for its answer, and repeats nothing: conn/count.c. */
static uint64_t busy_ns(struct storm_host *h, const struct sc_config *config)
{
	uint32_t together = h->moving > h->faulted ? h->moving : h->faulted;
	uint64_t ns = config->resend_min_ns * (CONN_MANY + together) / CONN_MANY;
	uint64_t paced = sh_pace_ns(&h->pace, h->clock, CONN_BUSY_MAXS * config->resend_max_ns);

	ns = ns < config->resend_max_ns ? ns : config->resend_max_ns;
	return paced > ns ? paced : ns;
}

static void count(struct storm_host *h, struct storm_end *e)
{
	bool moving = e->conn.move != SC_MOVE_NONE && e->conn.move != SC_MOVE_ENDED;
	bool waiting = e->conn.resend_at && e->conn.move != SC_MOVE_ENDED;

	if (waiting != e->counted_waiting)
		sh_pace_wait(&h->pace, waiting, h->clock);
	if (moving != e->counted_moving)
		h->moving += moving ? 1 : UINT32_MAX;
	e->counted_waiting = waiting;
	e->counted_moving = moving;
}

static void set_timer(struct storm_world *w, uint32_t end)
{
	struct storm_end *e = &w->end[end];
	uint64_t clock = w->host[e->host].clock;

	if (e->conn.timer_at == e->timer_at)
		return;
	e->timer_at = e->conn.timer_at;
	e->generation++;
	if (e->timer_at)
		storm_input_at(w, e->timer_at > clock ? e->timer_at : clock, e->host,
			       &(struct storm_input){ .type = STORM_IN_TIMER,
						      .end = end,
						      .generation = e->generation });
}

static void step(struct storm_world *w, uint32_t end, const struct sc_event *event)
{
	struct storm_end *e = &w->end[end];
	struct storm_host *h = &w->host[e->host];
	struct sc_actions out;

	h->clock += w->costs.step;
	w->sum.steps++;
	e->conn.config.busy_ns = busy_ns(h, &e->conn.config);
	sc_step(&e->conn, event, h->clock, &out);
	if (w->started && !e->left_at && e->conn.move != SC_MOVE_NONE)
		e->left_at = h->clock;
	count(h, e);
	for (uint32_t i = 0; i < out.n; i++)
		act(w, end, &out.a[i]);
	if (event->type == SC_EV_TIMER)
		e->timer_at = 0;
	set_timer(w, end);
}

/* Enters an event. Answers at once get in line: the core is never entered twice. */
void storm_end_event(struct storm_world *w, uint32_t end, const struct sc_event *event)
{
	struct sc_event next;

	answer(w, event);
	if (w->queue.stepping)
		return;
	w->queue.stepping = true;
	while (w->queue.n) {
		next = w->queue.event[0];
		w->queue.n--;
		memmove(w->queue.event, w->queue.event + 1, w->queue.n * sizeof(next));
		step(w, end, &next);
	}
	w->queue.stepping = false;
}

void storm_end_timer(struct storm_world *w, uint32_t end, uint32_t generation)
{
	if (generation == w->end[end].generation)
		storm_end_event(w, end, &(struct sc_event){ .type = SC_EV_TIMER });
}

/* STATE goes over every path: the second one is told apart from a repetition (conn/hear.c). */
static bool is_copy(struct storm_end *e, uint32_t path, const struct sc_msg_state *state)
{
	bool same = e->heard.paths && !memcmp(&e->heard.state, state, sizeof(*state));

	if (same && !(e->heard.paths & 1u << path)) {
		e->heard.paths |= 1u << path;
		return true;
	}
	e->heard.state = *state;
	e->heard.paths = 1u << path;
	return false;
}

void storm_end_message(struct storm_world *w, const struct storm_datagram *datagram,
		       const struct storm_message *message)
{
	struct sc_event event = { .type = SC_EV_MSG_STATE };

	if (message->standby) {
		event.type = SC_EV_MSG_STANDBY;
		event.standby = message->standby_msg;
	} else {
		event.state = message->state_msg;
		event.copy = is_copy(&w->end[message->end], datagram->path, &event.state);
	}
	storm_end_event(w, message->end, &event);
}
