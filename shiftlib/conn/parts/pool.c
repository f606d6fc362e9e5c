/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs made ahead to INIT, a few for each NIC, as few of thousands of resting
 * connections move at a time. Any connection of the same kind may take one for its standby: of
 * the four commands of a standby two are left.
 *
 * Each was made for an owner, and goes with its owner at the latest: so its protection domain
 * and its completion queues are there as long as it is.
 */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/pool.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/standby_job.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"

#define POOL_OF_NIC  64 /* QPs of a NIC at most, made or being made */
#define POOL_OF_KIND 4	/* ... of those that the same connections can take */

struct sh_pooled {
	struct list_node link; /* sh_conns.pool */
	struct sh_qp *owner;   /* the QP it was made for; NULL: that has gone meanwhile */
	struct sh_nic *nic;
	struct sh_carrier real; /* real.qp NULL: being made */
	unsigned int access;	/* the rights that it has */
};

struct pool_job {
	struct sh_standby_job make;
	struct sh_pooled *pooled;
};

/* ---- kinds ---------------------------------------------------------------------------------- */

static bool pool_same_kind(const struct sh_qp *a, const struct sh_qp *b)
{
	const struct ibv_qp_init_attr_ex *x = &a->init, *y = &b->init;

	return a->ctx == b->ctx && a->pd == b->pd && a->scq == b->scq && a->rcq == b->rcq &&
	       !memcmp(&x->cap, &y->cap, sizeof(x->cap)) &&
	       !memcmp(&a->caps, &b->caps, sizeof(a->caps)) && x->qp_type == y->qp_type &&
	       x->sq_sig_all == y->sq_sig_all && x->comp_mask == y->comp_mask &&
	       x->create_flags == y->create_flags && x->send_ops_flags == y->send_ops_flags;
}

/* Shadows may have been made anew since, and the application may have changed its rights. */
static bool pool_fits(const struct sh_pooled *pooled, const struct sh_qp *qp, uint8_t path)
{
	const struct sh_carrier *real = &pooled->real;

	return pooled->nic == qp->ctx->path[path] && real->qp && real->path == path &&
	       real->incarnation == pooled->nic->incarnation && pool_same_kind(pooled->owner, qp) &&
	       pooled->access == qp->app.attr.qp_access_flags &&
	       real->qp->pd == qp->pd->shadow[path].pd && real->scq == qp->scq->shadow[path] &&
	       real->rcq == qp->rcq->shadow[path];
}

static bool pool_room(const struct sh_qp *qp, const struct sh_nic *nic)
{
	uint32_t of_nic = 0, of_kind = 0;
	struct sh_pooled *pooled;

	list_for_each (&sh_conns.pool, pooled, struct sh_pooled, link) {
		if (pooled->nic != nic)
			continue;
		of_nic++;
		of_kind += pool_same_kind(pooled->owner, qp);
	}
	return of_nic < POOL_OF_NIC && of_kind < POOL_OF_KIND;
}

/* ---- made, by the worker of the NIC ---------------------------------------------------------- */

static void pool_unlink(struct sh_pooled *pooled)
{
	list_del(&pooled->link);
	pooled->owner->pooled = NULL;
	pooled->owner = NULL;
}

static void pool_made(const struct sh_standby_job *task, struct sh_pooled *pooled) SH_LOCKED
{
	struct sh_qp *qp = task->qp;

	pooled->real = (struct sh_carrier){ .nic = task->nic,
					    .path = task->path,
					    .incarnation = task->incarnation,
					    .qp = task->real,
					    .caps = task->caps,
					    .scq = sh_cq_shadow_get(qp->scq, task->path),
					    .rcq = sh_cq_shadow_get(qp->rcq, task->path),
					    .pkey_index = task->place.pkey_index };
	pooled->access = task->attr.qp_access_flags;
	sh_nic_hold(task->nic, task->incarnation);
	sh_log(SH_LOG_DEBUG, "QP 0x%06x on %s: a queue pair is ready on %s, for it or its like",
	       qp->qp->qp_num, qp->ctx->nic->name, task->nic->name);
}

/* A failure is told when a standby is wanted: then it fails again, or does not. */
static void pool_done(struct sh_job *job)
{
	struct sh_standby_job *task = (struct sh_standby_job *)job;
	struct sh_pooled *pooled = ((struct pool_job *)job)->pooled;
	struct sh_qp *qp = task->qp;
	bool made = !job->canceled && !task->why;

	sh_lock();
	if (made && pooled->owner)
		pool_made(task, pooled);
	else if (made)
		sh_carrier_destroy(qp, task->nic, task->real);
	if (!made && pooled->owner)
		pool_unlink(pooled);
	if (!pooled->owner)
		free(pooled);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(job);
}

