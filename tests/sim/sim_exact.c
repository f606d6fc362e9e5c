/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_exact.h"

#include "shiftlib/core/internal.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_limits.h"
#include "sim_mutants.h"
#include "sim_owner.h"
#include "sim_uid.h"
#include "sim_world.h"

/* ---- chance --------------------------------------------------------------------------------- */

void sim_exact_init(struct sim_world *w)
{
	for (uint32_t p = 0; p < SIM_PATHS; p++) {
		w->mtu[p] = 1U << sim_pick(w, 3);
		for (uint32_t h = 0; h < SIM_HOSTS; h++) {
			struct sim_nic *nic = &w->host[h].nic[p];

			nic->refuses = sim_chance(w, 5);
			nic->slow = sim_chance(w, 5);
			nic->stale = sim_chance(w, 4);
		}
	}
	w->first_psn = sim_chance(w, 50) ? SC_PSN_MASK - sim_pick(w, 12) : 0;
	for (uint32_t i = 0; i < w->n_ends; i++)
		for (uint32_t n = sim_pick(w, 6); n; n--)
			sim_at(w, sim_random(w) % (w->faults_until + 20 * SIM_MS), SIM_EV_THIRD, i,
			       sim_pick(w, SIM_CELLS));
}

/* ---- the engine's numbers ------------------------------------------------------------------- */

static uint32_t packets_of(const struct sim_world *w, const struct sim_qp *qp,
			   const struct sim_request *r)
{
	struct sim_qp other = { .mtu = sim_mutant == SIM_MUTANT_DEFAULT_MTU ? w->mtu[0] : qp->mtu };

	if (r->nop)
		return 0;
	if (r->kind == SP_REQ_READ && sim_mutant == SIM_MUTANT_READ_IS_ONE)
		return 1;
	return sim_nic_packets(&other, r);
}

void sim_exact_posted(const struct sim_world *w, struct sim_qp *qp, const struct sim_request *r)
{
	qp->numbered += packets_of(w, qp, r);
}

void sim_exact_logged(struct sim_qp *qp)
{
	qp->numbered += sim_mutant != SIM_MUTANT_LOG_UNNUMBERED;
}

/* Behind it, and before it in the ring: what is complete leaves its log WQE there. */
static bool logged_behind(const struct sim_qp *qp, const struct sim_entry *entry)
{
	return entry && entry + 1 < qp->sq + qp->n_sq && entry[1].log;
}

static bool logged_before(const struct sim_qp *qp, const struct sim_entry *entry)
{
	while (entry && entry > qp->sq && entry[-1].fence)
		entry--;
	return entry && entry > qp->sq && entry[-1].log && sim_mutant != SIM_MUTANT_LOG_BEFORE;
}

/* From the newest one back. */
void sim_exact_number(const struct sim_world *w, const struct sim_qp *qp, uint32_t first,
		      struct sp_request *requests, uint32_t n)
{
	const struct sim_request *r = &w->end[qp->end].requests[first];
	uint32_t psn = w->first_psn + qp->numbered;

	while (n--) {
		const struct sim_entry *entry = sim_exact_entry(qp, first + n);

		requests[n].packets = packets_of(w, qp, &r[n]);
		requests[n].behind =
			logged_behind(qp, entry) && sim_mutant != SIM_MUTANT_LOG_UNNUMBERED;
		requests[n].before = !n && logged_before(qp, entry);
		psn -= requests[n].packets + requests[n].behind;
		requests[n].psn = psn & SC_PSN_MASK;
		requests[n].numbered = 1;
	}
}

/* Who was contradicted once is not believed again. */
void sim_exact_counts(struct sim_world *w, uint32_t end, const struct sc_action *a,
		      struct sc_counts *counts)
{
	const struct sim_qp *qp = &w->qp[w->end[end].active];

	sc_settle_exact(counts, a, qp->epoch);
	counts->exact &= !w->host[end & 1].doubts[qp->path];
}

/* ---- by the truth --------------------------------------------------------------------------- */

const struct sim_entry *sim_exact_entry(const struct sim_qp *qp, uint32_t request)
{
	for (uint32_t i = qp->n_sq; i-- > 0;)
		if (!qp->sq[i].fence && !qp->sq[i].log && qp->sq[i].request == request)
			return &qp->sq[i];
	return NULL;
}

/* X2. A NIC that tells an old one may be found out, or not. */
static void check_number(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	struct sim_end *e = &w->end[end];
	const struct sim_qp *qp = &w->qp[e->active], *dst = &w->qp[qp->dst];
	bool stale = sim_nic_of(w, dst)->stale;

	if (!s->counts->exact)
		return;
	if (sim_nic_works(w, dst))
		sim_violation(w, "X2: end %u settles by what QP %u expects, which still executes",
			      end, dst->qpn);
	else if (s->counts->expected_psn != dst->epsn && !stale)
		sim_violation(w, "X2: end %u settles by %06x, QP %u expects %06x", end,
			      s->counts->expected_psn, dst->qpn, dst->epsn);
	else if (s->verdict->doubted && !stale && s->counts->expected_psn == dst->epsn)
		sim_violation(w, "X2: end %u doubts a true number", end);
	if (s->counts->expected_psn == dst->epsn || s->verdict->doubted)
		return;
	sim_trace(w, end, "    misled: told %06x, expected %06x", s->counts->expected_psn,
		  dst->epsn);
	e->laid.misled = true;
	w->figures.misled++;
}

