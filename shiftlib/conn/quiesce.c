/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The quiesce of a move: every carrier that is left goes to ERR, and is looked at until nothing can
 * add to its count any more.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/apart.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/ending.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

#define QUIESCE_POLL_MIN_NS  (20 * SH_NS_PER_US)
#define QUIESCE_POLL_MAX_NS  SH_NS_PER_MS
#define QUIESCE_POLL_SICK_NS (10 * SH_NS_PER_MS)
/* most that a recount waits for a look at its NIC */
#define QUIESCE_DRAIN_NS (500 * SH_NS_PER_MS)
#define QUIESCE_LOOKS	 4  /* looks at an awaited command within its time */
#define QUIESCE_ALIVE	 10 /* so many times longer it may take where the NIC still sends */

static struct {
	struct quiesce_job *_Atomic finished; /* stack of those whose command has returned */
} quiesces;

/* ---- quiesce: every carrier that is left, to ERR -------------------------------------------- */

struct quiesce_job {
	struct sh_job job;
	struct quiesce_job *next; /* in quiesces.finished */
	struct sh_qp *qp;
	uint32_t epoch;
	struct ibv_qp *real;
	bool own; /* the application's QP: its state word is the application's to read */
	enum ibv_qp_state believed;
	struct sh_nic *nic;
	int ret; /* of the command */
	bool lost, over;
};

/*
 * All files of one life of a device lose it at once. So where the other one, looked at later,
 * has not, it is of another life: a device comes back when all that was made on it has been
 * destroyed.
 */
static bool quiesce_life_is_over(struct sh_nic *nic)
{
	struct ibv_context *own;
	uint32_t incarnation;
	bool over;

	sh_lock(); /* the other worker may be opening it anew */
	own = nic->ctx;
	incarnation = nic->incarnation;
	sh_nic_hold(nic, incarnation);
	sh_unlock();
	over = own && !sh_removal_begun(own);
	sh_lock();
	sh_nic_release(nic, incarnation);
	sh_unlock();
	return over;
}

static void quiesce_command(void *arg)
{
	struct quiesce_job *task = arg;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	task->ret = sh.real->modify_qp(task->real, &attr, IBV_QP_STATE);
}

static void quiesce_run(struct sh_job *job)
{
	struct quiesce_job *task = (struct quiesce_job *)job;

	sh.real->thread_inside();
	sh_apart_next(task->real->context->cmd_fd, quiesce_command, task);
	task->lost = task->ret == EIO && sh_removal_begun(task->real->context);
	task->over = task->lost && quiesce_life_is_over(task->nic);
	if (task->own)
		task->real->state = task->believed;
}

static bool quiesce_is_on(const struct sh_qp *qp)
{
	return qp->quiesce.phase == SH_QUIESCE_COMMAND ||
	       qp->quiesce.phase == SH_QUIESCE_FLUSHING || qp->quiesce.phase == SH_QUIESCE_SICK;
}

static bool quiesce_commands_done(const struct sh_qp *qp) SH_LOCKED
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (sh_quiesce_left(qp, sh_carrier_at(qp, i)) && !sh_carrier_at(qp, i)->in_error)
			return false;
	return true;
}

/* The worker whose next command's connection has more to say, if there is one. */
static struct sh_worker *quiesce_finish(struct quiesce_job *task) SH_LOCKED
{
	struct sh_carrier *carrier = sh_carrier_find(task->qp, task->epoch);
	struct sh_worker *worker = NULL;
	struct sh_qp *qp = task->qp;

	if (carrier && carrier->qp == task->real) {
		worker = sh_carrier_worker(carrier);
		carrier->in_error = true;
		carrier->lost |= task->lost;
		carrier->over |= task->over;
	}
	if (qp->conn_id && qp->quiesce.phase == SH_QUIESCE_COMMAND && quiesce_commands_done(qp)) {
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
		qp->quiesce.since = sh_now_ns(); /* the time of the flush begins */
		qp->quiesce.interval = QUIESCE_POLL_MIN_NS;
	}
	if (qp->conn_id && quiesce_is_on(qp)) {
		sh_clock_touch(qp);
		sh_quiesce_poll(qp, sh_now_ns());
		sh_clock_wake_for(qp);
	}
	sh_ending_poll(qp);
	sh_job_end(&qp->busy);
	free(task);
	return worker;
}

