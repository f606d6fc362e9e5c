/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Patterns of traffic; each is a .c of its own. */
#ifndef VERIFY_PATTERN_H
#define VERIFY_PATTERN_H

#include <stdbool.h>

struct vqp;
struct expect;
struct completion;
struct final_info;

enum pattern {
	PATTERN_SIMPLE,
	PATTERN_SENDRECV,
	PATTERN_READ,
	PATTERN_ATOMIC,
	PATTERN_MIXED,
	PATTERN_FENCED,
	PATTERN_SLOTS,
	PATTERN_SLOTS128,
	PATTERN_SIGNAL,
	PATTERN_COUNT,
};

struct pattern_ops {
	const char *name;
	bool polls_memory;
	bool may_fail;
	void (*start)(struct vqp *q);
	bool (*step)(struct vqp *q);
	void (*sent)(struct vqp *q, const struct expect *e);
	void (*received)(struct vqp *q, const struct expect *e, const struct completion *c);
	void (*finish)(struct vqp *q, const struct final_info *peer);
};

extern const struct pattern_ops pattern_simple, pattern_sendrecv, pattern_read, pattern_atomic,
	pattern_mixed, pattern_fenced, pattern_slots, pattern_slots128, pattern_signal;
extern const struct pattern_ops *const pattern_table[PATTERN_COUNT];

#endif
