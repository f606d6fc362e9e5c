/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The requester's half of the home of atomics: carries out what core/home.c decides. */
#include "providers/engine.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/home.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"

#define HOME_RESEND_NS	   (5 * SH_NS_PER_MS)
#define HOME_RESEND_MAX_NS SH_NS_PER_S
#define HOME_PATIENCE_NS   SH_NS_PER_S /* waiting is no news before */

/* Does the peer take part? Else atomics run where the connection is, as without all this. */
bool sh_home_on(const struct sh_qp *qp)
{
	return sh.config.atomic_home && qp->peer && (qp->peer->caps & SH_WIRE_CAP_HOME);
}

/* True if atomics may run on the carrier in use; in a move, on the carrier to come. */
static bool home_may(const struct sh_qp *qp) SH_LOCKED
{
	return !sh_home_on(qp) || sc_home_may(&qp->home.user, qp->core.epoch, qp->core.path);
}

static void home_repeat(struct sh_qp *qp) SH_LOCKED
{
	qp->home.interval = HOME_RESEND_NS;
	qp->home.resend_at = sh_now_ns() + HOME_RESEND_NS;
	sh_clock_touch(qp);
	sh_clock_wake_for(qp);
}

static bool home_unheard(const struct sh_qp *qp) SH_LOCKED
{
	return (qp->home.waits && !home_may(qp)) || sc_home_unheard(&qp->home.member);
}

void sh_home_tell(struct sh_qp *qp)
{
	struct sc_msg_home m;

	sc_home_fill(&qp->home.user, &qp->home.member, &m);
	m.wants = qp->home.waits && !home_may(qp);
	m.wants_of = qp->core.epoch;
	m.ask = home_unheard(qp);
	qp->home.member.news = false;
	sh_messages_send_home(qp, &m);
	if (m.ask && !qp->home.resend_at)
		home_repeat(qp);
}

/* used: atomics had been posted before. An error: the bar is not there. */
static int home_set(struct sh_qp *qp, bool may, bool *used) SH_LOCKED
{
	int ret = sp_qp_atomics(qp->sp, may, used);

	if (!may)
		return ret;
	if (qp->home.waits)
		sh_log(SH_LOG_DEBUG, "QP 0x%06x: its atomics run", qp->qp->qp_num);
	qp->home.waits = qp->home.said = false;
	if (ret)
		sh_move_publish(qp, sh_now_ns());
	return 0;
}

static int home_takes(struct sh_qp *qp, const struct sh_carrier *to) SH_LOCKED
{
	bool used;

	sc_home_takes(&qp->home.user, to->epoch, to->path);
	if (home_may(qp)) /* atomics that waited run there; later ones may wait, and ask, again */
		qp->home.waits = qp->home.said = false;
	if (to->path && !sh_home_on(qp) && sh.config.atomic_home && !qp->home.alone) {
		qp->home.alone = true;
		sh_log(SH_LOG_INFO,
		       "QP 0x%06x: its peer has SHIFT_ATOMIC_HOME=off: atomics here are not atomic "
		       "with those of other connections to that peer",
		       qp->qp->qp_num);
	}
	return sp_qp_atomics(qp->sp, home_may(qp), &used);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void home_obey(struct sh_qp *qp, const struct sc_msg_home *m, bool bar) SH_LOCKED
{
	struct sc_home_user next = qp->home.user;
	bool used = false;

	sc_home_obey(&next, m, false);
	if (bar &&
	    home_set(qp, sc_home_may(&next, qp->core.epoch, qp->core.path) || !sh_home_on(qp),
		     &used))
		return; /* the peer will say it again */
	sc_home_obey(&qp->home.user, m, used);
	if (bar)
		return;
	if (qp->core.move == SC_MOVE_NONE)
		sc_home_takes(&qp->home.user, qp->core.epoch, qp->core.path);
	(void)home_set(qp, home_may(qp), &used);
}

static void home_heard(struct sh_qp *qp, const struct sc_msg_home *m) SH_LOCKED
{
	bool bar, used, word = sc_home_barred(&qp->home.user, m, &bar);

	sh_log(SH_LOG_DEBUG,
	       "QP 0x%06x: home: bar %u (seen %u), used %u, wants %u of %u, granted %u of %u, %s",
	       qp->qp->qp_num, m->bar_no, m->bar_seen, m->used, m->wants, m->wants_of, m->granted,
	       m->granted_of, sc_home_why_name((enum sc_home_why)m->why));
	sc_home_heard(&qp->home.member, m);
	if (word)
		home_obey(qp, m, bar);
	if (sc_home_answered(&qp->home.user, m, qp->core.epoch) && qp->home.waits)
		(void)home_set(qp, true, &used);
	if (word || m->ask)
		sh_home_tell(qp);
	if (!home_unheard(qp))
		qp->home.resend_at = 0;
	sh_clock_touch(qp); /* also for requests that were published */
	sh_home_due();
}

static bool home_message(struct sh_qp *qp, const struct sh_wire_record *record) SH_LOCKED
{
	if (record->type != SH_WIRE_HOME)
		return false;
	if (sh.config.atomic_home)
		home_heard(qp, &record->home);
	return true;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void home_say_waits(struct sh_qp *qp, uint64_t now)
{
	if (!qp->home.waits || qp->home.said || now - qp->home.waits_since < HOME_PATIENCE_NS)
		return;
	qp->home.said = true;
	sh_log(SH_LOG_WARN,
	       "QP 0x%06x: its atomics on %s wait until no other NIC of the peer runs atomics of "
	       "its "
	       "connections: %s",
	       qp->qp->qp_num, qp->active->nic->name, sc_home_why_text(qp->home.user.why));
}

static void home_timer(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	home_say_waits(qp, now);
	qp->home.resend_at = 0;
	if (!home_unheard(qp))
		return;
	sh_home_tell(qp);
	qp->home.interval = qp->home.interval * 2 < HOME_RESEND_MAX_NS ? qp->home.interval * 2
								       : HOME_RESEND_MAX_NS;
	qp->home.resend_at = now + qp->home.interval;
}

const char *sh_home_why(const struct sh_qp *qp)
{
	return qp->home.waits ? sc_home_why_text(qp->home.user.why) : NULL;
}

static uint64_t home_next_timer(const struct sh_qp *qp)
{
	return qp->home.resend_at;
}

/* The peer is asked, once. */
static const char *home_barred(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (!qp->home.waits) {
		qp->home.waits = true;
		qp->home.waits_since = now;
		sh_home_tell(qp);
	}
	return sh_home_why(qp);
}

const struct sh_conn_part sh_home_part = {
	.name = "home",
	.move.takes = home_takes,
	.news = { .message = home_message, .barred = home_barred },
	.clock = { .next_timer = home_next_timer, .run = home_timer },
};