/* Takes the jobs that workers have finished, the earliest first. */
static struct quiesce_job *quiesces_take(void)
{
	struct quiesce_job *job = atomic_exchange(&quiesces.finished, NULL), *next, *first = NULL;

	for (; job; job = next) {
		next = job->next;
		job->next = first;
		first = job;
	}
	return first;
}

/* The peer waits for this; what the next commands' connections say goes with it. */
static void quiesces_read(void) SH_LOCKED
{
	struct quiesce_job *job = quiesces_take(), *next;
	struct sh_worker *worker = NULL;

	if (!job)
		return;
	sh_outbox_hold();
	for (; job; job = next) {
		next = job->next;
		worker = quiesce_finish(job);
	}
	sh_outbox_keep();
	if (!worker || sh_worker_empty(worker))
		sh_outbox_send_out();
	else
		sh_outbox_send_soon();
}

/*
 * The lock is not waited for: while the background thread goes over thousands of connections,
 * their NIC would stand still. Who has it now, or gets it next, finds what is left here; the
 * background thread looks a last time when it has seen sh.stopping.
 */
static void quiesce_done(struct sh_job *job)
{
	struct quiesce_job *task = (struct quiesce_job *)job;
	bool canceled = job->canceled;

	task->next = atomic_load(&quiesces.finished);
	while (!atomic_compare_exchange_weak(&quiesces.finished, &task->next, task))
		;
	if (canceled || atomic_load(&sh.stopping)) {
		sh_lock();
	} else if (!sh_lock_try()) {
		sh_kick();
		return;
	}
	quiesces_read();
	sh_unlock();
}

static void quiesce_submit(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct quiesce_job *task = calloc(1, sizeof(*task));
	struct sh_worker *worker = sh_carrier_worker(carrier);

	if (!task)
		return; /* not final then: the timer says so */
	*task = (struct quiesce_job){
		.job = { .fn = quiesce_run, .done = quiesce_done, .urgent = true },
		.qp = qp,
		.epoch = carrier->epoch,
		.real = carrier->qp,
		.nic = carrier->nic,
		.own = carrier == &qp->carriers.own && !sp_has(qp->ctx->dev, SP_OWN_STATE_WORD),
		.believed = qp->app.state,
	};
	sh_job_begin(&qp->busy);
	if (worker && !sh_worker_submit(worker, &task->job)) {
		carrier->to_error = true;
		return;
	}
	sh_job_end(&qp->busy);
	free(task);
}

void sh_quiesce_begin(struct sh_qp *qp, uint32_t epoch)
{
	uint64_t now = sh_now_ns();
	int i;

	SH_PARTS_TELL(move.quiesces, qp);
	memset(&qp->quiesce, 0, sizeof(qp->quiesce));
	qp->quiesce.phase = SH_QUIESCE_COMMAND;
	qp->quiesce.epoch = epoch;
	qp->quiesce.keys = sh_keys_last();
	qp->quiesce.since = qp->quiesce.begun = now;
	qp->quiesce.interval = sh.config.flush_wait_ns / QUIESCE_LOOKS;
	qp->quiesce.next_at = now + qp->quiesce.interval;
	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		if (!sh_quiesce_left(qp, sh_carrier_at(qp, i)))
			continue;
		sh_nic_drains(sh_carrier_at(qp, i)->nic, now);
		if (!sh_carrier_at(qp, i)->to_error)
			quiesce_submit(qp, sh_carrier_at(qp, i));
	}
	/* an earlier move, which did not reach its carrier, gave the commands */
	if (quiesce_commands_done(qp)) {
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
		qp->quiesce.interval = QUIESCE_POLL_MIN_NS;
		qp->quiesce.next_at = now;
	}
}

void sh_quiesce_poll_all(void)
{
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || !quiesce_is_on(qp))
			continue;
		sh_clock_touch(qp);
		sh_quiesce_poll(qp, sh_now_ns());
		sh_clock_wake_for(qp);
	}
	sh_outbox_release();
}

