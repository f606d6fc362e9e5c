/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_log.h"

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_limits.h"
#include "sim_mutants.h"
#include "sim_world.h"

enum { EVERY = 4, ARRIVES = 70, TOLD = 85 };

void sim_log_init(struct sim_world *w)
{
	w->weather.log_every = sim_chance(w, 50) ? 1 + sim_pick(w, EVERY) : 0;
}

static bool changes(uint8_t kind)
{
	return kind == SP_REQ_WRITE || kind == SP_REQ_ATOMIC;
}

bool sim_log_due(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r)
{
	if (!w->weather.log_every || !changes(r->kind) || ++qp->log_since < w->weather.log_every)
		return false;
	qp->log_since = 0;
	return true;
}

/* ---- the word ------------------------------------------------------------------------------- */

static void write_word(struct sim_world *w, struct sim_qp *qp, uint32_t number)
{
	struct sim_end *e = &w->end[qp->end];
	struct sim_posted *posted;

	if (sim_nic_of(w, qp)->writes_lost)
		return;
	posted = sim_nic_posted(w, sim_nic_of(w, qp));
	posted->end = qp->end;
	posted->log = true;
	posted->word_old = e->laid.log_word;
	posted->word_now = e->laid.log_word = sp_log_word(qp->qpn, number);
}

void sim_log_unwrite(struct sim_world *w, const struct sim_posted *posted)
{
	struct sim_end *e = &w->end[posted->end];

	if (e->laid.log_word == posted->word_now)
		e->laid.log_word = posted->word_old;
}

/* It came, or comes at the latest before the next packet: the sender repeats what was lost. */
static void arrive(struct sim_world *w, struct sim_qp *qp)
{
	if (qp->log_due)
		write_word(w, qp, qp->log_due);
	qp->log_due = 0;
}

void sim_log_before(struct sim_world *w, struct sim_qp *qp, const struct sim_entry *entry,
		    uint32_t index)
{
	arrive(w, qp);
	if (sim_mutant == SIM_MUTANT_LOG_EARLY && entry->logged && !entry->taken)
		write_word(w, qp, index + 1);
}

void sim_log_behind(struct sim_world *w, struct sim_qp *qp, const struct sim_entry *entry,
		    uint32_t index)
{
	if (!entry->logged)
		return;
	qp->log_due = index + 1;
	if (sim_chance(w, ARRIVES))
		arrive(w, qp);
}

/* ---- settling ------------------------------------------------------------------------------- */

/* Of the requests behind `first`, those that lie before so many entries of the ring. */
static int32_t ran_of(const struct sim_qp *qp, uint32_t number, uint32_t first)
{
	uint32_t behind = 0;

	for (uint32_t i = 0; i < number && i < qp->n_sq; i++)
		if (!qp->sq[i].fence)
			behind = qp->sq[i].request + 1U;
	return number > qp->n_sq ? INT32_MAX : (int32_t)(behind - first);
}

void sim_log_counts(struct sim_world *w, uint32_t end, struct sc_counts *counts)
{
	struct sim_end *e = &w->end[end];
	const struct sim_qp *qp = &w->qp[e->active];

	if (!w->weather.log_every)
		return;
	if (sim_chance(w, TOLD)) {
		e->laid.log_told.carrier = qp->epoch;
		e->laid.log_told.known = sc_log_read(w->end[end ^ 1].laid.log_word, qp->dst,
						     &e->laid.log_told.number);
	}
	if (e->laid.log_told.known)
		sc_settle_log(counts, e->laid.log_told.carrier,
			      ran_of(qp, e->laid.log_told.number, e->retired), qp->epoch);
}

static void check_ran(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	const struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < s->n && (int32_t)i < s->counts->log_ran; i++) {
		const struct sim_request *r = &e->requests[e->retired + i];

		if (!r->ran && !r->nop && r->kind != SP_REQ_LOCAL)
			sim_violation(w,
				      "L1: request %u of end %u did not run, and the log counts it",
				      e->retired + i, end);
	}
}

static void check_rest(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	const struct sim_end *e = &w->end[end];
	uint32_t from = s->counts->log_ran > 0 ? (uint32_t)s->counts->log_ran : 0, rest = 0;

	for (uint32_t i = from; i < s->n; i++) {
		const struct sim_entry *entry = sim_exact_entry(&w->qp[e->active], e->retired + i);

		rest += changes(s->requests[i].kind) && entry && entry->taken == entry->packets;
	}
	if (rest > w->weather.log_every && !w->end[end ^ 1].writes_were_lost)
		sim_violation(
			w, "L1: end %u: %u that change memory ran, and the log counts none of them",
			end, rest);
}

/* Against what had been said without it. */
static void count_spared(struct sim_world *w, const struct sim_settled *s)
{
	struct sc_counts counts = *s->counts;
	enum sp_fate fates[SIM_REQUESTS];
	struct sc_verdict verdict;

	counts.logged = false;
	sc_settle(s->requests, s->n, &counts, fates, &verdict);
	for (uint32_t i = 0; i < s->n; i++)
		w->figures.log_spared += s->requests[i].kind == SP_REQ_WRITE &&
					 s->fates[i] == SP_FATE_DELIVERED &&
					 fates[i] == SP_FATE_RESEND;
}

void sim_log_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	if (!s->counts->logged)
		return;
	if (s->verdict->log_doubted && !w->end[end].laid.misled)
		sim_violation(w, "L1: end %u doubts a true word", end);
	w->figures.logged++;
	check_ran(w, end, s);
	check_rest(w, end, s);
	if (s->reason == SC_REASON_NONE)
		count_spared(w, s);
}
