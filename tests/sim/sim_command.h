/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands that take time on the worker of a NIC. */
#ifndef TESTS_SIM_SIM_COMMAND_H
#define TESTS_SIM_SIM_COMMAND_H

#include "sim_event.h"
#include "sim_nic.h"

struct sim_world;

void sim_command_submit(struct sim_world *w, const struct sim_command *command);
void sim_command_run(struct sim_world *w, const struct sim_command *command);
void sim_command_unpark(struct sim_world *w, uint32_t host, uint32_t path);
void sim_command_quiesce(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_recount(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_ask_psn(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_flush_over(struct sim_world *w, uint32_t end, uint32_t generation);
void sim_command_drop_old(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_destroy(struct sim_world *w, struct sim_qp *qp);

#endif
