/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The engine: rings and counts of an end, what is sent again. */
#ifndef TESTS_SIM_SIM_ENGINE_H
#define TESTS_SIM_SIM_ENGINE_H

#include "sim_app.h"
#include "sim_nic.h"

struct sim_world;

void sim_engine_collect(struct sim_world *w, uint32_t end);
bool sim_engine_flushed(struct sim_world *w, uint32_t end, uint32_t epoch);
bool sim_engine_died(struct sim_world *w, uint32_t end, uint32_t epoch);
bool sim_engine_cut(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_engine_seal(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_engine_post(struct sim_world *w, uint32_t end, uint32_t request);
void sim_engine_post_receive(struct sim_world *w, uint32_t end, uint32_t receive);
bool sim_engine_lay_receives(struct sim_world *w, uint32_t end, uint32_t epoch);
enum sc_reason sim_engine_settle(struct sim_world *w, uint32_t end, const struct sc_action *a);
void sim_engine_fence(struct sim_world *w, uint32_t end, uint32_t number);
bool sim_engine_stay(struct sim_world *w, uint32_t end); /* may some not be repeated? */
void sim_engine_unstay(struct sim_world *w, uint32_t end);
void sim_engine_unfence(struct sim_world *w, uint32_t end);
bool sim_engine_exact_wanted(struct sim_world *w, uint32_t end);
void sim_engine_withhold(struct sim_world *w, uint32_t end);
void sim_engine_fail(struct sim_world *w, uint32_t end);
void sim_engine_cqe(struct sim_world *w, uint32_t end, bool error);
bool sim_engine_next(struct sim_world *w, uint32_t end, struct sim_completion *out);
bool sim_engine_busy(const struct sim_world *w, uint32_t end);
struct sim_qp *sim_engine_carrier(struct sim_world *w, uint32_t end, uint32_t epoch);

#endif
