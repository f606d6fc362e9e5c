/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shell: events into the core, its actions out, control messages. */
#include "shiftlib/core/core.h"
#include "sim_check.h"
#include "sim_command.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_fault.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_log.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_path.h"
#include "sim_shell.h"
#include "sim_stay.h"
#include "sim_world.h"

#include <string.h>

static void draw_config(struct sim_world *w)
{
	static const uint64_t fence[] = { 3 * SIM_MS, 8 * SIM_MS, 20 * SIM_MS };
	static const uint64_t retry[] = { 0, 600 * SIM_MS, 1500 * SIM_MS };

	w->config = (struct sc_config){
		.resend_min_ns = SIM_MS,
		.resend_max_ns = 20 * SIM_MS,
		.retry_time_ns = retry[sim_pick(w, 3)],
		.retry_stretch = SC_RETRY_STRETCH,
		.silence_ns = 400 * SIM_MS,
		.deadline_ns = 1000 * SIM_MS,
		.packet_lifetime_ns = SIM_LIFETIME_NS,
		.settle_ns = SIM_SETTLE_NS,
		.fence_ns = fence[sim_pick(w, 3)],
		.stay_ns = sim_chance(w, 80) ? SIM_STAY_NS : 0,
		.exact = !sim_chance(w, sim_log_without_psn_percent()),
		.exact_ns = SIM_EXACT_NS,
		.standby_ns = 25 * SIM_MS,
		.choose_min_ns = SIM_MS,
		.choose_max_ns = 100 * SIM_MS,
		.lazy = sim_chance(w, 30),
	};
	w->stock.stretch = 1 + w->seed % SC_RETRY_STRETCH; /* no draw: seeds stay what they were */
	w->weather.crowded = sim_chance(w, 30);
}

static void init_hosts(struct sim_world *w)
{
	for (uint32_t p = 0; p < w->n_paths; p++) {
		w->rail_up[p] = true;
		w->way[p].since = w->now;
		for (uint32_t i = 0; i < SIM_HOSTS; i++) {
			w->host[i].answers = true;
			w->host[i].nic[p].port_up = true;
			w->host[i].view[p] = (struct sim_view){ .up = true,
								.well = true,
								.steady = true,
								.since = w->now,
								.holddown = SIM_HOLDDOWN_NS };
		}
	}
}

/* As backup/spread.h deals them out: all paths but the first, in any order; or that of their numbers. */
static uint32_t draw_order(struct sim_world *w)
{
	uint32_t order = 0, left = (1U << w->n_paths) - 2, path;

	if (sim_chance(w, 50))
		return 0;
	for (uint32_t place = 0; left; place++) {
		do
			path = 1 + sim_pick(w, w->n_paths - 1);
		while (!(left >> path & 1));
		left &= ~(1U << path);
		order |= path << SC_ORDER_BITS * place;
	}
	return order;
}

static void introduce(struct sim_world *w, uint32_t end, uint64_t delay, bool leader)
{
	struct sc_event *event = &sim_at_payload(w, delay, SIM_EV_CORE, end)->core;

	event->type = SC_EV_INTRODUCED;
	event->leader = leader || sim_mutant == SIM_MUTANT_BOTH_LEAD;
	event->order = draw_order(w);
}

/* To its peer; some, before that, to one that is gone, by which it leads or does not. */
static void init_introduction(struct sim_world *w, uint32_t end, bool leader)
{
	uint64_t delay = sim_chance(w, 10) ? sim_pick(w, 5 * SIM_MS) : 0;

	if (sim_chance(w, 5)) {
		w->end[end].control.left_over = 2;
		introduce(w, end, delay, sim_chance(w, 50));
		delay += sim_pick(w, 20 * SIM_MS);
	}
	introduce(w, end, delay, leader);
}

static void init_end(struct sim_world *w, uint32_t end, bool leader)
{
	struct sim_end *e = &w->end[end];

	sc_init(&e->conn, &w->config);
	e->conn.config.lazy ^= sim_chance(w, 5); /* who is not as the other */
	e->conn.config.exact ^= sim_chance(w, 5);
	e->conn.config.atomics = sim_stay_takes_atomics(w, end);
	if (sim_chance(w, 5))
		e->conn.config.stay_ns = SIM_STAY_NS - e->conn.config.stay_ns;
	e->recv_count = w->base_count;
	e->active = e->recv_to = sim_nic_make(w, end, 0, 0)->qpn;
	/* a ring full of requests that never signal would be stuck on stock */
	e->room = e->app.depth + (e->app.depth == SIM_REQUESTS || sim_chance(w, 50));
	e->keys.late = sim_chance(w, 20);
	e->keys.gone = e->keys.late && w->seed % 3 == 0; /* no draw, as above */
	e->fence_early = sim_chance(w, 50);
	e->resource_misses = sim_chance(w, 5) ? sim_pick(w, 3) : 0;
	init_introduction(w, end, leader);
	sim_path_tell(w, end);
}

