/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The real QPs that carry a connection: their slots, and their end. */
#include <errno.h>
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/apart.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

/* ---- slots ---------------------------------------------------------------------------------- */

/*
 * Returns epoch and path of a carrier as one word, so that the data path reads both of the same
 * carrier. 0: the slot is free.
 */
static uint64_t carrier_word(uint32_t epoch, uint8_t path)
{
	return (uint64_t)epoch << 8 | path << 1 | 1;
}

/* Release, against the acquire in sh_carrier_path: who sees the carrier sees its routes. */
static void carrier_publish(struct sh_qp *qp, const struct sh_carrier *carrier, uint64_t word)
{
	size_t slot = carrier == &qp->carriers.own ? 0 : 1 + (size_t)(carrier - qp->carriers.more);

	atomic_store_explicit(&qp->carriers.path[slot], word, memory_order_release);
}

struct sh_carrier *sh_carrier_at(const struct sh_qp *qp, uint32_t slot)
{
	static const struct sh_carrier nobody;
	const struct sh_carriers *carriers = &qp->carriers;

	if (slot && !carriers->more)
		return (struct sh_carrier *)&nobody; /* nobody writes to a slot without a NIC */
	return slot ? carriers->more + slot - 1 : (struct sh_carrier *)&carriers->own;
}

int sh_carrier_path(struct sh_qp *qp, uint32_t epoch)
{
	uint64_t word;
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		word = atomic_load_explicit(&qp->carriers.path[i], memory_order_acquire);
		if (word && word >> 8 == epoch)
			return (word >> 1) & 0x7f;
	}
	return -ENOENT;
}

struct sh_carrier *sh_carrier_find(struct sh_qp *qp, uint32_t epoch)
{
	struct sh_carrier *carrier;
	uint32_t i;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		carrier = sh_carrier_at(qp, i);
		if (carrier->nic && carrier->epoch == epoch)
			return carrier;
	}
	return NULL;
}

/* Allocates all slots but the first: most connections are at rest and never need them. */
static bool carriers_room(struct sh_qp *qp)
{
	if (!qp->carriers.more)
		qp->carriers.more = calloc(SH_MAX_CARRIERS - 1, sizeof(*qp->carriers.more));
	return qp->carriers.more;
}

static struct sh_carrier *carrier_free_slot(struct sh_qp *qp)
{
	uint32_t i;

	for (i = 1; carriers_room(qp) && i < SH_MAX_CARRIERS; i++)
		if (!sh_carrier_at(qp, i)->nic)
			return sh_carrier_at(qp, i);
	return NULL;
}

struct sh_carrier *sh_carrier_new(struct sh_qp *qp, uint32_t epoch, uint8_t path)
{
	struct sh_carrier *carrier = carrier_free_slot(qp);

	if (!carrier)
		return NULL;
	*carrier = (struct sh_carrier){ .nic = qp->ctx->path[path], .epoch = epoch, .path = path };
	sh_carrier_link_mark(carrier);
	carrier_publish(qp, carrier, carrier_word(epoch, path));
	return carrier;
}

void sh_carriers_init(struct sh_qp *qp, struct ibv_qp *real)
{
	struct sh_carrier_log log = { .mr = qp->carriers.own.log.mr,
				      .making = qp->carriers.own.log.making };

	qp->carriers.own = (struct sh_carrier){ .nic = qp->ctx->nic,
						.incarnation = qp->ctx->nic->incarnation,
						.qp = real,
						.log = log,
						.prompt = true };
	carrier_publish(qp, &qp->carriers.own, carrier_word(0, 0));
	qp->active = qp->receiving = &qp->carriers.own;
	qp->standby = NULL;
}

void sh_carriers_uninit(struct sh_qp *qp)
{
	free(qp->carriers.more);
	qp->carriers.more = NULL;
}

/* The jobs of one carrier are done in their order. */
struct sh_worker *sh_carrier_worker(struct sh_carrier *carrier)
{
	carrier->in_line |= !carrier->prompt;
	return carrier->prompt ? carrier->nic->prompt : carrier->nic->worker;
}

void sh_carrier_link_mark(struct sh_carrier *carrier)
{
	sh_nic_link_mark(carrier->nic, &carrier->link);
}

bool sh_carrier_link_was_lost(const struct sh_carrier *carrier)
{
	return sh_nic_link_was_lost(carrier->nic, &carrier->link);
}

