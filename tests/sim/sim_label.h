/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What happened, in the words of the proof (docs/proof/Whole.v): a line each, for tests/proof/accept. The
 * direction is that of the end that sends.
 */
#ifndef TESTS_SIM_SIM_LABEL_H
#define TESTS_SIM_SIM_LABEL_H

#include <stdint.h>
#include <stdio.h>

#include "shiftlib/core/core.h"
#include "sim_exact.h"

struct sim_qp;
struct sim_world;

extern FILE *sim_labels; /* NULL: nobody wants to know */

void sim_label(uint32_t direction, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_label_schedule(const struct sim_world *w);
/* Before one step of the core of this end, behind it, and when its actions are carried out. */
void sim_label_event(const struct sim_world *w, uint32_t end, const struct sc_event *event);
void sim_label_step(const struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before, const struct sc_actions *out);
void sim_label_settle(uint32_t end, const struct sim_settled *s);
void sim_label_acted(const struct sim_world *w, uint32_t end, const struct sc_conn *before);

#endif
