/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What each host believes of the paths. */
#ifndef TESTS_SIM_SIM_PATH_H
#define TESTS_SIM_SIM_PATH_H

#include "shiftlib/core/core.h"

struct sim_world;

bool sim_path_truth(const struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_changed(struct sim_world *w, uint32_t path);
void sim_path_noticed(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_view(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_steady(struct sim_world *w, uint32_t host, uint32_t path, uint32_t generation);
void sim_path_blame(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_tell(struct sim_world *w, uint32_t end);
void sim_path_lost(struct sim_world *w, uint32_t host, uint32_t path, enum sc_reason reason);
/* Could a connection of stock's be over by now? */
bool sim_path_stock_over(struct sim_world *w);
bool sim_path_was_way(const struct sim_world *w, uint64_t from);

#endif
