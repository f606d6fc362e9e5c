/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/core/state.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/young.h"

#define YOUNG_NS (100 * SH_NS_PER_MS)

static struct list_node youngs; /* the oldest first */

/*
 * The nearest backup. Every region is there at once, so that a peer hears of each key
 * (conn/unknown.c).
 */
static uint8_t young_nearest(const struct sh_pd *pd) SH_LOCKED
{
	uint8_t path;

	for (path = 1; path < pd->ctx->n_paths; path++)
		if (sh_pd_wanted(pd, path) && sh_nic_up(pd->ctx->path[path]))
			return path;
	return 1;
}

static bool young_waits(const struct sh_mr *mr, uint8_t path, uint8_t nearest) SH_LOCKED
{
	const struct sh_ctx *ctx = mr->pd->ctx;

	return path && path != nearest && !ctx->moving && !ctx->reached[path] &&
	       sh_pd_wanted(mr->pd, path);
}

static void young_shadow(struct sh_mr *mr, uint8_t path) SH_LOCKED
{
	struct sh_pd *pd = mr->pd;

	if (sh_pd_wanted(pd, path))
		sh_mr_replay(mr, path);
	else if (pd->ctx->replica[path])
		sh_pd_lose_path(pd, path); /* the NIC makes place for the application */
	else
		pd->shadow[path].asked = 0; /* whoever wants the replica asks for all regions */
}

void sh_young_add(struct sh_mr *mr)
{
	uint8_t nearest = young_nearest(mr->pd), path;
	bool waits = false;

	list_init(&mr->young);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (young_waits(mr, path, nearest))
			waits = true;
		else
			young_shadow(mr, path);
	if (!waits || mr->alone)
		return;
	mr->young_until = sh_now_ns() + YOUNG_NS;
	list_add_tail(&youngs, &mr->young);
	sh_wake_at(list_entry(youngs.next, struct sh_mr, young)->young_until);
}

void sh_young_forget(struct sh_mr *mr)
{
	list_del(&mr->young);
}

bool sh_young_is(const struct sh_mr *mr)
{
	return !list_empty(&mr->young);
}

static void young_over(struct sh_mr *mr) SH_LOCKED
{
	uint8_t path;

	list_del(&mr->young);
	for (path = 1; path < mr->pd->ctx->n_paths; path++)
		young_shadow(mr, path);
}

void sh_young_move(struct sh_ctx *ctx)
{
	struct sh_mr *mr;

	list_for_each (&youngs, mr, struct sh_mr, young)
		if (mr->pd->ctx == ctx)
			young_over(mr);
}

static void young_run(uint64_t now) SH_LOCKED
{
	struct sh_mr *mr;

	while (!list_empty(&youngs)) {
		mr = list_entry(youngs.next, struct sh_mr, young);
		if (mr->young_until > now)
			break;
		young_over(mr);
	}
}

static uint64_t young_next_timer(void)
{
	return list_empty(&youngs) ? 0 : list_entry(youngs.next, struct sh_mr, young)->young_until;
}

static void young_reset(void)
{
	list_init(&youngs);
}

const struct sh_module sh_young_module = {
	.name = "young",
	.reset = young_reset,
	.run = young_run,
	.next_timer = young_next_timer,
};
