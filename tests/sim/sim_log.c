/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_log.h"

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_limits.h"
#include "sim_mutants.h"
#include "sim_shell.h"
#include "sim_world.h"

enum { EVERY = 4, UNORDERED = 20, SILENT = 15 };

/* A rule of it that is broken shows sooner where there is always one, and no PSN. */
static bool is_broken(void)
{
	return sim_mutant >= SIM_MUTANT_LOG_UNORDERED;
}

uint32_t sim_log_without_psn_percent(void)
{
	return sim_mutant == SIM_MUTANT_LOG_UNORDERED || sim_mutant == SIM_MUTANT_LOG_READ_EARLY
		       ? 90
		       : 25;
}

void sim_log_init(struct sim_world *w)
{
	uint32_t unordered = sim_mutant == SIM_MUTANT_LOG_UNORDERED ? 90 : UNORDERED;

	w->weather.log_every = sim_chance(w, is_broken() ? 100 : 50) ? 1 + sim_pick(w, EVERY) : 0;
	for (uint32_t i = 0; i < w->n_ends && w->weather.log_every; i++)
		w->end[i].laid.log.unordered = sim_chance(w, unordered);
}

static bool changes(uint8_t kind)
{
	return kind == SP_REQ_WRITE || kind == SP_REQ_ATOMIC;
}

/* Does that end log what it sends? */
static bool is_on(const struct sim_world *w, uint32_t end)
{
	return w->weather.log_every &&
	       (!w->end[end ^ 1].laid.log.unordered || sim_mutant == SIM_MUTANT_LOG_UNORDERED);
}

bool sim_log_due(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r)
{
	if (!is_on(w, qp->end) || r->nop || !changes(r->kind) ||
	    ++qp->log_since < w->weather.log_every)
		return false;
	qp->log_since = 0;
	return true;
}

/* ---- the word ------------------------------------------------------------------------------- */

/* Its tag is what the receiver has given to that carrier; where there is no order, the data are still on their way. */
void sim_log_execute(struct sim_world *w, const struct sim_qp *qp, const struct sim_qp *from,
		     const struct sim_entry *entry)
{
	struct sim_log_state *log = &w->end[qp->end].laid.log;
	uint64_t word = sp_log_word(from->dst, entry->says), before = log->word;
	struct sim_posted *posted;

	if (sim_nic_of(w, qp)->writes_lost)
		return;
	sim_trace(w, qp->end, "qp%u: the log says %u", qp->qpn, entry->says);
	log->word = word;
	if (log->unordered)
		return;
	posted = sim_nic_posted(w, sim_nic_of(w, qp));
	posted->end = qp->end;
	posted->log = true;
	posted->word_old = before;
	posted->word_now = word;
}

void sim_log_unwrite(struct sim_world *w, const struct sim_posted *posted)
{
	struct sim_log_state *log = &w->end[posted->end].laid.log;

	if (log->word == posted->word_now)
		log->word = posted->word_old;
}

/* ---- who is asked --------------------------------------------------------------------------- */

/* Can what lies in that carrier, or in one before, execute nothing more here? */
static bool is_quiesced(const struct sim_world *w, uint32_t end, uint32_t carrier)
{
	const struct sc_conn *c = &w->end[end].conn;

	return sc_epoch_cmp(carrier, c->epoch) < 0 && (c->move == SC_MOVE_NONE || c->count_final);
}

/* Each carrier has one of its own, which no other has. */
static uint32_t tag_of(const struct sim_world *w, uint32_t end, uint32_t carrier)
{
	for (uint32_t i = w->n_qps; i; i--)
		if (w->qp[i].end == end && w->qp[i].epoch == carrier)
			return i;
	return 0;
}

static struct sim_log_message read_word(const struct sim_world *w, uint32_t end, uint32_t carrier)
{
	struct sim_log_message says = { .says = true, .carrier = carrier };

	says.known = sc_log_read(w->end[end].laid.log.word, tag_of(w, end, carrier), &says.number);
	return says;
}

static void asked(struct sim_world *w, uint32_t end, uint32_t carrier)
{
	struct sim_log_message says = read_word(w, end, carrier);

	if (is_quiesced(w, end, carrier))
		sim_shell_send_log(w, end, &says);
}

/* ---- who asks ------------------------------------------------------------------------------- */

static void ask(struct sim_world *w, uint32_t end)
{
	const struct sim_end *e = &w->end[end];
	struct sim_log_message m = { .carrier = w->qp[e->active].epoch };

	sim_shell_send_log(w, end, &m);
}

/* What an earlier move was told stays there: it is of another carrier. */
void sim_log_withheld(struct sim_world *w, uint32_t end)
{
	struct sim_log_state *log = &w->end[end].laid.log;

	if (!is_on(w, end))
		return;
	log->asked = log->answered = sim_mutant == SIM_MUTANT_LOG_READ_EARLY;
	if (log->asked)
		log->told = read_word(w, end ^ 1, w->qp[w->end[end].active].epoch);
}

