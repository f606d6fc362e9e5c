/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handles: one number space per context for all types, lowest free number first. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/host/uverbs.h"

struct sn_obj *sn_obj_make(enum sn_obj_type type)
{
	struct sn_obj *obj = calloc(1, sizeof(*obj));

	if (obj)
		obj->type = type;
	return obj;
}

static int table_grow(struct sn_ctx *ctx)
{
	uint32_t n = ctx->n_objs ? 2 * ctx->n_objs : 64;
	struct sn_obj **objs;

	if (n > SN_MAX_OBJECTS)
		return -ENOMEM;
	objs = realloc(ctx->objs, n * sizeof(*objs));
	if (!objs)
		return -ENOMEM;
	for (uint32_t i = ctx->n_objs; i < n; i++)
		objs[i] = NULL;
	ctx->objs = objs;
	ctx->n_objs = n;
	return 0;
}

int sn_obj_add(struct sn_ctx *ctx, struct sn_obj *obj, uint32_t *handle)
{
	uint32_t i;
	int err;

	for (i = 0; i < ctx->n_objs && ctx->objs[i]; i++)
		;
	if (i == ctx->n_objs) {
		err = table_grow(ctx);
		if (err)
			return err;
	}
	ctx->objs[i] = obj;
	*handle = i;
	return 0;
}

struct sn_obj *sn_obj_find(struct sn_ctx *ctx, uint32_t handle, enum sn_obj_type type)
{
	struct sn_obj *obj = handle < ctx->n_objs ? ctx->objs[handle] : NULL;

	return obj && obj->type == type ? obj : NULL;
}

struct sn_obj *sn_obj_attr(const struct sn_req *req, uint16_t id, enum sn_obj_type type)
{
	uint32_t handle;

	return sn_req_u32(req, id, &handle) ? NULL : sn_obj_find(req->ctx, handle, type);
}

void sn_obj_drop(struct sn_ctx *ctx, uint32_t handle)
{
	free(ctx->objs[handle]);
	ctx->objs[handle] = NULL;
}
