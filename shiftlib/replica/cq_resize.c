/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A resize of a completion queue that the engine drives, and of its shadows. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/cq.h"

#define RESIZE_LOOK_NS (10 * SH_NS_PER_MS) /* whether the NIC of a shadow hangs */

/* The resize that this thread is in: of a real CQ whose ring the engine drives. */
static __thread struct {
	struct sp_cq *sp;
	struct ibv_cq *real;
	bool begun;
	int err;
} resizing __attribute__((tls_model("initial-exec")));

void shift_cq_resized(struct ibv_cq *real)
{
	if (!resizing.sp || resizing.real != real)
		return;
	resizing.err = sp_cq_resize_begin(resizing.sp, real);
	resizing.begun = true;
}

static int cq_resize_reserved(struct sh_cq *cq, struct ibv_cq *real, int cqe)
{
	int ret, err;

	resizing.sp = cq->sp;
	resizing.real = real;
	resizing.begun = false;
	ret = sh.real->resize_cq(real, cqe);
	resizing.sp = NULL;
	if (!resizing.begun)
		return ret;
	err = sp_cq_resize_end(cq->sp, real);
	if (resizing.err || err)
		sh_log(SH_LOG_ERROR,
		       "a completion queue lost completions when it was resized: %s; end the job",
		       strerror(resizing.err ? -resizing.err : -err));
	return ret;
}

static int cq_resize(struct sh_cq *cq, struct ibv_cq *real, int cqe)
{
	int ret = sp_cq_resize_reserve(cq->sp, real);

	if (!ret)
		ret = cq_resize_reserved(cq, real, cqe);
	else
		ret = -ret;
	sp_cq_resize_release(cq->sp);
	return ret;
}

/*
 * Resizes the real queue. Its provider finds the number of places where it has left that; the
 * application finds its own number there.
 */
static int cq_resize_own(struct sh_cq *cq, int cqe, int told)
{
	int ret;

	cq->cq->cqe = (int)cq->room.have;
	ret = cq_resize(cq, cq->cq, cqe);
	sh_lock();
	cq->room.have = (uint32_t)cq->cq->cqe;
	if (!ret && told)
		cq->room.told = (uint32_t)told < cq->room.have ? (uint32_t)told : cq->room.have;
	if (sp_has(cq->sp, SP_OWN_CQ_SIZE))
		cq->cq->cqe = (int)cq->room.told;
	sh_unlock();
	return ret;
}

int sh_cq_resize_ring(struct sh_cq *cq, struct ibv_cq *real, int cqe, int told)
{
	return real == cq->cq ? cq_resize_own(cq, cqe, told) : cq_resize(cq, real, cqe);
}

int sh_cq_resize_quietly(struct sh_cq *cq, int cqe)
{
	int ret = sp_cq_resize_keep_out(cq->sp);

	if (ret)
		return -ret;
	ret = cq_resize_own(cq, cqe, 0);
	sp_cq_resize_let_poll(cq->sp);
	return ret;
}

bool sh_cq_known(const struct sh_cq *cq)
{
	return !cq->foreign_qps && !cq->foreign_receives;
}

bool sh_cq_short(const struct sh_cq *cq)
{
	return sh_room_need(&cq->room, cq->room.movers, sh_cq_known(cq)) > cq->room.have;
}

/*
 * The sum of what lies unpolled and of what a flush leaves there: only connections that may move
 * complete in a shadow.
 */
int sh_cq_size(const struct sh_cq *cq, const struct sh_nic *nic)
{
	uint64_t size = cq->room.told;

	if (cq->cqe > 0 && (uint32_t)cq->cqe > size)
		size = (uint32_t)cq->cqe;
	while (size < cq->room.movers)
		size = 2 * size + 1;
	return sh_fit_cqe(size > INT32_MAX ? INT32_MAX : (int)size, &nic->max);
}

static bool cq_shadow_small(const struct sh_cq *cq, const struct sh_shadow_cq *shadow) SH_LOCKED
{
	return shadow && !shadow->overrun && !shadow->refused &&
	       shadow->cq->cqe < sh_cq_size(cq, shadow->nic);
}

