/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics that are decided by their owner's value (shiftlib/core/owner.c). In some schedules each is a
 * compare-and-swap of a word, free or somebody's, to a value of its own; who has seen that it has the word gives it
 * back at times, and somebody else takes it and gives it back over other connections.
 *
 * O1: one that has swapped never runs again, and its owner has the word until he gives it back.
 */
#ifndef TESTS_SIM_SIM_OWNER_H
#define TESTS_SIM_SIM_OWNER_H

#include "sim_exact.h"

struct sp_request;

void sim_owner_init(struct sim_world *w);
/* Of an end whose peer sent it: the old value. */
uint32_t sim_owner_execute(struct sim_world *w, uint32_t end, uint32_t request);
void sim_owner_third(struct sim_world *w, uint32_t end, uint32_t cell);
/* What settling asks, and knows if the peer could tell. */
void sim_owner_tell(struct sim_world *w, uint32_t end, struct sp_request *requests, uint32_t first,
		    uint32_t n);
void sim_owner_settled(struct sim_world *w, uint32_t end, const struct sim_settled *s);
void sim_owner_seen(struct sim_world *w, uint32_t end, uint32_t request);
/* May it run again though it has run? */
bool sim_owner_has_not_swapped(const struct sim_world *w, uint32_t end, uint32_t request);

#endif
