/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shadows of protection domains and memory regions: made on the workers of the paths' NICs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/mapped.h"
#include "shiftlib/base/table.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/keys.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"
#include "shiftlib/replica/reach.h"
#include "shiftlib/replica/srq.h"
#include "shiftlib/replica/young.h"

#define REPLAY_BATCH 8 /* regions that a job registers between two looks at who waits for one */

struct memory_job {
	struct sh_job job;
	struct sh_pd *pd;
	struct sh_mr *mr; /* NULL: the PD itself */
	uint8_t path;
	struct ibv_pd *stale_pd, *made_pd;
	struct ibv_mr *stale_mr, *made_mr;
	uint32_t incarnation, stale_incarnation;
	int error;
};

struct sh_pd *sh_pd_find(struct ibv_pd *pd)
{
	struct sh_pd *found = sh_table_get(&sh_objects.by_pd, pd);
	const struct sh_parent *parent = found ? NULL : sh_table_get(&sh_objects.by_parent, pd);

	return parent ? parent->pd : found;
}

void sh_pd_lose_path(struct sh_pd *pd, uint8_t path)
{
	if (pd->shadow[path].mr_failed && pd->shadow[path].doubtful)
		return; /* lost then, and none was made since */
	pd->shadow[path].mr_failed = pd->shadow[path].doubtful = true;
	sh_news_pd_lost_path(pd, path);
}

bool sh_pd_refuses(const struct sh_pd *pd, uint8_t path)
{
	return pd->unprotected || pd->shadow[path].doubtful;
}