void sh_quiesce_context_over(const struct ibv_context *context)
{
	struct sh_carrier *carrier;
	struct sh_qp *qp;
	int i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 0; i < SH_MAX_CARRIERS; i++) {
			carrier = sh_carrier_at(qp, i);
			if (carrier->nic && carrier->qp && carrier->qp->context == context)
				carrier->lost = true;
		}
	sh_quiesce_poll_all();
}

/*
 * A sick NIC said "done" and flushed nothing, so there is no final count. It was probed again:
 * if that took the old device away, nothing can add to the count any more, which ends the wait
 * also where both NICs of a path were sick.
 */
void sh_quiesce_nic_reopened(const struct sh_nic *nic)
{
	struct sh_qp *qp;
	int i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 0; qp->quiesce.phase == SH_QUIESCE_SICK && i < SH_MAX_CARRIERS; i++)
			if (sh_carrier_at(qp, i)->nic == nic &&
			    sh_quiesce_left(qp, sh_carrier_at(qp, i)) &&
			    sh_carrier_at(qp, i)->in_error && sh_carrier_dead(sh_carrier_at(qp, i)))
				quiesce_submit(qp, sh_carrier_at(qp, i));
}

/* ---- collect: how far is it flushed? -------------------------------------------------------- */

/* A marker goes to the carrier that receives: only a QP in ERR flushes it. */
static bool quiesce_marker_may(const struct sh_qp *qp) SH_LOCKED
{
	return quiesce_commands_done(qp) || (qp->receiving->in_error && sh_quiesce_stopped(qp));
}

static bool quiesce_collect(struct sh_qp *qp, struct sp_flushed *flushed) SH_LOCKED
{
	int ret = sh_carriers_collect(qp);

	sp_qp_flushed(qp->sp, quiesce_marker_may(qp), flushed);
	return !ret;
}

/*
 * Can nothing of the old carriers count any more? Sends lie in the one that was in use, receives
 * there or in one that a move had reached before it died. A dying NIC must have shown it
 * (sp_flushed).
 */
static bool quiesce_final(const struct sh_qp *qp, const struct sp_flushed *flushed) SH_LOCKED
{
	const struct sh_carrier *tx = qp->active, *rx = qp->receiving;
	bool tx_shown = flushed->error_seen || !sh_carrier_dead(tx);
	bool rx_shown = flushed->error_seen || !sh_carrier_dead(rx);

	return sh_quiesce_stopped(qp) && (sh_quiesce_over(qp, tx) || (flushed->sq && tx_shown)) &&
	       (sh_quiesce_over(qp, rx) || (flushed->rq && rx_shown));
}

/*
 * The clock of a command starts with it: in line before it are those of all queue pairs. But
 * one that hangs speaks for all behind it.
 */
static uint64_t quiesce_command_since(const struct sh_qp *qp) SH_LOCKED
{
	uint64_t since = 0;
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		const struct sh_carrier *carrier = sh_carrier_at(qp, i);

		if (!sh_quiesce_left(qp, carrier) || carrier->in_error)
			continue;
		if (!carrier->to_error || !carrier->nic->prompt) /* the command was not given */
			since = sh_earlier_ns(since, qp->quiesce.since);
		else if (carrier->prompt)
			since = sh_earlier_ns(since, sh_worker_busy_since_ns(carrier->nic->prompt));
		else if (carrier->nic->sick)
			since = sh_earlier_ns(since, qp->quiesce.since);
	}
	return since;
}

/*
 * True if the NIC has sent datagrams that were posted after `since`, whatever it does not do.
 */
static bool quiesce_nic_lives(const struct sh_nic *nic, uint64_t since)
{
	return sh_nic_usable(nic) && sh_control_proven_at(nic->control) > since;
}

static bool quiesce_any_lives(const struct sh_qp *qp, uint64_t since) SH_LOCKED
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (sh_quiesce_left(qp, sh_carrier_at(qp, i)) && !sh_carrier_at(qp, i)->in_error &&
		    quiesce_nic_lives(sh_carrier_at(qp, i)->nic, since))
			return true;
	return false;
}

