/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What each host believes of the paths: its own NIC, and whether heartbeats come back. A path that is
 * up again is steady only after its hold-down, which doubles with every flap.
 */
#include "shiftlib/core/core.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_fault.h"
#include "sim_limits.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_path.h"
#include "sim_shell.h"
#include "sim_world.h"

static bool usable(const struct sim_nic *nic)
{
	return nic->health == SIM_WELL && nic->port_up;
}

static bool control_path(const struct sim_world *w, uint32_t path)
{
	const struct sim_nic *a = &w->host[0].nic[path], *b = &w->host[1].nic[path];

	return w->rail_up[path] && usable(a) && usable(b) && !a->lose_tx && !b->lose_tx;
}

bool sim_path_truth(const struct sim_world *w, uint32_t host, uint32_t path)
{
	return control_path(w, path) && !w->host[1 - host].dead && !sim_fault_halted(w, 1 - host);
}

/* Could a connection live on it? Also where it is drained, if there is nothing else. */
static bool way(const struct sim_world *w, uint32_t path)
{
	const struct sim_nic *a = &w->host[0].nic[path], *b = &w->host[1].nic[path];

	return control_path(w, path) && !a->lose_acks && !b->lose_acks &&
	       !w->host[0].view[path].blind && !w->host[1].view[path].blind;
}

/* Stock has the default path alone, and nobody's belief or order touches it. */
static void note_stock(struct sim_world *w)
{
	const struct sim_nic *a = &w->host[0].nic[0], *b = &w->host[1].nic[0];
	bool cut = !w->rail_up[0] || !a->port_up || !b->port_up || a->lose_tx || b->lose_tx ||
		   a->lose_acks || b->lose_acks;

	w->stock.sick |= a->health != SIM_WELL || b->health != SIM_WELL;
	if (w->stock.cut_since && w->now - w->stock.cut_since > w->stock.longest)
		w->stock.longest = w->now - w->stock.cut_since;
	if (!cut)
		w->stock.cut_since = 0;
	else if (!w->stock.cut_since)
		w->stock.cut_since = w->now;
}

bool sim_path_stock_over(struct sim_world *w)
{
	uint64_t retry = w->stock.stretch * w->config.retry_time_ns;

	note_stock(w);
	return w->stock.sick || (retry && w->stock.longest >= retry);
}

static void note_way(struct sim_world *w, uint32_t path)
{
	bool is = way(w, path), was = w->way[path].since != 0;
	uint32_t n = w->way[path].n % SIM_INTERVALS;

	note_stock(w);
	if (is && !was)
		w->way[path].since = w->now;
	if (is || !was)
		return;
	w->way[path].from[n] = w->way[path].since;
	w->way[path].to[n] = w->now;
	w->way[path].n++;
	w->way[path].since = 0;
}

/* Was there a way for long enough, since then? Of many short ones the oldest are forgotten. */
bool sim_path_was_way(const struct sim_world *w, uint64_t from)
{
	for (uint32_t p = 0; p < w->n_paths; p++) {
		uint64_t since = w->way[p].since > from ? w->way[p].since : from;

		if (w->way[p].since && since + SIM_GRACE_NS <= w->now)
			return true;
		for (uint32_t i = 0; i < SIM_INTERVALS && i < w->way[p].n; i++) {
			since = w->way[p].from[i] > from ? w->way[p].from[i] : from;
			if (since + SIM_GRACE_NS <= w->way[p].to[i])
				return true;
		}
	}
	return false;
}

/* Something happened to it; heartbeats will tell, at either host. */
void sim_path_changed(struct sim_world *w, uint32_t path)
{
	w->disturbed = true;
	note_way(w, path);
	for (uint32_t h = 0; h < SIM_HOSTS; h++)
		sim_at(w, 2 * SIM_MS + sim_pick(w, 4 * SIM_MS), SIM_EV_VIEW, h, path);
}

/* This host is told by an event. */
void sim_path_noticed(struct sim_world *w, uint32_t host, uint32_t path)
{
	sim_at(w, 10 * SIM_US + sim_pick(w, 50 * SIM_US), SIM_EV_VIEW, host, path);
}

void sim_path_tell(struct sim_world *w, uint32_t end)
{
	struct sc_event e = { .type = SC_EV_PATHS };
	struct sim_host *h = &w->host[end & 1];

	if (sim_fault_halted(w, end & 1)) {
		h->halted_untold = true;
		return;
	}
	w->end[end].suspicious ^= sim_chance(w, 5);
	e.suspicious = w->end[end].suspicious;
	e.default_dead = h->nic[0].health != SIM_WELL;
	for (uint32_t p = 0; p < w->n_paths; p++) {
		e.up |= (uint8_t)(h->view[p].up << p);
		e.steady |= (uint8_t)(h->view[p].steady << p);
		e.drained |= (uint8_t)(h->nic[p].drained << p);
		e.well |= (uint8_t)(h->view[p].well << p);
	}
	sim_shell_event(w, end, &e);
}

