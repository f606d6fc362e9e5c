/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The promises, where they can be broken. */
#ifndef TESTS_SIM_SIM_CHECK_H
#define TESTS_SIM_SIM_CHECK_H

#include "shiftlib/core/core.h"
#include "sim_app.h"
#include "sim_nic.h"

struct sim_world;

/* Why a connection may end with errors. */
enum sim_excuse {
	SIM_EXCUSE_UNPROTECTED = 1,
	SIM_EXCUSE_KILLED = 2,
	SIM_EXCUSE_CLOSED = 4,
	SIM_EXCUSE_BAD = 8, /* the application's own error */
	SIM_EXCUSE_ATOMIC = 16,
	SIM_EXCUSE_FENCED_READ = 32,
	SIM_EXCUSE_MISCOUNT = 64,
	SIM_EXCUSE_NO_WAY = 128,
	SIM_EXCUSE_BOTH_SICK = 256,
	SIM_EXCUSE_HALTED = 512,
};
enum { SIM_EXCUSES = 10 };

void sim_check_write(struct sim_world *w, uint32_t end, uint32_t request);
void sim_check_receive(struct sim_world *w, uint32_t end, uint32_t receive);
void sim_check_response(struct sim_world *w, uint32_t end, uint32_t request);
void sim_check_completed_send(struct sim_world *w, uint32_t end, const struct sim_completion *c);
void sim_check_completed_receive(struct sim_world *w, uint32_t end, const struct sim_completion *c);
void sim_check_app_error(struct sim_world *w, uint32_t end);
void sim_check_fail(struct sim_world *w, uint32_t end, enum sc_reason reason);
void sim_check_resubmit(struct sim_world *w, uint32_t end);
void sim_check_publish(struct sim_world *w, uint32_t end, const struct sim_qp *qp);
void sim_check_step(struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before, const struct sc_actions *out);
void sim_check_end(struct sim_world *w);

#endif
