/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A real QP for a connection is made, or connected, by the worker of its NIC: standby.c, and
 * pool.c ahead.
 */
#ifndef SHIFTLIB_CONN_STANDBY_JOB_H
#define SHIFTLIB_CONN_STANDBY_JOB_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/core/core.h"

struct sh_nic;
struct sh_qp;

struct sh_standby_job {
	struct sh_job job;
	struct sh_qp *qp;
	uint32_t epoch;
	uint8_t path;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_qp *real;
	struct ibv_qp_cap caps; /* of that; make */
	struct sh_carrier
		ahead; /* make: one of the pool, held, whose QP may be taken; NULL: none */
	struct sc_address address; /* make: ours; connect: the peer's */
	struct ibv_qp_attr attr;   /* the application's, captured */
	struct sh_tenant tenant;   /* likewise */
	struct sh_address own;	   /* the NIC's, as the job began */
	struct sh_tenant_place place;
	struct sc_address local;
	bool rts;	 /* connect: the application is in RTS */
	const char *why; /* NULL: it worked */
};

/*
 * What the worker needs to know of the connection. Before: path, nic, and address for connecting.
 */
void sh_standby_job_capture(struct sh_standby_job *task, struct sh_qp *qp) SH_LOCKED;
/* job.fn: shadows of what the QP needs, the QP, INIT. Else `why`, and no QP is left. */
void sh_standby_job_make(struct sh_job *job);

#endif