static void tell_all(struct sim_world *w, uint32_t host, bool path_event)
{
	struct sc_event e = { .type = SC_EV_PATH_UP };

	for (uint32_t end = host; end < w->n_ends && !w->host[host].dead; end += SIM_HOSTS) {
		if (w->end[end].app.closed)
			continue;
		sim_path_tell(w, end);
		if (path_event)
			sim_shell_event(w, end, &e);
	}
}

static void lost_for(struct sim_world *w, uint32_t end, uint32_t path, enum sc_reason reason)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *active = &w->qp[e->active];
	bool stands_still = sim_engine_busy(w, end) || reason != SC_REASON_SILENCE;

	if (e->app.closed)
		return;
	if (active->path == path && stands_still)
		sim_shell_later(w, end,
				(struct sc_event){ .type = SC_EV_FAULT,
						   .reason = reason,
						   .epoch = active->epoch });
	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];
		bool next = qp->epoch == e->conn.epoch; /* on the way to it */

		if (qp == active || qp->path != path || qp->destroyed || qp->sealed ||
		    (next && reason == SC_REASON_SILENCE))
			continue;
		sim_shell_later(w, end,
				(struct sc_event){ .type = next ? SC_EV_FAULT : SC_EV_STANDBY_LOST,
						   .reason = reason,
						   .epoch = qp->epoch });
	}
}

/* The carriers on it are lost to this host. */
void sim_path_lost(struct sim_world *w, uint32_t host, uint32_t path, enum sc_reason reason)
{
	for (uint32_t end = host; end < w->n_ends && !w->host[host].dead; end += SIM_HOSTS)
		lost_for(w, end, path, reason);
}

static enum sc_reason why_down(const struct sim_nic *nic)
{
	if (nic->health != SIM_WELL)
		return SC_REASON_DEVICE;
	return nic->port_up ? SC_REASON_SILENCE : SC_REASON_PORT;
}

static void rise(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_view *v = &w->host[host].view[path];

	v->since = w->now;
	v->steady = sim_mutant == SIM_MUTANT_NO_HOLDDOWN;
	sim_at_generation(w, w->now + v->holddown, SIM_EV_STEADY, host, path, ++v->generation);
}

/*
 * Its heartbeats come back, and still a carrier died on it: something else does not pass. Not steady,
 * and for longer each time, or connections would go back to it for ever.
 */
void sim_path_blame(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_view *v = &w->host[host].view[path];

	if (!v->up || w->host[host].dead || sim_mutant == SIM_MUTANT_NO_HOLDDOWN)
		return;
	if (v->holddown < SIM_HOLDDOWN_MAX)
		v->holddown *= 2;
	rise(w, host, path);
	tell_all(w, host, false);
}

static void fall(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_view *v = &w->host[host].view[path];

	v->steady = false;
	v->generation++;
	if (v->holddown < SIM_HOLDDOWN_MAX)
		v->holddown *= 2;
	sim_path_lost(w, host, path, why_down(&w->host[host].nic[path]));
}

/* A peer that answers nowhere may be slow or stopped: that says nothing of a path. */
static bool undecided(struct sim_world *w, uint32_t host, uint32_t path)
{
	bool elsewhere = false;

	if (!usable(&w->host[host].nic[path]))
		return false;
	for (uint32_t p = 0; p < w->n_paths; p++)
		elsewhere |= p != path && sim_path_truth(w, host, p);
	return !elsewhere;
}

/* Nothing on any path tells of the peer, or something does again. */
static void look_for_light(struct sim_world *w, uint32_t host)
{
	struct sc_event e = { .type = SC_EV_DARK, .ok = true };
	struct sim_host *h = &w->host[host];

	for (uint32_t p = 0; p < w->n_paths; p++)
		e.ok &= !sim_path_truth(w, host, p) || h->view[p].blind;
	if (h->dark == e.ok)
		return;
	h->dark = e.ok;
	for (uint32_t end = host; end < w->n_ends; end += SIM_HOSTS)
		if (!w->end[end].app.closed)
			sim_shell_event(w, end, &e);
}

void sim_path_view(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_view *v = &w->host[host].view[path];
	bool up = sim_path_truth(w, host, path) && !v->blind;
	bool well = usable(&w->host[host].nic[path]);

	if (w->host[host].dead)
		return;
	if (well != v->well || w->host[host].halted_untold) {
		v->well = well;
		w->host[host].halted_untold = false;
		tell_all(w, host, false);
	}
	look_for_light(w, host);
	if (!up && v->up && undecided(w, host, path)) {
		if (!w->host[1 - host].dead)
			sim_at(w, 2 * SIM_MS + sim_pick(w, 4 * SIM_MS), SIM_EV_VIEW, host, path);
		return;
	}
	if (up != v->up) {
		v->up = up;
		sim_trace(w, host, "host %c: path %u is %s", 'A' + (int)host, path,
			  up ? "up" : "down");
		if (up)
			rise(w, host, path);
		else
			fall(w, host, path);
		tell_all(w, host, true);
	}
}

void sim_path_steady(struct sim_world *w, uint32_t host, uint32_t path, uint32_t generation)
{
	struct sim_view *v = &w->host[host].view[path];

	if (generation != v->generation || !v->up || v->steady || w->host[host].dead)
		return;
	v->steady = true;
	tell_all(w, host, false);
}
