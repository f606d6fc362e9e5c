/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The end of memory regions, and of their shadows on the NICs of the paths. */
#include <errno.h>
#include <stdlib.h>
#include "shiftlib/base/table.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/meet/unknown.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/watch/detector.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/command.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/mr.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"

struct taken_mr {
	struct ibv_mr *mr;
	struct sh_nic *nic;
	uint32_t incarnation;
};

/*
 * True if the shadow's end need not be waited for. The memory behind a dma-buf may be short, and
 * is free for others only when no NIC has it.
 */
static bool mr_late(const struct sh_mr *mr, uint8_t path) SH_LOCKED
{
	return mr->shadow[path].mr && !mr->dmabuf && sh_late_may(mr->pd->ctx, path);
}

/* False: there is none, or it goes by itself. */
static bool mr_take_shadow(struct sh_mr *mr, uint8_t path, struct taken_mr *taken) SH_LOCKED
{
	bool late = mr_late(mr, path);

	*taken = (struct taken_mr){ .nic = mr->pd->ctx->path[path],
				    .incarnation = mr->shadow[path].incarnation };
	taken->mr = sh_mr_take_shadow(mr, path);
	return taken->mr && !(late && sh_late_defer(mr->pd, path, taken->mr, taken->incarnation));
}

static uint32_t mr_take_shadows(struct sh_mr *mr, struct taken_mr taken[SC_MAX_PATHS]) SH_LOCKED
{
	uint32_t n = 0;
	uint8_t path;

	for (path = 0; path < mr->pd->ctx->n_paths; path++)
		n += mr_take_shadow(mr, path, &taken[n]);
	return n;
}

struct dereg_command {
	struct sh_command command;
	struct taken_mr taken;
};

/* The end of the shadows of a region, on all paths at once. */
struct dereg {
	struct sh_busy waiting;
	struct sh_ctx *ctx;
	uint32_t n;
	struct dereg_command commands[SC_MAX_PATHS];
};

static void dereg_run(struct sh_command *command)
{
	sh.real->dereg_mr(((struct dereg_command *)command)->taken.mr);
}

/* Deregisters in the caller's thread, without memory to remember the regions by. */
static void dereg_all_here(const struct taken_mr *taken, uint32_t n) SH_DROPS
{
	uint32_t i;

	sh_job_begin(&sh_objects.deregs);
	for (i = 0; i < n; i++) {
		struct dereg_command gone = { .command.run = dereg_run, .taken = taken[i] };

		sh_command_here(&gone.command);
		sh_nic_release(taken[i].nic, taken[i].incarnation);
	}
	sh_job_end(&sh_objects.deregs);
}

/* NULL: there was none, or without memory they are gone already. */
static struct dereg *dereg_begin(struct sh_ctx *ctx, const struct taken_mr *taken,
				 uint32_t n) SH_DROPS
{
	struct dereg *dereg = n ? calloc(1, sizeof(*dereg)) : NULL;
	uint32_t i;

	if (!dereg) {
		dereg_all_here(taken, n);
		return NULL;
	}
	dereg->ctx = ctx;
	dereg->n = n;
	sh_job_begin(&sh_objects.deregs);
	for (i = 0; i < n; i++) {
		struct dereg_command *gone = &dereg->commands[i];

		*gone = (struct dereg_command){
			.command = { .nic = taken[i].nic,
				     .device = taken[i].mr->context->cmd_fd,
				     .run = dereg_run },
			.taken = taken[i],
		};
		sh_command_give(&gone->command, &dereg->waiting);
	}
	return dereg;
}

static void dereg_finish(struct dereg *dereg) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < dereg->n; i++)
		sh_nic_release(dereg->commands[i].taken.nic, dereg->commands[i].taken.incarnation);
	sh_job_end(&sh_objects.deregs);
	free(dereg);
}

static int dereg_pay(void *object)
{
	struct dereg *dereg = object;

	sh_lock();
	sh_wait_idle(&dereg->waiting);
	dereg_finish(dereg);
	sh_unlock();
	return 0;
}

