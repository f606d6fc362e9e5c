/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shadows of completion queues: made on the workers of the paths' NICs, held by carriers. */
#include <errno.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/apart.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/late.h"

static int cq_shadow_size(const struct sh_cq *cq, const struct sh_nic *nic)
{
	int cqe;

	sh_lock();
	cqe = sh_cq_size(cq, nic);
	sh_unlock();
	return cqe;
}

/*
 * Returns the vector of a shadow. A program spreads its completion queues over the vectors, so
 * that their interrupts come to several cores.
 */
static int cq_shadow_vector(const struct sh_cq *cq, const struct ibv_context *ctx)
{
	return ctx->num_comp_vectors > 0 && cq->comp_vector > 0
		       ? cq->comp_vector % ctx->num_comp_vectors
		       : 0;
}

/*
 * Makes a shadow, always as a plain queue: any device has it, and the engine gives extended
 * readers what they ask for.
 */
static struct sh_shadow_cq *cq_shadow_new(struct sh_cq *cq, struct sh_nic *nic)
{
	struct sh_shadow_cq *shadow = calloc(1, sizeof(*shadow));

	if (!shadow)
		return NULL;
	shadow->refs = 1;
	shadow->nic = nic;
	shadow->incarnation = nic->incarnation;
	if (cq->facade) {
		shadow->channel = sh_comp_channel_shadow_get(cq->facade, nic->ctx);
		if (!shadow->channel)
			goto free_shadow;
	}
	sh_cq_feed_init(&shadow->feed, &cq->events);
	shadow->cq = sh.real->create_cq(nic->ctx, cq_shadow_size(cq, nic), &shadow->feed,
					shadow->channel, cq_shadow_vector(cq, nic->ctx));
	if (shadow->cq) {
		sh_cq_feed_add(&shadow->feed, shadow->cq);
		return shadow;
	}
	if (shadow->channel)
		sh_comp_channel_shadow_put(cq->facade, shadow->channel);
free_shadow:
	free(shadow);
	return NULL;
}

void sh_cq_shadow_cut(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	sh_cq_feed_close(&shadow->feed);
	if (shadow->ring)
		sp_cq_ring_del(cq->sp, shadow->ring);
	shadow->ring = NULL;
}

struct cq_destruction {
	struct ibv_cq *cq;
	int ret;
};

static void cq_destroy_command(void *arg)
{
	struct cq_destruction *destruction = arg;

	destruction->ret = sh.real->destroy_cq(destruction->cq);
}

void sh_cq_shadow_destroy(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	struct cq_destruction destruction = { .cq = shadow->cq };

	sh_cq_feed_settle(&shadow->feed);
	sh_worker_command_begin();
	sh_apart_next(shadow->cq->context->cmd_fd, cq_destroy_command, &destruction);
	if (destruction.ret)
		sh_comp_channel_remove(shadow->cq);
	sh_worker_command_end();
	sh_cq_feed_uninit(&shadow->feed);
	if (shadow->channel)
		sh_comp_channel_shadow_put(cq->facade, shadow->channel);
	if (shadow->holds) {
		sh_lock();
		sh_nic_release(shadow->nic, shadow->incarnation);
		sh_unlock();
	}
	free(shadow);
}

/* The last carrier of a shadow that lost its place takes it along. */
void sh_cq_shadow_put(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	if (!shadow || --shadow->refs)
		return;
	cq->displaced -= shadow->displaced;
	sh_job_begin(&cq->busy);
	sh_unlock();
	sh_cq_shadow_cut(cq, shadow);
	sh_cq_shadow_destroy(cq, shadow);
	sh_lock();
	sh_job_end(&cq->busy);
}

void sh_cq_shadows_put(struct sh_cq *cq, struct sh_shadow_cq *const shadow[SC_MAX_PATHS])
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		sh_cq_shadow_put(cq, shadow[path]);
}

/* ---- the end behind the application's back --------------------------------------------------- */

void sh_cq_hold(struct sh_cq *cq)
{
	sh_job_begin(&cq->dropping);
}

void sh_cq_let_go(struct sh_cq *cq)
{
	sh_job_end(&cq->dropping);
	if (!cq->ended || cq->dropping.jobs)
		return;
	free(cq);
	sh_late_end_other();
}

bool sh_cq_may_end_late(const struct sh_cq *cq)
{
	return !cq->facade && !cq->displaced;
}

