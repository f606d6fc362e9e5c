/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues: driven from their first driven QP on, with shadows on the NICs of the paths.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/command.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

#define RESIZE_LOOK_NS (10 * SH_NS_PER_MS) /* whether the NIC of a shadow hangs */

/* ---- channels ------------------------------------------------------------------------------- */

/*
 * Makes a facade, which has three descriptors more. Where these are not to be had, the program
 * gets what stock would give it.
 */
static struct ibv_comp_channel *channel_create_facade(struct ibv_context *context)
{
	struct sh_yield yield = { context, SH_YIELD_NICS };
	struct ibv_comp_channel *channel;

	do
		channel = sh_comp_channel_create(context);
	while (!channel && sh_yield(&yield));
	if (channel || (errno != EMFILE && errno != ENFILE))
		return channel;
	channel = sh.real->create_comp_channel(context);
	if (channel)
		sh_log(SH_LOG_WARN,
		       "a completion channel has no descriptors left for SHIFT's part of it: "
		       "connections that complete there are not protected");
	return channel;
}

/* A facade where CQs may become driven; a foreign device's channel stays what it is. */
struct ibv_comp_channel *shift_create_comp_channel(struct ibv_context *context)
{
	struct sh_ctx *ctx;
	bool driven;

	sh_lock();
	ctx = sh_ctx_find(context);
	driven = ctx && ctx->dev;
	sh_unlock();
	return driven ? channel_create_facade(context) : sh.real->create_comp_channel(context);
}

static int channel_destroy(void *object)
{
	struct ibv_comp_channel *channel = object;

	if (sh_comp_channel_is_facade(channel))
		return sh_comp_channel_destroy(channel);
	return sh.real->destroy_comp_channel(channel);
}

int shift_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct sh_ctx *ctx;
	bool later;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(channel->context);
	later = sh_debts_kept(ctx);
	if (later)
		ret = sh_debt_defer(ctx, channel_destroy, channel, false);
	sh_unlock();
	return later ? ret : channel_destroy(channel);
}

/* ---- creation ------------------------------------------------------------------------------- */

static void cq_record(struct ibv_context *context, struct ibv_cq *real,
		      struct ibv_comp_channel *facade, struct ibv_comp_channel *real_channel,
		      int comp_vector, const struct sh_cq_extended *how)
{
	/* True if its events pass us by. */
	bool bare = facade && !sh_comp_channel_is_facade(facade);
	struct sh_cq *cq = bare ? NULL : calloc(1, sizeof(*cq));

	if (!cq)
		return; /* unknown to us: QPs on it stay foreign */
	sh_lock();
	cq->cq = real;
	cq->ctx = sh_ctx_find(context);
	cq->facade = facade && sh_comp_channel_is_facade(facade) ? facade : NULL;
	cq->real_channel = real_channel;
	cq->comp_vector = comp_vector;
	cq->ex = how != NULL;
	if (how)
		cq->how = *how;
	cq->single = cq->how.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq->room.told = cq->room.have = (uint32_t)real->cqe;
	if (!cq->ctx || sh_table_put(&sh_objects.by_cq, real, cq))
		goto forget;
	if (sh_cq_events_init(&cq->events, real, facade)) {
		sh_table_remove(&sh_objects.by_cq, real);
		goto forget;
	}
	list_add_tail(&cq->ctx->cqs, &cq->link);
	sh_unlock();
	return;
forget:
	sh_unlock();
	free(cq);
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
	struct ibv_cq_init_attr_ex copy = *attr;
	struct sh_cq_extended how = { create, attr->wc_flags, 0 };
	struct ibv_cq_ex *real;

	if (attr->channel)
		copy.channel = sh_comp_channel_real(attr->channel);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		how.flags = attr->flags;
	real = sh_cq_create_ex(context, &copy, create);
	if (real)
		cq_record(context, ibv_cq_ex_to_cq(real), attr->channel, copy.channel,
			  (int)attr->comp_vector, &how);
	return real;
}

static bool cq_excluded(const struct sh_cq *cq)
{
	if (!cq->ctx->dev)
		return true;
	return !sp_has(cq->ctx->dev, SP_SHARES_CQ) &&
	       (cq->foreign_receives || (cq->foreign_qps && cq->ex));
}

/*
 * Gives another place to what completes into it and is not the engine's, where that is possible.
 */