bool sh_pd_shadowed(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_shadow_pd *shadow = &pd->shadow[path];

	return !pd->unprotected && shadow->pd && !shadow->mr_failed &&
	       shadow->incarnation == pd->ctx->path[path]->incarnation;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Forgets a request from before the NIC died and came back: its incarnation is gone. */
static void pd_check_asked(struct sh_pd *pd, uint8_t path, uint32_t incarnation)
{
	if (incarnation != pd->ctx->path[path]->incarnation)
		pd->shadow[path].asked = 0;
}

/*
 * Makes a shadow. A shadow of an earlier incarnation is dead: that it is taken away frees
 * libibverbs' part.
 */
static void memory_pd_run(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_shadow_pd *shadow = &task->pd->shadow[task->path];
	struct sh_nic *nic = task->pd->ctx->path[task->path];

	sh.real->thread_inside();
	if (task->stale_pd)
		sh.real->dealloc_pd(task->stale_pd);
	task->error = ENODEV;
	if (!nic->ctx)
		return;
	task->made_pd = sh.real->alloc_pd(nic->ctx);
	task->error = task->made_pd ? 0 : errno;
	shadow->pd = task->made_pd; /* read by later jobs of this worker only */
	shadow->incarnation = nic->incarnation;
}

static void memory_pd_done(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_pd *pd = task->pd;

	sh_lock();
	pd->shadow[task->path].state = task->made_pd ? SH_SHADOW_MADE : SH_SHADOW_FAILED;
	if (task->made_pd)
		sh_nic_hold(pd->ctx->path[task->path], pd->shadow[task->path].incarnation);
	pd_check_asked(pd, task->path, pd->shadow[task->path].incarnation);
	if (task->stale_pd)
		sh_nic_release(pd->ctx->path[task->path], task->stale_incarnation);
	if (!task->made_pd && !job->canceled) {
		sh_warn_once("%s: no protection domain there (%s): it protects nothing",
			     pd->ctx->path[task->path]->name, strerror(task->error));
		sh_pd_lose_path(pd, task->path);
	}
	sh_job_end(&pd->busy);
	sh_unlock();
	free(task);
}

static struct ibv_mr *memory_direct_make(const struct sh_mr *mr, struct ibv_pd *pd)
{
	const struct sp_dmabuf buf = { .offset = mr->offset,
				       .length = mr->length,
				       .iova = mr->iova,
				       .fd = mr->fd,
				       .access = (int)mr->access,
				       .flags = mr->direct };

	return sp_dmabuf_reg(pd, &buf);
}

static struct ibv_mr *memory_mr_reg(const struct sh_mr *mr, struct ibv_pd *pd, unsigned int access)
{
	if (mr->dmabuf && mr->direct)
		return memory_direct_make(mr, pd);
	if (mr->dmabuf)
		return sh.real->reg_dmabuf_mr(pd, mr->offset, mr->length, mr->iova, mr->fd,
					      (int)access);
	if (mr->plain)
		return sh.real->reg_mr(pd, mr->addr, mr->length, (int)access);
	return sh.real->reg_mr_iova2(pd, mr->addr, mr->length, mr->iova, access);
}

/*
 * Registers memory for a shadow. An optional right (relaxed ordering) makes it faster where it is
 * known, and another NIC may refuse it.
 */
static struct ibv_mr *memory_mr_make(const struct sh_mr *mr, struct ibv_pd *pd)
{
	struct ibv_mr *made = memory_mr_reg(mr, pd, mr->access);

	if (made || !(mr->access & IBV_ACCESS_OPTIONAL_RANGE))
		return made;
	return memory_mr_reg(mr, pd, mr->access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE);
}

/*
 * True if other memory is there now. The application's NIC has pinned what lay at the address
 * then. If something else lies there now, the key would name memory that nobody has registered.
 * Asked when the shadow is made: from then on it is pinned, too.
 */
bool sh_mr_is_another(const struct sh_mr *mr)
{
	return mr->mapped && sh_mapped_identity(mr->addr, mr->length) != mr->mapped;
}

static void memory_mr_try(struct memory_job *task, struct ibv_pd *pd)
{
	task->made_mr = memory_mr_make(task->mr, pd);
	task->error = task->made_mr ? 0 : errno;
	if (!task->made_mr || !sh_mr_is_another(task->mr))
		return;
	sh.real->dereg_mr(task->made_mr);
	task->made_mr = NULL;
	task->error = ESTALE;
}

static void memory_mr_run(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_shadow_pd *pd = &task->pd->shadow[task->path];

	sh.real->thread_inside();
	if (task->stale_mr)
		sh.real->dereg_mr(task->stale_mr);
	task->error = ENODEV;
	task->incarnation = pd->incarnation;
	if (!pd->pd)
		return;
	memory_mr_try(task, pd->pd);
}

static void memory_mr_made(const struct memory_job *task) SH_LOCKED
{
	struct sh_mr *mr = task->mr;

	mr->shadow[task->path].state = SH_SHADOW_MADE;
	mr->shadow[task->path].incarnation = task->incarnation;
	mr->shadow[task->path].mr = task->made_mr;
	sh_nic_hold(mr->pd->ctx->path[task->path], task->incarnation);
	pd_check_asked(mr->pd, task->path, task->incarnation);
	if (sh_keymap_put(&mr->pd->ctx->lkeys[task->path], mr->mr->lkey, task->made_mr->lkey))
		sh_pd_lose_path(mr->pd, task->path);
	sh_replica_key_add(mr, task->path);
	sh_young_told(mr->mr->rkey);
	sh_srq_keys_came(mr->pd->ctx);
}

static void memory_mr_failed(const struct memory_job *task) SH_LOCKED
{
	struct sh_mr *mr = task->mr;

	mr->shadow[task->path].state = SH_SHADOW_FAILED;
	if (task->error == ESTALE)
		sh_warn_once("%s: other memory is mapped now where the program has registered %zu "
			     "bytes: they are "
			     "not registered there, and connections that may use them are not "
			     "protected by it; "
			     "deregister memory before it is unmapped",
			     mr->pd->ctx->path[task->path]->name, mr->length);
	else if (!task->job.canceled && mr->pd->shadow[task->path].pd &&
		 !sh_late_missed(task->error) && !sh_reach_missed(task->error))
		sh_warn_once("%s: cannot register %zu bytes of the job's memory there (%s): "
			     "connections that use it are not protected by it; raise the limit on "
			     "locked memory, or name another backup NIC",
			     mr->pd->ctx->path[task->path]->name, mr->length,
			     strerror(task->error));
	sh_pd_lose_path(mr->pd, task->path);
}

static void memory_mr_finish(struct memory_job *task) SH_LOCKED
{
	if (task->made_mr)
		memory_mr_made(task);
	else
		memory_mr_failed(task);
	if (task->stale_mr)
		sh_nic_release(task->pd->ctx->path[task->path], task->stale_incarnation);
	sh_job_end(&task->mr->busy);
}

static void memory_mr_done(struct sh_job *job)
{
	sh_lock();
	memory_mr_finish((struct memory_job *)job);
	sh_unlock();
	free(job);
}

static int memory_submit(struct memory_job *task) SH_LOCKED
{
	struct sh_busy *busy = task->mr ? &task->mr->busy : &task->pd->busy;
	struct memory_job *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *task;
	copy->job.fn = task->mr ? memory_mr_run : memory_pd_run;
	copy->job.done = task->mr ? memory_mr_done : memory_pd_done;
	sh_job_begin(busy);
	if (!sh_worker_submit(task->pd->ctx->path[task->path]->worker, &copy->job))
		return 0;
	sh_job_end(busy);
	free(copy);
	return -EAGAIN;
}

/* ---- replicas ------------------------------------------------------------------------------- */

struct ibv_mr *sh_mr_take_shadow(struct sh_mr *mr, uint8_t path)
{
	struct ibv_mr *shadow = mr->shadow[path].mr;

	if (!shadow)
		return NULL;
	sh_replica_key_remove(mr, path);
	sh_keymap_remove(&mr->pd->ctx->lkeys[path], mr->mr->lkey);
	sp_keys_changed();
	mr->shadow[path].mr = NULL;
	mr->shadow[path].state = SH_SHADOW_FAILED;
	return shadow;
}

/*
 * New regions stand in line at their PD, and one job registers all that are there: the
 * application's thread, which may register thousands, pays for a place in a list.
 */
struct replay_job {
	struct sh_job job;
	struct sh_pd *pd;
	uint8_t path;
};

static bool replay_waits(const struct sh_pd *pd) SH_LOCKED
{
	return sh_setup_on() && !pd->ctx->needed;
}

static uint32_t replay_take(const struct replay_job *replay, struct memory_job *tasks) SH_LOCKED
{
	struct list_node *line = &replay->pd->shadow[replay->path].mrs;
	uint32_t n;

	for (n = 0; n < REPLAY_BATCH && !list_empty(line); n++) {
		struct list_node *first = line->next;
		struct sh_shadow_mr *shadow = list_entry(first, struct sh_shadow_mr, link);
		struct sh_mr *mr = (struct sh_mr *)((char *)(shadow - replay->path) -
						    offsetof(struct sh_mr, shadow));

		list_del(first);
		list_init(first);
		sh_job_begin(&mr->busy);
		tasks[n] = (struct memory_job){ .pd = replay->pd, .mr = mr, .path = replay->path };
	}
	return n;
}

static void replay_run(struct sh_job *job)
{
	struct replay_job *replay = (struct replay_job *)job;
	struct memory_job tasks[REPLAY_BATCH];
	uint32_t n, i;

	sh_job_lock();
	while (!replay_waits(replay->pd) && (n = replay_take(replay, tasks))) {
		sh_job_unlock();
		for (i = 0; i < n; i++)
			memory_mr_run(&tasks[i].job);
		sh_job_lock();
		for (i = 0; i < n; i++)
			memory_mr_finish(&tasks[i]);
	}
	replay->pd->shadow[replay->path].replaying = false;
	sh_job_unlock();
}

/* Gives up the regions in line: nobody will register them. */
void sh_pd_replay_give_up(struct sh_pd *pd, uint8_t path)
{
	struct list_node *line = &pd->shadow[path].mrs;

	while (!list_empty(line)) {
		struct list_node *first = line->next;

		list_entry(first, struct sh_shadow_mr, link)->state = SH_SHADOW_FAILED;
		list_del(first);
		list_init(first);
	}
	pd->shadow[path].replaying = false;
	sh_pd_lose_path(pd, path);
}

static void replay_done(struct sh_job *job)
{
	struct replay_job *replay = (struct replay_job *)job;

	sh_lock();
	if (job->canceled)
		sh_pd_replay_give_up(replay->pd, replay->path);
	sh_job_end(&replay->pd->busy);
	sh_unlock();
	free(replay);
}

static void replay_start(struct sh_pd *pd, uint8_t path) SH_LOCKED
{
	struct replay_job *replay;

	if (pd->shadow[path].replaying || replay_waits(pd))
		return;
	replay = malloc(sizeof(*replay));
	if (!replay) {
		sh_pd_replay_give_up(pd, path);
		return;
	}
	*replay = (struct replay_job){
		.job = { .fn = replay_run, .done = replay_done, .patient = true },
		.pd = pd,
		.path = path
	};
	pd->shadow[path].replaying = true;
	sh_job_begin(&pd->busy);
	if (!sh_worker_submit(pd->ctx->path[path]->worker, &replay->job))
		return;
	sh_job_end(&pd->busy);
	free(replay);
	sh_pd_replay_give_up(pd, path);
}

static void mr_replay_stale(struct sh_mr *mr, uint8_t path) SH_LOCKED
{
	struct memory_job task = { .pd = mr->pd, .mr = mr, .path = path };

	task.stale_incarnation = mr->shadow[path].incarnation;
	task.stale_mr = sh_mr_take_shadow(mr, path);
	mr->shadow[path].state = memory_submit(&task) ? SH_SHADOW_FAILED : SH_SHADOW_QUEUED;
	if (mr->shadow[path].state == SH_SHADOW_FAILED)
		sh_pd_lose_path(mr->pd, path);
}

void sh_mr_replay(struct sh_mr *mr, uint8_t path)
{
	struct sh_shadow_mr *shadow = &mr->shadow[path];

	if (shadow->state == SH_SHADOW_QUEUED || mr->leaving || mr->alone)
		return;
	if (shadow->state == SH_SHADOW_MADE) {
		if (shadow->incarnation != mr->pd->ctx->path[path]->incarnation)
			mr_replay_stale(mr, path);
		return;
	}
	shadow->state = SH_SHADOW_QUEUED;
	list_add_tail(&mr->pd->shadow[path].mrs, &shadow->link);
	replay_start(mr->pd, path);
}

/* Out of the lines that nobody has taken it from yet. */
void sh_mr_replay_never(struct sh_mr *mr)
{
	uint8_t path;

	sh_young_forget(mr);
	for (path = 0; path < SC_MAX_PATHS; path++) {
		struct sh_shadow_mr *shadow = &mr->shadow[path];

		if (list_empty(&shadow->link))
			continue;
		list_del(&shadow->link);
		list_init(&shadow->link);
		shadow->state = SH_SHADOW_NONE;
	}
}

bool sh_pd_queued(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_shadow_pd *shadow = &pd->shadow[path];

	return shadow->state == SH_SHADOW_QUEUED ||
	       (shadow->state == SH_SHADOW_MADE &&
		shadow->incarnation == pd->ctx->path[path]->incarnation);
}

static void pd_replay_itself(struct sh_pd *pd, uint8_t path) SH_LOCKED
{
	struct sh_shadow_pd *shadow = &pd->shadow[path];
	struct memory_job task = { .pd = pd, .path = path };

	if (sh_pd_queued(pd, path))
		return;
	if (shadow->pd)
		sh_push_leave(pd, path);
	task.stale_pd = shadow->pd;
	task.stale_incarnation = shadow->incarnation;
	shadow->pd = NULL;
	shadow->state = memory_submit(&task) ? SH_SHADOW_FAILED : SH_SHADOW_QUEUED;
	if (shadow->state == SH_SHADOW_FAILED)
		sh_pd_lose_path(pd, path);
}

bool sh_pd_wanted(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_ctx *ctx = pd->ctx;

	return path < ctx->n_paths && ctx->replica[path] && ctx->path[path]->worker &&
	       !pd->unprotected && !sh_yields_memory(ctx->path[path]) && sh_reach_covers(ctx, path);
}

/*
 * Registers a domain's regions. A region that failed, or whose incarnation died, is tried anew.
 * Each standby asks for it: where there is nothing to do, that must not cost a look at each
 * region.
 */
void sh_pd_replay(struct sh_pd *pd, uint8_t path)
{
	struct sh_shadow_pd *shadow = &pd->shadow[path];
	struct sh_mr *mr;

	if (!sh_pd_wanted(pd, path))
		return;
	if (shadow->asked == pd->ctx->path[path]->incarnation && !shadow->mr_failed)
		return;
	shadow->asked = pd->ctx->path[path]->incarnation;
	shadow->mr_failed = false;
	pd_replay_itself(pd, path);
	list_for_each (&pd->mrs, mr, struct sh_mr, link)
		sh_mr_replay(mr, path);
}

/* The worker is first come first served: the NIC is opened before its PDs, these before their MRs,
 * and these before the standby that needs them. */
void sh_replica_want(struct sh_ctx *ctx, uint8_t path)
{
	struct sh_pd *pd;

	ctx->replica[path] = true;
	list_for_each (&ctx->pds, pd, struct sh_pd, link)
		sh_pd_replay(pd, path);
}

static void ctx_want_again(struct sh_ctx *ctx) SH_LOCKED
{
	uint8_t path;

	for (path = 1; path < ctx->n_paths; path++)
		if (ctx->replica[path])
			sh_replica_want(ctx, path);
}

void sh_replica_want_again(void)
{
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		ctx_want_again(ctx);
}

static void pd_replay_go_on(struct sh_pd *pd) SH_LOCKED
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (!list_empty(&pd->shadow[path].mrs))
			replay_start(pd, path);
}

static void ctx_replay_go_on(struct sh_ctx *ctx) SH_LOCKED
{
	struct sh_pd *pd;

	list_for_each (&ctx->pds, pd, struct sh_pd, link)
		pd_replay_go_on(pd);
}

void sh_replica_setup_over(void)
{
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		ctx_replay_go_on(ctx);
}

void sh_replica_need(struct sh_ctx *ctx, uint8_t path)
{
	bool first = !ctx->needed;

	ctx->needed = true;
	sh_replica_want(ctx, path);
	if (first)
		ctx_replay_go_on(ctx);
}
