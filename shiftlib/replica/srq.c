/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shadows of shared receive queues on the NICs of the paths.
 *
 * A queue that gave back its receives is never used again, as its NIC may have read ahead:
 * standbys on it are made anew, and QPs that the application makes on its own queue later get one
 * that stands in for it.
 */
#include <errno.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/srq.h"

struct sh_srq *sh_srq_of(const struct ibv_srq *srq)
{
	return srq ? sh_table_get(&sh_objects.by_srq, srq) : NULL;
}

struct sh_srq *sh_srq_driven(const struct ibv_srq *real)
{
	struct sh_srq *srq = sh_srq_of(real);

	return srq && !srq->left ? srq : NULL;
}

struct sp_srq_state sh_srq_ring_state(struct sp_srq_ring *ring)
{
	struct sp_srq_state state;

	sp_srq_query(ring, &state);
	return state;
}

bool sh_srq_shadow_usable(const struct sh_shadow_srq *shadow)
{
	return shadow->incarnation == shadow->nic->incarnation &&
	       !sh_srq_ring_state(shadow->ring).spoiled;
}

/* Lock not held. dev: of the PD's context. */
static struct sh_shadow_srq *srq_shadow_new(struct sh_srq *srq, struct sh_nic *nic,
					    struct ibv_pd *pd)
{
	struct sh_shadow_srq *shadow = calloc(1, sizeof(*shadow));
	struct ibv_srq_init_attr attr = { .attr = srq->attr };

	if (!shadow)
		return NULL;
	attr.attr.srq_limit = 0;
	shadow->refs = 1;
	shadow->nic = nic;
	shadow->incarnation = nic->incarnation;
	shift_async_real_begin(pd->context);
	shadow->srq = sh.real->create_srq(pd, &attr);
	shift_async_real_end(pd->context);
	shadow->attr = attr.attr;
	if (shadow->srq)
		return shadow;
	free(shadow);
	return NULL;
}

static int srq_shadow_add(struct sh_srq *srq, struct sh_shadow_srq *shadow, struct sp_dev *dev,
			  uint8_t path) SH_LOCKED
{
	int ret = sp_srq_ring_add(srq->sp, dev, shadow->srq, &shadow->attr, path, &shadow->ring);

	if (ret)
		return ret;
	list_add_tail(&srq->shadows, &shadow->link);
	if (dev != srq->ctx->dev)
		sh_nic_hold(shadow->nic, shadow->incarnation);
	return 0;
}

static void srq_shadow_free(struct sh_srq *srq, struct sh_shadow_srq *shadow, bool held)
{
	sh_reclaim_destroy(&shadow->reclaim);
	sh.real->destroy_srq(shadow->srq);
	if (held) {
		sh_lock();
		sh_nic_release(shadow->nic, shadow->incarnation);
		sh_unlock();
	}
	free(shadow);
}

/* What it still had has been given back. */
void sh_srq_shadow_put(struct sh_srq *srq, struct sh_shadow_srq *shadow)
{
	bool own;

	if (!shadow || --shadow->refs)
		return;
	own = shadow->srq->context == srq->ctx->ctx;
	/* Its QPs are gone: nobody can take the receives any more. */
	if (sh_srq_ring_state(shadow->ring).receives)
		sp_srq_recover(shadow->ring);
	sh_reclaim_forget(&shadow->reclaim);
	list_del(&shadow->link);
	sp_srq_ring_del(shadow->ring);
	sh_job_begin(&srq->busy);
	sh_unlock();
	srq_shadow_free(srq, shadow, !own);
	sh_lock();
	sh_job_end(&srq->busy);
}

struct sh_shadow_srq *sh_srq_shadow_get(struct sh_srq *srq, uint8_t path)
{
	struct sh_shadow_srq *shadow = srq->shadow[path];

	shadow->refs++;
	return shadow;
}

int sh_srq_shadow_make(struct sh_srq *srq, uint8_t path)
{
	struct sh_nic *nic = srq->ctx->path[path];
	struct sh_shadow_srq *shadow = srq->shadow[path], *before;
	int ret;

	if (shadow && sh_srq_shadow_usable(shadow))
		return 0;
	shadow = srq_shadow_new(srq, nic, srq->pd->shadow[path].pd);
	if (!shadow)
		return -ENOMEM;
	sh_lock();
	ret = srq_shadow_add(srq, shadow, sh_nic_dev(nic, sh_nic_engine(srq->ctx->nic)), path);
	if (!ret) {
		before = srq->shadow[path];
		srq->shadow[path] = shadow;
		sh_srq_shadow_put(srq, before);
	}
	sh_unlock();
	if (ret)
		srq_shadow_free(srq, shadow, false);
	return ret;
}

/* ---- the application's own, and what stands in for it --------------------------------------- */

static int srq_own_make(struct sh_srq *srq) SH_DROPS
{
	struct sh_shadow_srq *shadow, *before = srq->own;
	int ret;

	sh_job_begin(&srq->busy);
	sh_unlock();
	shadow = srq_shadow_new(srq, srq->ctx->nic, srq->pd->pd);
	sh_lock();
	sh_job_end(&srq->busy);
	if (!shadow)
		return -errno;
	ret = srq_shadow_add(srq, shadow, srq->ctx->dev, 0);
	if (ret || srq->own != before) { /* or another thread was quicker */
		sh_job_begin(&srq->busy);
		if (!ret) {
			list_del(&shadow->link);
			sp_srq_ring_del(shadow->ring);
		}
		sh_unlock();
		srq_shadow_free(srq, shadow, false);
		sh_lock();
		sh_job_end(&srq->busy);
		return ret;
	}
	srq->own = shadow;
	sh_srq_shadow_put(srq, before);
	return 0;
}

struct ibv_srq *sh_srq_for_qp(struct sh_srq *srq, struct sh_shadow_srq **hold)
{
	int ret;

	*hold = NULL;
	if (!srq->own_idle_since && !sh_srq_ring_state(sp_srq_own(srq->sp)).spoiled)
		return srq->srq; /* an idle one is about to give its receives away */
	while (!srq->own || sh_srq_ring_state(srq->own->ring).spoiled) {
		ret = srq_own_make(srq);
		if (ret) {
			errno = -ret;
			return NULL;
		}
	}
	srq->own->refs++;
	*hold = srq->own;
	return srq->own->srq;
}

void sh_srq_keys_came(struct sh_ctx *ctx)
{
	struct sh_srq *srq;

	list_for_each (&ctx->srqs, srq, struct sh_srq, link)
		if (srq->feed_interval) {
			srq->look_at = srq->feed_at = sh_now_ns();
			sh_kick();
		}
}
