/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * READs that push what a NIC wrote: a round of them reads all regions that matter, of one
 * protection domain on one NIC. Many connections that leave together wait for the same round.
 */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"
#include "shiftlib/replica/real_qp.h"

#define PUSH_BATCH   256 /* READs at a time */
#define PUSH_READS   8	 /* READs that are on their way at most */
#define PUSH_TIMEOUT 14
#define PUSH_BYTES   64 /* memory for what is read, which nobody looks at */

struct push_target {
	uint64_t addr;
	uint32_t key;
	bool readable; /* key: an rkey for a READ; else an lkey, for a WRITE from there */
};

struct sh_pusher {
	enum { PUSHER_NONE, PUSHER_MAKING, PUSHER_READY } state;
	struct sh_busy busy;
	bool own;    /* made in the application's context; else it holds the NIC's incarnation */
	bool failed; /* the queue pair has to be made anew */
	bool deaf;   /* the NIC did not read while its port was down */
	uint32_t incarnation;
	struct sh_looped looped;
	/* When the round began that is under way, and the last one that ended; 0: none. */
	uint64_t begun, done;
	struct push_target *targets;
	uint32_t n, next;
};

struct sh_pushers {
	struct sh_pusher at[SC_MAX_PATHS];
};

struct push_job {
	struct sh_job job;
	struct sh_pd *pd;
	struct sh_nic *nic;
	uint8_t path;
	struct sh_address address;
	struct ibv_pd *own_pd; /* the application's PD where it may be used; or NULL */
	struct sh_pusher made, gone;
};

bool sh_push_concerns(const struct sh_mr *mr)
{
	return (mr->dmabuf || mr->foreign) && mr->alone == SH_ALONE_NOT && mr->length &&
	       mr->access & IBV_ACCESS_LOCAL_WRITE;
}

/* ---- queue pairs: made and destroyed on the NIC's worker ------------------------------------ */

/* The PD whose keys name the regions there: the shadow, or the application's own. */
static struct ibv_pd *push_pd(struct push_job *task)
{
	const struct sh_pd *pd = task->pd;

	if (sh_pd_shadowed(pd, task->path)) {
		task->made.incarnation = pd->shadow[task->path].incarnation;
		return pd->shadow[task->path].pd;
	}
	task->made.own = task->own_pd != NULL;
	return task->own_pd;
}

static void push_make(struct push_job *task)
{
	const struct sh_limits *max = &task->nic->max;
	uint8_t reads = sh_fit_reads(sh_fit_reads(PUSH_READS, max->reads_out), max->reads_in);
	struct ibv_qp_attr limits = { .timeout = PUSH_TIMEOUT,
				      .retry_cnt = 1,
				      .max_rd_atomic = reads,
				      .max_dest_rd_atomic = reads,
				      .qp_access_flags =
					      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_pd *pd = push_pd(task);

	if (pd && sh_looped_make(&task->made.looped, pd, PUSH_BYTES, PUSH_BATCH, &task->address,
				 &limits)) {
		task->made.state = PUSHER_READY;
		return;
	}
	sh_looped_destroy(&task->made.looped);
	task->made = (struct sh_pusher){ .state = PUSHER_NONE };
}

static void push_job_run(struct sh_job *job)
{
	struct push_job *task = (struct push_job *)job;

	sh.real->thread_inside();
	sh_looped_destroy(&task->gone.looped);
	if (task->made.state == PUSHER_MAKING)
		push_make(task);
}

static void push_took(struct push_job *task) SH_LOCKED
{
	struct sh_pusher *pusher = &task->pd->pushers->at[task->path];
	const struct sh_ctx *ctx = task->pd->ctx;
	struct sp_dev *dev =
		task->made.own ? ctx->dev : sh_nic_dev(task->nic, sh_nic_engine(ctx->nic));

	pusher->state = task->made.state;
	pusher->own = task->made.own;
	pusher->incarnation = task->made.incarnation;
	pusher->looped = task->made.looped;
	pusher->failed = false;
	if (pusher->state != PUSHER_READY)
		return;
	if (!pusher->own)
		sh_nic_hold(task->nic, pusher->incarnation);
	if (dev)
		sp_qp_foreign(dev, pusher->looped.qp);
	sh_kick();
}

static void push_job_done(struct sh_job *job)
{
	struct push_job *task = (struct push_job *)job;
	struct sh_pusher *pusher;

	sh_lock();
	pusher = &task->pd->pushers->at[task->path];
	if (task->gone.looped.qp && !task->gone.own)
		sh_nic_release(task->nic, task->gone.incarnation);
	if (job->canceled)
		task->made = (struct sh_pusher){ .state = PUSHER_NONE };
	if (pusher->state == PUSHER_MAKING)
		push_took(task);
	sh_job_end(&pusher->busy);
	sh_job_end(&task->pd->busy);
	sh_unlock();
	free(task);
}

/* Gives the queue pair to the caller; what was learned of the NIC stays. */
static struct sh_pusher pusher_take(struct sh_pusher *pusher)
{
	struct sh_pusher taken = *pusher;

	free(pusher->targets);
	*pusher = (struct sh_pusher){ .busy = taken.busy, .deaf = taken.deaf, .done = taken.done };
	return taken;
}

/* Destroys the queue pair that is there; make: another one follows. */
static void push_job_submit(struct sh_pd *pd, uint8_t path, bool make) SH_LOCKED
{
	struct sh_pusher *pusher = &pd->pushers->at[path];
	struct sh_nic *nic = pd->ctx->path[path];
	struct push_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct push_job){ .job = { .fn = push_job_run, .done = push_job_done },
				   .pd = pd,
				   .nic = nic,
				   .path = path,
				   .address = nic->address,
				   .gone = *pusher };
	if (!path && !pd->ctx->dead)
		task->own_pd = pd->pd;
	if (make)
		task->made.state = PUSHER_MAKING;
	sh_job_begin(&pusher->busy);
	sh_job_begin(&pd->busy);
	if (nic->worker && !sh_worker_submit(nic->worker, &task->job)) {
		(void)pusher_take(pusher);
		pusher->state = make ? PUSHER_MAKING : PUSHER_NONE;
		return;
	}
	sh_job_end(&pd->busy);
	sh_job_end(&pusher->busy);
	free(task);
}

