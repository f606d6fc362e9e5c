/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What breaks, and when: the first fault at a time, most others at a moment of the protocol, at either
 * end. Everything heals, at the latest when the time of faults is over.
 */
#include "shiftlib/core/internal.h"
#include "sim_app.h"
#include "sim_check.h"
#include "sim_command.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_fault.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_path.h"
#include "sim_shell.h"
#include "sim_world.h"

static const char *const kind_names[SIM_FAULT_KINDS] = {
	[SIM_FAULT_RAIL] = "rail down, silent",
	[SIM_FAULT_PORT] = "port down",
	[SIM_FAULT_ONE_WAY] = "loses what it sends",
	[SIM_FAULT_ACKS] = "loses acknowledgements",
	[SIM_FAULT_ZOMBIE] = "NIC lies",
	[SIM_FAULT_FROZEN] = "NIC hangs",
	[SIM_FAULT_DISASSOCIATED] = "NIC disassociated",
	[SIM_FAULT_DRAIN] = "drained",
	[SIM_FAULT_BLINK] = "heartbeats lost",
	[SIM_FAULT_ALARM] = "false alarm",
	[SIM_FAULT_STANDBY] = "standby lost",
	[SIM_FAULT_HALT] = "process halted",
	[SIM_FAULT_KILL] = "process killed",
	[SIM_FAULT_CLOSE] = "application closes",
	[SIM_FAULT_RESET] = "application sets ERR",
};

static const char *const trigger_names[SIM_TRIGGERS] = {
	[SIM_AT_TIME] = "time",
	[SIM_AT_WAIT_SIGNALED] = "WAIT_SIGNALED",
	[SIM_AT_WAIT_DRAINED] = "WAIT_DRAINED",
	[SIM_AT_FENCED] = "FENCED",
	[SIM_AT_QUIESCING] = "QUIESCING",
	[SIM_AT_COUNTING] = "COUNTING",
	[SIM_AT_AWAITING_COUNT] = "AWAITING_COUNT",
	[SIM_AT_SETTLING] = "SETTLING",
	[SIM_AT_STRANDED] = "STRANDED",
	[SIM_AT_FALLBACK] = "FALLBACK",
	[SIM_AT_STANDBY_MADE] = "standby made",
	[SIM_AT_STANDBY_READY] = "standby ready in FALLBACK",
	[SIM_AT_ANY_MOVE] = "any move",
};

const char *sim_trigger_name(enum sim_trigger trigger)
{
	return trigger_names[trigger];
}

/* ---- the plan ------------------------------------------------------------------------------- */

static enum sim_fault_kind pick_kind(struct sim_world *w)
{
	uint32_t luck = sim_pick(w, 100);

	/* those that excuse much are rare */
	if (luck >= 95)
		return (enum sim_fault_kind)(SIM_FAULT_KILL + luck % 3);
	return (enum sim_fault_kind)(luck % SIM_FAULT_KILL);
}

/* An early one that starts a move. */
static enum sim_fault_kind pick_first(struct sim_world *w)
{
	if (sim_chance(w, 8))
		return SIM_FAULT_HALT;
	return (enum sim_fault_kind)sim_pick(w, SIM_FAULT_DRAIN + 1);
}

