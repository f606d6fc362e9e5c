/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts of the application: opened and closed, and what can be driven there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/few.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/variables.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/state.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

/* ---- open ----------------------------------------------------------------------------------- */

_Static_assert(BACKUP_MAP_MAX_BACKUPS + 1 == SC_MAX_PATHS, "every backup has its path");

static const char *ctx_paths(struct sh_ctx *ctx)
{
	uint8_t index = ctx->nic->index, i;

	ctx->path[ctx->n_paths++] = ctx->nic;
	for (i = 0; i < sh_nics.map.n_backups[index] && ctx->n_paths < SC_MAX_PATHS; i++)
		ctx->path[ctx->n_paths++] = &sh_nics.nic[sh_nics.map.backups[index][i]];
	if (ctx->n_paths > 1)
		return NULL;
	return sh_nics.map.automatic ? "no other NIC of its kind and link layer is there"
				     : "no backup NIC is named for it";
}

static const char *ctx_find_nic(struct sh_ctx *ctx) SH_LOCKED
{
	if (sh_nics_load())
		return "the devices cannot be listed";
	ctx->nic = sh_nic_by_place(sh.real->get_device_name(ctx->ctx->device));
	if (!ctx->nic)
		return "it belongs to another libibverbs than the one under SHIFT "
		       "(start the program by shiftctl run)";
	if (!sh_nic_engine(ctx->nic))
		return "no engine is for it and all its backups";
	return NULL;
}

static const char CTX_NO_THREAD[] = "no background thread";

/* Sets up what the process needs for any context. */
static const char *ctx_join(struct sh_ctx *ctx) SH_LOCKED
{
	/*
	 * a NIC that is dead and back, and not opened again by SHIFT yet, is its next life
	 * already
	 */
	ctx->incarnation = ctx->nic->incarnation + ctx->nic->fatal;
	return sh_start() ? CTX_NO_THREAD : NULL;
}

/* Lock not held: it asks the device, which may hang. */
static const char *ctx_drive(struct sh_ctx *ctx)
{
	if (sp_dev_init(sh_nic_engine(ctx->nic), ctx->ctx, true, &sh_callbacks, &ctx->dev))
		return "no memory for the engine";
	ctx->async = sh_async_init(ctx->ctx);
	if (ctx->async)
		return NULL;
	sp_dev_uninit(ctx->dev);
	ctx->dev = NULL;
	return "no fds for asynchronous events";
}

static const char *ctx_init(struct sh_ctx *ctx)
{
	const char *why = NULL;

	if (sh_few_files())
		return sh_few_files_why;
	if (sh_few_addresses())
		return sh_few_addresses_why;
	if (!sp_probe(sh.config.engine, ctx->ctx, &why))
		return why ? why : "SHIFT_ENGINE names no engine";
	sh_lock();
	why = ctx_find_nic(ctx);
	sh_unlock();
	if (why || !sh_nic_engine(ctx->nic)->probe(ctx->ctx, &why))
		return why;
	sh_lock();
	why = ctx_join(ctx);
	sh_unlock();
	return why ? why : ctx_drive(ctx);
}

/* True if this was said of the device before, by an earlier context. */
static bool ctx_foreign_said(const char *device, const char *why) SH_LOCKED
{
	static struct {
		char device[64];
		const char *why;
	} said[SH_MAX_NICS];
	static uint32_t n;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (said[i].why == why && !strcmp(said[i].device, device))
			return true;
	if (n < SH_MAX_NICS) {
		snprintf(said[n].device, sizeof(said[n].device), "%s", device);
		said[n++].why = why;
	}
	return false;
}

/*
 * Tells of a device that SHIFT does not serve: by a warning, and by the background thread, as
 * shiftctl status has a line for it. No thread where SHIFT has to do without files or memory.
 */
