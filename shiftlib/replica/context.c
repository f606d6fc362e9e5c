/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of what the application made, and the life of its contexts there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

struct sh_objects sh_objects;

struct sh_ctx *sh_ctx_find(struct ibv_context *context)
{
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->ctx == context)
			return ctx;
	return NULL;
}

/* ---- NICs are opened ------------------------------------------------------------------------- */

enum { CTX_PAIR = 2 }; /* the NIC and its first backup */

/*
 * Opens the NIC and its backups. Where little memory may be locked, further backups wait until the
 * pair has its own: otherwise they could take it, and nothing would be protected. `shiftctl doctor`
 * judges by the pair (doctor_room()).
 */
static void ctx_open_first(struct sh_ctx *ctx) SH_LOCKED
{
	uint32_t k, n = ctx->n_paths;

	ctx->opens_more = n > CTX_PAIR && sh_nics.limited;
	if (ctx->opens_more)
		n = CTX_PAIR;
	for (k = 0; k < n; k++)
		sh_nic_open(ctx->path[k]);
}

static void ctx_open_more(struct sh_ctx *ctx) SH_LOCKED
{
	uint32_t k;

	for (k = 0; k < CTX_PAIR; k++)
		if (ctx->path[k]->state == SH_NIC_OPENING)
			return;
	ctx->opens_more = false;
	for (k = CTX_PAIR; k < ctx->n_paths; k++)
		sh_nic_open(ctx->path[k]);
}

static void objects_run(uint64_t now) SH_LOCKED
{
	struct sh_ctx *ctx;

	(void)now;
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->opens_more)
			ctx_open_more(ctx);
}

/* The first standby's memory is made ready at once, others' when they are asked for. */
void sh_ctx_prepare(struct sh_ctx *ctx)
{
	if (ctx->prepared || !ctx->dev)
		return;
	ctx->prepared = true;
	if (ctx->n_paths < 2) {
		sh_log(SH_LOG_WARN, "%s: not protected: %s", ctx->nic->name, ctx->why);
		return;
	}
	ctx_open_first(ctx);
	sh_replica_want(ctx, 1);
}

/* ---- the module ------------------------------------------------------------------------------ */

/*
 * A context closed between epoll_wait and the lock may still have its event in the array: closed
 * ones are freed here, when no event can name them any more.
 */
static void objects_bury(void)
{
	struct sh_ctx *ctx;

	list_for_each (&sh_objects.dead_ctxs, ctx, struct sh_ctx, link) {
		list_del(&ctx->link);
		free(ctx);
	}
}

static void objects_reset(void)
{
	memset(&sh_objects, 0, sizeof(sh_objects));
	list_init(&sh_objects.ctxs);
	list_init(&sh_objects.dead_ctxs);
}

const struct sh_module sh_objects_module = {
	.name = "objects",
	.reset = objects_reset,
	.heard = objects_bury,
	.run = objects_run,
};