void sim_fault_init(struct sim_world *w)
{
	w->n_faults = 2 + sim_pick(w, SIM_FAULTS - 1);
	w->faults_until = (15 + sim_pick(w, 60)) * SIM_MS;
	if (sim_chance(w, 10))
		w->faults_until += 200 * SIM_MS;
	if (sim_chance(w, 3))
		w->faults_until += 1500 * SIM_MS;
	for (uint32_t i = 0; i < w->n_faults; i++) {
		struct sim_fault *f = &w->faults[i];
		uint64_t at = sim_random(w) % (i ? w->faults_until : 6 * SIM_MS);
		bool late = sim_chance(w, 97);

		f->kind = (uint8_t)(i ? pick_kind(w) : pick_first(w));
		f->end = (uint8_t)sim_pick(w, w->n_ends);
		f->aim = (uint8_t)(i ? sim_pick(w, SIM_AIM_ANY + 1) : SIM_AIM_ACTIVE);
		f->again = (uint8_t)(sim_chance(w, 15) ? sim_pick(w, 12) : 0);
		f->trigger = (uint8_t)(i && sim_chance(w, 75) ? 1 + sim_pick(w, SIM_TRIGGERS - 1)
							      : SIM_AT_TIME);
		if (f->trigger == SIM_AT_TIME)
			sim_at(w, (late ? 2 * SIM_MS : 0) + at, SIM_EV_FAULT, SIM_NOBODY, i);
	}
	sim_at(w, w->faults_until, SIM_EV_HEAL_ALL, SIM_NOBODY, 0);
}

/* ---- moments -------------------------------------------------------------------------------- */

static uint32_t move_bit(const struct sc_conn *c)
{
	switch (c->move) {
	case SC_MOVE_NONE: return c->send == SC_SEND_FALLBACK ? 1U << SIM_AT_FALLBACK : 0;
	case SC_MOVE_QUIESCING: return 1U << SIM_AT_QUIESCING;
	case SC_MOVE_COUNTING: return 1U << SIM_AT_COUNTING;
	case SC_MOVE_AWAITING_COUNT: return 1U << SIM_AT_AWAITING_COUNT;
	case SC_MOVE_SETTLING: return 1U << SIM_AT_SETTLING;
	case SC_MOVE_STRANDED: return 1U << SIM_AT_STRANDED;
	case SC_MOVE_LAYING:
	case SC_MOVE_ENDED: return 0;
	}
	return 0;
}

static uint32_t states(const struct sc_conn *c)
{
	uint32_t bits = move_bit(c);

	if (c->move == SC_MOVE_NONE && c->send == SC_SEND_WAIT_SIGNALED)
		bits |= 1U << SIM_AT_WAIT_SIGNALED;
	if (c->move == SC_MOVE_NONE && c->send == SC_SEND_WAIT_DRAINED)
		bits |= 1U << SIM_AT_WAIT_DRAINED;
	if (c->sw.phase == SC_SWITCH_FENCED)
		bits |= 1U << SIM_AT_FENCED;
	if (sc_moving(c) || sc_switching(c))
		bits |= 1U << SIM_AT_ANY_MOVE;
	if (c->standby.phase == SC_STANDBY_MADE)
		bits |= 1U << SIM_AT_STANDBY_MADE;
	if (c->standby.phase == SC_STANDBY_READY && c->send == SC_SEND_FALLBACK)
		bits |= 1U << SIM_AT_STANDBY_READY;
	return bits;
}

static void fire(struct sim_world *w, uint32_t end, uint32_t i)
{
	struct sim_fault *f = &w->faults[i];

	f->fired = true;
	f->end = (uint8_t)(sim_chance(w, 50) ? end : end ^ 1);
	w->totals->triggers[f->trigger]++;
	sim_at(w, sim_chance(w, 50) ? sim_pick(w, 20 * SIM_US) : sim_pick(w, 500 * SIM_US),
	       SIM_EV_FAULT, SIM_NOBODY, i);
}

/* After each step of a core: is this a moment that a fault waits for? Applications post then, too. */
void sim_fault_step(struct sim_world *w, uint32_t end, const struct sc_actions *out)
{
	struct sim_end *e = &w->end[end];
	uint32_t now = states(&e->conn), fresh = now & ~e->seen_states;

	(void)out;
	e->seen_states = now;
	if (!fresh || w->healed)
		return;
	if (sim_chance(w, 30))
		sim_at(w, sim_delay(w), SIM_EV_POST, end, 0);
	for (uint32_t i = 0; i < w->n_faults; i++) {
		struct sim_fault *f = &w->faults[i];

		if (f->trigger && !f->fired && fresh >> f->trigger & 1 &&
		    (f->trigger == SIM_AT_ANY_MOVE || sim_chance(w, 60)))
			fire(w, end, i);
	}
}

