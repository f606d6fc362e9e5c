/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Room in a completion queue for what SHIFT itself lets complete there. A queue pair that leaves
 * its NIC is flushed: each outstanding request takes a place, also those that are not signaled,
 * for which the program has counted none. Hidden requests may take some, too.
 */
#ifndef SHIFTLIB_REPLICA_CQ_ROOM_H
#define SHIFTLIB_REPLICA_CQ_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Completions of one queue pair that can lie in a queue at a time: a request keeps its place in
 * the ring until then.
 */
struct sh_depth {
	uint32_t entries;
	const void *srq; /* NULL: none */
	uint32_t srq_entries;
};

struct sh_cq_room {
	uint32_t told;	 /* places that the program knows of, and may fill */
	uint32_t have;	 /* places of the real queue */
	uint64_t movers; /* most completions of the connections that may move */
	uint64_t all;	 /* most completions of all queue pairs that the engine drives */
	const void *srq; /* a shared receive queue whose receives are in `all` */
	uint32_t srq_entries;
	bool mixed;	   /* there are several of these: `all` says nothing */
	bool refused;	   /* the queue could not be made larger */
	uint64_t again_at; /* refused: when that is tried again */
	const char *why;
};

/*
 * Returns how many places suffice if connections with so many completions may move. The
 * neighbours take what the program has counted for them, at most `told`; and all queue pairs
 * together can never take more than `all`. known: there are no others.
 */
static inline uint64_t sh_room_need(const struct sh_cq_room *room, uint64_t movers, bool known)
{
	uint64_t counted = room->told + movers;
	uint64_t all = room->all + room->srq_entries;

	if (!movers)
		return room->told;
	if (!known || room->mixed || all > counted)
		return counted;
	return all > room->told ? all : room->told;
}

/*
 * Returns the size to ask for: it doubles, so that many queue pairs are few resizes. max: the
 * device's; 0: not known.
 */
static inline uint64_t sh_room_grow(const struct sh_cq_room *room, uint64_t need, int max)
{
	uint64_t size = room->have;

	while (size < need)
		size = 2 * size + 1;
	if (max > 0 && size > (uint64_t)max)
		size = need;
	return size;
}

static inline bool sh_room_over(uint64_t size, int max)
{
	return size > INT32_MAX / 128 || (max > 0 && size > (uint64_t)max);
}

static inline void sh_room_come(struct sh_cq_room *room, const struct sh_depth *depth)
{
	room->all += depth->entries;
	if (!depth->srq)
		return;
	if (room->srq && room->srq != depth->srq)
		room->mixed = true;
	room->srq = depth->srq;
	if (depth->srq_entries > room->srq_entries)
		room->srq_entries = depth->srq_entries;
}

static inline void sh_room_go(struct sh_cq_room *room, const struct sh_depth *depth)
{
	room->all -= depth->entries;
}

#endif