static void ctx_foreign(const struct sh_ctx *ctx) SH_LOCKED
{
	const char *device = sh.real->get_device_name(ctx->ctx->device);

	if (!ctx_foreign_said(device, ctx->why))
		sh_log(SH_LOG_WARN, "%s is foreign: %s; nothing on it is protected", device,
		       ctx->why);
	if (ctx->why != sh_few_files_why && ctx->why != sh_few_addresses_why &&
	    ctx->why != CTX_NO_THREAD)
		(void)sh_start();
}

void shift_context_opened(struct ibv_context *context)
{
	struct sh_ctx *ctx = calloc(1, sizeof(*ctx));
	uint8_t k;

	if (!ctx)
		return;
	ctx->ctx = context;
	list_init(&ctx->pds);
	list_init(&ctx->cqs);
	list_init(&ctx->srqs);
	for (k = 0; k < SC_MAX_PATHS; k++)
		sh_keymap_init(&ctx->lkeys[k]);
	ctx->why = ctx_init(ctx);
	sh_variables_judge();
	sh_lock();
	if (ctx->why) {
		ctx_foreign(ctx);
	} else {
		ctx->async_handler = (struct sh_handler){ sh_ctx_async_readable, ctx };
		sh_loop_add(sh_async_real_fd(ctx->async), &ctx->async_handler);
		ctx->why = ctx_paths(ctx);
	}
	list_add_tail(&sh_objects.ctxs, &ctx->link);
	sh_unlock();
}

/* ---- close ---------------------------------------------------------------------------------- */

static struct sh_qp *ctx_any_qp(const struct sh_ctx *ctx)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->ctx == ctx)
			return qp;
	return NULL;
}

/*
 * A device may be closed with all that was made on it: the kernel destroys that with the fd. What
 * stands for it on other NICs is SHIFT's to destroy, or memory of the application stays writable.
 */
static void ctx_forget_objects(struct sh_ctx *ctx) SH_DROPS
{
	struct sh_qp *qp;

	while ((qp = ctx_any_qp(ctx)))
		sh_qp_forget(qp);
	while (!list_empty(&ctx->srqs))
		sh_srq_forget(list_entry(ctx->srqs.next, struct sh_srq, link));
	while (!list_empty(&ctx->cqs))
		sh_cq_forget(list_entry(ctx->cqs.next, struct sh_cq, link));
	while (!list_empty(&ctx->pds))
		sh_pd_forget(list_entry(ctx->pds.next, struct sh_pd, link));
}

/* Then other NICs are asked to destroy things, and one may hang. */
static bool ctx_has_objects(const struct sh_ctx *ctx)
{
	return ctx_any_qp(ctx) || !list_empty(&ctx->srqs) || !list_empty(&ctx->cqs) ||
	       !list_empty(&ctx->pds);
}

static void ctx_uninit(struct sh_ctx *ctx) SH_DROPS
{
	bool handled = ctx->dev;
	uint8_t k;

	ctx_forget_objects(ctx);
	if (handled) {
		sh_loop_remove(sh_async_real_fd(ctx->async));
		sh_async_uninit(ctx->async);
		ctx->async = NULL;
		sp_dev_uninit(ctx->dev);
		ctx->dev = NULL;
	}
	for (k = 0; k < SC_MAX_PATHS; k++)
		sh_keymap_uninit(&ctx->lkeys[k]);
	list_del(&ctx->link);
	if (!handled) { /* no event can name it */
		free(ctx);
		return;
	}
	list_add_tail(&sh_objects.dead_ctxs, &ctx->link);
	sh_kick();
}

static int ctx_close(void *context)
{
	struct sh_ctx *ctx;

	sh_lock();
	ctx = sh_ctx_find(context);
	if (ctx)
		ctx_uninit(ctx);
	sh_unlock();
	return sh.real->close_device(context);
}

int shift_close_device(struct ibv_context *context)
{
	struct sh_ctx *ctx;
	bool later;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(context);
	later = sh_debts_kept(ctx) || (ctx && ctx->dev && ctx_has_objects(ctx));
	if (later)
		ret = sh_debt_defer(ctx, ctx_close, context, true);
	sh_unlock();
	return later ? ret : ctx_close(context);
}