static bool pusher_stale(const struct sh_pd *pd, const struct sh_pusher *pusher, uint8_t path)
{
	if (pusher->own)
		return pd->ctx->dead;
	return pusher->incarnation != pd->ctx->path[path]->incarnation;
}

void sh_push_prepare(struct sh_pd *pd, uint8_t path)
{
	struct sh_pusher *pusher;

	if (!pd->pushers)
		pd->pushers = calloc(1, sizeof(*pd->pushers));
	if (!pd->pushers)
		return;
	pusher = &pd->pushers->at[path];
	if (pusher->state == PUSHER_MAKING ||
	    (pusher->state == PUSHER_READY && !pusher->failed && !pusher_stale(pd, pusher, path)))
		return;
	push_job_submit(pd, path, true);
}

/* ---- a round -------------------------------------------------------------------------------- */

static void push_target(const struct sh_mr *mr, const struct sh_pusher *pusher, uint8_t path,
			struct push_target *target)
{
	const struct ibv_mr *real = pusher->own ? mr->mr : mr->shadow[path].mr;

	if (mr->access & IBV_ACCESS_ZERO_BASED)
		target->addr = 0;
	else
		target->addr = mr->plain ? (uintptr_t)mr->addr : mr->iova;
	target->readable = mr->access & IBV_ACCESS_REMOTE_READ;
	target->key = target->readable ? real->rkey : real->lkey;
}

static bool push_reaches(const struct sh_mr *mr, const struct sh_pusher *pusher, uint8_t path)
{
	if (!sh_push_concerns(mr) || mr->leaving)
		return false;
	if (pusher->own)
		return !mr->placeholder;
	return mr->shadow[path].state == SH_SHADOW_MADE && mr->shadow[path].mr &&
	       mr->shadow[path].incarnation == pusher->incarnation;
}

/* False: no memory. */
static bool push_collect(const struct sh_pd *pd, struct sh_pusher *pusher, uint8_t path)
{
	struct push_target *targets = calloc(pd->foreign + 1, sizeof(*targets));
	const struct sh_mr *mr;
	uint32_t n = 0;

	if (!targets)
		return false;
	list_for_each (&pd->mrs, mr, struct sh_mr, link)
		if (n < pd->foreign && push_reaches(mr, pusher, path))
			push_target(mr, pusher, path, &targets[n++]);
	free(pusher->targets);
	pusher->targets = targets;
	pusher->n = n;
	pusher->next = 0;
	return true;
}

