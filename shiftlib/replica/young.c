/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/core/state.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/young.h"

#define YOUNG_NS (100 * SH_NS_PER_MS)
#define FRESH_NS (10 * SH_NS_PER_MS)  /* time without any shadow */
#define TOLD_NS	 (500 * SH_NS_PER_MS) /* time until peers hear of a key again */

#define YOUNG_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Lines of regions, the oldest first. Fresh regions join the young ones in their time. */
static struct list_node youngs, freshes;

/* The table of keys that peers have been told of lately, by their hash. */
static struct {
	uint32_t rkey;
	uint64_t at; /* 0: none was told */
} young_told[256];

static size_t told_at(uint32_t rkey)
{
	return (rkey ^ rkey >> 8) % (sizeof(young_told) / sizeof(young_told[0]));
}

void sh_young_told(uint32_t rkey)
{
	size_t at = told_at(rkey);

	young_told[at].rkey = rkey;
	young_told[at].at = sh_now_ns();
}

/*
 * True if the peers need not hear of the region at once. A key that a peer's requests name for
 * seconds, and that nobody ever told of, ends the protection (conn/meet/unknown.c): a driver
 * gives the same key to regions that come and go.
 */
static bool young_untold(const struct sh_mr *mr, uint64_t now)
{
	uint32_t rkey = mr->mr->rkey;
	size_t at = told_at(rkey);

	if (!(mr->access & YOUNG_REMOTE))
		return true;
	return young_told[at].rkey == rkey && young_told[at].at &&
	       now - young_told[at].at < TOLD_NS;
}

/* Returns the nearest backup. */
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

/* Makes the shadows that do not wait; 0 as nearest: there, too, one waits. True: some wait. */
static bool young_begin(struct sh_mr *mr, uint8_t nearest) SH_LOCKED
{
	bool waits = false;
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (young_waits(mr, path, nearest))
			waits = true;
		else
			young_shadow(mr, path);
	return waits && !mr->alone;
}

static void young_put(struct sh_mr *mr, struct list_node *line, uint64_t until) SH_LOCKED
{
	mr->young_until = until;
	list_add_tail(line, &mr->young);
	sh_wake_at(list_entry(line->next, struct sh_mr, young)->young_until);
}

static bool young_fresh(const struct sh_mr *mr, uint8_t nearest, uint64_t now) SH_LOCKED
{
	return !mr->dmabuf && !mr->foreign && young_waits(mr, nearest, 0) && young_untold(mr, now);
}

void sh_young_add(struct sh_mr *mr)
{
	uint8_t nearest = young_nearest(mr->pd);
	uint64_t now = sh_now_ns();
	bool fresh = young_fresh(mr, nearest, now);

	list_init(&mr->young);
	if (young_begin(mr, fresh ? 0 : nearest))
		young_put(mr, fresh ? &freshes : &youngs, now + (fresh ? FRESH_NS : YOUNG_NS));
}

/* Returns the region that has waited for longest; NULL: none waits. */
static struct sh_mr *young_oldest(const struct list_node *line)
{
	return line->next == line ? NULL : list_entry(line->next, struct sh_mr, young);
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

static void fresh_over(struct sh_mr *mr) SH_LOCKED
{
	list_del(&mr->young);
	list_init(&mr->young);
	if (young_begin(mr, young_nearest(mr->pd)))
		young_put(mr, &youngs, mr->young_until + YOUNG_NS - FRESH_NS);
}

static void young_move(struct list_node *line, const struct sh_ctx *ctx) SH_LOCKED
{
	struct sh_mr *mr;

	list_for_each (line, mr, struct sh_mr, young)
		if (mr->pd->ctx == ctx)
			young_over(mr);
}

void sh_young_move(struct sh_ctx *ctx)
{
	young_move(&freshes, ctx);
	young_move(&youngs, ctx);
}

static void young_run(uint64_t now) SH_LOCKED
{
	struct sh_mr *mr;

	while ((mr = young_oldest(&freshes)) && mr->young_until <= now)
		fresh_over(mr);
	while ((mr = young_oldest(&youngs)) && mr->young_until <= now)
		young_over(mr);
}

static uint64_t young_next_timer(void)
{
	const struct sh_mr *fresh = young_oldest(&freshes), *young = young_oldest(&youngs);

	return sh_earlier_ns(fresh ? fresh->young_until : 0, young ? young->young_until : 0);
}

static void young_reset(void)
{
	list_init(&freshes);
	list_init(&youngs);
	memset(young_told, 0, sizeof(young_told));
}

const struct sh_module sh_young_module = {
	.name = "young",
	.reset = young_reset,
	.run = young_run,
	.next_timer = young_next_timer,
};