static int cq_part(struct sh_cq *cq) SH_DROPS
{
	int ret = 0;

	if (cq_excluded(cq))
		return -EBUSY;
	if (cq->foreign_qps && !sp_has(cq->ctx->dev, SP_SHARES_CQ))
		ret = sh_qp_foreign_part(cq);
	return !ret && !cq->sp && cq_excluded(cq) ? -EBUSY : ret;
}

int sh_cq_drive(struct sh_cq *cq)
{
	struct sp_cq_past past;
	int ret;

	if (cq->sp)
		return 0;
	ret = cq_part(cq);
	if (ret || cq->sp)
		return ret;
	if (cq->foreign_qps && !sp_has(cq->ctx->dev, SP_SHARES_CQ))
		ret = sh_qp_foreign_drive(cq);
	else
		ret = sp_cq_drive(cq->ctx->dev, cq->cq, cq->ex, cq->how.wc_flags, cq, &cq->sp);
	if (ret)
		return ret;
	sh_cq_feed_drive(&cq->events.own, sp_cq_own_ring(cq->sp));
	past = sh_cq_events_past(&cq->events);
	sp_cq_take_over(cq->sp, &past);
	return 0;
}

/* ---- destruction ---------------------------------------------------------------------------- */

static bool cq_bound(const struct sh_cq *cq)
{
	return cq->qps || (cq->sp && cq->foreign_qps);
}

/* The parts of a CQ that are destroyed after the application's debts are paid. */
struct cq_remains {
	struct sh_shadow_cq *shadow[SC_MAX_PATHS];
	bool late; /* nobody waits for them; carriers may hold them still */
};

