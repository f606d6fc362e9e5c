/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fates of outstanding requests, by what is known of their execution at the peer. */
#ifndef SHIFTLIB_CORE_SETTLE_H
#define SHIFTLIB_CORE_SETTLE_H

#include <stdbool.h>

#include "providers/request.h"
#include "shiftlib/core/state.h"

#define SC_PSN_MASK 0xffffffu /* packet sequence numbers have 24 bits */

/* Counts of published two-sided requests, cumulative and mod 2^32. done and posted: our own. */
struct sc_counts {
	uint32_t done, posted;
	uint32_t peer; /* the peer's final receive count */
	/*
	 * recalled: the peer's NIC died, so requests that the application has not seen complete are
	 * outstanding again; seen: the last that it saw; cut: acknowledged data may be lost.
	 */
	bool recalled, cut;
	enum sp_last_seen seen;
	/*
	 * The packet that the peer's QP, in ERR and flushed, would have taken next on the requests'
	 * carrier. Set by sc_settle_exact().
	 */
	bool exact;
	uint32_t expected_psn;
	/*
	 * The number of the oldest requests that ran and lie in memory, by the word that log WQEs
	 * write there; below 0: some earlier ones may not. Set by sc_settle_log().
	 */
	bool logged;
	int32_t log_ran;
};

struct sc_verdict {
	uint32_t delivered; /* leading requests that are known to be executed and complete */
	bool unplaced; /* a WRITE that the application saw complete may be missing from the peer's
			* memory: only WRITEs may run, which do not tell of it */
	bool doubted;  /* expected_psn contradicts the count and was not used: its NIC is not to be
			* believed again */
	bool log_doubted; /* log_ran cannot be, and was not used */
};

/* True if the peer's count does not tell the fate of some request. Then SC_EV_WITHHELD says so. */
bool sc_exact_wanted(const struct sp_request *requests, uint32_t n);

/*
 * True if the word that the request changes would tell its fate. For requests of which sc_settle()
 * said ATOMIC; `told` is ignored.
 */
bool sc_owner_asks(const struct sp_request *request);

/* Decides a request of shift/shift_uid.h of unknown fate. False: the rules of uid do not. */
bool sc_uid_decides(const struct sp_request *request, enum sp_fate *fate);

struct sc_action;
/* Copies what SC_ACT_SETTLE knows of the PSN of `carrier`, where the requests lie. */
void sc_settle_exact(struct sc_counts *counts, const struct sc_action *settle, uint32_t carrier);

/*
 * Reads a word of the log (SHIFT_WQE_LOG). Behind each n-th request that changes the peer's memory
 * its sender lays a WQE that writes one word there (sp_log_word). Its place is always the same. The
 * word has the number of requests before it (cumulative, as the engine numbers them), under a tag
 * that the peer has given to no other carrier. A queue pair executes in order, and a NIC's writes
 * reach host memory in order. So if the word is there, all requests that it counts are there,
 * whatever became of the NIC. Words with other tags are of carriers that had the place before, and
 * say nothing.
 */
bool sc_log_read(uint64_t word, uint32_t tag, uint32_t *number);
/* ran: log_ran of sc_counts, by the word of carrier `of`. */
void sc_settle_log(struct sc_counts *counts, uint32_t of, int32_t ran, uint32_t carrier);

/*
 * Decides the fates of requests. Two lines divide them. The count says what was received and is in
 * memory, up to the last two-sided request that it counts. The expected PSN X says which requests,
 * with numbers [start, end), were received, but nothing of memory: a NIC that died (recalled) may
 * not have written them. There X only says what never ran.
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
 *	start >= X	never ran: again, atomics too;	the same
 *			changed nothing that a READ
 *			before it may see
 *
 * Without X, or if the NIC died, the log's word moves the count's line forward: all that it counts
 * is delivered and in memory. The line does not pass a two-sided request that was not counted: its
 * receive is laid again.
 *
 * An atomic of unknown fate, or whose value is lost, is decided by its target's word, if the peer
 * has told that and each value swapped in has one owner, who alone changes it (owner.c). Or the
 * atomic's result is found out otherwise (uid.c).
 *
 * requests[0..n): all published outstanding requests, in posting order. Writes fates[0..n). Returns
 * SC_REASON_NONE; or MISCOUNT, ATOMIC or FENCED_READ when nothing may be resubmitted.
 */
enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n,
			 const struct sc_counts *counts, enum sp_fate *fates,
			 struct sc_verdict *verdict);

#endif
