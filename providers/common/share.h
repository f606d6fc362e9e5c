/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sharing of a shared queue's receives among NICs: each gets a share by the carriers that take
 * there.
 */
#ifndef SHIFT_SHARE_H
#define SHIFT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* True if a, with its users, has fewer receives for each of them than b. */
static inline bool sp_share_fewer(uint32_t receives_a, uint32_t users_a, uint32_t receives_b,
				  uint32_t users_b)
{
	return (uint64_t)receives_a * users_b < (uint64_t)receives_b * users_a;
}

/*
 * The order of rings with as many receives for each user: the lowest number gets the next receive.
 * A ring where the program took a receive goes to the front, as traffic is there. A ring from which
 * a receive was taken back goes to the end, so that one receive visits all rings and does not go
 * back to where nobody has used it.
 */
struct sp_share_turns {
	int64_t front, end;
};

static inline int64_t sp_share_front(struct sp_share_turns *turns)
{
	return --turns->front;
}

static inline int64_t sp_share_end(struct sp_share_turns *turns)
{
	return ++turns->end;
}

static inline uint32_t sp_share_part(uint32_t receives, uint32_t users, uint32_t all_users)
{
	return all_users ? (uint32_t)((uint64_t)receives * users / all_users) : 0;
}

/* Returns what a ring has beyond its part; its last receive is none of that. */
static inline uint32_t sp_share_surplus(uint32_t receives, uint32_t part)
{
	uint32_t keeps = part ? part : 1;

	return receives > keeps ? receives - keeps : 0;
}

/* True if a ring has less than a quarter of its part. */
static inline bool sp_share_in_want(uint32_t receives, uint32_t part)
{
	return receives * 4ull < part;
}

#endif
