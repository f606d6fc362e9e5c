/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which outstanding requests did the peer execute? */
#ifndef SHIFTLIB_CORE_SETTLE_H
#define SHIFTLIB_CORE_SETTLE_H

#include "providers/request.h"
#include "shiftlib/core/state.h"

/*
 * requests[0..n): all published outstanding requests, in posting order. two_sided_done/posted:
 * cumulative, ours, published ones; peer_count: the peer's final receive count. Writes fates[0..n).
 * SC_REASON_NONE on success; MISCOUNT, ATOMIC or FENCED_READ when nothing may be resubmitted;
 * *delivered is then the number of leading requests known to be executed and complete.
 */
enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n, uint32_t two_sided_done,
			 uint32_t two_sided_posted, uint32_t peer_count, enum sp_fate *fates,
			 uint32_t *delivered);

#endif