static bool push_post(struct sh_pusher *pusher, const struct push_target *target, bool last)
{
	struct ibv_sge sge = { (uintptr_t)pusher->looped.memory, 1, pusher->looped.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = last ? IBV_SEND_SIGNALED : 0,
				  .wr.rdma = { target->addr, target->key } };
	struct ibv_send_wr *bad;

	if (!target->readable) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = sge.addr;
		wr.wr.rdma.rkey = pusher->looped.mr->rkey;
		sge.addr = target->addr;
		sge.lkey = target->key;
	}
	return !ibv_post_send(pusher->looped.qp, &wr, &bad);
}

/* The last one is signaled: a queue pair's requests end in their order. */
static void push_batch(struct sh_pusher *pusher)
{
	uint32_t end = pusher->next + PUSH_BATCH;

	if (end > pusher->n)
		end = pusher->n;
	for (; pusher->next < end && !pusher->failed; pusher->next++)
		pusher->failed =
			!push_post(pusher, &pusher->targets[pusher->next], pusher->next + 1 == end);
}

static void push_ended(struct sh_pusher *pusher)
{
	if (!pusher->failed)
		pusher->done = pusher->begun;
	pusher->begun = 0;
}

static void push_begin(const struct sh_pd *pd, struct sh_pusher *pusher, uint8_t path, uint64_t now)
{
	if (!push_collect(pd, pusher, path))
		return;
	pusher->begun = now;
	if (pusher->n)
		push_batch(pusher);
	if (!pusher->n || pusher->failed)
		push_ended(pusher);
}

static void push_look(struct sh_pusher *pusher)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(pusher->looped.cq, 1, &wc);

	if (!n)
		return;
	pusher->failed = n < 0 || wc.status;
	if (!pusher->failed && pusher->next < pusher->n)
		push_batch(pusher);
	else
		push_ended(pusher);
}

enum sh_pushed sh_push(struct sh_pd *pd, uint8_t path, uint64_t since, uint64_t now)
{
	struct sh_pusher *pusher;

	sh_push_prepare(pd, path);
	if (!pd->pushers)
		return SH_PUSH_CANNOT;
	pusher = &pd->pushers->at[path];
	if (pusher->deaf && !sh_nic_up(pd->ctx->path[path]))
		return SH_PUSH_CANNOT;
	if (pusher->state != PUSHER_READY)
		return SH_PUSH_WAITS;
	if (pusher->begun)
		push_look(pusher);
	if (!pusher->begun && !pusher->failed && pusher->done < since)
		push_begin(pd, pusher, path, now);
	return pusher->done >= since ? SH_PUSHED : SH_PUSH_WAITS;
}

void sh_push_give_up(struct sh_pd *pd, uint8_t path)
{
	const struct sh_nic *nic = pd->ctx->path[path];
	struct sh_pusher *pusher;

	sh_warn_once("%s: it does not read back what it wrote to the memory of another device: a "
		     "connection that has left it may receive over another NIC first",
		     nic->name);
	if (!pd->pushers)
		return;
	pusher = &pd->pushers->at[path];
	pusher->failed = true;
	pusher->deaf = !sh_nic_up(nic);
}

/* ---- its end -------------------------------------------------------------------------------- */

void sh_push_leave(struct sh_pd *pd, uint8_t path)
{
	if (pd->pushers && pd->pushers->at[path].state == PUSHER_READY)
		push_job_submit(pd, path, false);
}

static void push_destroy(struct sh_pd *pd, uint8_t path) SH_DROPS
{
	struct sh_pusher gone = pusher_take(&pd->pushers->at[path]);

	if (gone.state != PUSHER_READY)
		return;
	sh_job_begin(&pd->busy);
	sh_unlock();
	sh_looped_destroy(&gone.looped);
	sh_lock();
	if (!gone.own)
		sh_nic_release(pd->ctx->path[path], gone.incarnation);
	sh_job_end(&pd->busy);
}

void sh_push_drop_own(struct sh_pd *pd)
{
	if (!pd->pushers)
		return;
	sh_wait_idle(&pd->pushers->at[0].busy);
	if (pd->pushers->at[0].own)
		push_destroy(pd, 0);
}

void sh_push_drop(struct sh_pd *pd)
{
	uint8_t path;

	for (path = 0; pd->pushers && path < SC_MAX_PATHS; path++)
		push_destroy(pd, path);
	free(pd->pushers);
	pd->pushers = NULL;
}
