/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Room for flushes in the program's completion queues. A ring that direct verbs may have given
 * to the program is not taken from it: a queue is made larger only when the program has posted
 * or polled through the verbs, since it may not do both, or has no direct verbs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "providers/engine_qp.h"
#include "shiftlib/backup/room.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/srq.h"

#define ROOM_HIDDEN 2 /* requests of the engine's own that may be outstanding */
/* queues may grow by one part in so many of the memory that may be locked */
#define ROOM_PART     8u
#define ROOM_CQE_SIZE 64u
#define ROOM_AGAIN_NS (10 * SH_NS_PER_S)

static const char why_unused[] = "its completion queue has no room for a flush, and is made larger "
				 "when the program has posted through the verbs";
static const char why_growing[] = "its completion queue is being made larger, for a flush";
static const char why_single[] =
	"its completion queue has no room for a flush, and is for a single thread";
static const char why_limit[] = "its completion queue could not be made larger, for a flush: the "
				"device has none of that size";
static const char why_locked[] = "its completion queue could not be made larger, for a flush: too "
				 "little memory may be locked (ulimit -l)";
static const char why_refused[] =
	"its completion queue could not be made larger, for a flush: the device refused";
static const char why_overran[] = "its completion queue overran";

/* ---- what a queue pair needs ----------------------------------------------------------------- */

static uint32_t room_sends(const struct sh_qp *qp)
{
	struct ibv_qp_cap cap = { .max_send_wr = qp->caps.max_send_wr };

	if (qp->init.qp_type != IBV_QPT_RC)
		return cap.max_send_wr;
	(void)sh_parts_caps(qp, &cap);
	return cap.max_send_wr + ROOM_HIDDEN;
}

/*
 * Returns the entries that a QP needs in a CQ. On a shared receive queue it may have begun one
 * receive.
 */
static struct sh_depth room_depth(const struct sh_qp *qp, const struct sh_cq *cq)
{
	struct sh_depth depth = { 0 };

	if (qp->scq == cq)
		depth.entries = room_sends(qp);
	if (qp->rcq != cq)
		return depth;
	depth.entries += qp->srq ? 1 : qp->caps.max_recv_wr;
	depth.srq = qp->srq;
	depth.srq_entries = qp->srq ? qp->srq->attr.max_wr : 0;
	return depth;
}

void sh_room_add(struct sh_qp *qp)
{
	struct sh_depth depth = room_depth(qp, qp->scq);

	sh_room_come(&qp->scq->room, &depth);
	if (qp->rcq == qp->scq)
		return;
	depth = room_depth(qp, qp->rcq);
	sh_room_come(&qp->rcq->room, &depth);
}