/* Does a connection of the context have its traffic on a NIC that still has a shadow to give up? */
static bool dereg_reached(const struct dereg *dereg)
{
	struct sh_qp *qp;
	uint32_t i;

	for (i = 0; i < dereg->n; i++) {
		struct sh_nic *nic = dereg->commands[i].taken.nic;

		if (!dereg->commands[i].command.under_way || !sh_nic_up(nic))
			continue;
		list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
			if (qp->ctx == dereg->ctx && qp->conn_id &&
			    (qp->active->nic == nic || qp->receiving->nic == nic))
				return true;
	}
	return false;
}

/*
 * Waits for the deregistrations. A NIC that hangs, and that nothing is left on, need not be
 * waited for: what it still has, nobody can name.
 */
static void dereg_await(struct dereg *dereg) SH_DROPS
{
	struct sh_command *commands[SC_MAX_PATHS];
	uint32_t i;

	for (i = 0; i < dereg->n; i++)
		commands[i] = &dereg->commands[i].command;
	while (!sh_commands_await(commands, dereg->n, &dereg->waiting)) {
		if (!dereg_reached(dereg)) {
			(void)sh_debt_defer(dereg->ctx, dereg_pay, dereg, false);
			return;
		}
		sh_detector_nics();
	}
	dereg_finish(dereg);
}

/* The lock is given up meanwhile. */
static void mr_drop_taken(struct sh_mr *mr, const struct taken_mr *taken, uint32_t n) SH_DROPS
{
	struct dereg *dereg;

	sh_job_begin(&mr->busy); /* keeps it in its list */
	dereg = dereg_begin(mr->pd->ctx, taken, n);
	if (dereg)
		dereg_await(dereg);
	sh_job_end(&mr->busy);
}

static void mr_drop_shadows(struct sh_mr *mr) SH_DROPS
{
	struct taken_mr taken[SC_MAX_PATHS];

	mr_drop_taken(mr, taken, mr_take_shadows(mr, taken));
}

/* Waits for it wherever it is. */
uint32_t sh_mr_drop_shadow(struct sh_mr *mr, uint8_t path)
{
	struct taken_mr taken = { .nic = mr->pd->ctx->path[path],
				  .incarnation = mr->shadow[path].incarnation };

	taken.mr = sh_mr_take_shadow(mr, path);
	mr_drop_taken(mr, &taken, taken.mr != NULL);
	return taken.mr != NULL;
}

/* No job holds it any more, and none will. */
static void mr_retire(struct sh_mr *mr) SH_DROPS
{
	mr->leaving = true;
	mr->pd->foreign -= sh_push_concerns(mr);
	if (mr->alone)
		sh_alone_remove(mr->pd, mr->alone);
	sh_mr_replay_never(mr);
	sh_unknown_told(mr->mr->lkey);
	sh_table_remove(&sh_objects.by_mr, mr->mr);
	sh_wait_idle(&mr->busy);
}

