/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory keys of replicas, as they go into the journal that every peer follows. */
#include "shiftlib/control/wire.h"
#include "shiftlib/core/state.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/keys.h"
#include "shiftlib/replica/memory.h"

static struct sh_wire_key key_entry(const struct sh_mr *mr, uint8_t path, enum sh_wire_key_op op)
{
	const struct sh_ctx *ctx = mr->pd->ctx;

	return (struct sh_wire_key){ .op = (uint8_t)op,
				     .nic = ctx->nic->index,
				     .backup_nic = ctx->path[path]->index,
				     .rkey = mr->mr->rkey,
				     .backup_rkey = mr->shadow[path].mr->rkey };
}

void sh_replica_key_add(const struct sh_mr *mr, uint8_t path)
{
	struct sh_wire_key key = key_entry(mr, path, SH_WIRE_KEY_ADD);

	sh_keys_add(&key);
}

void sh_replica_key_remove(const struct sh_mr *mr, uint8_t path)
{
	struct sh_wire_key key = key_entry(mr, path, SH_WIRE_KEY_REMOVE);

	sh_keys_remove(&key);
}

static uint32_t keys_live_mr(const struct sh_mr *mr, struct sh_wire_key *keys, uint32_t room)
{
	uint32_t n = 0;
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (mr->shadow[path].mr && n < room)
			keys[n++] = key_entry(mr, path, SH_WIRE_KEY_ADD);
	return n;
}

static uint32_t keys_live(const struct sh_ctx *ctx, struct sh_wire_key *keys, uint32_t room)
{
	struct sh_pd *pd;
	struct sh_mr *mr;
	uint32_t n = 0;

	list_for_each (&ctx->pds, pd, struct sh_pd, link)
		list_for_each (&pd->mrs, mr, struct sh_mr, link)
			n += keys_live_mr(mr, keys + n, room - n);
	return n;
}

uint32_t sh_news_keys_live(struct sh_wire_key *keys, uint32_t room)
{
	struct sh_ctx *ctx;
	uint32_t n = 0;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		n += keys_live(ctx, keys + n, room - n);
	return n;
}