void sim_shell_init(struct sim_world *w)
{
	draw_config(w);
	init_hosts(w);
	for (uint32_t i = 0; i < w->n_ends; i += 2) {
		uint32_t leader = sim_pick(w, 2);

		init_end(w, i, leader == 0);
		init_end(w, i + 1, leader == 1);
		w->qp[w->end[i].active].dst = w->end[i + 1].active;
		w->qp[w->end[i + 1].active].dst = w->end[i].active;
		w->qp[w->end[i].active].state = w->qp[w->end[i + 1].active].state = SIM_QP_RTS;
	}
}

void sim_shell_later(struct sim_world *w, uint32_t end, struct sc_event event)
{
	sim_at_payload(w, SIM_US + sim_pick(w, 50 * SIM_US), SIM_EV_CORE, end)->core = event;
}

/* ---- control messages ----------------------------------------------------------------------- */

static bool path_open(const struct sim_world *w, uint32_t from, uint32_t path)
{
	const struct sim_nic *a = &w->host[from & 1].nic[path];
	const struct sim_nic *b = &w->host[1 - (from & 1)].nic[path];

	return w->rail_up[path] && a->port_up && b->port_up && !a->lose_tx &&
	       a->health == SIM_WELL && b->health == SIM_WELL;
}

/* Long runs of bad luck would look like silence: at most two in a row over all paths. */
static bool lost(struct sim_world *w, uint32_t from, uint32_t path)
{
	struct sim_end *e = &w->end[from];

	if (!path_open(w, from, path))
		return true;
	if (!w->healed && e->control.loss_run < 2 * SIM_PATHS &&
	    sim_chance(w, w->weather.loss_percent)) {
		e->control.loss_run++;
		return true;
	}
	e->control.loss_run = 0;
	return false;
}

static void message_send(struct sim_world *w, struct sim_message m)
{
	uint32_t copies = 1 + sim_chance(w, 5);
	uint64_t delay;

	if (m.path >= w->n_paths || lost(w, m.from, m.path) ||
	    w->end[m.from].control.left_over == 1)
		return;
	for (uint32_t i = 0; i < copies; i++) {
		delay = sim_chance(w, w->weather.held_percent) ? sim_random(w) % SIM_HELD_NS
							       : sim_delay(w);
		sim_at_payload(w, delay, SIM_EV_MESSAGE, m.from ^ 1U)->message = m;
	}
}

static void send_everywhere(struct sim_world *w, struct sim_message m)
{
	uint32_t n = sim_mutant == SIM_MUTANT_ONE_PATH ? 1 : w->n_paths;

	for (m.path = 0; m.path < n; m.path++)
		message_send(w, m);
}

void sim_shell_send_log(struct sim_world *w, uint32_t end, const struct sim_log_message *m)
{
	send_everywhere(w,
			(struct sim_message){ .from = (uint8_t)end, .log = true, .log_msg = *m });
}

static void send_standby(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sim_message m = {
		.from = (uint8_t)end, .path = a->path, .standby = true, .standby_msg = a->standby
	};

	if (a->on)
		send_everywhere(w, m);
	else if (!m.path || sim_mutant != SIM_MUTANT_ONE_PATH)
		message_send(w, m);
}

static void unknown(struct sim_world *w, uint32_t end, const struct sim_message *m)
{
	if (!m->unknown && w->host[end & 1].answers)
		message_send(w, (struct sim_message){
					.from = (uint8_t)end, .path = m->path, .unknown = true });
}

void sim_shell_message(struct sim_world *w, uint32_t end, const struct sim_message *m)
{
	struct sc_event e = { .type = SC_EV_MSG_STATE, .state = m->state_msg };

	if (!path_open(w, m->from, m->path) || w->end[end].control.left_over)
		return;
	if (w->host[end & 1].dead || w->end[end].app.closed) {
		unknown(w, end, m);
		return;
	}
	if (m->log) {
		sim_log_heard(w, end, &m->log_msg);
		return;
	}
	if (m->standby) {
		e.type = SC_EV_MSG_STANDBY;
		e.standby = m->standby_msg;
	}
	if (m->unknown)
		e.type = SC_EV_MSG_UNKNOWN;
	sim_shell_event(w, end, &e);
}