static void room_take(struct sh_qp *qp, bool on)
{
	uint64_t sends = room_depth(qp, qp->scq).entries, receives = 0;

	if (qp->room.has == on)
		return;
	qp->paths.fits = on;
	if (qp->rcq != qp->scq)
		receives = room_depth(qp, qp->rcq).entries;
	qp->room.has = on;
	qp->scq->room.movers += on ? sends : -sends;
	qp->rcq->room.movers += on ? receives : -receives;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void room_wait(struct sh_qp *qp, bool on)
{
	if (qp->room.waits == on)
		return;
	qp->room.waits = on;
	sh_conns.roomless += on ? 1 : UINT32_MAX;
	if (on && !sh_conns.check_at)
		sh_conns.check_at = sh_now_ns() + sh.config.watch_ns;
}

static void room_forget(struct sh_qp *qp)
{
	room_wait(qp, false);
}

void sh_room_remove(struct sh_qp *qp)
{
	struct sh_depth depth = room_depth(qp, qp->scq);

	room_forget(qp);
	room_take(qp, false);
	sh_room_go(&qp->scq->room, &depth);
	if (qp->rcq == qp->scq)
		return;
	depth = room_depth(qp, qp->rcq);
	sh_room_go(&qp->rcq->room, &depth);
}

static bool room_fits(const struct sh_qp *qp, const struct sh_cq *cq) SH_LOCKED
{
	uint64_t movers = cq->room.movers + (qp->room.has ? 0 : room_depth(qp, cq).entries);

	return sh_room_need(&cq->room, movers, sh_cq_known(cq)) <= cq->room.have;
}

static struct sh_cq *room_missing(const struct sh_qp *qp) SH_LOCKED
{
	if (!room_fits(qp, qp->scq))
		return qp->scq;
	return room_fits(qp, qp->rcq) ? NULL : qp->rcq;
}

/* What is said of the queue later, as its size, is no news to who reads that it overran. */
static bool room_is_over(const struct sh_qp *qp)
{
	return !qp->active->epoch && (qp->scq->overrun || qp->rcq->overrun);
}

static const char *room_why(const struct sh_qp *qp) SH_LOCKED
{
	const struct sh_cq *cq = qp->room.waits && !qp->paths.fits ? room_missing(qp) : NULL;

	if (room_is_over(qp))
		return why_overran;
	if (!cq)
		return NULL;
	return cq->room.why ? cq->room.why : why_unused;
}

/* ---- no room any more ------------------------------------------------------------------------ */

/* Ends the connection; both ends go on as they would without SHIFT. */
static void room_give_up(struct sh_qp *qp, const char *why) SH_LOCKED
{
	if (qp->conn_id && qp->core.peer.introduced)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_RESOURCE);
	sh_level_set(qp, SH_DRIVEN, why);
}

static void room_lost(struct sh_cq *cq) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!sh_cq_short(cq))
			return;
		if (!qp->room.has || (qp->scq != cq && qp->rcq != cq) || qp->active->epoch ||
		    qp->core.move != SC_MOVE_NONE)
			continue;
		room_take(qp, false);
		room_give_up(qp, cq->room.why);
	}
}

/* ---- making room ----------------------------------------------------------------------------- */

static void room_refused(struct sh_cq *cq, const char *why) SH_LOCKED
{
	cq->room.refused = true;
	cq->room.again_at = sh_now_ns() + ROOM_AGAIN_NS;
	if (cq->room.why != why)
		sh_warn_once("connections are not protected: %s", why);
	cq->room.why = why;
	room_lost(cq);
}

void sh_room_refuse(struct sh_cq *cq)
{
	room_refused(cq, why_refused);
}

/* Returns the entries that all movers need, and all who wait for room. */
static uint64_t room_wanted(const struct sh_cq *cq) SH_LOCKED
{
	uint64_t movers = cq->room.movers;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->room.waits && !qp->room.has && (qp->scq == cq || qp->rcq == cq))
			movers += room_depth(qp, cq).entries;
	return sh_room_need(&cq->room, movers, sh_cq_known(cq));
}

/*
 * True if the memory by which SHIFT has grown all queues leaves room for what the program may
 * lock.
 */
static bool room_lockable(const struct sh_cq *wanted, uint64_t size)
{
	uint64_t lockable = backup_lockable(), more = size - wanted->room.have;
	struct sh_ctx *ctx;
	struct sh_cq *cq;

	if (lockable == UINT64_MAX)
		return true;
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			more += cq->room.have - cq->room.told;
	return more * ROOM_CQE_SIZE <= lockable / ROOM_PART && !sh_yields_memory(wanted->ctx->nic);
}

/* How large it is to become; 0: it may not, or need not. */
static int room_size(struct sh_cq *cq) SH_LOCKED
{
	int max = cq->ctx->nic->max.cqe;
	uint64_t size;

	if (cq->room.refused && cq->room.again_at > sh_now_ns())
		return 0;
	size = sh_room_grow(&cq->room, room_wanted(cq), max);
	if (size <= cq->room.have)
		return 0;
	if (cq->single && !sp_has(cq->sp, SP_OWN_CQ_SIZE))
		room_refused(cq, why_single);
	else if (sh_room_over(size, max))
		room_refused(cq, why_limit);
	else if (!room_lockable(cq, size))
		room_refused(cq, why_locked);
	else
		return (int)size;
	return 0;
}

