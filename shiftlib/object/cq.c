/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues: driven from their first driven QP on, with shadows on the NICs of the paths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "providers/engine.h"
#include "shiftlib/nic/command.h"

#define RESIZE_LOOK_NS (10 * SH_NS_PER_MS) /* whether the NIC of a shadow hangs */

/* ---- channels ------------------------------------------------------------------------------- */

/* A facade where CQs may become driven; a foreign device's channel stays what it is. */
struct ibv_comp_channel *shift_create_comp_channel(struct ibv_context *context)
{
	struct sh_ctx *ctx;
	bool driven;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(context);
	driven = ctx && ctx->dev;
	pthread_mutex_unlock(&sh.lock);
	return driven ? sh_comp_channel_create(context) : sh.real->create_comp_channel(context);
}

int shift_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (sh_comp_channel_is_facade(channel))
		return sh_comp_channel_destroy(channel);
	return sh.real->destroy_comp_channel(channel);
}

/* ---- creation ------------------------------------------------------------------------------- */

static void cq_record(struct ibv_context *context, struct ibv_cq *real,
		      struct ibv_comp_channel *facade, struct ibv_comp_channel *real_channel,
		      int comp_vector, const struct ibv_cq_init_attr_ex *attr)
{
	struct sh_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return; /* unknown to us: QPs on it stay foreign */
	pthread_mutex_lock(&sh.lock);
	cq->cq = real;
	cq->ctx = sh_ctx_find(context);
	cq->facade = facade && sh_comp_channel_is_facade(facade) ? facade : NULL;
	cq->real_channel = real_channel;
	cq->comp_vector = comp_vector;
	cq->ex = attr != NULL;
	cq->wc_flags = attr ? attr->wc_flags : 0;
	if (!cq->ctx || sh_table_put(&sh_objects.by_cq, real, cq))
		goto forget;
	if (sh_cq_events_init(&cq->events, real, facade)) {
		sh_table_remove(&sh_objects.by_cq, real);
		goto forget;
	}
	list_add_tail(&cq->ctx->cqs, &cq->link);
	pthread_mutex_unlock(&sh.lock);
	return;
forget:
	pthread_mutex_unlock(&sh.lock);
	free(cq);
}

struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector)
{
	struct sh_yield yield = { context, SH_YIELD_NIC };
	struct ibv_cq *real;

	do {
		shift_async_real_begin(context);
		real = sh.real->create_cq(context, cqe, cq_context, real_channel, comp_vector);
		shift_async_real_end(context);
	} while (!real && sh_yield(&yield));
	return real;
}

struct ibv_cq *shift_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			       struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_comp_channel *real_channel = channel ? sh_comp_channel_real(channel) : NULL;
	struct ibv_cq *real = sh_cq_create(context, cqe, cq_context, real_channel, comp_vector);

	if (real)
		cq_record(context, real, channel, real_channel, comp_vector, NULL);
	return real;
}

struct ibv_cq_ex *shift_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				     struct ibv_cq_ex *(*create)(struct ibv_context *,
								 struct ibv_cq_init_attr_ex *))
{
	struct sh_yield yield = { context, SH_YIELD_NIC };
	struct ibv_cq_init_attr_ex copy = *attr;
	struct ibv_cq_ex *real;

	if (attr->channel)
		copy.channel = sh_comp_channel_real(attr->channel);
	do {
		shift_async_real_begin(context);
		real = create(context, &copy);
		shift_async_real_end(context);
	} while (!real && sh_yield(&yield));
	if (real)
		cq_record(context, ibv_cq_ex_to_cq(real), attr->channel, copy.channel,
			  (int)attr->comp_vector, attr);
	return real;
}

int sh_cq_drive(struct sh_cq *cq)
{
	int ret;

	if (cq->sp)
		return 0;
	if (cq->foreign_qps || !cq->ctx->dev)
		return -EBUSY;
	ret = sp_cq_drive(cq->ctx->dev, cq->cq, cq->ex, cq->wc_flags, cq, &cq->sp);
	if (!ret)
		sh_cq_feed_drive(&cq->events.own, sp_cq_own_ring(cq->sp));
	return ret;
}

/* ---- destruction ---------------------------------------------------------------------------- */

/* QPs are bound to it, as the device would say too. */
static bool cq_bound(const struct sh_cq *cq)
{
	return cq->qps || (cq->sp && cq->foreign_qps);
}

/* What of a CQ is destroyed after the application's debts are paid. */
struct cq_remains {
	struct sh_shadow_cq *shadow[SC_MAX_PATHS];
};

