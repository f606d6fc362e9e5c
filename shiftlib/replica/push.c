/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * READs that push what a NIC wrote: a round of them reads all regions that matter, of one
 * protection domain on one NIC. Many connections that leave together wait for the same round.
 */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"
#include "shiftlib/replica/reader.h"

#define PUSH_BATCH 256 /* READs at a time */
#define PUSH_READS 8   /* READs that are on their way at most */
#define PUSH_BYTES 64  /* memory for what is read, which nobody looks at */

struct push_target {
	uint64_t addr;
	uint32_t key;
	bool readable; /* key: an rkey for a READ; else an lkey, for a WRITE from there */
};

struct sh_pusher {
	struct sh_reader reader;
	struct sh_busy busy;
	bool deaf; /* the NIC did not read while its port was down */
	/* When the round began that is under way, and the last one that ended; 0: none. */
	uint64_t begun, done;
	struct push_target *targets;
	uint32_t n, next;
};

struct sh_pushers {
	struct sh_pusher at[SC_MAX_PATHS];
};

bool sh_push_concerns(const struct sh_mr *mr)
{
	return (mr->dmabuf || mr->foreign) && mr->alone == SH_ALONE_NOT && mr->length &&
	       mr->access & IBV_ACCESS_LOCAL_WRITE;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static void push_hold(void *owner, uint8_t path, bool begin) SH_LOCKED
{
	struct sh_pd *pd = owner;
	struct sh_busy *busy = &pd->pushers->at[path].busy;

	if (begin) {
		sh_job_begin(busy);
		sh_job_begin(&pd->busy);
	} else {
		sh_job_end(busy);
		sh_job_end(&pd->busy);
	}
}

static const struct sh_reader_kind push_kind = {
	.bytes = PUSH_BYTES,
	.batch = PUSH_BATCH,
	.reads = PUSH_READS,
	.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	.hold = push_hold,
};

/* Forgets the round; what was learned of the NIC stays. */
static void push_forget(struct sh_pusher *pusher)
{
	free(pusher->targets);
	pusher->targets = NULL;
	pusher->n = pusher->next = 0;
	pusher->begun = 0;
}

static void push_renew(struct sh_pd *pd, uint8_t path, bool make) SH_LOCKED
{
	struct sh_pusher *pusher = &pd->pushers->at[path];
	struct sh_reader_place place = { pd, path, pd };

	if (sh_reader_renew(&pusher->reader, &push_kind, &place, make))
		push_forget(pusher);
}

void sh_push_prepare(struct sh_pd *pd, uint8_t path)
{
	const struct sh_reader *reader;

	if (!pd->pushers)
		pd->pushers = calloc(1, sizeof(*pd->pushers));
	if (!pd->pushers)
		return;
	reader = &pd->pushers->at[path].reader;
	if (reader->state == SH_READER_MAKING ||
	    (reader->state == SH_READER_READY && !reader->failed &&
	     !sh_reader_stale(reader, pd, path)))
		return;
	push_renew(pd, path, true);
}

/* ---- a round -------------------------------------------------------------------------------- */

static void push_target(const struct sh_mr *mr, const struct sh_pusher *pusher, uint8_t path,
			struct push_target *target)
{
	const struct ibv_mr *real = pusher->reader.own ? mr->mr : mr->shadow[path].mr;

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
	if (pusher->reader.own)
		return !mr->placeholder;
	return mr->shadow[path].state == SH_SHADOW_MADE && mr->shadow[path].mr &&
	       mr->shadow[path].incarnation == pusher->reader.incarnation;
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
	struct ibv_sge sge = { (uintptr_t)pusher->reader.looped.memory, 1,
			       pusher->reader.looped.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = last ? IBV_SEND_SIGNALED : 0,
				  .wr.rdma = { target->addr, target->key } };
	struct ibv_send_wr *bad;

	if (!target->readable) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = sge.addr;
		wr.wr.rdma.rkey = pusher->reader.looped.mr->rkey;
		sge.addr = target->addr;
		sge.lkey = target->key;
	}
	return !ibv_post_send(pusher->reader.looped.qp, &wr, &bad);
}

/* The last one is signaled: a queue pair's requests end in their order. */
static void push_batch(struct sh_pusher *pusher)
{
	uint32_t end = pusher->next + PUSH_BATCH;

	if (end > pusher->n)
		end = pusher->n;
	for (; pusher->next < end && !pusher->reader.failed; pusher->next++)
		pusher->reader.failed =
			!push_post(pusher, &pusher->targets[pusher->next], pusher->next + 1 == end);
}

static void push_ended(struct sh_pusher *pusher)
{
	if (!pusher->reader.failed)
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
	if (!pusher->n || pusher->reader.failed)
		push_ended(pusher);
}

static void push_look(struct sh_pusher *pusher)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(pusher->reader.looped.cq, 1, &wc);

	if (!n)
		return;
	pusher->reader.failed = n < 0 || wc.status;
	if (!pusher->reader.failed && pusher->next < pusher->n)
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
	if (pusher->reader.state != SH_READER_READY)
		return SH_PUSH_WAITS;
	if (pusher->begun)
		push_look(pusher);
	if (!pusher->begun && !pusher->reader.failed && pusher->done < since)
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
	pusher->reader.failed = true;
	pusher->deaf = !sh_nic_up(nic);
}

/* ---- its end -------------------------------------------------------------------------------- */

void sh_push_leave(struct sh_pd *pd, uint8_t path)
{
	if (pd->pushers && pd->pushers->at[path].reader.state == SH_READER_READY)
		push_renew(pd, path, false);
}

static void push_destroy(struct sh_pd *pd, uint8_t path) SH_DROPS
{
	struct sh_pusher *pusher = &pd->pushers->at[path];
	struct sh_reader_place place = { pd, path, pd };

	push_forget(pusher);
	sh_reader_drop(&pusher->reader, &push_kind, &place);
}

void sh_push_drop_own(struct sh_pd *pd)
{
	if (!pd->pushers)
		return;
	sh_wait_idle(&pd->pushers->at[0].busy);
	if (pd->pushers->at[0].reader.own)
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