/* ---- striking ------------------------------------------------------------------------------- */

static uint8_t aim(struct sim_world *w, const struct sim_fault *f)
{
	const struct sim_end *e = &w->end[f->end];
	uint8_t active = (uint8_t)(1U << w->qp[e->active].path);
	uint8_t standby = (uint8_t)(1U << e->conn.standby.path);

	if (e->conn.move != SC_MOVE_NONE)
		active = (uint8_t)(1U << e->conn.path);
	switch ((enum sim_aim)f->aim) {
	case SIM_AIM_ACTIVE: return active;
	case SIM_AIM_STANDBY: return standby;
	case SIM_AIM_BOTH: return active | standby;
	case SIM_AIM_DEFAULT: return 1;
	case SIM_AIM_ANY: return (uint8_t)(1U << sim_pick(w, w->n_paths));
	}
	return 1;
}

static bool unprotected(const struct sim_world *w, uint32_t end)
{
	return !w->end[end].guarded && w->end[end].conn.move != SC_MOVE_ENDED;
}

/* Before both are protected, faults are the application's. */
static void excuse_unless_protected(struct sim_world *w)
{
	for (uint32_t c = 0; c < w->n_conns; c++)
		if (unprotected(w, 2 * c) || unprotected(w, 2 * c + 1))
			w->excuse[c] |= SIM_EXCUSE_UNPROTECTED;
}

static bool in_move(const struct sim_world *w)
{
	bool moving = false;

	for (uint32_t i = 0; i < w->n_ends; i++) {
		const struct sc_conn *c = &w->end[i].conn;

		moving |= sc_moving(c) || sc_switching(c);
	}
	return moving;
}

static void note(struct sim_world *w, const struct sim_fault *f)
{
	w->figures.faults++;
	w->figures.faults_in_move += in_move(w);
	sim_trace(w, f->end, "FAULT %s, paths %x (at %s)", kind_names[f->kind], f->paths,
		  trigger_names[f->trigger]);
}

/* The NIC's carriers are lost to their owner, at once or when it has noticed. */
static void make_sick(struct sim_world *w, uint32_t host, uint32_t path, enum sim_health health)
{
	struct sim_nic *nic = &w->host[host].nic[path];

	if (nic->health != SIM_WELL)
		return;
	nic->health = health;
	w->stock.sick |= !path;
	nic->cqes_lost = health == SIM_ZOMBIE && sim_chance(w, 25);
	nic->writes_lost = nic->cqes_lost && sim_chance(w, 60);
	if ((nic->writes_lost || health == SIM_DISASSOCIATED) && sim_chance(w, 60)) {
		sim_nic_lose_posted(w, host, path);
		nic->cqes_lost = true; /* what it writes comes in order: behind a loss, nothing */
	}
	nic->hangs = sim_chance(w, 40);
	for (uint32_t i = 1; i <= w->n_qps; i++) {
		struct sim_qp *qp = &w->qp[i];

		if ((qp->end & 1) != host || qp->path != path || qp->state == SIM_QP_GONE)
			continue;
		qp->suspect = true;
		sim_label(qp->end ^ 1U, health == SIM_DISASSOCIATED ? "lose %u" : "hang %u",
			  qp->epoch);
		w->peaceful[qp->end >> 1] = 0;
		/* one on its way to ERR may not have flushed */
		w->end[qp->end].was_sick |= !qp->sealed;
	}
	/* one that hangs may say nothing */
	if (health != SIM_FROZEN || sim_chance(w, 50))
		sim_path_noticed(w, host, path);
}

