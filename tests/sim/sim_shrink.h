/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shrinking: a schedule that breaks a promise with as few decisions as possible. */
#ifndef TESTS_SIM_SIM_SHRINK_H
#define TESTS_SIM_SIM_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

struct sim_world;

void sim_shrink(struct sim_world *w, uint64_t seed);
bool sim_shrink_parse(struct sim_world *w, uint64_t seed, const char *zeroes);

#endif