/* Takes the CQ away from the engine. No carrier is left there. */
static int cq_detach(struct sh_cq *cq, struct cq_remains *remains) SH_DROPS
{
	uint8_t path;

	*remains = (struct cq_remains){ 0 };
	sh_wait_idle(&cq->busy);
	while (!sh_cq_may_end_late(cq) && (cq->busy.jobs || cq->dropping.jobs)) {
		sh_wait_idle(&cq->dropping);
		sh_wait_idle(&cq->busy);
	}
	if (cq_bound(cq))
		return EBUSY;
	remains->late = sh_cq_may_end_late(cq);
	for (path = 0; path < SC_MAX_PATHS; path++) {
		if (!cq->shadow[path])
			continue;
		sh_cq_shadow_cut(cq, cq->shadow[path]);
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

static void cq_destroy_remains(struct sh_cq *cq, const struct cq_remains *remains)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (remains->shadow[path])
			sh_cq_shadow_destroy(cq, remains->shadow[path]);
}

struct cq_command {
	struct sh_command command;
	struct sh_cq *cq;
	struct sh_shadow_cq *shadow;
};

/* The end of a CQ: its shadows go on all paths at once. */
struct cq_end {
	struct sh_busy waiting;
	struct sh_cq *cq;
	struct cq_command commands[SC_MAX_PATHS];
	struct sh_command *sent[SC_MAX_PATHS];
	uint32_t n;
};

static void cq_command_run(struct sh_command *command)
{
	struct cq_command *gone = (struct cq_command *)command;

	sh_cq_shadow_destroy(gone->cq, gone->shadow);
}

/*
 * Sends remains to the threads that destroy them meanwhile, and takes these out of the remains.
 * Lock not held.
 */
static void cq_destroy_elsewhere(struct cq_end *end, struct cq_remains *remains)
{
	uint8_t path;

	sh_lock();
	for (path = 0; path < SC_MAX_PATHS; path++) {
		struct sh_shadow_cq *shadow = remains->shadow[path];
		struct cq_command *gone = &end->commands[end->n];

		if (!shadow)
			continue;
		*gone = (struct cq_command){ .command = { .nic = shadow->nic,
							  .run = cq_command_run },
					     .cq = end->cq,
					     .shadow = shadow };
		if (!sh_command_send(&gone->command, &end->waiting))
			continue;
		remains->shadow[path] = NULL;
		end->sent[end->n++] = &gone->command;
	}
	sh_unlock();
}

/*
 * The engine's part goes after the acknowledgements. No event is made meanwhile, as no QP is bound
 * to the CQ any more.
 */
static int cq_quiesce(struct sh_cq *cq, struct cq_remains *remains)
{
	bool bound;
	int ret;

	sh_lock();
	bound = cq_bound(cq);
	sh_unlock();
	if (bound)
		return EBUSY;
	sh_cq_events_quiesce(&cq->events);
	sh_lock();
	ret = cq_detach(cq, remains);
	sh_unlock();
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
		sh_comp_channel_remove(cq->cq);
	return ret;
}

static int cq_destroy_own(struct sh_cq *cq)
{
	int ret;

	sh_async_forget_begin(cq->ctx->async, cq->cq);
	ret = cq_destroy_real(cq);
	sh_async_forget_end(cq->ctx->async, cq->cq, ret != 0);
	return ret;
}

static int cq_free(struct sh_cq *cq)
{
	sh_cq_events_uninit(&cq->events);
	sh_lock();
	list_del(&cq->link);
	sh_unlock();
	free(cq);
	return 0;
}

/* It lives on. */
static int cq_stays(struct sh_cq *cq, int ret)
{
	sh_lock();
	if (sh_table_put(&sh_objects.by_cq, cq->cq, cq))
		sh_error_once("no memory: SHIFT has lost track of a CQ");
	sh_unlock();
	return ret;
}

static int cq_pay(void *object)
{
	struct cq_end *end = object;
	struct sh_cq *cq = end->cq;

	sh_lock();
	sh_wait_idle(&end->waiting);
	sh_unlock();
	free(end);
	return cq_free(cq);
}

/* Its shadows follow, and nobody waits for them. It is quiesced. */
static int cq_destroy_late(struct sh_cq *cq, const struct cq_remains *remains)
{
	int ret = cq_destroy_own(cq);

	sh_lock();
	if (ret) {
		sh_cq_shadows_put(cq, remains->shadow);
	} else {
		list_del(&cq->link);
		sh_cq_end_late(cq, remains->shadow);
	}
	sh_unlock();
	if (ret)
		sh_cq_events_resume(&cq->events);
	return ret ? cq_stays(cq, ret) : 0;
}

static int cq_destroy_parts(struct cq_end *end, struct cq_remains *remains)
{
	struct sh_cq *cq = end->cq;
	bool left = false;
	int ret;

	cq_destroy_elsewhere(end, remains);
	cq_destroy_remains(cq, remains);
	ret = cq_destroy_own(cq);
	sh_lock();
	if (ret)
		sh_wait_idle(&end->waiting);
	else
		left = !sh_commands_await(end->sent, end->n, &end->waiting);
	if (left)
		ret = sh_debt_defer(cq->ctx, cq_pay, end, false);
	sh_unlock();
	if (left)
		return ret;
	free(end);
	if (!ret)
		return cq_free(cq);
	sh_cq_events_resume(&cq->events);
	return cq_stays(cq, ret);
}

static int cq_destroy_known(struct sh_cq *cq)
{
	struct cq_end *end = calloc(1, sizeof(*end));
	struct cq_remains remains;
	int ret = end ? cq_quiesce(cq, &remains) : ENOMEM;

	if (!ret && remains.late) {
		free(end);
		return cq_destroy_late(cq, &remains);
	}
	if (!ret) {
		end->cq = cq;
		return cq_destroy_parts(end, &remains);
	}
	free(end);
	return cq_stays(cq, ret);
}

static int cq_destroy(void *object)
{
	struct ibv_cq *real = object;
	struct sh_cq *cq;

	sh_lock();
	cq = sh_table_remove(&sh_objects.by_cq, real); /* before the address can be another CQ's */
	sh_unlock();
	return cq ? cq_destroy_known(cq) : sh.real->destroy_cq(real);
}

/* Leaves a destruction to another thread; EBUSY at once if something is bound to the CQ. */
static int cq_destroy_later(struct sh_ctx *ctx, struct ibv_cq *real) SH_DROPS
{
	struct sh_cq *cq = sh_table_get(&sh_objects.by_cq, real);

	if (cq && cq_bound(cq))
		return EBUSY;
	if (cq) { /* none of it is shown any more */
		sh_unlock();
		sh_cq_events_shut(&cq->events);
		sh_lock();
	}
	return sh_debt_defer(ctx, cq_destroy, real, false);
}

int shift_destroy_cq(struct ibv_cq *real)
{
	struct sh_ctx *ctx;
	struct sh_cq *cq;
	bool later, late;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(real->context);
	cq = sh_table_get(&sh_objects.by_cq, real);
	late = cq && sh_cq_may_end_late(cq);
	later = late ? sh_debts_kept_by(ctx, NULL, 0) : sh_debts_kept(ctx);
	cq = later ? NULL : sh_table_get(&sh_objects.by_cq, real);
	later = later || (cq && (!sh_debt_idle(ctx, &cq->busy) ||
				 (!late && !sh_debt_idle(ctx, &cq->dropping))));
	if (later)
		ret = cq_destroy_later(ctx, real);
	sh_unlock();
	return later ? ret : cq_destroy(real);
}

/*
 * Forgets a CQ whose context is closed while it lives. The struct stays, as its channel may still
 * name it.
 */
void sh_cq_forget(struct sh_cq *cq)
{
	struct cq_remains remains;

	sh_table_remove(&sh_objects.by_cq, cq->cq);
	list_del(&cq->link);
	cq->foreign_qps = 0;
	if (cq_detach(cq, &remains))
		return;
	sh_cq_shadows_put(cq, remains.shadow);
}

/* ---- resize --------------------------------------------------------------------------------- */

/*
 * True if its own NIC is dead, which the application was not told: only what stands in for the CQ
 * matters.
 */
static bool cq_resize_without_nic(struct sh_cq *cq, int cqe)
{
	bool gone = sh_device_gone(cq->ctx->ctx); /* before its event is read */
	bool masked;

	sh_lock();
	masked = sh_ctx_death_masked(cq->ctx, gone);
	if (masked)
		cq->cqe = cqe;
	sh_unlock();
	return masked;
}

/*
 * Rounds as the driver does, where the engine knows that: a ring is a power of two, with one
 * place more.
 */
static int cq_rounded(const struct sh_cq *cq, int cqe)
{
	int places = 1;

	if (!sp_has(cq->sp, SP_OWN_CQ_SIZE))
		return cqe;
	while (places - 1 < cqe)
		places *= 2;
	return places - 1;
}

/* Resizes to what the application asks for, and the room that its connections need beside that. */
static int cq_resize_asked(struct sh_cq *cq, int cqe)
{
	struct sh_cq_room room;
	uint64_t need;
	int ret, told;

	if (cqe <= 0 || cqe > INT32_MAX / 128)
		return sh_cq_resize_ring(cq, cq->cq, cqe, cqe);
	sh_lock();
	room = cq->room;
	room.told = (uint32_t)(told = cq_rounded(cq, cqe));
	need = sh_room_need(&room, room.movers, sh_cq_known(cq));
	sh_unlock();
	if (need > (uint64_t)told && !sh_room_over(need, cq->ctx->nic->max.cqe) &&
	    !sh_cq_resize_ring(cq, cq->cq, (int)need, told))
		return 0;
	ret = sh_cq_resize_ring(cq, cq->cq, cqe, told);
	if (!ret && need > cq->room.have) {
		sh_lock();
		sh_room_refuse(cq);
		sh_unlock();
	}
	return ret;
}

int shift_resize_cq(struct ibv_cq *real, int cqe)
{
	struct sh_yield yield = { real->context, SH_YIELD_LATE };
	struct sh_cq *cq;
	int ret;

	sh_lock();
	cq = sh_table_get(&sh_objects.by_cq, real);
	if (!cq) {
		sh_unlock();
		return sh.real->resize_cq(real, cqe);
	}
	sh_job_begin(&cq->busy); /* no queue pair makes it driven meanwhile */
	if (!cq->sp) {
		sh_unlock();
		ret = sh.real->resize_cq(real, cqe);
		sh_lock();
		cq->room.told = cq->room.have = (uint32_t)real->cqe;
		sh_job_end(&cq->busy);
		sh_unlock();
		return ret;
	}
	sh_wait_idle(&cq->resizing);
	sh_job_begin(&cq->resizing);
	sh_unlock();
	do {
		ret = cq_resize_asked(cq, cqe);
		errno = ret;
	} while (ret && sh_yield(&yield));
	if (sh_dead_device_error(ret) && cq_resize_without_nic(cq, cqe))
		ret = 0;
	sh_lock();
	if (!ret)
		sh_cq_resize_shadows(cq);
	sh_job_end(&cq->resizing);
	sh_job_end(&cq->busy);
	sh_unlock();
	return ret;
}
