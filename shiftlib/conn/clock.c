/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The clocks of all connections. Whatever may have changed the next instant of a connection touches
 * it; its place among the timers is worked out when the background thread goes to sleep. So a step
 * that changes it ten times costs one look, and connections at rest cost none.
 */
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

#ifdef SHIFT_AUDIT
#define CLOCK_AUDIT_NS 0 /* in each round */
#else
#define CLOCK_AUDIT_NS SH_NS_PER_S
#endif

uint64_t sh_clock_next(const struct sh_qp *qp)
{
	uint64_t at = 0;

	for (const struct sh_conn_part *const *part = sh_parts; *part && qp->conn_id; part++)
		if ((*part)->clock.next_timer)
			at = sh_earlier_ns(at, (*part)->clock.next_timer(qp));
	return at;
}

static void clock_run_part(const struct sh_conn_part *part, struct sh_qp *qp, uint64_t now)
{
	uint64_t at = part->clock.next_timer ? part->clock.next_timer(qp) : 0;

	if (at && at <= now)
		part->clock.run(qp, now);
}

/*
 * Runs the parts that are due, in the order of the table. A part that closes the connection
 * does not stop the others.
 */
void sh_clock_run(struct sh_qp *qp, uint64_t now)
{
	if (!qp->conn_id)
		return;
	for (const struct sh_conn_part *const *part = sh_parts; *part; part++)
		clock_run_part(*part, qp, now);
}

void sh_clock_touch(struct sh_qp *qp)
{
	if (qp->clock.touched)
		return;
	qp->clock.touched = true;
	list_add_tail(&sh_conns.touched, &qp->clock.link);
}

void sh_clock_untouch(struct sh_qp *qp)
{
	if (qp->clock.touched)
		list_del(&qp->clock.link);
	qp->clock.touched = false;
	sh_timer_set(&sh_conns.timers, &qp->clock.timer, 0);
}

/*
 * Finds and mends a connection whose timer was not set, as somebody forgot to touch it; logs
 * that.
 */
static void clock_audit(uint64_t now) SH_LOCKED
{
	struct sh_qp *qp;

	if (now < sh_conns.audit_at)
		return;
	sh_conns.audit_at = now + CLOCK_AUDIT_NS;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (qp->clock.touched || qp->clock.timer.at == sh_clock_next(qp))
			continue;
		sh_error_once("QP 0x%06x: a timer was not set; set now, please report",
			      qp->qp->qp_num);
		sh_clock_touch(qp);
	}
}

static void clock_sort(void) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.touched, qp, struct sh_qp, clock.link) {
		list_del(&qp->clock.link);
		qp->clock.touched = false;
		sh_timer_set(&sh_conns.timers, &qp->clock.timer, sh_clock_next(qp));
	}
}

static uint64_t clock_next(void) SH_LOCKED
{
	struct sh_timer *first;

	clock_sort();
	first = sh_timers_first(&sh_conns.timers);
	return first ? first->at : 0;
}

/* Each that is due once: what is due again at once comes with the next round. */
static void clock_run(uint64_t now) SH_LOCKED
{
	struct sh_timer *first;
	struct sh_qp *qp;

	clock_audit(now);
	clock_sort();
	sh_outbox_hold();
	while ((first = sh_timers_first(&sh_conns.timers)) && first->at <= now) {
		qp = list_entry(first, struct sh_qp, clock.timer);
		sh_timer_set(&sh_conns.timers, first, 0);
		sh_clock_touch(qp);
		sh_clock_run(qp, now);
	}
	sh_outbox_release();
}

void sh_clock_wake_for(struct sh_qp *qp)
{
	const struct sh_peer *peer = qp->peer;

	if (sh_awake())
		return;
	/* Not by clock_next(): the caller may change it again, and has touched it already. */
	sh_wake_at(sh_earlier_ns(sh_earlier_ns(sh_conns.check_at, sh_heartbeat_next()),
				 sh_clock_next(qp)));
	for (const struct sh_conn_part *const *part = sh_parts; *part; part++)
		if ((*part)->clock.due)
			sh_wake_at((*part)->clock.due());
	if (peer)
		sh_wake_at(sh_peer_next_timer(peer));
}

const struct sh_module sh_clock_module = {
	.name = "clock",
	.run = clock_run,
	.next_timer = clock_next,
};
