/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains, and the end of their shadows on the NICs of the paths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/table.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"

void sh_pd_unprotect(struct sh_pd *pd, const char *why)
{
	struct sh_qp *qp;
	uint8_t path;

	if (!pd->unprotected || !sh_alone_passes(why))
		pd->why = why; /* the others are for good */
	pd->unprotected = pd->unordered = true;
	if (!sh_alone_passes(why)) /* warned of already, once for each kind */
		sh_warn_once("connections of a protection domain are not protected: %s", why);
	for (path = 0; path < SC_MAX_PATHS; path++)
		sh_pd_lose_path(pd, path);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->pd == pd && qp->conn_id && qp->level == SH_DRIVEN)
			sh_level_set(qp, SH_DRIVEN, why);
}

struct ibv_pd *shift_alloc_pd(struct ibv_context *context)
{
	struct sh_yield yield = { context, SH_YIELD_NIC };
	struct ibv_pd *real;
	struct sh_pd *pd;
	uint8_t path;

	do
		real = sh.real->alloc_pd(context);
	while (!real && sh_yield(&yield));
	if (!real)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return real; /* unknown to us: what is made in it stays foreign */
	sh_lock();
	pd->pd = real;
	pd->ctx = sh_ctx_find(context);
	list_init(&pd->mrs);
	for (path = 0; path < SC_MAX_PATHS; path++)
		list_init(&pd->shadow[path].mrs);
	list_init(&pd->parents);
	list_init(&pd->devx);
	if (!pd->ctx || !pd->ctx->dev || sh_table_put(&sh_objects.by_pd, real, pd)) {
		free(pd);
	} else {
		list_add_tail(&pd->ctx->pds, &pd->link);
		for (path = 0; path < SC_MAX_PATHS; path++)
			sh_pd_replay(pd, path);
	}
	sh_unlock();
	return real;
}

static void pd_drop(struct sh_pd *pd) SH_DROPS
{
	struct sh_shadow_pd shadow[SC_MAX_PATHS];
	struct sh_ctx *ctx = pd->ctx;
	uint8_t path;

	(void)sh_late_hurry();
	sh_wait_idle(&pd->busy);
	sh_push_drop(pd);
	sh_parents_forget(pd);
	sh_alone_forget(pd);
	memcpy(shadow, pd->shadow, sizeof(shadow));
	list_del(&pd->link);
	free(pd);
	sh_unlock();
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (shadow[path].pd)
			sh.real->dealloc_pd(shadow[path].pd);
	sh_lock();
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (shadow[path].pd)
			sh_nic_release(ctx->path[path], shadow[path].incarnation);
}

static bool pd_elsewhere(const struct sh_pd *pd)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (pd->shadow[path].pd)
			return true;
	return pd->busy.jobs;
}

static int pd_pay(void *object)
{
	sh_lock();
	pd_drop(object);
	sh_unlock();
	return 0;
}

/*
 * Destroys a PD. The real one goes first, as it knows whether something still lives in it; but
 * its address may then be another's at once, so it leaves the table before.
 */
static int pd_destroy(struct sh_pd *pd) SH_DROPS
{
	struct ibv_context *context = pd->pd->context;
	int ret;

	sh_push_drop_own(pd);
	sh_unlock();
	ret = sh.real->dealloc_pd(pd->pd);
	if (ret)
		ret = sh_ctx_destroy_result(context, ret);
	sh_lock();
	if (!ret && !list_empty(&pd->mrs)) /* a dead NIC does not say it */
		ret = EBUSY;
	if (ret) {
		if (sh_table_put(&sh_objects.by_pd, pd->pd, pd))
			sh_error_once("no memory: SHIFT has lost track of a protection domain");
		return ret;
	}
	if (!pd_elsewhere(pd))
		pd_drop(pd);
	else /* another thread may wait for a NIC that hangs */
		(void)sh_debt_defer(pd->ctx, pd_pay, pd, false);
	return 0;
}

static int pd_dealloc(void *real)
{
	struct sh_pd *pd;
	bool known;
	int ret = 0;

	sh_lock();
	pd = sh_table_remove(&sh_objects.by_pd, real);
	known = pd != NULL;
	if (known)
		ret = pd_destroy(pd);
	sh_unlock();
	return known ? ret : sh_parent_destroy(real);
}

int shift_dealloc_pd(struct ibv_pd *real)
{
	struct sh_ctx *ctx;
	bool later;
	int ret = 0;

	sh_lock();
	ctx = sh_ctx_find(real->context);
	later = sh_debts_kept(ctx);
	if (later)
		ret = sh_debt_defer(ctx, pd_dealloc, real, false);
	sh_unlock();
	return later ? ret : pd_dealloc(real);
}

/* Forgets a PD whose context is closed while it lives. */
void sh_pd_forget(struct sh_pd *pd)
{
	sh_table_remove(&sh_objects.by_pd, pd->pd);
	while (!list_empty(&pd->mrs))
		sh_mr_forget(list_entry(pd->mrs.next, struct sh_mr, link));
	pd_drop(pd);
}

/* Gives up the regions that nobody has registered yet, and those that are there. */
static uint32_t pd_yield_regions(struct sh_pd *pd, uint8_t path) SH_DROPS
{
	struct list_node *at;
	uint32_t n = 0;

	sh_pd_replay_give_up(pd, path);
	for (at = pd->mrs.next; at != &pd->mrs; at = at->next)
		n += sh_mr_drop_shadow(list_entry(at, struct sh_mr, link), path);
	return n;
}

/* Gives back the PD's shadow, which stays if something still lives in it. */
static uint32_t pd_yield_itself(struct sh_pd *pd, uint8_t path) SH_DROPS
{
	struct sh_shadow_pd *shadow = &pd->shadow[path];
	struct ibv_pd *real = shadow->pd;
	int ret;

	if (!real || shadow->state != SH_SHADOW_MADE)
		return 0;
	sh_unlock();
	ret = sh.real->dealloc_pd(real);
	sh_lock();
	if (ret)
		return 0;
	shadow->pd = NULL;
	shadow->state = SH_SHADOW_NONE;
	sh_nic_release(pd->ctx->path[path], shadow->incarnation);
	return 1;
}

uint32_t sh_pd_yield(struct sh_pd *pd, uint8_t path)
{
	uint32_t n;

	sh_push_leave(pd, path);
	sh_job_begin(&pd->busy);
	n = pd_yield_regions(pd, path);
	n += pd_yield_itself(pd, path);
	sh_job_end(&pd->busy);
	return n;
}
