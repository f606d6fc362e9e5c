/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which outstanding requests did the peer execute?
 *
 * A reliable connection executes in posting order, so the peer's final count of receives draws one
 * line: the last counted two-sided request and all before it are delivered. Behind the line,
 * nothing is known of one-sided requests; they may be repeated where a repetition cannot be told
 * apart.
 *
 * That is so whatever was acknowledged, where the peer's NIC died: what it had not put into memory is
 * lost. Requests that the application has not seen complete are outstanding again then (recalled). Of
 * those that it has, the last one decides: a counted one, or a READ with its data, proves that all
 * before it was in memory, as it went the same way behind it. Else a WRITE may be missing, and what would
 * tell the peer that it is there must not run (P3).
 */
#include "shiftlib/core/internal.h"

/* Behind that many requests lies the last one that the peer counted. */
static uint32_t delivered_region(const struct sp_request *r, uint32_t n, uint32_t counted)
{
	uint32_t i = 0;

	for (; i < n && counted; i++)
		if (r[i].published && r[i].kind == SP_REQ_TWO_SIDED)
			counted--;
	return i;
}

/*
 * What was read came from memory behind what was written before it, and an atomic reads too. What it wrote
 * itself is there if the NIC still had its way to memory. But a receive completion may still have been on
 * its way.
 */
static uint32_t answered_region(const struct sp_request *r, uint32_t n, uint32_t region, bool cut)
{
	for (uint32_t i = region; i < n && r[i].kind != SP_REQ_TWO_SIDED; i++)
		if (r[i].answered &&
		    (r[i].kind == SP_REQ_READ || (r[i].kind == SP_REQ_ATOMIC && !cut)))
			region = i + 1;
	return region;
}

static uint32_t published_two_sided(const struct sp_request *r, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += r[i].published && r[i].kind == SP_REQ_TWO_SIDED;
	return count;
}

/*
 * Executed is not complete: of a READ the peer's answer may have been lost. But a request with a
 * fence starts only when all READs before it have their data, so one that was executed vouches.
 */
static void fates_of_region(const struct sp_request *r, uint32_t region, enum sp_fate *fates)
{
	bool vouched = false;

	for (uint32_t i = region; i-- > 0;) {
		bool again = r[i].kind == SP_REQ_READ && !r[i].answered && !vouched &&
			     !SC_MUTANT(READ_NOP);

		again |= r[i].kind == SP_REQ_WRITE && SC_MUTANT(WRITE_AGAIN);
		fates[i] = again ? SP_FATE_READ_AGAIN : SP_FATE_DELIVERED;
		vouched |= r[i].send_fence;
	}
}

/*
 * Repeating an atomic changes the peer's memory twice, delivered or not: its original value is lost
 * with its answer (P4), unless that had come.
 */
static bool atomic_of_unknown_fate(const struct sp_request *r, uint32_t n, uint32_t region)
{
	for (uint32_t i = 0; i < n; i++)
		if (r[i].published && r[i].kind == SP_REQ_ATOMIC && !(r[i].answered && i < region))
			return !SC_MUTANT(ATOMIC_AGAIN);
	return false;
}

/*
 * May this request behind the line have changed the peer's memory? A WRITE_WITH_IMM that was not
 * counted may have laid down some of its bytes.
 */
static bool may_have_run(const struct sp_request *r)
{
	return r->published &&
	       (r->kind == SP_REQ_WRITE || r->kind == SP_REQ_TWO_SIDED || r->kind == SP_REQ_ATOMIC);
}

/*
 * The fence flag promises that READs before it have older data than anything from that request on
 * does, whatever the kind of the fenced request itself.
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

/* Whoever sees it done may look at what was written before it, at the peer or here. */
static bool tells_of_writes(const struct sp_request *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (r[i].kind != SP_REQ_WRITE && r[i].kind != SP_REQ_LOCAL)
			return true;
	return false;
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

enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n,
			 const struct sc_counts *counts, enum sp_fate *fates,
			 struct sc_verdict *verdict)
{
	uint32_t counted, region;

	*verdict = (struct sc_verdict){ 0 };
	counted = (SC_MUTANT(NO_ANSWER) ? counts->done : counts->peer) - counts->done;
	/* A NIC may acknowledge and die before its receive completion: then done exceeds the count. */
	if ((counted > counts->posted - counts->done ||
	     counted > published_two_sided(requests, n)) &&
	    !SC_MUTANT(COUNT_UNCHECKED))
		return SC_REASON_MISCOUNT;
	if ((int32_t)counted < 0)
		counted = 0;
	region = answered_region(requests, n, delivered_region(requests, n, counted), counts->cut);
	fates_of_region(requests, region, fates);
	for (uint32_t i = region; i < n; i++)
		fates[i] = SP_FATE_RESEND;
	verdict->delivered = leading(requests, region, fates);
	verdict->unplaced =
		counts->recalled && counts->cut && counts->seen == SP_SEEN_UNPLACED && !region;
	if (verdict->unplaced && tells_of_writes(requests, n))
		return SC_REASON_MISCOUNT;
	if (atomic_of_unknown_fate(requests, n, region))
		return SC_REASON_ATOMIC;
	if (fenced_read(requests, n, region, fates))
		return SC_REASON_FENCED_READ;
	return SC_REASON_NONE;
}
