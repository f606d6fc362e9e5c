/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fence of the ordered switch. */
#ifndef SHIFTLIB_CONN_FENCE_H
#define SHIFTLIB_CONN_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

/* In struct sh_qp. */
struct sh_fence {
	uint32_t number; /* 0: none */
	bool laid;
	uint32_t keys; /* number of the last memory key that went into the journal before it */
	uint64_t since, next_at, interval;
};

void sh_fence_lay(struct sh_qp *qp, uint32_t number) SH_LOCKED;
void sh_fence_lift(struct sh_qp *qp) SH_LOCKED;
void sh_fence_forget(struct sh_qp *qp); /* the connection leaves, or ends */

extern const struct sh_conn_part sh_fence_part;

#endif
