/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fates of outstanding requests: which of them the peer executed.
 *
 * A reliable connection executes in posting order, so the peer's final count of receives draws a
 * line: the last counted two-sided request and all before it are delivered. Behind the line nothing
 * is known of one-sided requests; they may be repeated where nobody can tell a repetition.
 *
 * If the peer's NIC died, data that it acknowledged but had not put into memory is lost. Requests
 * that the application has not seen complete are then outstanding again (recalled). Of those that
 * it has seen complete, the last one decides: a counted one, or a READ with its data, proves that
 * all before it was in memory, as it went the same way behind them. Else a WRITE may be missing,
 * and no request that would tell the peer of it may run (P3).
 *
 * The log's word is such a proof too, of all that it counts.
 *
 * The exact count draws a second line, by the expected PSN of the peer's QP (settle.h has both in
 * one table). That line is exact, but a QP may lie about it: then it contradicts the count, sooner
 * or later.
 */
#include "shiftlib/core/internal.h"

/* Returns the number of leading requests up to the last one that the peer counted. */
static uint32_t delivered_region(const struct sp_request *r, uint32_t n, uint32_t counted)
{
	uint32_t i = 0;

	for (; i < n && counted; i++)
		if (r[i].published && r[i].kind == SP_REQ_TWO_SIDED)
			counted--;
	return i;
}

/*
 * Moves the line over answered requests. Data of a READ came from memory behind earlier writes, and
 * an atomic reads too. The atomic's own write is there if the NIC still had its way to memory. A
 * receive completion may still have been on its way, so two-sided requests stop the line.
 */
static uint32_t answered_region(const struct sp_request *r, uint32_t n, uint32_t region, bool cut)
{
	for (uint32_t i = region; i < n && r[i].kind != SP_REQ_TWO_SIDED; i++)
		if (r[i].answered &&
		    (r[i].kind == SP_REQ_READ || (r[i].kind == SP_REQ_ATOMIC && !cut)))
			region = i + 1;
	return region;
}

static uint32_t two_sided(const struct sp_request *r, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += r[i].published && r[i].kind == SP_REQ_TWO_SIDED;
	return count;
}

/* ---- the exact count ------------------------------------------------------------------------ */

bool sc_exact_wanted(const struct sp_request *requests, uint32_t n)
{
	bool read = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct sp_request *r = &requests[i];

		if (!r->published)
			continue;
		if (r->kind == SP_REQ_WRITE || r->kind == SP_REQ_ATOMIC || (read && r->send_fence))
			return true;
		read |= r->kind == SP_REQ_READ;
	}
	return false;
}

void sc_settle_exact(struct sc_counts *counts, const struct sc_action *settle, uint32_t carrier)
{
	counts->exact = settle->exact && settle->exact_of == carrier;
	counts->expected_psn = counts->exact ? settle->exact_psn & SC_PSN_MASK : 0;
}

/*
 * Result by the expected PSN: the leading requests that ran, and those of which a packet may have
 * been taken.
 */
struct exact {
	bool known;
	uint32_t ran, begun;
};

static uint32_t psn_behind(uint32_t psn, uint32_t base)
{
	return SC_MUTANT(WRAP_24) ? psn - base : (psn - base) & SC_PSN_MASK;
}

/*
 * Returns the packets of all requests; at least 2^24 if their numbers are ambiguous or not known.
 */
static uint64_t packets(const struct sp_request *r, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!r[i].published)
			continue;
		if (!r[i].numbered)
			return UINT64_MAX;
		sum += r[i].packets + r[i].behind;
	}
	return sum;
}

static const struct sp_request *first_of(const struct sp_request *r, uint32_t n)
{
	static const struct sp_request none;

	for (uint32_t i = 0; i < n; i++)
		if (r[i].published)
			return &r[i];
	return &none;
}

/*
 * Returns the distance of the expected packet from the first one; 0 also if packets before the
 * first are missing.
 */
static uint32_t packets_taken(const struct sp_request *r, uint32_t n, uint32_t expected)
{
	const struct sp_request *first = first_of(r, n);
	uint32_t taken = psn_behind(expected, first->psn - first->before);

	return taken > first->before ? taken - first->before : 0;
}

static void exact_look(const struct sp_request *r, uint32_t n, uint32_t taken, struct exact *exact)
{
	uint32_t base = first_of(r, n)->psn;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t start = psn_behind(r[i].psn, base);

		if (!r[i].published || !r[i].packets)
			continue;
		if (start + r[i].packets <= taken)
			exact->ran = i + 1;
		if (start < taken)
			exact->begun = i + 1;
	}
	if (SC_MUTANT(CUT_IS_DELIVERED))
		exact->ran = exact->begun;
}