static bool pool_submit(struct sh_qp *qp, uint8_t path, struct sh_pooled *pooled) SH_LOCKED
{
	struct pool_job *task = calloc(1, sizeof(*task));

	if (!task)
		return false;
	task->pooled = pooled;
	task->make.path = path;
	task->make.nic = pooled->nic;
	task->make.job =
		(struct sh_job){ .fn = sh_standby_job_make, .done = pool_done, .patient = true };
	sh_standby_job_capture(&task->make, qp);
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(pooled->nic->worker, &task->make.job))
		return true;
	sh_job_end(&qp->busy);
	free(task);
	return false;
}

/*
 * True if a QP may be made ahead. On a shared receive queue it would take receives, so there is
 * none.
 */
static bool pool_possible(const struct sh_qp *qp, uint8_t path)
{
	const struct sh_nic *nic = path < qp->ctx->n_paths ? qp->ctx->path[path] : NULL;

	return sh.config.pool && nic && nic->worker && nic->ctx && !nic->fatal && !nic->sick &&
	       !sh_yields(nic) && !qp->srq && qp->conn_id && !qp->pooled;
}

static void pool_want(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	struct sh_pooled *pooled;

	if (!pool_possible(qp, path) || !pool_room(qp, qp->ctx->path[path]))
		return;
	pooled = calloc(1, sizeof(*pooled));
	if (!pooled)
		return;
	pooled->owner = qp;
	pooled->nic = qp->ctx->path[path];
	if (!pool_submit(qp, path, pooled)) {
		free(pooled);
		return;
	}
	qp->pooled = pooled;
	list_add_tail(&sh_conns.pool, &pooled->link);
}

/* ---- taken ---------------------------------------------------------------------------------- */

static struct sh_pooled *pool_find(struct sh_qp *qp, uint8_t path)
{
	struct sh_pooled *pooled = qp->pooled;

	if (pooled && pool_fits(pooled, qp, path))
		return pooled;
	list_for_each (&sh_conns.pool, pooled, struct sh_pooled, link)
		if (pool_fits(pooled, qp, path))
			return pooled;
	return NULL;
}

static bool pool_take(struct sh_qp *qp, uint8_t path, struct sh_carrier *taken)
{
	struct sh_pooled *pooled = pool_find(qp, path);

	if (!pooled)
		return false;
	*taken = pooled->real;
	taken->qp->qp_context = qp;
	pool_unlink(pooled);
	free(pooled);
	return true;
}

/* Gives back what was held with a QP that is a standby's now. */
static void pool_used(struct sh_qp *qp, const struct sh_carrier *taken) SH_DROPS
{
	sh_cq_shadow_put(qp->scq, taken->scq);
	sh_cq_shadow_put(qp->rcq, taken->rcq);
	sh_nic_release(taken->nic, taken->incarnation);
	sh_log(SH_LOG_DEBUG, "QP 0x%06x: its standby on %s was made ahead", qp->qp->qp_num,
	       taken->nic->name);
}

static void pool_taken(struct sh_qp *qp, const struct sh_carrier *taken, bool used) SH_DROPS
{
	if (used)
		pool_used(qp, taken);
	else
		sh_carrier_destroy_held(qp, taken);
}

/* ---- given up ------------------------------------------------------------------------------- */

static void pool_drop(struct sh_pooled *pooled) SH_LOCKED
{
	struct sh_qp *owner = pooled->owner;

	pool_unlink(pooled);
	if (!pooled->real.qp)
		return; /* pool_done() has the rest */
	sh_carrier_destroy_held(owner, &pooled->real);
	free(pooled);
}

static void pool_dropped(struct sh_qp *qp, bool may_wait) SH_LOCKED
{
	(void)may_wait;
	if (qp->pooled)
		pool_drop(qp->pooled);
}

bool sh_pool_has(const struct sh_qp *qp, const struct sh_nic *nic)
{
	return qp->pooled && qp->pooled->nic == nic;
}

uint32_t sh_pool_count(const struct sh_nic *nic)
{
	struct sh_pooled *pooled;
	uint32_t n = 0;

	list_for_each (&sh_conns.pool, pooled, struct sh_pooled, link)
		n += pooled->nic == nic && pooled->real.qp;
	return n;
}

static struct sh_pooled *pool_first(const struct sh_nic *nic, uint32_t but)
{
	struct sh_pooled *pooled;

	list_for_each (&sh_conns.pool, pooled, struct sh_pooled, link)
		if (pooled->nic == nic && pooled->real.qp && pooled->real.incarnation != but)
			return pooled;
	return NULL;
}

static uint32_t pool_drop_all(const struct sh_nic *nic, uint32_t but) SH_LOCKED
{
	struct sh_pooled *pooled;
	uint32_t n = 0;

	for (; (pooled = pool_first(nic, but)); n++)
		pool_drop(pooled);
	return n;
}

void sh_pool_nic_reopened(const struct sh_nic *nic)
{
	(void)pool_drop_all(nic, nic->incarnation);
}

uint32_t sh_pool_give_back(const struct sh_nic *nic)
{
	return pool_drop_all(nic, 0);
}

const struct sh_conn_part sh_pool_part = {
	.name = "pool",
	.step.rests = pool_want,
	.standby = { .take = pool_take, .taken = pool_taken, .dropped = pool_dropped },
};