struct shadow_job {
	struct sh_job job;
	struct sh_cq *cq;
	struct sh_shadow_cq *shadow;
};

static void shadow_end_run(struct sh_job *job)
{
	struct shadow_job *task = (struct shadow_job *)job;

	sh.real->thread_inside();
	sh_cq_shadow_destroy(task->cq, task->shadow);
}

static void shadow_end_done(struct sh_job *job)
{
	sh_lock();
	sh_cq_let_go(((struct shadow_job *)job)->cq);
	sh_unlock();
	free(job);
}

static bool shadow_end_submit(struct sh_cq *cq, struct sh_shadow_cq *shadow) SH_LOCKED
{
	struct shadow_job *task = malloc(sizeof(*task));

	if (!task)
		return false;
	*task = (struct shadow_job){
		.job = { .fn = shadow_end_run, .done = shadow_end_done, .patient = true },
		.cq = cq,
		.shadow = shadow
	};
	sh_cq_hold(cq);
	if (!sh_worker_submit(shadow->nic->worker, &task->job))
		return true;
	sh_cq_let_go(cq);
	free(task);
	return false;
}

/* Ends a shadow; a carrier that holds the shadow still takes it along. */
static void shadow_end_late(struct sh_cq *cq, struct sh_shadow_cq *shadow) SH_DROPS
{
	if (--shadow->refs || shadow_end_submit(cq, shadow))
		return;
	sh_unlock();
	sh_cq_shadow_destroy(cq, shadow);
	sh_lock();
}

void sh_cq_end_late(struct sh_cq *cq, struct sh_shadow_cq *const shadow[SC_MAX_PATHS])
{
	uint8_t path;

	sh_late_begin_other();
	sh_cq_hold(cq);
	cq->ended = true;
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (shadow[path])
			shadow_end_late(cq, shadow[path]);
	sh_cq_let_go(cq);
}

struct sh_shadow_cq *sh_cq_shadow_get(struct sh_cq *cq, uint8_t path)
{
	struct sh_shadow_cq *shadow = cq->shadow[path];

	shadow->refs++;
	return shadow;
}

struct sh_shadow_cq *sh_cq_shadow_find(const struct sh_cq *cq, const struct ibv_cq *real)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (cq->shadow[path] && cq->shadow[path]->cq == real)
			return cq->shadow[path];
	return NULL;
}

static bool cq_shadow_serves(const struct sh_cq *cq, uint8_t path)
{
	const struct sh_shadow_cq *shadow;
	bool serves;

	sh_lock();
	shadow = cq->shadow[path];
	serves = shadow && !shadow->overrun &&
		 shadow->incarnation == cq->ctx->path[path]->incarnation;
	sh_unlock();
	return serves;
}

/* Puts a shadow in the place of one whose incarnation died, or that overran. */
static void cq_shadow_replace(struct sh_cq *cq, uint8_t path, struct sh_shadow_cq *shadow) SH_DROPS
{
	struct sh_shadow_cq *before = cq->shadow[path];

	cq->shadow[path] = shadow;
	if (before && before->refs > 1) {
		before->displaced = true;
		cq->displaced++;
	}
	sh_cq_shadow_put(cq, before);
}

/* Makes a shadow. One worker makes all shadows of a NIC, so two QPs of a CQ do not make two. */
int sh_cq_shadow_make(struct sh_cq *cq, uint8_t path)
{
	struct sh_nic *nic = cq->ctx->path[path];
	struct sh_shadow_cq *shadow;
	int ret;

	if (cq_shadow_serves(cq, path)) {
		sh_cq_resize_shadow_late(cq, path);
		return 0;
	}
	shadow = cq_shadow_new(cq, nic);
	if (!shadow)
		return -ENOMEM;
	sh_lock();
	ret = sp_cq_ring_add(cq->sp, sh_nic_dev(nic, sh_nic_engine(cq->ctx->nic)), shadow->cq,
			     &shadow->ring);
	if (!ret) {
		sh_cq_feed_drive(&shadow->feed, shadow->ring);
		sh_nic_hold(nic, shadow->incarnation);
		shadow->holds = true;
		cq_shadow_replace(cq, path, shadow);
	}
	sh_unlock();
	if (!ret) {
		sh_cq_resize_shadow_late(cq, path);
		return 0;
	}
	sh_cq_shadow_cut(cq, shadow);
	sh_cq_shadow_destroy(cq, shadow);
	return ret;
}
