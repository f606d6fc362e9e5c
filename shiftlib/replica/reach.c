/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <string.h>
#include "shiftlib/base/log.h"
#include "shiftlib/core/state.h"
#include "shiftlib/news.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reach.h"

const char sh_reach_why[] = "there is no room for its memory on so many NICs";

static struct {
	bool narrow;
	uint8_t most; /* then */
	uint32_t leaving;
} reach;

uint8_t sh_reach(void)
{
	return reach.narrow ? reach.most : SC_MAX_PATHS - 1;
}

bool sh_reach_covers(const struct sh_ctx *ctx, uint8_t path)
{
	return path <= sh_reach() || ctx->nic->away[path].n;
}

/* The last path that regions are registered for. */
static uint8_t reach_last(void)
{
	struct sh_ctx *ctx;
	uint8_t last = 0, k;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		for (k = 1; k < ctx->n_paths; k++)
			if (ctx->replica[k] && k > last)
				last = k;
	return last;
}

static void reach_narrow(uint8_t most) SH_LOCKED
{
	struct sh_ctx *ctx;
	uint8_t k;

	reach.narrow = true;
	reach.most = most;
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		for (k = 1; k < ctx->n_paths; k++)
			if (!sh_reach_covers(ctx, k))
				ctx->replica[k] = false;
	sh_warn_once(
		"memory cannot be registered on all NICs that connections could be spread over: "
		"they have fewer backups; raise the limit on locked memory, or set "
		"SHIFT_BACKUP=pair");
	sh_log(SH_LOG_INFO, "regions are registered on %u backups of each NIC from now on", most);
	sh_news_reach_less();
}

bool sh_reach_missed(int error)
{
	uint8_t last;

	if (!sh_nics.map.spread || (error != ENOMEM && error != ENOSPC && error != EAGAIN))
		return false;
	if (reach.leaving) /* the failure may have been too early */
		return true;
	last = reach_last();
	if (last > sh_reach()) /* the last path carries traffic; it stays */
		last = sh_reach();
	if (last < 2)
		return false;
	reach_narrow(last * 2 / 3);
	return true;
}

bool sh_reach_pairs(void)
{
	if (!sh_nics.map.spread || reach_last() < 2 || sh_reach() < 2)
		return false;
	reach_narrow(1);
	return true;
}

void sh_reach_leaving(void)
{
	reach.leaving++;
}

/* Tries the regions again that failed meanwhile. */
void sh_reach_left(void)
{
	if (!--reach.leaving && !sh.stopping)
		sh_replica_want_again();
}

bool sh_reach_is_leaving(void)
{
	return reach.leaving;
}

static void reach_reset(void)
{
	memset(&reach, 0, sizeof(reach));
}

const struct sh_module sh_reach_module = { .name = "reach", .reset = reach_reset };