/* ---- actions -------------------------------------------------------------------------------- */

static void answer(struct sim_world *w, uint32_t end, const struct sc_event *event)
{
	struct sim_end *e = &w->end[end];

	if (e->line.n == SIM_QUEUED)
		sim_violation(w, "the model's line of events is too short");
	else
		e->line.event[e->line.n++] = *event;
}

/* One that an ordered switch needs may not come at all, once: the connection is to go back to where it was. */
static bool keys_gone(struct sim_end *e)
{
	const struct sc_conn *c = &e->conn;

	if (!e->keys.gone || !c->sw.led)
		return false;
	if (!e->keys.epoch)
		e->keys.epoch = c->epoch;
	return e->keys.epoch == c->epoch;
}

/* A key of the NIC that comes next may be late, a few times in a row. */
static bool key_missing(struct sim_world *w, struct sim_end *e)
{
	if (keys_gone(e))
		return true;
	if (!e->keys.late || e->keys.misses == 3 || !sim_chance(w, 30)) {
		e->keys.misses = 0;
		return false;
	}
	e->keys.misses++;
	return true;
}

static uint32_t count_told(const struct sim_world *w, uint32_t end)
{
	uint32_t count = w->end[end].recv_count;

	return sim_mutant == SIM_MUTANT_COUNT_ANEW ? count - w->base_count : count;
}

static void withhold(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	const struct sim_end *e = &w->end[end];
	struct sc_event ev = { .type = SC_EV_WITHHELD,
			       .epoch = epoch,
			       .carrier = w->qp[e->active].epoch };

	sim_engine_withhold(w, end);
	sim_log_withheld(w, end);
	ev.exact = sim_engine_exact_wanted(w, end);
	answer(w, end, &ev);
}

static void stay(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sc_event ev = { .type = SC_EV_STAYS, .epoch = a->epoch };

	if (!a->on) {
		sim_engine_unstay(w, end);
		return;
	}
	ev.atomics = sim_engine_stay(w, end);
	answer(w, end, &ev);
}

static void lay_receives(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sc_event ev = { .type = SC_EV_RECEIVES_LAID, .epoch = epoch };

	if (key_missing(w, &w->end[end]))
		ev.reason = SC_REASON_KEY;
	else if (!sim_engine_lay_receives(w, end, epoch))
		ev.reason = SC_REASON_RESOURCE;
	ev.ok = ev.reason == SC_REASON_NONE;
	ev.recv_count = count_told(w, end);
	answer(w, end, &ev);
}

static void settle(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sc_event ev = { .type = SC_EV_SETTLED, .reason = SC_REASON_KEY, .epoch = a->epoch };

	if (!key_missing(w, &w->end[end]))
		ev.reason = sim_engine_settle(w, end, a);
	ev.ok = ev.reason == SC_REASON_NONE;
	answer(w, end, &ev);
}

/* By all that the leader knows, no path of its order that stood still comes before the one that it chose. */
static void check_choice(struct sim_world *w, uint32_t end, uint8_t path)
{
	const struct sc_conn *c = &w->end[end].conn;
	uint8_t well = c->paths.up & c->paths.steady & ~c->paths.drained & ~c->standby.avoid;

	if (!c->leader)
		return;
	if (c->peer.masks_known)
		well &= c->peer.paths.up & c->peer.paths.steady & ~c->peer.paths.drained;
	for (uint8_t p = 0; p < w->n_paths; p++)
		if (p != c->path && well >> p & 1 &&
		    sc_order_rank(c->standby.order, p) < sc_order_rank(c->standby.order, path))
			sim_violation(w, "P7: a standby on path %u, though path %u comes before it",
				      path, p);
}