/* Fills in the NICs whose flush or command does not come; returns their number. */
static int quiesce_blamed(const struct sh_qp *qp, const struct sp_flushed *flushed,
			  struct sh_nic *blamed[SH_MAX_CARRIERS]) SH_LOCKED
{
	uint64_t command = quiesce_command_since(qp), since = command ? command : qp->quiesce.since;
	int i, n = 0;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		const struct sh_carrier *carrier = sh_carrier_at(qp, i);
		bool bad = !carrier->in_error || (carrier == qp->active && !flushed->sq) ||
			   (carrier == qp->receiving && !flushed->rq);

		if (sh_quiesce_left(qp, carrier) && bad &&
		    carrier->incarnation == carrier->nic->incarnation &&
		    !quiesce_nic_lives(carrier->nic, since))
			blamed[n++] = carrier->nic;
	}
	return n;
}

/* obeyed: the NIC has flushed what was left. */
static void quiesce_ended(struct sh_qp *qp, const struct sp_flushed *flushed, bool final,
			  bool obeyed) SH_LOCKED
{
	struct sh_nic *nic = qp->active->nic; /* the event below may move the QP */
	bool present = qp->active->incarnation == nic->incarnation && !qp->active->lost;
	bool gone = qp->active->lost || qp->receiving->lost;
	struct sc_event event = { .type = SC_EV_QUIESCED,
				  .final = final,
				  .disassociated = sh_quiesce_over(qp, qp->active) &&
						   sh_quiesce_over(qp, qp->receiving),
				  .dead = gone || (final && !obeyed),
				  .cut = !sh_quiesce_drained(qp, qp->active) ||
					 !sh_quiesce_drained(qp, qp->receiving),
				  .recv_count = flushed->recv_count,
				  .epoch = qp->quiesce.epoch };
	struct sh_nic *blamed[SH_MAX_CARRIERS];
	int n = final || sh_carriers_unseen(qp) ? 0 : quiesce_blamed(qp, flushed, blamed);

	/* its provider read the state word until now */
	if (final && sp_has(qp->ctx->dev, SP_OWN_STATE_WORD))
		qp->qp->state = qp->app.state;
	qp->quiesce.phase = final ? SH_QUIESCE_DONE : SH_QUIESCE_SICK;
	qp->quiesce.next_at = final ? 0 : sh_now_ns() + QUIESCE_POLL_SICK_NS;
	qp->quiesce.recount_at = 0;
	sh_conn_event(qp, &event);
	while (n--)
		sh_nic_sick(blamed[n]);
	if (obeyed && present)
		sh_nic_obeys(nic);
}

static void quiesce_poll_later(struct sh_qp *qp, uint64_t now)
{
	qp->quiesce.next_at = now + qp->quiesce.interval;
	if (qp->quiesce.interval < QUIESCE_POLL_MAX_NS)
		qp->quiesce.interval *= 2;
}

static bool quiesce_hopeless(const struct sh_qp *qp)
{
	return (sh_carrier_dead(qp->active) && qp->active->nic->fatal) ||
	       (sh_carrier_dead(qp->receiving) && qp->receiving->nic->fatal) ||
	       sh_carriers_unseen(qp);
}

/* A process that did not run has no business with clocks. */
static bool quiesce_patient(const struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	uint64_t wait_ns = sh.config.flush_wait_ns, since = qp->quiesce.since, had;

	if (quiesce_commands_done(qp))
		return sh_starved_had_ns(since, now) < wait_ns && !quiesce_hopeless(qp);
	since = quiesce_command_since(qp);
	had = sh_starved_had_ns(since, now); /* 0: it began behind the look at the clock */
	if (!since || had < wait_ns)
		return true;
	return quiesce_any_lives(qp, since) && had < QUIESCE_ALIVE * wait_ns;
}

/*
 * Waits for the command's return, of which the worker tells; sh_quiesce_poll_awaited() looks
 * when it takes too long. Thousands in line look ever less often. Meanwhile the NIC gets
 * something to send, which tells whether it hangs.
 */
static void quiesce_await_command(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	qp->quiesce.next_at = now + qp->quiesce.interval;
	qp->quiesce.interval *= 2;
	if (!qp->peer || qp->peer->ask_until > qp->quiesce.next_at)
		return;
	qp->peer->ask_until = qp->quiesce.next_at + sh.config.flush_wait_ns;
	sh_heartbeat_soon();
}

/*
 * A NIC's command takes longer than it may: what becomes of those that wait for it, or behind
 * it?
 */
