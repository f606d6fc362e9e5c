/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The trial of what a NIC tells of a QP in ERR: the expected PSN, which the exact count rests on
 * (core/exact.c). Drivers give it out, but no specification says that a NIC keeps it there. So
 * each shows that it does before it is believed: a QP that is connected to itself writes, reads
 * and adds, goes to ERR, and is asked.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/prove.h"
#include "shiftlib/replica/real_qp.h"

#define PROVE_REQUESTS 3
#define PROVE_PACKETS  3 /* packets of a WRITE, and of a READ's answer */
#define PROVE_TIMEOUT  14
/* PSN of the first packet: numbers have 24 bits, and go on at 0. */
#define PROVE_PSN     0xfffffd
#define PROVE_WAIT_NS (500 * SH_NS_PER_MS)
#define PROVE_LOOK_NS (50 * SH_NS_PER_US)

struct prove_job {
	struct sh_job job;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_context *ctx;
	/* The engines of that incarnation that drive QPs there. */
	struct sp_dev *dev[SP_ENGINES];
	struct sh_address address;
	const char *why; /* NULL: it told the truth */
};

/* The objects of the trial. */
struct prove_kit {
	struct sh_looped looped;
	uint32_t bytes; /* enough for PROVE_PACKETS */
	bool atomics;
};

static bool kit_make(struct prove_kit *kit, const struct prove_job *task)
{
	struct ibv_qp_attr limits = {
		.timeout = PROVE_TIMEOUT,
		.sq_psn = PROVE_PSN,
		.retry_cnt = 7,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (kit->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};

	kit->looped.pd = sh.real->alloc_pd(task->ctx);
	if (!kit->looped.pd || !sh_looped_make(&kit->looped, kit->looped.pd, 2ul * kit->bytes,
					       PROVE_REQUESTS, &task->address, &limits))
		return false;
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (task->dev[i])
			sp_qp_foreign(task->dev[i], kit->looped.qp);
	return true;
}

static int kit_post(struct prove_kit *kit, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t local = (uintptr_t)kit->looped.memory, remote = local + kit->bytes;
	struct ibv_sge sge = { .addr = local, .length = bytes, .lkey = kit->looped.mr->lkey };
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = kit->looped.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = kit->looped.mr->rkey;
	}
	return ibv_post_send(kit->looped.qp, &wr, &bad);
}

/* No command: a NIC whose port passes nothing does not hang. */
static bool kit_await(struct prove_kit *kit, int n)
{
	uint64_t until = sh_now_ns() + PROVE_WAIT_NS;
	struct timespec nap = { .tv_nsec = PROVE_LOOK_NS };
	struct ibv_wc wc;
	int got = 0;

	sh_worker_command_end();
	while (n > 0) {
		got = ibv_poll_cq(kit->looped.cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			break;
		n -= got;
		if (!got && sh_now_ns() > until)
			break;
		if (!got)
			nanosleep(&nap, NULL);
	}
	sh_worker_command_begin();
	return !n;
}

static const char *kit_try(struct prove_kit *kit)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR }, told = { 0 };
	uint32_t expected = (PROVE_PSN + 2 * PROVE_PACKETS + kit->atomics) & 0xffffff;
	struct ibv_qp_init_attr init;

	if (kit_post(kit, IBV_WR_RDMA_WRITE, kit->bytes) ||
	    kit_post(kit, IBV_WR_RDMA_READ, kit->bytes) ||
	    (kit->atomics && kit_post(kit, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(uint64_t))) ||
	    !kit_await(kit, 2 + kit->atomics))
		return "a queue pair connected to itself does not work";
	if (sh.real->modify_qp(kit->looped.qp, &error, IBV_QP_STATE) ||
	    sh.real->query_qp(kit->looped.qp, &told, IBV_QP_RQ_PSN, &init))
		return "a queue pair in ERR cannot be asked";
	return told.rq_psn == expected ? NULL
				       : "it tells a wrong expected PSN of a queue pair in ERR";
}

static const char *prove(struct prove_job *task)
{
	struct prove_kit kit = { 0 };
	struct ibv_device_attr attr;
	const char *why = "it lacks something that the trial needs";

	if (sh.real->query_device(task->ctx, &attr))
		return why;
	kit.atomics = attr.atomic_cap != IBV_ATOMIC_NONE;
	kit.bytes = PROVE_PACKETS * sh_mtu_bytes(task->address.mtu);
	if (kit_make(&kit, task))
		why = kit_try(&kit);
	sh_looped_destroy(&kit.looped);
	return why;
}

static void prove_run(struct sh_job *job)
{
	struct prove_job *task = (struct prove_job *)job;

	sh.real->thread_inside();
	task->why = prove(task);
}

static void prove_say(const struct sh_nic *nic)
{
	if (nic->max.exact.why)
		sh_log(SH_LOG_INFO,
		       "%s: requests at a fault are settled by the count of receives alone: %s",
		       nic->name, nic->max.exact.why);
	else
		sh_log(SH_LOG_INFO, "%s: it tells the expected PSN of queue pairs in ERR",
		       nic->name);
}

static void prove_done(struct sh_job *job)
{
	struct prove_job *task = (struct prove_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	if (!job->canceled && task->incarnation == nic->incarnation) {
		nic->max.exact.known = true;
		nic->max.exact.why = task->why;
		prove_say(nic);
	}
	sh_nic_release(nic, task->incarnation);
	sh_job_end(&nic->busy);
	sh_unlock();
	free(task);
}

/*
 * Starts the trial. What a NIC can is forgotten with each of its lives, and so this is asked
 * again.
 */
void sh_nic_prove(struct sh_nic *nic)
{
	struct prove_job *task;

	if (!sh.config.core.exact || !sh_nic_usable(nic) || !nic->worker || nic->max.exact.asked)
		return;
	task = calloc(1, sizeof(*task));
	if (!task)
		return;
	*task = (struct prove_job){ .job = { .fn = prove_run, .done = prove_done },
				    .nic = nic,
				    .incarnation = nic->incarnation,
				    .ctx = nic->ctx,
				    .address = nic->address };
	memcpy(task->dev, nic->dev, sizeof(task->dev));
	nic->max.exact.asked = true;
	sh_job_begin(&nic->busy);
	sh_nic_hold(nic, nic->incarnation);
	if (!sh_worker_submit(nic->worker, &task->job))
		return;
	sh_nic_release(nic, nic->incarnation);
	sh_job_end(&nic->busy);
	free(task);
}

bool sh_nic_proven(const struct sh_nic *nic)
{
	return nic->max.exact.known && !nic->max.exact.why;
}

const char *sh_nic_exact(const struct sh_nic *nic, const char **why)
{
	*why = NULL;
	if (!sh.config.core.exact)
		return "off";
	if (!nic->max.exact.known)
		return "unasked";
	*why = nic->max.exact.why;
	return *why ? "no" : "yes";
}
