/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How the receives of a shared queue are shared out among NICs: each by the carriers that take there. */
#ifndef SHIFT_SHARE_H
#define SHIFT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Has a, with its users, fewer receives for each of them than b? */
static inline bool sp_share_fewer(uint32_t receives_a, uint32_t users_a, uint32_t receives_b,
				  uint32_t users_b)
{
	return (uint64_t)receives_a * users_b < (uint64_t)receives_b * users_a;
}

static inline uint32_t sp_share_part(uint32_t receives, uint32_t users, uint32_t all_users)
{
	return all_users ? (uint32_t)((uint64_t)receives * users / all_users) : 0;
}

/* Less than a quarter of its part. */
static inline bool sp_share_in_want(uint32_t receives, uint32_t part)
{
	return receives * 4ull < part;
}

#endif
