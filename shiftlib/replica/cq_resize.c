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

int sh_cq_resize_ring(struct sh_cq *cq, struct ibv_cq *real, int cqe)
{
	int ret = sp_cq_resize_reserve(cq->sp, real), err;

	if (ret)
		return -ret;
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

int sh_cq_size(const struct sh_cq *cq, const struct sh_nic *nic)
{
	return sh_fit_cqe(cq->cqe > cq->cq->cqe ? cq->cqe : cq->cq->cqe, &nic->max);
}

static bool cq_shadow_small(const struct sh_cq *cq, const struct sh_shadow_cq *shadow)
{
	return shadow && !shadow->overrun && shadow->cq->cqe < sh_cq_size(cq, shadow->nic);
}

/* One that is too small overruns, which is a fault that moves. On a dead device it is made anew. */
static void cq_shadow_enlarge(struct sh_cq *cq, struct sh_shadow_cq *shadow, int cqe)
{
	int ret = sh_cq_resize_ring(cq, shadow->cq, cqe);

	if (ret && !sh_dead_device_error(ret))
		sh_error_once(
			"the shadow of a completion queue on %s could not be resized with it: "
			"the shadow may overrun after a move",
			shadow->nic->name);
}

void sh_cq_resize_shadow_late(struct sh_cq *cq, uint8_t path)
{
	struct sh_shadow_cq *shadow;

	pthread_mutex_lock(&sh.lock);
	shadow = cq->shadow[path];
	if (cq_shadow_small(cq, shadow)) {
		int cqe = sh_cq_size(cq, shadow->nic);

		shadow->refs++;
		pthread_mutex_unlock(&sh.lock);
		cq_shadow_enlarge(cq, shadow, cqe);
		pthread_mutex_lock(&sh.lock);
		sh_cq_shadow_put(cq, shadow);
	}
	pthread_mutex_unlock(&sh.lock);
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

	pthread_mutex_lock(&sh.lock);
	sh_cq_shadow_put(task->cq, task->shadow);
	sh_job_end(&task->cq->busy);
	task->finished = true;
	pthread_cond_broadcast(&sh.idle);
	if (task->left)
		free(task);
	pthread_mutex_unlock(&sh.lock);
}

static bool nic_hangs(const struct sh_nic *nic)
{
	uint64_t since = sh_worker_busy_since_ns(nic->prompt);

	return nic->fatal || nic->sick ||
	       (since && sh_now_ns() - since > sh.config.hang.command_ns);
}

/*
 * Lock held, given up meanwhile. The application may fill the queue at once, so it is waited for; but
 * not on a NIC that hangs while its own works: nothing moves there before it has done this.
 */
static void cq_resize_shadow(struct sh_cq *cq, struct sh_shadow_cq *shadow)
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
		if (sh_now_ns() >= ask_at && !shadow->nic->asked)
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