bool sh_carrier_dead(const struct sh_carrier *carrier)
{
	const struct sh_nic *nic = carrier->nic;

	return nic->fatal || nic->sick || carrier->incarnation != nic->incarnation;
}

static bool cq_overran(const struct sh_cq *own, const struct sh_shadow_cq *shadow)
{
	return shadow ? shadow->overrun : own->overrun;
}

bool sh_carrier_unseen(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return cq_overran(qp->scq, carrier->scq) || cq_overran(qp->rcq, carrier->rcq);
}

/* A shadow that is no smaller overran as the program's own would have. */
static bool cq_outran(const struct sh_cq *own, const struct sh_shadow_cq *shadow)
{
	return cq_overran(own, shadow) &&
	       (!shadow || (shadow->cq && shadow->cq->cqe >= own->cq->cqe));
}

static bool carrier_outran(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return cq_outran(qp->scq, carrier->scq) || cq_outran(qp->rcq, carrier->rcq);
}

bool sh_carriers_outran(const struct sh_qp *qp)
{
	return carrier_outran(qp, qp->active) || carrier_outran(qp, qp->receiving);
}

bool sh_carriers_unseen(const struct sh_qp *qp)
{
	return sh_carrier_unseen(qp, qp->active) || sh_carrier_unseen(qp, qp->receiving);
}

/*
 * The slot is free; what it held is the caller's to destroy. The engine has forgotten it, or
 * does.
 */
static struct sh_carrier carrier_take(struct sh_qp *qp, struct sh_carrier *carrier, bool driven)
{
	struct sh_carrier gone = *carrier;

	if (driven && gone.sp)
		sp_carrier_del(gone.sp);
	if (gone.keys_wait && qp->peer)
		qp->peer->keys_waiting--;
	carrier_publish(qp, carrier, 0);
	if (qp->standby == carrier)
		qp->standby = NULL;
	*carrier = (struct sh_carrier){ 0 };
	return gone;
}

void sh_carrier_reached(struct sh_qp *qp, struct sh_carrier *carrier)
{
	if (carrier->reached || carrier == &qp->carriers.own)
		return;
	carrier->reached = true;
	qp->ctx->reached[carrier->path]++;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* It is destroyed. */
static void carrier_unreached(struct sh_ctx *ctx, const struct sh_carrier *gone)
{
	if (gone->reached)
		ctx->reached[gone->path]--;
}

/*
 * A carrier goes in the background, as its NIC may be sick. It keeps its completion queues and
 * its protection domain until then, and not its queue pair, which the application may destroy
 * meanwhile: it has no memory of the application any more once ibv_dereg_mr has returned. But
 * one on a shared receive queue may take receives until it is gone, and events name its owner.
 */
struct drop_job {
	struct sh_job job;
	struct sh_qp *qp; /* the owner if it is on a shared receive queue; else NULL */
	struct sh_pd *pd;
	struct sh_cq *scq, *rcq;
	struct sh_carrier gone; /* the carrier: its QP, its NIC, and what it holds */
};

static void drop_command(void *arg)
{
	const struct sh_carrier *gone = arg;

	sh.real->destroy_qp(gone->qp);
	SH_PARTS_TELL(standby.destroyed, gone);
}

static void drop_run(struct sh_job *job)
{
	struct sh_carrier *gone = &((struct drop_job *)job)->gone;

	sh.real->thread_inside();
	sh_apart_next(gone->qp->context->cmd_fd, drop_command, gone);
}

static void drop_hold(struct drop_job *task) SH_LOCKED
{
	if (task->qp)
		sh_job_begin(&task->qp->busy);
	sh_job_begin(&task->pd->busy);
	sh_cq_hold(task->scq);
	sh_cq_hold(task->rcq);
}

static void drop_release(struct drop_job *task) SH_LOCKED
{
	if (task->qp)
		sh_job_end(&task->qp->busy);
	sh_job_end(&task->pd->busy);
	sh_cq_let_go(task->scq);
	sh_cq_let_go(task->rcq);
}

static void drop_done(struct sh_job *job)
{
	struct drop_job *task = (struct drop_job *)job;

	sh_lock();
	sh_cq_shadow_put(task->scq, task->gone.scq);
	sh_cq_shadow_put(task->rcq, task->gone.rcq);
	if (task->qp)
		sh_srq_shadow_put(task->qp->srq, task->gone.srq);
	if (task->gone.incarnation)
		sh_nic_release(task->gone.nic, task->gone.incarnation);
	carrier_unreached(task->pd->ctx, &task->gone);
	drop_release(task);
	sh_unlock();
	free(task);
}

/* False: it cannot be given to its NIC's worker. */
static bool drop_submit(struct sh_qp *qp, const struct sh_carrier *gone) SH_LOCKED
{
	struct drop_job *task = malloc(sizeof(*task));

	if (!task)
		return false;
	*task = (struct drop_job){ .job = { .fn = drop_run, .done = drop_done, .patient = true },
				   .qp = qp->srq ? qp : NULL,
				   .pd = qp->pd,
				   .scq = qp->scq,
				   .rcq = qp->rcq,
				   .gone = *gone };
	drop_hold(task);
	if (!sh_worker_submit(sh_carrier_worker(&task->gone), &task->job))
		return true;
	drop_release(task);
	free(task);
	return false;
}

/*
 * Frees the slot and gives its QP to the NIC's worker; a QP that the worker does not take
 * stays.
 */
static void carrier_drop(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_carrier gone = carrier_take(qp, carrier, true);

	if (gone.qp)
		(void)drop_submit(qp, &gone);
}

void sh_carrier_destroy(struct sh_qp *qp, struct sh_nic *nic, struct ibv_qp *real)
{
	struct sh_carrier gone = { .nic = nic, .qp = real };

	(void)drop_submit(qp, &gone);
}

void sh_carrier_destroy_held(struct sh_qp *qp, const struct sh_carrier *gone)
{
	(void)drop_submit(qp, gone);
}

/* Sends or receives may lie in it still: the next DROP_OLD comes when they do not. */
static bool carrier_needed(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return carrier == &qp->carriers.own || carrier == qp->active || carrier == qp->receiving;
}

void sh_carrier_drop(struct sh_qp *qp, uint32_t epoch)
{
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);

	if (carrier && !carrier_needed(qp, carrier))
		carrier_drop(qp, carrier);
}

