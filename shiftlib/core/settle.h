/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which outstanding requests did the peer execute? */
#ifndef SHIFTLIB_CORE_SETTLE_H
#define SHIFTLIB_CORE_SETTLE_H

#include <stdbool.h>

#include "providers/request.h"
#include "shiftlib/core/state.h"

#define SC_PSN_MASK 0xffffffu /* packet sequence numbers have 24 bits */

/* Of two-sided requests, cumulative and mod 2^32; done and posted are ours, published ones. */
struct sc_counts {
	uint32_t done, posted;
	uint32_t peer; /* its final receive count */
	/* The peer's NIC died: what the application has not seen complete was recalled, and is among
	 * the requests; seen: what it saw last; cut: it may have lost what it had acknowledged. */
	bool recalled, cut;
	enum sp_last_seen seen;
	/* Of the carrier that the requests lie in: the packet that the peer's QP, in ERR and flushed, would
	 * have taken next. sc_settle_exact() sets them. */
	bool exact;
	uint32_t expected_psn;
	/* Of the same carrier: so many of the oldest requests ran and lie in memory, by the word that log WQEs
	 * write there; below 0: not even all before them. sc_settle_log() sets them. */
	bool logged;
	int32_t log_ran;
};

struct sc_verdict {
	uint32_t delivered; /* leading requests that are known to be executed and complete */
	bool unplaced; /* a WRITE that the application saw complete may be missing from the peer's
			* memory: nothing that would tell of it may run any more, but WRITEs */
	bool doubted;  /* expected_psn contradicts the count, and was not used: that NIC's word
			* is not to be taken again */
	bool log_doubted; /* log_ran cannot be, and was not used */
};

/* Is there one whose fate the peer's count does not tell? Then SC_EV_WITHHELD says so. */
bool sc_exact_wanted(const struct sp_request *requests, uint32_t n);

/*
 * Would it help to know the word that it changes? Of those for which sc_settle() said ATOMIC; told is not looked at.
 */
bool sc_owner_asks(const struct sp_request *request);

/* One of shift/shift_uid.h, of unknown fate: what becomes of it. */
bool sc_uid_decides(const struct sp_request *request, enum sp_fate *fate);

struct sc_action;
/* What SC_ACT_SETTLE knows of the carrier that the requests lie in. */
void sc_settle_exact(struct sc_counts *counts, const struct sc_action *settle, uint32_t carrier);

/*
 * The log (SHIFT_WQE_LOG): behind each n-th request that changes the peer's memory its sender lays a WQE that writes
 * one word there (sp_log_word), the same each time: how many requests lie before it (cumulative, as the engine numbers
 * them), under a tag that the peer has given to no other carrier. A queue pair executes in order, and what a NIC writes to host
 * memory comes there in order. So whoever finds the word there finds there all that it counts, whatever became of
 * the NIC. Other tags are of carriers that had the word's place before: nothing.
 */
bool sc_log_read(uint64_t word, uint32_t tag, uint32_t *number);
/* ran: as in sc_counts, of what the word of that carrier said. */
void sc_settle_log(struct sc_counts *counts, uint32_t of, int32_t ran, uint32_t carrier);

/*
 * Two lines divide the requests. The count says what was received and is in memory, up to the last two-sided one
 * that it counts. The expected PSN X says of each that takes the numbers [start, end) what was received, but
 * nothing of memory: a NIC that died (recalled) may not have written it. So there it only says what never ran.
 *
 *			the peer's NIC lives		it died
 *	no X		the count			the count, and what was answered
 *	end <= X	delivered; READ: read again,	as without X
 *			unless vouched for; atomic:
 *			ends, its value is lost, unless
 *			its owner's value tells (below)
 *	start < X < end	cut: again, whole; but a fence	as without X
 *			flag has started: the READs
 *			before it have their data
 *	start >= X	never ran: again, atomics too; it changed nothing that a READ before it may see
 *
 * Where there is no X, or the NIC died, the log's word moves the count's line forward: up to what it counts all
 * is delivered and in memory. But not over a two-sided request that was not counted: its receive is laid again.
 *
 * An atomic of unknown fate, or whose value is lost, is decided where the peer has told its target's word, and
 * values that are swapped in are each of one owner, who alone changes them (owner.c); or it is one of those whose
 * results are found out otherwise (uid.c).
 *
 * requests[0..n): all published outstanding requests, in posting order. Writes fates[0..n).
 * SC_REASON_NONE on success; MISCOUNT, ATOMIC or FENCED_READ when nothing may be
 * resubmitted.
 */
enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n,
			 const struct sc_counts *counts, enum sp_fate *fates,
			 struct sc_verdict *verdict);

#endif