static void standby_command(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sim_qp *qp = sim_engine_carrier(w, end, a->epoch);
	struct sim_command c = { .end = (uint8_t)end,
				 .action = (uint8_t)a->type,
				 .path = a->path,
				 .epoch = a->epoch,
				 .address = a->address };

	if (a->type == SC_ACT_STANDBY_MAKE) {
		w->end[end].asked.epoch = a->epoch;
		w->end[end].asked.path = a->path;
		check_choice(w, end, a->path);
	} else if (qp) {
		c.qpn = qp->qpn;
		c.path = qp->path;
		/* forgotten at once; what is left for its NIC's worker is to destroy it */
		qp->sealed |= a->type == SC_ACT_STANDBY_DROP;
	} else if (w->end[end].asked.epoch == a->epoch) {
		c.path = w->end[end].asked.path; /* behind its making */
	}
	if (c.path < w->n_paths)
		sim_command_submit(w, &c);
	else
		sim_violation(w, "P7: a standby on path %u, which is none", c.path);
}

static void fail(struct sim_world *w, uint32_t end, enum sc_reason reason)
{
	struct sim_end *e = &w->end[end];

	if (sim_mutant == SIM_MUTANT_KEEP_GUARD && (e->conn.reason == SC_REASON_PEER_FATAL ||
						    e->conn.reason == SC_REASON_PEER_APPLICATION))
		return;
	sim_check_fail(w, end, reason);
	sim_engine_fail(w, end);
}

static void act(struct sim_world *w, uint32_t end, const struct sc_action *a)
{
	struct sim_end *e = &w->end[end];

	switch (a->type) {
	case SC_ACT_STANDBY_MAKE:
	case SC_ACT_STANDBY_CONNECT:
	case SC_ACT_STANDBY_DROP: standby_command(w, end, a); break;
	case SC_ACT_SEND_STANDBY: send_standby(w, end, a); break;
	case SC_ACT_SEND_STATE:
		send_everywhere(
			w, (struct sim_message){ .from = (uint8_t)end, .state_msg = a->state });
		break;
	case SC_ACT_GUARD:
		e->guarded = a->on;
		sim_at(w, SIM_US, SIM_EV_WATCH, end, 0);
		break;
	case SC_ACT_WITHHOLD: withhold(w, end, a->epoch); break;
	case SC_ACT_QUIESCE: sim_command_quiesce(w, end, a->epoch); break;
	case SC_ACT_RECOUNT: sim_command_recount(w, end, a->epoch); break;
	case SC_ACT_SEAL: sim_engine_seal(w, end, a->epoch); break;
	case SC_ACT_ASK_PSN: sim_command_ask_psn(w, end, a->epoch); break;
	case SC_ACT_LAY_RECEIVES: lay_receives(w, end, a->epoch); break;
	case SC_ACT_SETTLE: settle(w, end, a); break;
	case SC_ACT_FENCE: sim_engine_fence(w, end, a->epoch); break;
	case SC_ACT_UNFENCE: sim_engine_unfence(w, end); break;
	case SC_ACT_STAY: stay(w, end, a); break;
	case SC_ACT_FAIL: fail(w, end, a->reason); break;
	case SC_ACT_DROP_OLD: sim_command_drop_old(w, end, a->epoch); break;
	case SC_ACT_REPORT: break;
	}
}

/* ---- the core ------------------------------------------------------------------------------- */

static void schedule_timer(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	uint64_t at = e->conn.timer_at;

	e->timer_generation++;
	if (at)
		sim_at_generation(w, at > w->now ? at : w->now, SIM_EV_TIMER, end, 0,
				  e->timer_generation);
}

static void trace_event(struct sim_world *w, uint32_t end, const struct sc_event *ev)
{
	const struct sc_msg_state *s = &ev->state;
	const struct sc_msg_standby *b = &ev->standby;

	if (!w->trace)
		return;
	if (ev->type == SC_EV_MSG_STATE)
		sim_trace(w, end,
			  "%s epoch %u seen %u count %u%s%s%s flags %u phase %s no %u target %u "
			  "lost %u%s%s stay %s %u",
			  sc_event_name(ev->type), s->epoch, s->seen_epoch, s->recv_count,
			  s->leaving ? " leaving" : "", s->final ? " final" : "",
			  s->quiesced ? " quiesced" : "", s->flags, sc_switch_phase_name(s->phase),
			  s->switch_no, s->target, s->lost, s->stranded ? " stranded" : "",
			  s->ask ? " ask" : "", sc_stay_phase_name(s->stay), s->stay_no);
	else if (ev->type == SC_EV_MSG_STANDBY)
		sim_trace(w, end, "%s epoch %u path %u %s seen %s up %x steady %x drained %x%s%s",
			  sc_event_name(ev->type), b->epoch, b->path,
			  sc_standby_phase_name(b->phase), sc_standby_phase_name(b->seen), b->up,
			  b->steady, b->drained, b->lazy ? " lazy" : "", b->ask ? " ask" : "");
	else
		sim_trace(w, end, "%s epoch %u %s%s%s count %u up %x steady %x drained %x",
			  sc_event_name(ev->type), ev->epoch, sc_reason_name(ev->reason),
			  ev->ok ? " ok" : "", ev->final ? " final" : "", ev->recv_count, ev->up,
			  ev->steady, ev->drained);
}

