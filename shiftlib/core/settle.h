/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which outstanding requests did the peer execute? */
#ifndef SHIFTLIB_CORE_SETTLE_H
#define SHIFTLIB_CORE_SETTLE_H

#include <stdbool.h>

#include "providers/request.h"
#include "shiftlib/core/state.h"

/* Of two-sided requests, cumulative and mod 2^32; done and posted are ours, published ones. */
struct sc_counts {
	uint32_t done, posted;
	uint32_t peer; /* its final receive count */
	/* The peer's NIC died: what the application has not seen complete was recalled, and is among
	 * the requests; seen: what it saw last; cut: it may have lost what it had acknowledged. */
	bool recalled, cut;
	enum sp_last_seen seen;
};

struct sc_verdict {
	uint32_t delivered; /* leading requests that are known to be executed and complete */
	bool unplaced; /* a WRITE that the application saw complete may be missing from the peer's
			* memory: nothing that would tell of it may run any more, but WRITEs */
};

/*
 * requests[0..n): all published outstanding requests, in posting order. Writes fates[0..n).
 * SC_REASON_NONE on success; MISCOUNT, ATOMIC or FENCED_READ when nothing may be
 * resubmitted.
 */
enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n,
			 const struct sc_counts *counts, enum sp_fate *fates,
			 struct sc_verdict *verdict);

#endif