void sh_quiesce_poll_awaited(void)
{
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || qp->quiesce.phase != SH_QUIESCE_COMMAND)
			continue;
		sh_clock_touch(qp);
		sh_quiesce_poll(qp, sh_now_ns());
	}
	sh_outbox_release();
}

/*
 * True if a recount waits until it is known whether acknowledged data is in memory, as this
 * recount may be the last.
 */
static bool quiesce_recount_waits(const struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	return qp->quiesce.recount_at && sh_quiesce_drain_unknown(qp) &&
	       now - qp->quiesce.recount_at < QUIESCE_DRAIN_NS;
}

/*
 * Called when a command has returned and then at short intervals. A device that is known to be
 * dead is not waited for; one that takes longer than flush_wait counts as sick, and the core
 * goes the long way (recounts). It is still looked at now and then: a flush that comes late, or
 * a command that was only slow, makes the count final after all.
 */
void sh_quiesce_poll(struct sh_qp *qp, uint64_t now)
{
	bool patient = quiesce_patient(qp, now);
	struct sp_flushed flushed;
	bool collected, final, obeyed, over;

	qp->quiesce.next_at = 0;
	if (!quiesce_is_on(qp))
		return;
	if (qp->quiesce.phase == SH_QUIESCE_COMMAND && patient) {
		quiesce_await_command(qp, now);
		return;
	}
	collected = quiesce_collect(qp, &flushed);
	final = collected && quiesce_final(qp, &flushed);
	obeyed = final && quiesce_commands_done(qp);
	sh_mailbox_read(); /* an application error found on the way comes before QUIESCED */
	if (!quiesce_is_on(qp))
		return; /* the errors may have ended the move */
	over = final || (collected && SH_PARTS_ASK(move.is_over, qp, flushed.recv_count, now));
	if (over && SH_PARTS_ASK(move.delays, qp, now))
		quiesce_poll_later(qp, now);
	else if (over)
		quiesce_ended(qp, &flushed, true, obeyed);
	else if (qp->quiesce.phase == SH_QUIESCE_SICK)
		qp->quiesce.next_at = now + QUIESCE_POLL_SICK_NS;
	else if (patient || !collected || quiesce_recount_waits(qp, now))
		quiesce_poll_later(qp, now);
	else
		quiesce_ended(qp, &flushed, false, false);
}

/* The count is final: nobody looks at the old carrier any more, whatever its NIC still does. */
void sh_quiesce_seal(struct sh_qp *qp)
{
	qp->quiesce.phase = SH_QUIESCE_DONE;
	qp->quiesce.next_at = 0;
	sp_qp_seal(qp->sp);
}

void sh_quiesce_recount(struct sh_qp *qp)
{
	struct sp_flushed flushed;
	bool collected = quiesce_collect(qp, &flushed), final, obeyed, over;

	qp->quiesce.recount_at = sh_now_ns();
	final = collected && quiesce_final(qp, &flushed);
	over = final || SH_PARTS_ASK(move.is_over, qp, flushed.recv_count, qp->quiesce.recount_at);
	if (!collected || quiesce_recount_waits(qp, qp->quiesce.recount_at) ||
	    (over && SH_PARTS_ASK(move.delays, qp, qp->quiesce.recount_at))) {
		/* the holder of the CQ collects; the core must get its answer */
		qp->quiesce.phase = SH_QUIESCE_FLUSHING;
		qp->quiesce.interval = QUIESCE_POLL_MIN_NS;
		qp->quiesce.next_at = qp->quiesce.recount_at + QUIESCE_POLL_MAX_NS;
		return;
	}
	obeyed = final && quiesce_commands_done(qp);
	quiesce_ended(qp, &flushed, over, obeyed);
}

static void quiesces_reset(void)
{
	atomic_store(&quiesces.finished, NULL);
}

const struct sh_module sh_quiesces_module = {
	.name = "quiesces",
	.reset = quiesces_reset,
	.heard = quiesces_read,
};

static uint64_t quiesce_next_timer(const struct sh_qp *qp)
{
	return qp->quiesce.next_at;
}

const struct sh_conn_part sh_quiesce_part = {
	.name = "quiesce",
	.clock = { .next_timer = quiesce_next_timer, .run = sh_quiesce_poll },
};