static void trace_actions(struct sim_world *w, uint32_t end, const struct sc_actions *out)
{
	const struct sc_conn *c = &w->end[end].conn;

	sim_trace(w, end,
		  "    %s %s epoch %u path %u; standby %s/%s epoch %u path %u; switch %s %u; "
		  "stay %s %u%s",
		  sc_send_state_name(c->send), sc_move_phase_name(c->move), c->epoch, c->path,
		  sc_standby_phase_name(c->standby.phase), sc_standby_phase_name(c->standby.peer),
		  c->standby.epoch, c->standby.path, sc_switch_phase_name(c->sw.phase), c->sw.no,
		  sc_stay_phase_name(c->stay.phase), c->stay.no, c->stay.wished ? " wished" : "");
	for (uint32_t i = 0; i < out->n; i++)
		sim_trace(w, end, "    -> %s epoch %u path %u%s %s", sc_action_name(out->a[i].type),
			  out->a[i].epoch, out->a[i].path, out->a[i].on ? " on" : "",
			  sc_reason_name(out->a[i].reason));
}

/* As the shell does for one of many that move: the least pause between messages, at any time. */
static void crowd(struct sim_world *w, struct sc_config *config)
{
	if (w->weather.crowded && sim_chance(w, 20))
		config->busy_ns = sim_pick(w, 4 * config->resend_max_ns);
}

static void step(struct sim_world *w, uint32_t end, const struct sc_event *event)
{
	struct sim_end *e = &w->end[end];
	struct sc_conn before = e->conn;
	struct sc_actions out;

	e->stepped_at = w->now;
	w->figures.pair[e->conn.send * (SC_MOVE_ENDED + 1) + e->conn.move][event->type] = true;
	trace_event(w, end, event);
	crowd(w, &e->conn.config);
	sim_label_event(w, end, event);
	sc_step(&e->conn, event, w->now, &out);
	if (w->trace)
		trace_actions(w, end, &out);
	sim_check_step(w, end, event, &before, &out);
	sim_label_step(w, end, event, &before, &out);
	for (uint32_t i = 0; i < out.n; i++)
		act(w, end, &out.a[i]);
	sim_label_acted(w, end, &before);
	if (e->conn.timer_at != before.timer_at || event->type == SC_EV_TIMER)
		schedule_timer(w, end);
	sim_fault_step(w, end, &out);
}

/* Why the next step is an error of the transport, of a carrier in use. */
static bool blames_path(const struct sim_end *e, const struct sc_event *event)
{
	return event->type == SC_EV_FAULT && event->reason == SC_REASON_TRANSPORT &&
	       event->epoch == e->conn.epoch && e->conn.move == SC_MOVE_NONE && e->guarded;
}

/* What answers at once gets in line: the core is never entered twice. */
void sim_shell_event(struct sim_world *w, uint32_t end, const struct sc_event *event)
{
	struct sim_end *e = &w->end[end];
	struct sc_event next;

	if (sim_fault_halted(w, end & 1)) {
		sim_at_payload(w, w->host[end & 1].halted_until - w->now, SIM_EV_CORE, end)->core =
			*event;
		return;
	}
	if (event->type == SC_EV_INTRODUCED && e->control.left_over)
		e->control.left_over--;
	if (blames_path(e, event))
		sim_path_blame(w, end & 1, w->qp[e->active].path);
	answer(w, end, event);
	if (e->line.stepping)
		return;
	e->line.stepping = true;
	while (e->line.n && !w->violation[0]) {
		next = e->line.event[0];
		e->line.n--;
		memmove(e->line.event, e->line.event + 1, e->line.n * sizeof(next));
		step(w, end, &next);
	}
	e->line.stepping = false;
}

void sim_shell_timer(struct sim_world *w, uint32_t end, uint32_t generation)
{
	struct sc_event e = { .type = SC_EV_TIMER };

	e.idle = w->end[end].retired == w->end[end].app.n_posted;

	if (generation == w->end[end].timer_generation && !w->end[end].app.closed)
		sim_shell_event(w, end, &e);
}