/*
 * Enlarges a shadow. A shadow that is too small overruns, which is a fault that moves. On a dead
 * device it is made anew.
 */
static void cq_shadow_enlarge(struct sh_cq *cq, struct sh_shadow_cq *shadow, int cqe)
{
	int ret = sh_cq_resize_ring(cq, shadow->cq, cqe, 0);

	if (ret && !sh_dead_device_error(ret))
		sh_error_once(
			"the shadow of a completion queue on %s could not be resized with it: "
			"the shadow may overrun after a move",
			shadow->nic->name);
}

/*
 * Enlarges a shadow for more connections: too little room there is a fault that moves, and no
 * program has asked for more.
 */
static void cq_shadow_enlarge_quietly(struct sh_cq *cq, struct sh_shadow_cq *shadow, int cqe)
{
	int ret = cq_resize(cq, shadow->cq, cqe);

	if (!ret)
		return;
	sh_log(SH_LOG_INFO, "%s: a completion queue could not be made larger: %s",
	       shadow->nic->name, strerror(ret));
	sh_lock();
	shadow->refused = true;
	sh_unlock();
}

void sh_cq_resize_shadow_late(struct sh_cq *cq, uint8_t path)
{
	struct sh_shadow_cq *shadow;

	sh_lock();
	shadow = cq->shadow[path];
	if (cq_shadow_small(cq, shadow)) {
		int cqe = sh_cq_size(cq, shadow->nic);

		shadow->refs++;
		sh_unlock();
		cq_shadow_enlarge_quietly(cq, shadow, cqe);
		sh_lock();
		sh_cq_shadow_put(cq, shadow);
	}
	sh_unlock();
}

struct resize_job {
	struct sh_job job;
	struct sh_cq *cq;
	struct sh_shadow_cq *shadow;
	int cqe;
	bool finished, left; /* left: nobody waits for it any more */
};

static void resize_run(struct sh_job *job)
{
	struct resize_job *task = (struct resize_job *)job;

	sh.real->thread_inside();
	cq_shadow_enlarge(task->cq, task->shadow, task->cqe);
}

static void resize_done(struct sh_job *job)
{
	struct resize_job *task = (struct resize_job *)job;

	sh_lock();
	sh_cq_shadow_put(task->cq, task->shadow);
	sh_job_end(&task->cq->busy);
	task->finished = true;
	pthread_cond_broadcast(&sh.idle);
	if (task->left)
		free(task);
	sh_unlock();
}

static bool nic_hangs(const struct sh_nic *nic)
{
	uint64_t since = sh_worker_busy_since_ns(nic->prompt);

	return nic->fatal || nic->sick ||
	       (since && sh_now_ns() - since > sh.config.hang.command_ns);
}

/*
 * Resizes a shadow. The application may fill the queue at once, so it is waited for; but not on a
 * NIC that hangs while the application's own works: nothing moves there before it has done this.
 */
static void cq_resize_shadow(struct sh_cq *cq, struct sh_shadow_cq *shadow) SH_DROPS
{
	uint64_t ask_at = sh_now_ns() + sh.config.hang.command_ns;
	struct resize_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct resize_job){
		.job = { .fn = resize_run, .done = resize_done, .urgent = true },
		.cq = cq,
		.shadow = shadow,
		.cqe = sh_cq_size(cq, shadow->nic)
	};
	if (sh_worker_submit(shadow->nic->worker, &task->job)) {
		free(task);
		return;
	}
	shadow->refs++;
	sh_job_begin(&cq->busy);
	while (!task->finished && !nic_hangs(shadow->nic)) {
		if (sh_now_ns() >= ask_at && !shadow->nic->ask.under_way)
			sh_nic_ask(shadow->nic); /* a long line, or a hang? */
		sh_wait_some(RESIZE_LOOK_NS);
	}
	task->left = !task->finished;
	if (task->finished)
		free(task);
}

void sh_cq_resize_shadows(struct sh_cq *cq)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (cq_shadow_small(cq, cq->shadow[path]))
			cq_resize_shadow(cq, cq->shadow[path]);
}