static void strike_path(struct sim_world *w, const struct sim_fault *f, uint32_t path)
{
	uint32_t host = f->end & 1;
	struct sim_nic *nic = &w->host[host].nic[path];

	switch ((enum sim_fault_kind)f->kind) {
	case SIM_FAULT_RAIL: w->rail_up[path] = false; break;
	case SIM_FAULT_HALT:
	case SIM_FAULT_PORT:
		nic->port_up = false;
		sim_path_noticed(w, host, path);
		if (sim_chance(w, 40))
			sim_path_noticed(w, 1 - host, path);
		break;
	case SIM_FAULT_ONE_WAY: nic->lose_tx = true; break;
	case SIM_FAULT_ACKS: nic->lose_acks = true; break;
	case SIM_FAULT_ZOMBIE: make_sick(w, host, path, SIM_ZOMBIE); break;
	case SIM_FAULT_FROZEN: make_sick(w, host, path, SIM_FROZEN); break;
	case SIM_FAULT_DISASSOCIATED: make_sick(w, host, path, SIM_DISASSOCIATED); break;
	case SIM_FAULT_BLINK:
		w->host[host].view[path].blind = true;
		sim_path_noticed(w, host, path);
		break;
	case SIM_FAULT_DRAIN:
		nic->drained = true;
		w->disturbed = true;
		break;
	case SIM_FAULT_ALARM:
	case SIM_FAULT_STANDBY:
	case SIM_FAULT_KILL:
	case SIM_FAULT_CLOSE:
	case SIM_FAULT_RESET:
	case SIM_FAULT_KINDS: break;
	}
	sim_path_changed(w, path);
}

bool sim_fault_halted(const struct sim_world *w, uint32_t host)
{
	return w->now < w->host[host].halted_until;
}

/* From the start, or in the middle of whatever it does; its host's NICs know nothing of it. */
static void halt(struct sim_world *w, uint32_t host)
{
	struct sim_host *h = &w->host[host];
	uint64_t most = w->faults_until > w->now ? w->faults_until - w->now : 0;
	uint64_t lasts = sim_chance(w, 30) ? sim_pick(w, 10 * SIM_MS) : most;

	if (sim_fault_halted(w, host) || h->dead)
		return;
	w->disturbed = true;
	h->halted_since = w->now;
	h->halted_messages = 0;
	h->halted_until = w->now + (lasts < most ? lasts : most);
	if (h->halted_until - w->now > w->flap.halted)
		w->flap.halted = h->halted_until - w->now;
	sim_at(w, h->halted_until - w->now, SIM_EV_VIEW, host, 0);
	/* heartbeats have no answer, and then have one */
	for (uint32_t p = 0; p < w->n_paths; p++) {
		sim_at(w, 2 * SIM_MS, SIM_EV_VIEW, 1 - host, p);
		sim_at(w, h->halted_until - w->now + 2 * SIM_MS, SIM_EV_VIEW, 1 - host, p);
	}
	sim_trace(w, SIM_NOBODY, "host %c stands still until %.3f", 'A' + (int)host,
		  (double)h->halted_until / 1000);
}

static void tell_drained(struct sim_world *w, uint32_t host)
{
	for (uint32_t end = host; end < w->n_ends && !w->host[host].dead; end += SIM_HOSTS)
		if (!w->end[end].app.closed)
			sim_path_tell(w, end);
}

static void alarm_(struct sim_world *w, uint32_t end, bool standby)
{
	struct sim_end *e = &w->end[end];
	struct sc_event ev = { .type = standby ? SC_EV_STANDBY_LOST : SC_EV_FAULT,
			       .reason = standby ? SC_REASON_RESOURCE : SC_REASON_SILENCE,
			       .epoch = standby ? e->conn.standby.epoch : e->conn.epoch };

	w->disturbed = true;
	if (!e->app.closed && !w->host[end & 1].dead)
		sim_shell_later(w, end, ev);
}