static void told(struct sim_world *w, uint32_t end, const struct sim_log_message *m)
{
	struct sim_end *e = &w->end[end];

	if (!e->laid.log.asked || e->laid.log.answered || m->carrier != w->qp[e->active].epoch)
		return;
	e->laid.log.answered = true;
	e->laid.log.told = *m;
}

void sim_log_heard(struct sim_world *w, uint32_t end, const struct sim_log_message *m)
{
	if (m->says)
		told(w, end, m);
	else
		asked(w, end, m->carrier);
}

/* ---- settling ------------------------------------------------------------------------------- */

/* Of the requests behind `first`, those that lie before so many of the ring, of which hidden NOPs are some too. */
static int32_t ran_of(const struct sim_qp *qp, uint32_t number, uint32_t first)
{
	uint32_t behind = 0, n = 0;

	for (uint32_t i = 0; i < qp->n_sq && n < number; i++) {
		if (qp->sq[i].log)
			continue;
		n++;
		if (!qp->sq[i].fence)
			behind = qp->sq[i].request + 1U;
	}
	return number > qp->numbers ? INT32_MAX : (int32_t)(behind - first);
}

/* Where a PSN tells, or the count alone, nobody is asked. */
static bool would_tell(const struct sim_world *w, uint32_t end, const struct sp_request *requests,
		       uint32_t n, const struct sc_counts *counts)
{
	return is_on(w, end) &&
	       (counts->recalled || (!counts->exact && sc_exact_wanted(requests, n)));
}

/* In some moves the peer says nothing of its word any more: what is known is of another carrier then. */
bool sim_log_settle(struct sim_world *w, uint32_t end, const struct sp_request *requests,
		    uint32_t n, struct sc_counts *counts)
{
	const struct sim_qp *qp = &w->qp[w->end[end].active];
	struct sim_log_state *log = &w->end[end].laid.log;

	if (!would_tell(w, end, requests, n, counts))
		return true;
	if (!log->asked)
		log->answered = sim_chance(w, SILENT);
	log->asked = true;
	if (!log->answered) {
		ask(w, end);
		return false;
	}
	if (log->told.known)
		sc_settle_log(counts, log->told.carrier,
			      ran_of(qp, log->told.number, w->end[end].retired), qp->epoch);
	return true;
}

/* ---- by the truth --------------------------------------------------------------------------- */

static bool is_write(const struct sim_request *r)
{
	return (r->kind == SP_REQ_WRITE || r->with_write) && !r->nop && !r->uid.on;
}

/* All that was laid into the carrier in use, whether the application has seen it complete or not. */
static void check_in_memory(struct sim_world *w, uint32_t end, uint32_t last)
{
	const struct sim_end *e = &w->end[end];

	for (uint32_t i = e->laid.from; i < last && i < e->app.n_posted; i++) {
		const struct sim_request *r = &e->requests[i];
		const uint32_t *half = w->end[end ^ 1].cell[r->cell].half;

		if (is_write(r) && (half[0] < i + 1 || half[1] < i + 1))
			sim_violation(w,
				      "L1: write %u of end %u is not in memory, and the log counts "
				      "it",
				      i, end);
	}
}

static void check_ran(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	const struct sim_end *e = &w->end[end];
	int32_t ran = s->counts->log_ran;

	for (uint32_t i = 0; i < s->n && (int32_t)i < ran; i++) {
		const struct sim_request *r = &e->requests[e->retired + i];

		if (!r->ran && !r->nop && r->kind != SP_REQ_LOCAL)
			sim_violation(w,
				      "L1: request %u of end %u did not run, and the log counts it",
				      e->retired + i, end);
	}
	if (!e->laid.misled && ran != INT32_MAX)
		check_in_memory(w, end, (uint32_t)((int32_t)e->retired + ran));
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

/* It was asked for, and nothing of this carrier is there. */
static bool says_nothing(const struct sim_world *w, uint32_t end)
{
	const struct sim_log_state *log = &w->end[end].laid.log;

	return log->asked && log->answered && !log->told.known &&
	       log->told.carrier == w->qp[w->end[end].active].epoch && log->told.says;
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
	if (says_nothing(w, end))
		check_rest(w, end, s);
	if (!s->counts->logged)
		return;
	if (s->verdict->log_doubted && !w->end[end].laid.misled)
		sim_violation(w, "L1: end %u doubts a true word", end);
	w->figures.logged++;
	w->figures.log_recalled += s->counts->recalled;
	check_ran(w, end, s);
	check_rest(w, end, s);
	if (s->reason == SC_REASON_NONE)
		count_spared(w, s);
}
