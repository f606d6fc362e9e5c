/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A context with two protection domains and shadows on other NICs, whose verbs only count; their workers are real. */
#ifndef TESTS_UNIT_REPLICA_RIG_H
#define TESTS_UNIT_REPLICA_RIG_H

#include <infiniband/verbs.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

enum { RIG_PATHS = 4, RIG_PDS = 2 };

/* A region as the NIC's driver has it. */
struct rig_mr {
	struct ibv_mr mr;
	uint8_t path;
	atomic_uint gone; /* so often deregistered */
};

extern struct sh_ctx rig_ctx;
extern struct sh_pd rig_pds[RIG_PDS];
extern atomic_uint rig_made[RIG_PATHS], rig_gone[RIG_PATHS];
extern atomic_int rig_error; /* of deregistering */
extern enum ibv_fork_status rig_fork;
extern struct shift_real rig_real;

int rig_setup(void **state);
int rig_teardown(void **state);
struct rig_mr *rig_mr_new(uint8_t path); /* for the test to free */
/* The worker of that path's NIC is at something until it is let go. */
void rig_worker_hold(uint8_t path);
void rig_worker_let_go(uint8_t path);

#endif