static void kill_process(struct sim_world *w, uint32_t host)
{
	for (uint32_t i = 0; i < w->n_ends; i++)
		sim_label(i, "end");
	w->host[host].dead = true;
	w->host[host].answers = sim_chance(w, 50);
	for (uint32_t c = 0; c < w->n_conns; c++)
		w->excuse[c] |= SIM_EXCUSE_KILLED;
	for (uint32_t i = 1; i <= w->n_qps; i++)
		if ((w->qp[i].end & 1) == host)
			w->qp[i].state = SIM_QP_GONE;
	for (uint32_t p = 0; p < w->n_paths; p++)
		sim_path_changed(w, p);
}

void sim_fault_close(struct sim_world *w, uint32_t end)
{
	struct sc_event ev = { .type = SC_EV_APP_CLOSED, .reason = SC_REASON_APPLICATION };

	if (w->host[end & 1].dead || w->end[end].app.closed || sim_fault_halted(w, end & 1))
		return;
	w->disturbed = true;
	w->excuse[end >> 1] |= SIM_EXCUSE_CLOSED;
	sim_app_close(w, end);
	sim_shell_event(w, end, &ev);
}

/* Its own QP to ERR: it wants to see everything flushed. */
static void reset_app(struct sim_world *w, uint32_t end)
{
	struct sc_event ev = { .type = SC_EV_APP_CLOSED, .reason = SC_REASON_APPLICATION };
	struct sim_end *e = &w->end[end];
	struct sim_qp *qp = &w->qp[e->active];

	if (w->host[end & 1].dead || e->app.closed || sim_fault_halted(w, end & 1))
		return;
	w->disturbed = true;
	w->excuse[end >> 1] |= SIM_EXCUSE_CLOSED;
	sim_shell_event(w, end, &ev);
	if (!e->failed && sim_nic_of(w, qp)->health == SIM_WELL)
		sim_nic_modify_err(w, qp);
	else if (!e->failed)
		e->was_sick = true;
}

/* What loses heartbeats for long, and not the rest of the control channel, is no fault of a network. */
static uint64_t heals_after(struct sim_world *w, enum sim_fault_kind kind)
{
	uint32_t luck = sim_pick(w, 10);

	if (luck < 3)
		return sim_pick(w, SIM_MS);
	if (luck < 8 || kind == SIM_FAULT_BLINK)
		return sim_pick(w, 25 * SIM_MS);
	return 4000 * SIM_MS;
}

void sim_fault_apply(struct sim_world *w, uint32_t index)
{
	struct sim_fault *f = &w->faults[index];

	if (w->healed)
		return;
	excuse_unless_protected(w);
	f->fired = true;
	/* no end before there was something to see */
	if (f->kind >= SIM_FAULT_KILL && !w->figures.faults_in_move && !in_move(w))
		f->kind = SIM_FAULT_RAIL;
	f->paths = aim(w, f);
	note(w, f);
	switch ((enum sim_fault_kind)f->kind) {
	case SIM_FAULT_ALARM: alarm_(w, f->end, false); return;
	case SIM_FAULT_STANDBY: alarm_(w, f->end, true); return;
	case SIM_FAULT_KILL: kill_process(w, f->end & 1); return;
	case SIM_FAULT_CLOSE: sim_fault_close(w, f->end); return;
	case SIM_FAULT_RESET: reset_app(w, f->end); return;
	case SIM_FAULT_HALT: halt(w, sim_chance(w, 70) ? 1U - (f->end & 1) : f->end & 1); break;
	case SIM_FAULT_RAIL:
	case SIM_FAULT_PORT:
	case SIM_FAULT_ONE_WAY:
	case SIM_FAULT_ACKS:
	case SIM_FAULT_ZOMBIE:
	case SIM_FAULT_FROZEN:
	case SIM_FAULT_DISASSOCIATED:
	case SIM_FAULT_DRAIN:
	case SIM_FAULT_BLINK:
	case SIM_FAULT_KINDS: break;
	}
	for (uint32_t p = 0; p < w->n_paths; p++)
		if (f->paths >> p & 1)
			strike_path(w, f, p);
	if (f->kind == SIM_FAULT_DRAIN)
		tell_drained(w, f->end & 1);
	sim_at(w, heals_after(w, f->kind), SIM_EV_HEAL, SIM_NOBODY, index);
}

