/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handles: one number space per context for all types, lowest free number first. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/fabric/check.h"
#include "simnic/host/ctx.h"
#include "simnic/host/object.h"
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

static bool limit_reached(const struct sn_ctx *ctx, enum sn_obj_type type)
{
	static const struct {
		enum sn_obj_type type;
		enum sn_limit limit;
	} limits[] = {
		{ SN_OBJ_PD, SN_LIMIT_PD },   { SN_OBJ_MR, SN_LIMIT_MR },
		{ SN_OBJ_CQ, SN_LIMIT_CQ },   { SN_OBJ_QP, SN_LIMIT_QP },
		{ SN_OBJ_SRQ, SN_LIMIT_SRQ },
	};
	uint32_t limit;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (limits[i].type != type)
			continue;
		limit = atomic_load(&ctx->nic->limit[limits[i].limit]);
		return limit && sn_ctx_in_use(ctx, type) >= limit;
	}
	return false;
}

int sn_obj_add(struct sn_ctx *ctx, struct sn_obj *obj, uint32_t *handle)
{
	uint32_t i;
	int err;

	if (limit_reached(ctx, obj->type))
		return -ENOMEM;
	for (i = ctx->free_below; i < ctx->n_objs && ctx->objs[i]; i++)
		;
	if (i == ctx->n_objs) {
		err = table_grow(ctx);
		if (err)
			return err;
	}
	SN_ASSERT(!ctx->objs[i]);
	ctx->objs[i] = obj;
	ctx->free_below = i + 1;
	atomic_fetch_add(&ctx->in_use[obj->type], 1);
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

void sn_obj_unref(struct sn_obj *obj)
{
	SN_ASSERT(obj->users);
	obj->users--;
}

void sn_obj_drop(struct sn_ctx *ctx, uint32_t handle)
{
	SN_ASSERT(handle < ctx->n_objs && ctx->objs[handle] && !ctx->objs[handle]->users);
	SN_ASSERT(atomic_load(&ctx->in_use[ctx->objs[handle]->type]));
	atomic_fetch_sub(&ctx->in_use[ctx->objs[handle]->type], 1);
	free(ctx->objs[handle]);
	ctx->objs[handle] = NULL;
	if (handle < ctx->free_below)
		ctx->free_below = handle;
}
