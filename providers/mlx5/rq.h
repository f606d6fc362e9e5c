/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receive rings. */
#ifndef RING_RQ_H
#define RING_RQ_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

struct ring_rq {
	uint8_t *buf;
	uint32_t shift; /* log2 of a WQE's bytes */
	uint32_t mask, cnt;
	uint32_t max_gs;
	bool blank; /* as in a send ring */
	uint32_t head;
	uint32_t pub;	       /* number of entries handed to the NIC; kept in slow modes only */
	_Atomic uint32_t tail; /* under the receive CQ's lock */
	uint64_t *wrid;
	uint8_t *keys;	   /* as in a send ring */
	uintptr_t keys_at; /* distance from buf to keys */
};

int ring_rq_fill(struct ring_rq *rq); /* as ring_sq_fill() */

#pragma GCC visibility pop

#endif