/* Neither readers of events nor the engine know it any more. */
static void cq_cut_shadow(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	sh_cq_feed_close(&shadow->feed);
	if (shadow->ring)
		sp_cq_ring_del(cq->sp, shadow->ring);
	shadow->ring = NULL;
}

/* Takes the CQ away from the engine. No carrier is left, so nobody else holds its shadows. */
static int cq_detach(struct sh_cq *cq, struct cq_remains *remains)
{
	uint8_t path;

	*remains = (struct cq_remains){ 0 };
	sh_wait_idle(&cq->busy);
	if (cq_bound(cq))
		return EBUSY;
	for (path = 0; path < SC_MAX_PATHS; path++) {
		if (!cq->shadow[path])
			continue;
		cq_cut_shadow(cq, cq->shadow[path]);
		remains->shadow[path] = cq->shadow[path];
		cq->shadow[path] = NULL;
	}
	sh_cq_feed_drive(&cq->events.own, NULL);
	if (cq->sp && sp_cq_undrive(cq->sp)) {
		sh_cq_feed_drive(&cq->events.own, sp_cq_own_ring(cq->sp));
		return EBUSY;
	}
	cq->sp = NULL;
	return 0;
}

/* The engine has let go of it. Lock not held. */
static void cq_destroy_shadow(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	sh_cq_feed_settle(&shadow->feed);
	if (sh.real->destroy_cq(shadow->cq))
		sh_comp_channel_leave(shadow->cq);
	sh_cq_feed_uninit(&shadow->feed);
	if (shadow->channel)
		sh_comp_channel_shadow_put(cq->facade, shadow->channel);
	if (shadow->holds) {
		pthread_mutex_lock(&sh.lock);
		sh_nic_release(shadow->nic, shadow->incarnation);
		pthread_mutex_unlock(&sh.lock);
	}
	free(shadow);
}

static void cq_destroy_remains(struct sh_cq *cq, const struct cq_remains *remains)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (remains->shadow[path])
			cq_destroy_shadow(cq, remains->shadow[path]);
}

struct cq_command {
	struct sh_command command;
	struct sh_cq *cq;
	struct sh_shadow_cq *shadow;
};

static void cq_command_run(struct sh_command *command)
{
	struct cq_command *gone = (struct cq_command *)command;

	cq_destroy_shadow(gone->cq, gone->shadow);
}

/* Those that other threads destroy meanwhile are not left in the remains. Lock not held. */
static void cq_destroy_elsewhere(struct sh_cq *cq, struct cq_remains *remains,
				 struct cq_command commands[SC_MAX_PATHS], struct sh_busy *waiting)
{
	uint8_t path;

	pthread_mutex_lock(&sh.lock);
	for (path = 0; path < SC_MAX_PATHS; path++) {
		struct sh_shadow_cq *shadow = remains->shadow[path];

		commands[path].command.sent = false;
		if (!shadow)
			continue;
		commands[path] = (struct cq_command){ .command = { .nic = shadow->nic,
								   .run = cq_command_run },
						      .cq = cq,
						      .shadow = shadow };
		if (sh_command_send(&commands[path].command, waiting))
			remains->shadow[path] = NULL;
	}
	pthread_mutex_unlock(&sh.lock);
}

/*
 * The engine's part goes after the acknowledgements. No event is made meanwhile, as no QP is bound
 * to the CQ any more.
 */
static int cq_quiesce(struct sh_cq *cq, struct cq_remains *remains)
{
	bool bound;
	int ret;

	pthread_mutex_lock(&sh.lock);
	bound = cq_bound(cq);
	pthread_mutex_unlock(&sh.lock);
	if (bound)
		return EBUSY;
	sh_cq_events_quiesce(&cq->events);
	pthread_mutex_lock(&sh.lock);
	ret = cq_detach(cq, remains);
	pthread_mutex_unlock(&sh.lock);
	if (ret)
		sh_cq_events_resume(&cq->events);
	return ret;
}

static int cq_destroy_real(struct sh_cq *cq)
{
	int ret = sh.real->destroy_cq(cq->cq);

	if (!ret)
		return 0;
	ret = sh_ctx_destroy_result(cq->ctx->ctx, ret);
	if (!ret)
		sh_comp_channel_leave(cq->cq);
	return ret;
}