void sh_mr_forget(struct sh_mr *mr)
{
	mr_retire(mr);
	mr_drop_shadows(mr);
	list_del(&mr->link);
	sh_mr_free(mr);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/*
 * Deregisters region and shadows. When it returns they are gone, but for those that nobody can
 * reach: what the application frees then, nobody can write to.
 */
static int mr_dereg_known(struct sh_mr *mr) SH_DROPS
{
	struct taken_mr taken[SC_MAX_PATHS];
	struct sh_ctx *ctx = mr->pd->ctx;
	struct ibv_mr *real = mr->mr;
	struct dereg *dereg;
	int ret;

	mr_retire(mr);
	dereg = dereg_begin(ctx, taken, mr_take_shadows(mr, taken));
	list_del(&mr->link);
	sh_mr_free(mr);
	sh_unlock();
	ret = sh.real->dereg_mr(real);
	sh_lock();
	if (dereg)
		dereg_await(dereg);
	return ret;
}

static int mr_dereg(void *object)
{
	struct ibv_mr *real = object;
	struct ibv_context *context = real->context;
	struct sh_mr request = { 0 };
	struct sh_mr *mr;
	int ret = 0;

	sh_lock();
	mr = sh_table_get(&sh_objects.by_mr, real);
	if (mr) {
		request = sh_mr_request(mr);
		if (mr->placeholder)
			sh_mr_forget(mr);
		else
			ret = mr_dereg_known(mr);
	}
	sh_unlock();
	if (request.placeholder) {
		free(real);
		return 0;
	}
	if (!mr)
		ret = sh.real->dereg_mr(real);
	if (ret)
		ret = sh_ctx_destroy_result(context, ret);
	if (ret && mr) /* a memory window is bound to it: it lives on */
		sh_mr_record(real->pd, real, &request);
	else
		sh_mr_fd_close(&request);
	return ret;
}

/* ---- while a NIC may not obey --------------------------------------------------------------- */

/*
 * True if a NIC that is up, as far as is known, has to be waited for: it is registering the
 * region, or has to deregister it and is busy.
 */
static bool mr_awaited(const struct sh_mr *mr) SH_LOCKED
{
	const struct sh_ctx *ctx = mr->pd->ctx;
	uint32_t k;

	for (k = 0; k < ctx->n_paths; k++)
		if (sh_nic_up(ctx->path[k]) && (mr->shadow[k].state == SH_SHADOW_QUEUED ||
						(mr->shadow[k].mr && !mr_late(mr, (uint8_t)k) &&
						 !sh_nic_prompt(ctx->path[k]))))
			return true;
	return false;
}

static void mr_await(struct sh_mr *mr) SH_DROPS
{
	sh_mr_replay_never(mr);
	while (mr_awaited(mr)) {
		sh_wait_some(SH_NS_PER_S);
		sh_detector_nics();
	}
}

/*
 * Waits until the memory may be freed: by then no NIC that obeys can reach it. A NIC that hangs
 * has had the packet lifetime to write what it had taken before its connections left; the kernel
 * keeps the pages until it has deregistered them.
 */
static void mr_unreach(struct sh_mr *mr) SH_DROPS
{
	struct sh_ctx *ctx = mr->pd->ctx;
	struct taken_mr taken;
	uint8_t path;

	mr->leaving = true;
	sh_job_begin(&mr->busy); /* keeps it */
	mr_await(mr);
	for (path = 0; path < ctx->n_paths; path++)
		if ((mr_late(mr, path) || sh_nic_up(ctx->path[path])) &&
		    mr_take_shadow(mr, path, &taken))
			mr_drop_taken(mr, &taken, 1);
	sh_job_end(&mr->busy);
}

/* Is anything of it on a NIC that may not obey? */
static bool mr_owes(const struct sh_mr *mr) SH_LOCKED
{
	const struct sh_ctx *ctx = mr->pd->ctx;
	uint32_t k;

	for (k = 0; k < ctx->n_paths; k++)
		if (!sh_nic_prompt(ctx->path[k]) &&
		    (!k || (mr->shadow[k].mr && !mr_late(mr, (uint8_t)k)) || mr->busy.jobs))
			return true;
	return false;
}

/* False: a NIC that may not obey is at it. */
static bool mr_idle(const struct sh_ctx *ctx, struct sh_mr *mr) SH_DROPS
{
	if (!mr->busy.jobs)
		return true;
	mr->leaving = true;
	sh_mr_replay_never(mr);
	return sh_debt_idle(ctx, &mr->busy);
}

/* Finds the NICs that have to obey before the verb can return. */
static uint32_t mr_waits_for(const struct sh_mr *mr, struct sh_nic *nics[SC_MAX_PATHS]) SH_LOCKED
{
	uint32_t n = 0;
	uint8_t k;

	for (k = 1; mr && k < mr->pd->ctx->n_paths; k++)
		if ((mr->shadow[k].mr && !mr_late(mr, k)) ||
		    (mr->busy.jobs && mr->shadow[k].state == SH_SHADOW_QUEUED))
			nics[n++] = mr->pd->ctx->path[k];
	return n;
}

int shift_dereg_mr(struct ibv_mr *real)
{
	struct sh_nic *nics[SC_MAX_PATHS];
	struct sh_ctx *ctx;
	struct sh_mr *mr;
	bool later;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(real->context);
	later = sh_debts_kept_by(ctx, nics,
				 mr_waits_for(sh_table_get(&sh_objects.by_mr, real), nics));
	mr = sh_table_get(&sh_objects.by_mr, real);
	later = later && (!mr || mr_owes(mr));
	if (mr && !later)
		later = !mr_idle(ctx, mr);
	if (mr && later)
		mr_unreach(mr);
	if (later)
		ret = sh_debt_defer(ctx, mr_dereg, real, false);
	sh_unlock();
	return later ? ret : mr_dereg(real);
}