/*
 * True if the PSN contradicts the count. All that was counted was received, and nothing else was,
 * except receives whose completions a dying NIC lost.
 */
static bool exact_contradicts(const struct sp_request *r, const struct sc_counts *counts,
			      uint32_t counted, const struct exact *exact)
{
	uint32_t ran = two_sided(r, exact->ran);

	if (SC_MUTANT(TRUST_UNCHECKED))
		return false;
	return counts->recalled ? ran < counted : ran != counted;
}

static struct exact exact_of(const struct sp_request *r, uint32_t n, const struct sc_counts *counts,
			     uint32_t counted, bool *doubted)
{
	struct exact exact = { false, 0, n }, found = { true, 0, 0 };
	uint64_t sum = packets(r, n);
	uint32_t taken;

	if (!counts->exact || !n || sum > SC_PSN_MASK)
		return exact;
	taken = packets_taken(r, n, counts->expected_psn);
	exact_look(r, n, taken, &found);
	*doubted = (taken > sum && !SC_MUTANT(WRAP_24)) ||
		   exact_contradicts(r, counts, counted, &found);
	return *doubted ? exact : found;
}

/* ---- the log -------------------------------------------------------------------------------- */

bool sc_log_read(uint64_t word, uint32_t tag, uint32_t *number)
{
	*number = (uint32_t)word;
	return word >> 32 == tag || SC_MUTANT(LOG_OF_OLD);
}

void sc_settle_log(struct sc_counts *counts, uint32_t of, int32_t ran, uint32_t carrier)
{
	counts->logged = of == carrier || SC_MUTANT(LOG_OF_OTHER);
	counts->log_ran = counts->logged ? ran : 0;
}

static uint32_t published(const struct sp_request *r, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && r[i].published)
		i++;
	return i;
}

/*
 * True if the log contradicts the count: a NIC that lives has counted each two-sided request that
 * ran.
 */
static bool log_contradicts(const struct sp_request *r, uint32_t n, const struct sc_counts *counts,
			    uint32_t counted)
{
	uint32_t ran = counts->log_ran < 0 ? 0 : (uint32_t)counts->log_ran;

	return ran > published(r, n) || (!counts->recalled && two_sided(r, ran) > counted);
}

static uint32_t logged_region(const struct sp_request *r, uint32_t n, uint32_t region,
			      const struct sc_counts *counts)
{
	uint32_t ran = (uint32_t)counts->log_ran + SC_MUTANT(LOG_BEYOND);

	while (region < n && region < ran && r[region].kind != SP_REQ_TWO_SIDED)
		region++;
	return region;
}

/* ---- fates ---------------------------------------------------------------------------------- */

/*
 * Decides on requests before the line. An executed READ is not complete, as its answer may have
 * been lost. But a request with a fence starts only when all READs before it have their data, so a
 * fenced one that was executed, or begun, vouches for them.
 */
static void fates_of_region(const struct sp_request *r, uint32_t region, uint32_t begun,
			    enum sp_fate *fates)
{
	bool vouched = false;

	for (uint32_t i = begun; i-- > 0;) {
		bool again = r[i].kind == SP_REQ_READ && !r[i].answered && !vouched &&
			     !SC_MUTANT(READ_NOP);

		again |= r[i].kind == SP_REQ_WRITE && SC_MUTANT(WRITE_AGAIN);
		again |= r[i].kind == SP_REQ_ATOMIC && SC_MUTANT(ATOMIC_RAN_AGAIN);
		if (i < region)
			fates[i] = again ? SP_FATE_READ_AGAIN : SP_FATE_DELIVERED;
		vouched |= r[i].send_fence;
	}
}

static bool atomic_ran_is_ignored(bool ran)
{
	return ran && (SC_MUTANT(ATOMIC_RAN_AGAIN) || SC_MUTANT(ATOMIC_RAN_DROPPED));
}

/*
 * True if an atomic may have run and may not run again: the repetition would change the peer's
 * memory twice, and the original value is lost with its answer (P4). Not so if the answer had come,
 * or the word itself tells. An atomic that never ran is like any other request.
 */
static bool atomic_of_unknown_fate(const struct sp_request *r, uint32_t n, uint32_t region,
				   const struct exact *exact, enum sp_fate *fates)
{
	for (uint32_t i = 0; i < n && i < exact->begun; i++)
		if (r[i].published && r[i].kind == SP_REQ_ATOMIC &&
		    !(r[i].answered && i < region) &&
		    !atomic_ran_is_ignored(exact->known && i < exact->ran) &&
		    !sc_uid_decides(&r[i], &fates[i]) &&
		    !sc_owner_decides(r, n < exact->begun ? n : exact->begun, i, fates))
			return !SC_MUTANT(ATOMIC_AGAIN);
	return false;
}