static int cq_destroy_known(struct sh_cq *cq)
{
	struct cq_command commands[SC_MAX_PATHS];
	struct sh_busy waiting = { 0 };
	struct cq_remains remains;
	int ret = cq_quiesce(cq, &remains);
	uint8_t path;

	if (ret)
		return ret;
	cq_destroy_elsewhere(cq, &remains, commands, &waiting);
	cq_destroy_remains(cq, &remains);
	sh_async_forget_begin(cq->ctx->async, cq->cq);
	ret = cq_destroy_real(cq);
	sh_async_forget_end(cq->ctx->async, cq->cq);
	for (path = 0; path < SC_MAX_PATHS; path++)
		sh_command_back(&commands[path].command);
	pthread_mutex_lock(&sh.lock);
	sh_wait_idle(&waiting);
	pthread_mutex_unlock(&sh.lock);
	if (ret) {
		sh_cq_events_resume(&cq->events);
		return ret;
	}
	sh_cq_events_uninit(&cq->events);
	return 0;
}

int shift_destroy_cq(struct ibv_cq *real)
{
	struct sh_cq *cq;
	int ret;

	pthread_mutex_lock(&sh.lock);
	cq = sh_table_remove(&sh_objects.by_cq, real); /* before the address can be another CQ's */
	pthread_mutex_unlock(&sh.lock);
	if (!cq)
		return sh.real->destroy_cq(real);
	ret = cq_destroy_known(cq);
	pthread_mutex_lock(&sh.lock);
	if (!ret) {
		list_del(&cq->link);
		free(cq);
	} else if (sh_table_put(&sh_objects.by_cq, real, cq)) {
		sh_error_once("no memory: a CQ is not known any more");
	}
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

/* Its context is closed while it lives. The struct stays, as its channel may still name it. */
void sh_cq_forget(struct sh_cq *cq)
{
	struct cq_remains remains;

	sh_table_remove(&sh_objects.by_cq, cq->cq);
	list_del(&cq->link);
	cq->foreign_qps = 0;
	if (cq_detach(cq, &remains))
		return;
	pthread_mutex_unlock(&sh.lock);
	cq_destroy_remains(cq, &remains);
	pthread_mutex_lock(&sh.lock);
}

/* ---- resize --------------------------------------------------------------------------------- */

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

/* The application's CQ, or a shadow of it. Positive errno, as of the verb. */
static int cq_resize_ring(struct sh_cq *cq, struct ibv_cq *real, int cqe)
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

/* How many completions its rings must hold: more than its own, if that is dead and cannot grow. */
static int cq_size(const struct sh_cq *cq)
{
	return cq->cqe > cq->cq->cqe ? cq->cqe : cq->cq->cqe;
}

static bool cq_shadow_small(const struct sh_cq *cq, const struct sh_shadow_cq *shadow)
{
	return shadow && shadow->cq->cqe < cq_size(cq);
}

/* One that is too small overruns, which is a fault that moves. On a dead device it is made anew. */
static void cq_shadow_enlarge(struct sh_cq *cq, struct sh_shadow_cq *shadow, int cqe)
{
	int ret = cq_resize_ring(cq, shadow->cq, cqe);

	if (ret && ret != EIO)
		sh_error_once("a completion queue's stand-in on %s could not be enlarged with it: "
			      "after a move it may overrun",
			      shadow->nic->name);
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
	uint64_t since = sh_worker_busy_since_ns(nic->worker);

	return nic->fatal || nic->sick ||
	       (since && sh_now_ns() - since > sh.config.hang.command_ns);
}

/*
 * Lock held, given up meanwhile. The application may fill the queue at once, so it is waited for; but
 * not on a NIC that hangs while its own works: nothing moves there before it has done this.
 */
static void cq_resize_shadow(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	struct resize_job *task = calloc(1, sizeof(*task));
	struct timespec until;

	if (!task)
		return;
	*task = (struct resize_job){
		.job = { .fn = resize_run, .done = resize_done, .urgent = true },
		.cq = cq,
		.shadow = shadow,
		.cqe = cq_size(cq)
	};
	if (sh_worker_submit(shadow->nic->worker, &task->job)) {
		free(task);
		return;
	}
	shadow->refs++;
	sh_job_begin(&cq->busy);
	while (!task->finished && !nic_hangs(shadow->nic)) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += RESIZE_LOOK_NS;
		until.tv_sec += until.tv_nsec / SH_NS_PER_S;
		until.tv_nsec %= SH_NS_PER_S;
		pthread_cond_timedwait(&sh.idle, &sh.lock, &until);
	}
	task->left = !task->finished;
	if (task->finished)
		free(task);
}

