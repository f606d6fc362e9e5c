/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Leaving a path that is down, and waiting out a flap.
 *
 * P9: nobody leaves a path that is down while the peer's process is halted, and could not say that
 * it follows.
 * P9: nobody leaves a carrier for a path that is down while an atomic, of either end, that ran on it may
 * still get its answer, before its QP would have given up.
 * W1: a wait ends: by the path, GO, an error or its time.
 */
#ifndef TESTS_SIM_SIM_STAY_H
#define TESTS_SIM_SIM_STAY_H

#include "shiftlib/core/core.h"

struct sim_world;

bool sim_stay_takes_atomics(struct sim_world *w, uint32_t end);
void sim_stay_check(struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before);

#endif
