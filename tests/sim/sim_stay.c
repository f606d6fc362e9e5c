/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_stay.h"

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_exact.h"
#include "sim_fault.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_uid.h"
#include "sim_world.h"

/* As its peer's atomics need it; or for nothing. */
bool sim_stay_takes_atomics(struct sim_world *w, uint32_t end)
{
	const struct sim_end *peer = &w->end[end ^ 1];

	for (uint32_t i = 0; i < peer->app.n_requests; i++)
		if (peer->requests[i].kind == SP_REQ_ATOMIC)
			return true;
	return sim_uid_keeps(w, end ^ 1) || sim_chance(w, 20);
}

/* ---- by the truth --------------------------------------------------------------------------- */

static bool can_answer(const struct sim_world *w, const struct sim_qp *qp)
{
	return sim_nic_works(w, qp) && !qp->suspect;
}

/* One that ran, and nobody but this carrier can bring its result. */
static bool answer_may_come(const struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];
	const struct sim_qp *qp = &w->qp[e->active];

	if (e->app.closed || e->failed || !can_answer(w, qp) || !can_answer(w, &w->qp[qp->dst]))
		return false;
	for (uint32_t i = e->retired; i < e->app.n_posted; i++) {
		const struct sim_request *r = &e->requests[i];
		const struct sim_entry *entry;

		if (r->kind != SP_REQ_ATOMIC || !r->published || r->answered || r->nop)
			continue;
		entry = sim_exact_entry(qp, i);
		if (entry && entry->taken)
			return true;
	}
	return false;
}

static bool has_waited(const struct sim_world *w, uint32_t end, uint64_t most)
{
	return w->flap.since[end] && w->now - w->flap.since[end] >= most;
}

/* The end with the atomic as long as its QP may retry, whoever waits for it as long as anybody waits. */
static bool waited_enough(const struct sim_world *w, uint32_t end)
{
	uint64_t retry = w->config.retry_stretch * w->config.retry_time_ns;

	return has_waited(w, end, retry && retry < SIM_STAY_NS ? retry : SIM_STAY_NS) ||
	       has_waited(w, end ^ 1, SIM_STAY_NS);
}

/* A carrier that is dead brings no answer, nor does one that the peer has left. */
static bool carrier_is_over(const struct sim_world *w, uint32_t end, const struct sc_event *event,
			    const struct sc_conn *before)
{
	const struct sc_conn *peer = &w->end[end ^ 1].conn;

	if (event->type == SC_EV_FAULT)
		return event->reason != SC_REASON_PORT && event->reason != SC_REASON_SILENCE;
	return peer->epoch != before->epoch || peer->move != SC_MOVE_NONE;
}

/* The peer of who is fenced was silent for silence_ns. */
static bool in_order(const struct sc_event *event, const struct sc_conn *before)
{
	return before->sw.phase == SC_SWITCH_FENCED && event->type == SC_EV_TIMER;
}

static void check_leave(struct sim_world *w, uint32_t end, const struct sc_event *event,
			const struct sc_conn *before)
{
	bool both = before->config.stay_ns && w->end[end ^ 1].conn.config.stay_ns;

	if (!both || in_order(event, before) || carrier_is_over(w, end, event, before))
		return;
	for (uint32_t i = 0; i < 2; i++)
		if (answer_may_come(w, end ^ i) && !waited_enough(w, end ^ i))
			sim_violation(w,
				      "P9: end %u leaves, and the answer of an atomic of end %u "
				      "may come",
				      end, end ^ i);
}

/* ---- a peer that cannot follow ---------------------------------------------------------------- */

static void note_wish(struct sim_world *w, uint32_t end, const struct sc_event *event,
		      const struct sc_conn *before)
{
	bool flap = event->type == SC_EV_FAULT && event->epoch == before->epoch &&
		    (event->reason == SC_REASON_PORT || event->reason == SC_REASON_SILENCE);
	bool still = sc_staying(before) || before->suspect;

	if (!still)
		w->flap.asks[end] = 0;
	if (!w->flap.asks[end] && (flap || still))
		w->flap.asks[end] = w->now;
}

/* Whatever it says was on its way before; none of it is an answer. */
static bool could_answer(const struct sim_world *w, uint32_t host, uint64_t asked)
{
	const struct sim_host *h = &w->host[host];

	return !sim_fault_halted(w, host) || h->halted_since + SIM_HELD_NS >= asked;
}

static void check_heard(struct sim_world *w, uint32_t end, const struct sc_event *event,
			const struct sc_conn *before)
{
	bool both = before->config.stay_ns && w->end[end ^ 1].conn.config.stay_ns;
	bool flap = w->end[end].conn.reason == SC_REASON_PORT ||
		    w->end[end].conn.reason == SC_REASON_SILENCE;

	if (!both || !flap || !w->flap.asks[end] || carrier_is_over(w, end, event, before) ||
	    waited_enough(w, end))
		return;
	if (!could_answer(w, 1 - (end & 1), w->flap.asks[end]))
		sim_violation(w, "P9: end %u leaves a path that is down, and its peer is halted",
			      end);
}

/* Whose process is halted has no clock. */
static uint64_t since_it_ran(const struct sim_world *w, uint32_t end, uint64_t since)
{
	uint64_t runs = w->host[end & 1].halted_until;

	runs = runs > since ? runs : since;
	return w->now > runs ? w->now - runs : 0;
}

/* ---- each step ------------------------------------------------------------------------------ */

void sim_stay_check(struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before)
{
	const struct sc_conn *c = &w->end[end].conn;
	uint64_t *since = &w->flap.since[end];

	note_wish(w, end, event, before);
	if (c->epoch != before->epoch && before->move == SC_MOVE_NONE) {
		w->totals->stays_left += sc_staying(before);
		check_leave(w, end, event, before);
		check_heard(w, end, event, before);
	}
	if (!sc_stay_withholds(c))
		*since = 0;
	else if (!*since)
		*since = w->now;
	else if (since_it_ran(w, end, c->stay.since) > SIM_STAY_NS + SIM_MS ||
		 since_it_ran(w, end, *since) > 4 * SIM_STAY_NS) /* one upon another */
		sim_violation(w, "W1: end %u still waits out a flap", end);
	w->totals->stays += sc_staying(c) && !sc_staying(before);
	w->totals->stays_on += !sc_staying(c) && sc_staying(before) && c->move == SC_MOVE_NONE;
}