/* Raises the fault again that waited: there is room, or none comes. */
static void room_late(struct sh_qp *qp) SH_LOCKED
{
	uint8_t type = qp->room.late_type;

	qp->room.late_type = 0;
	if (type)
		sh_conn_about(qp, (enum sc_event_type)type, (enum sc_reason)qp->room.late_reason,
			      qp->room.late_epoch);
}

static void room_waited(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (qp->room.late_since && now - qp->room.late_since >= sh.config.flush_wait_ns)
		room_late(qp);
	if (!qp->room.late_type)
		qp->room.late_since = 0;
}

/* The lock was given up for it. */
static void room_made(struct sh_cq *cq, int size, int ret) SH_LOCKED
{
	struct sh_qp *qp;

	if (!ret && cq->room.have < (uint32_t)size)
		ret = EOPNOTSUPP; /* qedr says that it has done it */
	sh_job_end(&cq->resizing);
	sh_job_end(&cq->busy);
	cq->room.why = NULL;
	if (ret == ENOMEM)
		room_refused(cq, why_locked);
	else if (ret && ret != EBUSY && !sh_dead_device_error(ret))
		room_refused(cq, why_refused);
	else
		cq->room.refused = false;
	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (qp->scq != cq && qp->rcq != cq)
			continue;
		if (qp->room.waits)
			sh_paths_changed(qp);
		room_late(qp);
	}
	sh_outbox_release();
}

struct room_job {
	struct sh_job job;
	struct sh_cq *cq;
	int size, ret;
};

static void room_run(struct sh_job *job)
{
	struct room_job *task = (struct room_job *)job;

	sh.real->thread_inside();
	task->ret = sh_cq_resize_quietly(task->cq, task->size);
}

static void room_done(struct sh_job *job)
{
	struct room_job *task = (struct room_job *)job;

	sh_lock();
	room_made(task->cq, task->size, job->canceled ? EBUSY : task->ret);
	sh_unlock();
	free(task);
}

static void room_begin(struct sh_cq *cq, int size) SH_LOCKED
{
	struct room_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct room_job){ .job = { .fn = room_run, .done = room_done },
				   .cq = cq,
				   .size = size };
	if (!cq->ctx->nic->worker || sh_worker_submit(cq->ctx->nic->worker, &task->job)) {
		free(task);
		return;
	}
	cq->room.why = why_growing;
	sh_job_begin(&cq->resizing);
	sh_job_begin(&cq->busy);
}

static bool room_may_grow(const struct sh_cq *cq)
{
	const struct sh_nic *nic = cq->ctx->nic;

	return !cq->resizing.jobs && !cq->overrun && !nic->fatal && !nic->sick &&
	       cq->ctx->incarnation == nic->incarnation;
}

/* The ring may be taken from who has it: nobody but the verbs. qp: NULL: that is not asked. */
static bool room_is_ours(struct sh_qp *qp, const struct sh_cq *cq)
{
	return (qp && sp_qp_posted(qp->sp)) || sp_cq_polled(cq->sp) || !sp_direct_verbs(cq->sp);
}

static void room_make(struct sh_qp *qp, struct sh_cq *cq) SH_LOCKED
{
	int size;

	if (room_fits(qp, cq) || !room_may_grow(cq) || !room_is_ours(qp, cq))
		return;
	size = room_size(cq);
	if (size)
		room_begin(cq, size);
}

static void room_make_all(struct sh_qp *qp) SH_LOCKED
{
	room_make(qp, qp->scq);
	if (qp->rcq != qp->scq)
		room_make(qp, qp->rcq);
}

/*
 * There is something that could be flushed into the program's queues: a connection that has
 * moved completes in SHIFT's own.
 */
