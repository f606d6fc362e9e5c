/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The blank tables of a queue before its first post: most of a program's thousands of queues have
 * none.
 */
#ifndef RING_BLANK_H
#define RING_BLANK_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The bytes of a send ring's tables, for each WQEBB: wrid, wqe_head, wr_data. */
#define RING_TABLE_BYTES (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint8_t))

/*
 * Returns the blank tables of n places, a power of two: no wrid, and in wqe_head a number that no
 * request has for long. All queues of that size share one, for the life of the process; only to be
 * read. NULL: no memory. Any thread.
 */
uint64_t *ring_blank(uint32_t n);

#pragma GCC visibility pop

#endif
