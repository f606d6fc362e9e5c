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

/* The first standby's memory is made ready at once, others' when they are asked for. */
void sh_ctx_prepare(struct sh_ctx *ctx)
{
	uint32_t k;

	if (ctx->prepared || !ctx->dev)
		return;
	ctx->prepared = true;
	if (ctx->n_paths < 2) {
		sh_log(SH_LOG_WARN, "%s: not protected: %s", ctx->nic->name, ctx->why);
		return;
	}
	for (k = 0; k < ctx->n_paths; k++)
		sh_nic_open(ctx->path[k]);
	sh_replica_want(ctx, 1);
}

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
};