static void cq_resize_shadows(struct sh_cq *cq)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (cq_shadow_small(cq, cq->shadow[path]))
			cq_resize_shadow(cq, cq->shadow[path]);
}

/* Its own NIC is dead, which the application was not told: only what stands in for it matters. */
static bool cq_resize_without_nic(struct sh_cq *cq, int cqe)
{
	bool gone = sh_device_gone(cq->ctx->ctx); /* before its event is read */
	bool masked;

	pthread_mutex_lock(&sh.lock);
	masked = sh_ctx_death_masked(cq->ctx, gone);
	if (masked)
		cq->cqe = cqe;
	pthread_mutex_unlock(&sh.lock);
	return masked;
}

int shift_resize_cq(struct ibv_cq *real, int cqe)
{
	struct sh_cq *cq;
	int ret;

	pthread_mutex_lock(&sh.lock);
	cq = sh_table_get(&sh_objects.by_cq, real);
	if (!cq || !cq->sp) {
		pthread_mutex_unlock(&sh.lock);
		return sh.real->resize_cq(real, cqe);
	}
	sh_job_begin(&cq->busy);
	pthread_mutex_unlock(&sh.lock);
	ret = cq_resize_ring(cq, real, cqe);
	if (ret == EIO && cq_resize_without_nic(cq, cqe))
		ret = 0;
	pthread_mutex_lock(&sh.lock);
	if (!ret)
		cq_resize_shadows(cq);
	sh_job_end(&cq->busy);
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

/* ---- shadows -------------------------------------------------------------------------------- */

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
	shadow->cq = sh.real->create_cq(nic->ctx, cq_size(cq), &shadow->feed, shadow->channel, 0);
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

/* The last carrier of a shadow that lost its place takes it along. */
void sh_cq_shadow_put(struct sh_cq *cq, struct sh_shadow_cq *shadow)
{
	if (!shadow || --shadow->refs)
		return;
	sh_job_begin(&cq->busy);
	pthread_mutex_unlock(&sh.lock);
	cq_cut_shadow(cq, shadow);
	cq_destroy_shadow(cq, shadow);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&cq->busy);
}

struct sh_shadow_cq *sh_cq_shadow_get(struct sh_cq *cq, uint8_t path)
{
	struct sh_shadow_cq *shadow = cq->shadow[path];

	shadow->refs++;
	return shadow;
}

/* One of an incarnation that died makes place. */
static void cq_shadow_replace(struct sh_cq *cq, uint8_t path, struct sh_shadow_cq *shadow)
{
	struct sh_shadow_cq *before = cq->shadow[path];

	cq->shadow[path] = shadow;
	sh_cq_shadow_put(cq, before);
}

/* The application has resized the queue while its shadow was made. Lock not held. */
static void cq_shadow_catch_up(struct sh_cq *cq, uint8_t path)
{
	struct sh_shadow_cq *shadow;

	pthread_mutex_lock(&sh.lock);
	shadow = cq->shadow[path];
	if (cq_shadow_small(cq, shadow)) {
		int cqe = cq_size(cq);

		shadow->refs++;
		pthread_mutex_unlock(&sh.lock);
		cq_shadow_enlarge(cq, shadow, cqe);
		pthread_mutex_lock(&sh.lock);
		sh_cq_shadow_put(cq, shadow);
	}
	pthread_mutex_unlock(&sh.lock);
}

/* One worker makes all shadows of a NIC, so two QPs of a CQ do not make two. */
int sh_cq_shadow_make(struct sh_cq *cq, uint8_t path)
{
	struct sh_nic *nic = cq->ctx->path[path];
	struct sh_shadow_cq *shadow = cq->shadow[path];
	int ret;

	if (shadow && shadow->incarnation == nic->incarnation)
		return 0;
	shadow = cq_shadow_new(cq, nic);
	if (!shadow)
		return -ENOMEM;
	pthread_mutex_lock(&sh.lock);
	ret = sp_cq_ring_add(cq->sp, nic->dev, shadow->cq, &shadow->ring);
	if (!ret) {
		sh_cq_feed_drive(&shadow->feed, shadow->ring);
		sh_nic_hold(nic, shadow->incarnation);
		shadow->holds = true;
		cq_shadow_replace(cq, path, shadow);
	}
	pthread_mutex_unlock(&sh.lock);
	if (!ret) {
		cq_shadow_catch_up(cq, path);
		return 0;
	}
	cq_cut_shadow(cq, shadow);
	cq_destroy_shadow(cq, shadow);
	return ret;
}