/* ---- healing -------------------------------------------------------------------------------- */

static void get_well(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_nic *nic = &w->host[host].nic[path];
	enum sim_health was = nic->health;

	nic->health = SIM_WELL;
	nic->cqes_lost = nic->writes_lost = nic->hangs = false;
	if (was == SIM_WELL)
		return;
	if (was != SIM_FROZEN || sim_chance(w, 50)) {
		sim_nic_reprobe(w, host, path);
		sim_path_lost(w, host, path, SC_REASON_DEVICE);
	} else {
		sim_nic_thaw(w, host, path);
	}
	sim_command_unpark(w, host, path);
}

static void heal_path(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_nic *nic = &w->host[host].nic[path];

	w->rail_up[path] = true;
	nic->port_up = true;
	nic->lose_tx = nic->lose_acks = nic->drained = false;
	w->host[host].view[path].blind = false;
	get_well(w, host, path);
	sim_path_changed(w, path);
	if (sim_chance(w, 50))
		sim_path_noticed(w, host, path);
}

void sim_fault_heal(struct sim_world *w, uint32_t index)
{
	struct sim_fault *f = &w->faults[index];
	uint32_t host = f->end & 1;

	if (w->healed)
		return;
	sim_trace(w, f->end, "HEALS %s, paths %x", kind_names[f->kind], f->paths);
	for (uint32_t p = 0; p < w->n_paths; p++)
		if (f->paths >> p & 1)
			heal_path(w, host, p);
	if (f->kind == SIM_FAULT_DRAIN)
		tell_drained(w, host);
	if (!f->again)
		return;
	f->again--;
	sim_at(w, sim_pick(w, 12 * SIM_MS), SIM_EV_FAULT, SIM_NOBODY, index);
}

/* One that starts a move, and one that strikes during it. */
static bool add_faults(struct sim_world *w)
{
	uint32_t end = sim_pick(w, w->n_ends);

	if (w->figures.faults_in_move || w->more_times++ == SIM_MORE_TIMES)
		return false;
	for (uint32_t i = 0; i < w->n_ends && !w->end[end].guarded; i++)
		end = (end + 1) % w->n_ends;
	w->n_faults = 2;
	w->faults[0] = (struct sim_fault){ .kind = SIM_FAULT_PORT,
					   .aim = SIM_AIM_ACTIVE,
					   .end = (uint8_t)end };
	w->faults[1] = (struct sim_fault){ .kind = (uint8_t)pick_kind(w),
					   .aim = (uint8_t)sim_pick(w, SIM_AIM_ANY + 1),
					   .trigger = SIM_AT_ANY_MOVE };
	w->faults_until = w->now + 20 * SIM_MS;
	sim_at(w, 0, SIM_EV_FAULT, SIM_NOBODY, 0);
	sim_at(w, 20 * SIM_MS, SIM_EV_HEAL_ALL, SIM_NOBODY, 0);
	return true;
}

void sim_fault_heal_all(struct sim_world *w)
{
	w->faults_until = w->now; /* connections that were made first have taken their time */
	w->healed = !add_faults(w);
	sim_trace(w, SIM_NOBODY, "all heals");
	for (uint32_t p = 0; p < w->n_paths; p++)
		for (uint32_t host = 0; host < SIM_HOSTS; host++)
			heal_path(w, host, p);
	tell_drained(w, 0);
	tell_drained(w, 1);
}