static bool is_exact(const struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	const struct sim_qp *qp = &w->qp[w->end[end].active];

	return s->counts->exact && !s->verdict->doubted &&
	       s->counts->expected_psn == w->qp[qp->dst].epsn;
}

/* X1. */
static void check_fate(struct sim_world *w, uint32_t end, uint32_t request,
		       const struct sim_settled *s, uint32_t i)
{
	const struct sim_entry *entry = sim_exact_entry(&w->qp[w->end[end].active], request);
	bool ran = entry && entry->taken == entry->packets;
	uint8_t kind = s->requests[i].kind;

	if (kind == SP_REQ_LOCAL)
		return;
	if (kind == SP_REQ_ATOMIC && (sim_owner_has_not_swapped(w, end, request) ||
				      sim_uid_repeats(&w->end[end].requests[request])))
		return;
	if (s->fates[i] == SP_FATE_RESEND && kind == SP_REQ_ATOMIC && ran)
		sim_violation(w, "X1: atomic %u of end %u ran and is laid again", request, end);
	if (s->counts->recalled)
		return;
	if (s->fates[i] == SP_FATE_DELIVERED && !ran)
		sim_violation(w, "X1: request %u of end %u did not run and is delivered", request,
			      end);
	if (s->fates[i] == SP_FATE_RESEND && ran)
		sim_violation(w, "X1: request %u of end %u ran and is laid again", request, end);
}

static bool atomic_ran(const struct sim_world *w, uint32_t end, const struct sim_settled *s,
		       uint32_t first)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->requests[i].kind == SP_REQ_ATOMIC &&
		    sim_exact_entry(&w->qp[w->end[end].active], first + i)->taken)
			return true;
	return false;
}

static void check_end(struct sim_world *w, uint32_t end, const struct sim_settled *s,
		      uint32_t first)
{
	if (s->reason == SC_REASON_ATOMIC && !atomic_ran(w, end, s, first))
		sim_violation(w, "X3: end %u ends for an atomic that never ran", end);
	if (s->reason == SC_REASON_FENCED_READ && !s->counts->recalled)
		sim_violation(w, "X1: end %u ends for a fence, and all fates are known", end);
}

/* Against what the count alone had said. */
static void count_spared(struct sim_world *w, const struct sim_settled *s)
{
	struct sc_counts counts = *s->counts;
	enum sp_fate fates[SIM_REQUESTS];
	struct sc_verdict verdict;

	counts.exact = false;
	sc_settle(s->requests, s->n, &counts, fates, &verdict);
	for (uint32_t i = 0; i < s->n; i++) {
		bool write = s->requests[i].kind == SP_REQ_WRITE;
		bool atomic = s->requests[i].kind == SP_REQ_ATOMIC;

		w->figures.spared +=
			write && s->fates[i] == SP_FATE_DELIVERED && fates[i] == SP_FATE_RESEND;
		w->figures.atomics += atomic && s->fates[i] == SP_FATE_RESEND;
	}
}

void sim_exact_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s)
{
	struct sim_end *e = &w->end[end];
	struct sim_qp *active = &w->qp[e->active];
	uint32_t first = e->retired;

	check_number(w, end, s);
	if (s->verdict->doubted) {
		w->host[end & 1].doubts[active->path] = true;
		w->figures.doubted++;
	}
	if (!is_exact(w, end, s)) {
		w->figures.inexact += e->conn.exact.wants;
		for (uint32_t i = 0; i < s->n; i++)
			e->requests[first + i].unsure = true;
		return;
	}
	w->figures.exact++;
	check_end(w, end, s, first);
	for (uint32_t i = 0; i < s->n && s->reason == SC_REASON_NONE; i++) {
		const struct sim_entry *entry = sim_exact_entry(active, first + i);

		check_fate(w, end, first + i, s, i);
		e->requests[first + i].unsure |=
			s->counts->recalled || (entry && entry->taken < entry->packets);
	}
	if (s->reason == SC_REASON_NONE)
		count_spared(w, s);
}

/* ---- somebody else (X4) --------------------------------------------------------------------- */

static bool on_its_way(const struct sim_world *w, uint32_t end, uint32_t cell)
{
	for (uint32_t p = 0; p < w->n_paths; p++) {
		const struct sim_nic *nic = &w->host[end & 1].nic[p];

		for (uint32_t i = 0; i < nic->n_posted; i++)
			if (!nic->posted[i].qpn && nic->posted[i].end == end &&
			    nic->posted[i].cell == cell)
				return true;
	}
	return false;
}

/* He reads a whole WRITE, over another connection, and writes something of his own there. */
void sim_exact_third(struct sim_world *w, uint32_t end, uint32_t cell)
{
	struct sim_end *e = &w->end[end];
	uint32_t seen = e->cell[cell].half[0];

	if (!seen || e->cell[cell].half[1] != seen || e->app.closed || on_its_way(w, end, cell) ||
	    !w->end[end ^ 1].requests[seen - 1].ran)
		return;
	sim_trace(w, end, "somebody overwrites write %u in cell %u", seen - 1, cell);
	e->cell[cell].third = seen;
	w->figures.thirds++;
}

void sim_exact_written(struct sim_world *w, uint32_t end, uint32_t cell, uint32_t request)
{
	uint32_t *third = &w->end[end].cell[cell].third;

	if (*third && request < *third && !w->end[end ^ 1].requests[request].unsure)
		sim_violation(w, "X4: write %u comes again over what somebody wrote who saw it",
			      request);
	*third = 0;
}
