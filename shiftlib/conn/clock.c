/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The clocks of all connections. Whatever may have changed the next instant of a connection touches
 * it; its place among the timers is worked out when the background thread goes to sleep. So a step
 * that changes it ten times costs one look, and connections at rest cost none.
 */
#include "shiftlib/shell.h"

#define CLOCK_AUDIT_NS SH_NS_PER_S

void sh_conn_touch(struct sh_qp *qp)
{
	if (qp->touched)
		return;
	qp->touched = true;
	list_add_tail(&sh.touched, &qp->touched_link);
}

void sh_conn_untouch(struct sh_qp *qp)
{
	if (qp->touched)
		list_del(&qp->touched_link);
	qp->touched = false;
	sh_timer_set(&sh.timers, &qp->timer, 0);
}

/* Who forgot to touch would leave a connection without its clock: found, mended and told. */
static void clock_audit(uint64_t now)
{
	struct sh_qp *qp;

	if (now < sh.audit_at)
		return;
	sh.audit_at = now + CLOCK_AUDIT_NS;
	list_for_each (&sh.qps, qp, struct sh_qp, link) {
		if (qp->touched || qp->timer.at == sh_conn_next_timer(qp))
			continue;
		sh_error_once("QP 0x%06x: a timer was not set; set now, please report",
			      qp->qp->qp_num);
		sh_conn_touch(qp);
	}
}

static void clock_sort(void)
{
	struct sh_qp *qp;

	list_for_each (&sh.touched, qp, struct sh_qp, touched_link) {
		list_del(&qp->touched_link);
		qp->touched = false;
		sh_timer_set(&sh.timers, &qp->timer, sh_conn_next_timer(qp));
	}
}

uint64_t sh_clock_next(void)
{
	struct sh_timer *first;

	clock_sort();
	first = sh_timers_first(&sh.timers);
	return first ? first->at : 0;
}

/* Each that is due once: what is due again at once comes with the next round. */
void sh_clock_run(uint64_t now)
{
	struct sh_timer *first;
	struct sh_qp *qp;

	clock_audit(now);
	clock_sort();
	sh_peers_hold();
	while ((first = sh_timers_first(&sh.timers)) && first->at <= now) {
		qp = list_entry(first, struct sh_qp, timer);
		sh_timer_set(&sh.timers, first, 0);
		sh_conn_touch(qp);
		sh_conn_timer(qp, now);
	}
	sh_peers_release();
}