static bool room_matters(const struct sh_qp *qp)
{
	return qp->core.guarded && !qp->active->epoch && sp_qp_posted(qp->sp);
}

/* ---- moves that wait for room --------------------------------------------------------------- */

static bool room_grows(const struct sh_qp *qp)
{
	return qp->scq->resizing.jobs || qp->rcq->resizing.jobs;
}

/*
 * A program's first requests may meet a fault before its queue is larger. The move waits for the
 * command, as otherwise the connection would end where stock's goes on (P9). No longer than for
 * a flush: a NIC that hangs gives no room.
 */
static bool room_defers(struct sh_qp *qp, const struct sc_event *event) SH_LOCKED
{
	uint64_t now = sh_now_ns();

	room_make_all(qp);
	if (!qp->room.late_since)
		qp->room.late_since = now;
	if (!room_grows(qp) || now - qp->room.late_since >= sh.config.flush_wait_ns)
		return false;
	if (event->type == SC_EV_MSG_STATE)
		return true; /* the peer repeats it */
	qp->room.late_type = (uint8_t)event->type;
	qp->room.late_reason = (uint8_t)event->reason;
	qp->room.late_epoch = event->epoch;
	return true;
}

/* Leaves a connection that got no room once it has something that could be flushed. */
static void room_check_idle(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_cq *cq = room_missing(qp);

	if (cq && cq->room.refused && room_matters(qp) && qp->core.move == SC_MOVE_NONE)
		room_give_up(qp, cq->room.why);
}

static void room_check(struct sh_qp *qp) SH_LOCKED
{
	room_make_all(qp);
	if (qp->room.waits && qp->paths.fits)
		room_check_idle(qp);
}

static void room_ask(struct sh_qp *qp) SH_LOCKED
{
	if (qp->room.has)
		return;
	if (!room_missing(qp)) {
		room_take(qp, true);
		room_wait(qp, false);
		return;
	}
	room_wait(qp, true);
	qp->paths.fits = qp->core.guarded || !sp_qp_posted(qp->sp);
	room_check(qp);
}

static const char *room_forbids(struct sh_qp *qp) SH_LOCKED
{
	const struct sh_cq *cq = room_missing(qp);

	if (!cq || !room_matters(qp))
		return NULL;
	return cq->room.why ? cq->room.why : why_unused;
}

/* Makes a queue larger in the program's own thread. */
static void room_mend(struct sh_cq *cq) SH_DROPS
{
	int size, ret;

	if (!cq || !cq->sp || !sh_cq_short(cq) || !room_may_grow(cq) || !room_is_ours(NULL, cq))
		return;
	size = room_size(cq);
	if (!size)
		return;
	sh_job_begin(&cq->resizing);
	sh_job_begin(&cq->busy);
	sh_unlock();
	ret = sh_cq_resize_quietly(cq, size);
	sh_lock();
	room_made(cq, size, ret);
}

void sh_room_mend(struct sh_qp *qp)
{
	room_mend(qp->scq);
	if (qp->rcq != qp->scq)
		room_mend(qp->rcq);
}

void sh_room_overran(struct sh_qp *qp)
{
	room_give_up(qp, why_overran);
}

/* Looks at a connection that waits for room, or whose queues have become short. */
static void room_look_again(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	(void)now;
	if (qp->room.waits || (qp->room.has && (sh_cq_short(qp->scq) || sh_cq_short(qp->rcq))))
		room_check(qp);
}

static uint64_t room_next_timer(const struct sh_qp *qp)
{
	return qp->room.late_since ? qp->room.late_since + sh.config.flush_wait_ns : 0;
}

const struct sh_conn_part sh_room_part = {
	.name = "room",
	.life.left = room_forget,
	.clock = { .next_timer = room_next_timer, .run = room_waited },
	.step = { .why = room_why,
		  .forbids = room_forbids,
		  .defers = room_defers,
		  .look = room_look_again },
	.standby.paths = room_ask,
};
