// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of patterns. */
#include "pattern.h"

const struct pattern_ops *const pattern_table[PATTERN_COUNT] = {
	[PATTERN_SIMPLE] = &pattern_simple, [PATTERN_SENDRECV] = &pattern_sendrecv,
	[PATTERN_READ] = &pattern_read,	    [PATTERN_ATOMIC] = &pattern_atomic,
	[PATTERN_MIXED] = &pattern_mixed,   [PATTERN_FENCED] = &pattern_fenced,
	[PATTERN_SLOTS] = &pattern_slots,   [PATTERN_SLOTS128] = &pattern_slots128,
	[PATTERN_SIGNAL] = &pattern_signal,
};
