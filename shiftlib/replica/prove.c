/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The expected PSN of a QP in ERR is what the exact count rests on (core/exact.c). Drivers give it out, but no
 * specification says that a NIC keeps it there. So each shows that it does before it is believed: a QP that is
 * connected to itself writes, reads and adds, goes to ERR, and is asked.
 */
#include <errno.h>
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
#include "shiftlib/replica/srq.h"
#include "shiftlib/shift.h"

#define PROVE_PACKETS 3 /* of a WRITE, and of a READ's answer */
#define PROVE_TIMEOUT 14
#define PROVE_WAIT_NS (500 * SH_NS_PER_MS)
#define PROVE_LOOK_NS (50 * SH_NS_PER_US)

struct prove_job {
	struct sh_job job;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_context *ctx;
	struct sh_address address;
	const char *why; /* NULL: it told the truth */
};

/* What it is made with. */
struct prove_kit {
	struct ibv_pd *pd;
	void *memory;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint32_t bytes; /* that fill PROVE_PACKETS */
	bool atomics;
};

static void kit_destroy(struct prove_kit *kit)
{
	if (kit->qp)
		sh.real->destroy_qp(kit->qp);
	if (kit->mr)
		sh.real->dereg_mr(kit->mr);
	if (kit->cq)
		sh.real->destroy_cq(kit->cq);
	if (kit->pd)
		sh.real->dealloc_pd(kit->pd);
	free(kit->memory);
}

static bool kit_objects(struct prove_kit *kit, struct ibv_context *ctx)
{
	struct ibv_qp_init_attr init = { .qp_context = (void *)(uintptr_t)&sh_reclaim_mark,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     (kit->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	if (posix_memalign(&kit->memory, 4096, 2ul * kit->bytes))
		return false;
	memset(kit->memory, 0, 2ul * kit->bytes);
	kit->pd = sh.real->alloc_pd(ctx);
	if (!kit->pd)
		return false;
	kit->mr = sh.real->reg_mr(kit->pd, kit->memory, 2ul * kit->bytes, access);
	shift_async_real_begin(ctx);
	kit->cq = sh.real->create_cq(ctx, 4, NULL, NULL, 0);
	init.send_cq = init.recv_cq = kit->cq;
	if (kit->mr && kit->cq)
		kit->qp = sh.real->create_qp(kit->pd, &init);
	shift_async_real_end(ctx);
	return kit->qp;
}

static bool kit_connect(struct prove_kit *kit, const struct sh_address *own)
{
	struct ibv_qp_attr attr = { .timeout = PROVE_TIMEOUT,
				    .retry_cnt = 7,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					    (kit->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0) };

	return !sh_real_qp_loop_back(kit->qp, own, &attr);
}

static int kit_post(struct prove_kit *kit, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t local = (uintptr_t)kit->memory, remote = local + kit->bytes;
	struct ibv_sge sge = { .addr = local, .length = bytes, .lkey = kit->mr->lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = kit->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = kit->mr->rkey;
	}
	return ibv_post_send(kit->qp, &wr, &bad);
}

static bool kit_await(struct prove_kit *kit, int n)
{
	uint64_t until = sh_now_ns() + PROVE_WAIT_NS;
	struct timespec nap = { .tv_nsec = PROVE_LOOK_NS };
	struct ibv_wc wc;
	int got;

	while (n) {
		got = ibv_poll_cq(kit->cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			return false;
		n -= got;
		if (!got && sh_now_ns() > until)
			return false;
		if (!got)
			nanosleep(&nap, NULL);
	}
	return true;
}

static const char *kit_try(struct prove_kit *kit)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR }, told = { 0 };
	uint32_t expected = 2 * PROVE_PACKETS + kit->atomics;
	struct ibv_qp_init_attr init;

	if (kit_post(kit, IBV_WR_RDMA_WRITE, kit->bytes) ||
	    kit_post(kit, IBV_WR_RDMA_READ, kit->bytes) ||
	    (kit->atomics && kit_post(kit, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(uint64_t))) ||
	    !kit_await(kit, 2 + kit->atomics))
		return "a queue pair connected to itself does not work";
	if (sh.real->modify_qp(kit->qp, &error, IBV_QP_STATE) ||
	    sh.real->query_qp(kit->qp, &told, IBV_QP_RQ_PSN, &init))
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
	if (kit_objects(&kit, task->ctx) && kit_connect(&kit, &task->address))
		why = kit_try(&kit);
	kit_destroy(&kit);
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

	pthread_mutex_lock(&sh.lock);
	if (!job->canceled && task->incarnation == nic->incarnation) {
		nic->max.exact.known = true;
		nic->max.exact.why = task->why;
		prove_say(nic);
	}
	sh_nic_release(nic, task->incarnation);
	sh_job_end(&nic->busy);
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

/* What a NIC can is forgotten with each of its lives, and so this is asked again. */
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