/*
 * True if this request behind the line may have changed the peer's memory. A WRITE_WITH_IMM that
 * was not counted may have laid down some of its bytes.
 */
static bool may_have_run(const struct sp_request *r)
{
	return r->published &&
	       (r->kind == SP_REQ_WRITE || r->kind == SP_REQ_TWO_SIDED || r->kind == SP_REQ_ATOMIC);
}

/*
 * True if a READ must run again behind a fenced request that may have run. The fence flag promises
 * that READs before it have older data than anything from that request on, of whatever kind.
 */
static bool fenced_read(const struct sp_request *r, uint32_t n, uint32_t region,
			const enum sp_fate *fates)
{
	bool read = false, behind = false;

	for (uint32_t i = 0; i < n; i++) {
		behind |= read && r[i].published && r[i].send_fence;
		if (behind && i >= region && may_have_run(&r[i]))
			return !SC_MUTANT(FENCED_READ);
		read |= r[i].published && r[i].kind == SP_REQ_READ && fates[i] != SP_FATE_DELIVERED;
	}
	return false;
}

static uint32_t leading(const struct sp_request *r, uint32_t region, const enum sp_fate *fates)
{
	uint32_t i = 0;

	while (i < region && fates[i] == SP_FATE_DELIVERED &&
	       (r[i].kind != SP_REQ_ATOMIC || r[i].answered))
		i++;
	return i;
}

/*
 * True if some request tells of earlier WRITEs: its completion lets somebody look at them, at the
 * peer or here.
 */
static bool tells_of_writes(const struct sp_request *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (r[i].kind != SP_REQ_WRITE && r[i].kind != SP_REQ_LOCAL)
			return true;
	return false;
}

/* The line: where all is delivered up to region, and something may have begun up to begun. */
struct line {
	uint32_t region, begun;
	bool placed; /* the log proves that all completed WRITEs are in memory */
	struct exact exact;
};

/*
 * Moves the line by the log. A word in memory proves that the NIC executed its request: a PSN that
 * denies this is wrong.
 */
static void line_by_log(const struct sp_request *r, uint32_t n, const struct sc_counts *counts,
			uint32_t counted, struct line *line, struct sc_verdict *verdict)
{
	verdict->log_doubted = log_contradicts(r, n, counts, counted);
	line->placed = !verdict->log_doubted && counts->log_ran >= 0;
	if (!line->placed)
		return;
	if (line->exact.known && counts->log_ran > (int32_t)line->exact.ran) {
		verdict->doubted = true;
		line->exact = (struct exact){ false, 0, n };
	}
	line->begun = line->region = logged_region(r, n, line->region, counts);
}

static struct line line_of(const struct sp_request *r, uint32_t n, const struct sc_counts *counts,
			   uint32_t counted, struct sc_verdict *verdict)
{
	struct line line = { .exact = exact_of(r, n, counts, counted, &verdict->doubted) };

	if (line.exact.known && !counts->recalled) {
		line.region = line.exact.ran;
		line.begun = line.exact.begun;
		return line;
	}
	line.region = line.begun =
		answered_region(r, n, delivered_region(r, n, counted), counts->cut);
	if (counts->logged)
		line_by_log(r, n, counts, counted, &line, verdict);
	return line;
}

enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n,
			 const struct sc_counts *counts, enum sp_fate *fates,
			 struct sc_verdict *verdict)
{
	struct line line;
	uint32_t counted;

	*verdict = (struct sc_verdict){ 0 };
	counted = (SC_MUTANT(NO_ANSWER) ? counts->done : counts->peer) - counts->done;
	/*
	 * a NIC may acknowledge and die before its receive completion: then done exceeds the count
	 */
	if ((counted > counts->posted - counts->done || counted > two_sided(requests, n)) &&
	    !SC_MUTANT(COUNT_UNCHECKED))
		return SC_REASON_MISCOUNT;
	if ((int32_t)counted < 0)
		counted = 0;
	line = line_of(requests, n, counts, counted, verdict);
	fates_of_region(requests, line.region, line.begun, fates);
	for (uint32_t i = line.region; i < n; i++)
		fates[i] = SP_FATE_RESEND;
	verdict->delivered = leading(requests, line.region, fates);
	verdict->unplaced = counts->recalled && counts->cut && counts->seen == SP_SEEN_UNPLACED &&
			    !line.region && !line.placed;
	if (verdict->unplaced && tells_of_writes(requests, n))
		return SC_REASON_MISCOUNT;
	if (atomic_of_unknown_fate(requests, n, line.region, &line.exact, fates))
		return SC_REASON_ATOMIC;
	if (fenced_read(requests, line.exact.begun, line.region, fates))
		return SC_REASON_FENCED_READ;
	return SC_REASON_NONE;
}