void sh_carriers_drop_old(struct sh_qp *qp, uint32_t epoch)
{
	struct sh_carrier *carrier;
	uint32_t i;

	for (i = 1; i < SH_MAX_CARRIERS; i++) {
		carrier = sh_carrier_at(qp, i);
		if (carrier->nic && (int32_t)(carrier->epoch - epoch) < 0 &&
		    !carrier_needed(qp, carrier))
			carrier_drop(qp, carrier);
	}
}

static void carrier_destroy_now(struct sh_qp *qp, struct sh_carrier *carrier, bool driven) SH_DROPS
{
	struct sh_carrier gone = carrier_take(qp, carrier, driven);

	if (!gone.qp || ((driven || !qp->srq) && drop_submit(qp, &gone)))
		return;
	sh_job_begin(&qp->busy);
	sh_unlock();
	sh.real->destroy_qp(gone.qp);
	SH_PARTS_TELL(standby.destroyed, &gone);
	sh_lock();
	sh_cq_shadow_put(qp->scq, gone.scq);
	sh_cq_shadow_put(qp->rcq, gone.rcq);
	sh_srq_shadow_put(qp->srq, gone.srq);
	sh_nic_release(gone.nic, gone.incarnation);
	carrier_unreached(qp->ctx, &gone);
	sh_job_end(&qp->busy);
}

void sh_carriers_drop_later(struct sh_qp *qp)
{
	struct sh_carrier gone;
	uint32_t i;

	for (i = 1; i < SH_MAX_CARRIERS; i++) {
		if (!sh_carrier_at(qp, i)->nic)
			continue;
		gone = carrier_take(qp, sh_carrier_at(qp, i), false);
		if (gone.qp)
			(void)drop_submit(qp, &gone);
	}
	SH_PARTS_TELL(standby.dropped, qp, false);
	sh_carriers_init(qp, qp->carriers.own.qp);
}

void sh_carriers_drop(struct sh_qp *qp, bool driven)
{
	uint32_t i;

	for (i = 1; i < SH_MAX_CARRIERS; i++)
		if (sh_carrier_at(qp, i)->nic)
			carrier_destroy_now(qp, sh_carrier_at(qp, i), driven);
	SH_PARTS_TELL(standby.dropped, qp, true);
	sh_carriers_init(qp, qp->carriers.own.qp);
}

int sh_carriers_collect(struct sh_qp *qp)
{
	int sent = sp_cq_collect(qp->scq->sp);
	int received = qp->rcq != qp->scq ? sp_cq_collect(qp->rcq->sp) : 0;

	return sent ? sent : received;
}
