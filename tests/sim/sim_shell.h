/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shell: events into the core, its actions out, control messages. */
#ifndef TESTS_SIM_SIM_SHELL_H
#define TESTS_SIM_SIM_SHELL_H

#include "sim_event.h"

struct sim_world;

void sim_shell_init(struct sim_world *w);
void sim_shell_event(struct sim_world *w, uint32_t end, const struct sc_event *event);
void sim_shell_later(struct sim_world *w, uint32_t end, struct sc_event event);
void sim_shell_message(struct sim_world *w, uint32_t end, const struct sim_message *message);
/* Between the shells: the core knows nothing of it. */
void sim_shell_send_log(struct sim_world *w, uint32_t end, const struct sim_log_message *m);
void sim_shell_timer(struct sim_world *w, uint32_t end, uint32_t generation);

#endif
