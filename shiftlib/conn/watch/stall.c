/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/holdup.h"
#include "shiftlib/conn/watch/stall.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"

#define STALL_MERGED  16		/* events of a round; what is more is told with the last */
#define STALL_SEND_NS (SH_STALL_NS / 2) /* so long a NIC that sends nothing is paused */
#define STALL_ASK_NS  (SH_STALL_NS / 4) /* standing still so long, counters are read */
#define STALL_TOLD_NS (2 * SH_STALL_NS) /* longest wait for what they say */

static struct {
	struct sh_event event[STALL_MERGED]; /* of this round of looks */
	uint32_t n;
	uint32_t lost; /* connections that no NIC is left to */
	enum sh_event_cause lost_cause;
} stalls;

/* ---- what it waits for ---------------------------------------------------------------------- */

static const struct sh_stall_why stall_no_nic = {
	SH_CAUSE_STANDBY, "nothing passes: no NIC is left whose peer is up, too; it waits for one"
};
static const struct sh_stall_why stall_dark = { SH_CAUSE_SILENCE,
						"the peer is silent on all paths" };
static const struct sh_stall_why stall_path = {
	SH_CAUSE_SILENCE, "its path does not answer; a path of another NIC does"
};
static const struct sh_stall_why stall_count = { SH_CAUSE_PEER,
						 "the peer has not left its own NIC yet" };
static const struct sh_stall_why stall_flush = { SH_CAUSE_HANG,
						 "its NIC has not flushed what was outstanding" };
static const struct sh_stall_why stall_lack = {
	SH_CAUSE_RESOURCE, "the new NIC lacks something yet, such as a memory key"
};
static const struct sh_stall_why stall_flap = {
	SH_CAUSE_PORT_DOWN, "its path is down, and is waited for before the connection moves"
};
static const struct sh_stall_why stall_paused = {
	SH_CAUSE_PAUSED, "its port sends nothing: paused by flow control (PFC), or its NIC hangs"
};
/* By kinds of enum sh_holdup. */
static const struct sh_stall_why stall_held[SH_HOLDUP_KINDS] = {
	[0] = { SH_CAUSE_NO_PROGRESS,
		"all paths answer and the work does not: no counter of its port says why" },
	[SH_HOLDUP_PAUSED] = { SH_CAUSE_PAUSED,
			       "all paths answer and the work does not: its port may not send "
			       "(paused by PFC: port_xmit_wait rises)" },
	[SH_HOLDUP_UNREADY] = { SH_CAUSE_NOT_READY,
				"all paths answer and the work does not: the program at the other "
				"end posts no receive (RNR: rnr_nak_retry_err rises)" },
	[SH_HOLDUP_PAUSED | SH_HOLDUP_UNREADY] = { SH_CAUSE_NO_PROGRESS,
						   "all paths answer and the work does not: the "
						   "program at the other end posts no "
						   "receive (rnr_nak_retry_err rises), or the port "
						   "may not send (port_xmit_wait rises)" },
};

static bool stall_is_dark(const struct sh_qp *qp)
{
	uint32_t k;

	if (qp->peer->dark_at)
		return true;
	for (k = 0; k < qp->paths.n; k++)
		if (sh_peer_path_answers(qp->paths.routes[k]))
			return false;
	return true;
}

static const struct sh_stall_why *stall_moving(const struct sh_qp *qp)
{
	bool dark = stall_is_dark(qp);

	switch (qp->core.move) {
	case SC_MOVE_STRANDED: return &stall_no_nic;
	case SC_MOVE_QUIESCING:
	case SC_MOVE_COUNTING: return dark ? &stall_dark : &stall_flush;
	case SC_MOVE_AWAITING_COUNT: return dark ? &stall_dark : &stall_count;
	case SC_MOVE_LAYING:
	case SC_MOVE_SETTLING: return &stall_lack;
	case SC_MOVE_NONE:
	case SC_MOVE_ENDED: break;
	}
	return NULL;
}

static bool stall_is_paused(const struct sh_nic *nic, uint64_t now)
{
	uint64_t since = sh_control_waiting_since(nic->control);

	return since && now - since > STALL_SEND_NS;
}

/* The kinds that were told of the connection; 0: none. */
static unsigned stall_held_kinds(const struct sh_qp *qp)
{
	unsigned kinds;

	for (kinds = SH_HOLDUP_KINDS - 1; kinds; kinds--)
		if (qp->stall.why == &stall_held[kinds])
			break;
	return kinds;
}

/* What was told stands while the counters do not contradict it. */
static const struct sh_stall_why *stall_working_held(const struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	unsigned before = stall_held_kinds(qp), kinds;
	bool told = sh_holdup_told(qp->active->nic, now, &kinds);

	if (before && (!kinds || kinds & before))
		return qp->stall.why;
	if (!told && !qp->stall.why && now - qp->stall.since < STALL_TOLD_NS)
		return NULL;
	return &stall_held[kinds];
}

/* NULL: that is not known yet. */
static const struct sh_stall_why *stall_working(const struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (stall_is_paused(qp->active->nic, now))
		return &stall_paused;
	if (stall_is_dark(qp))
		return sh_nic_up(qp->active->nic) ? &stall_dark : &stall_no_nic;
	if (qp->core.stay.phase != SC_STAY_NONE && qp->core.stay.phase != SC_STAY_OVER)
		return &stall_flap;
	return sh_peer_path_answers(qp->paths.routes[qp->active->path])
		       ? stall_working_held(qp, now)
		       : &stall_path;
}

const struct sh_stall_why *sh_stall_of(const struct sh_qp *qp, uint64_t *since)
{
	*since = qp->stall.since;
	return qp->stall.why;
}

uint32_t sh_stalls_lost(void)
{
	return stalls.lost;
}

enum sh_event_cause sh_stalls_lost_cause(void)
{
	return stalls.lost_cause;
}

/* ---- what is told --------------------------------------------------------------------------- */

static bool stall_same(const struct sh_event *event, const struct sh_qp *qp,
		       enum sh_event_kind kind, const struct sh_stall_why *why)
{
	return event->kind == kind && event->why == why->text &&
	       !strcmp(event->from, qp->active->nic->name) && event->peer == qp->peer->instance;
}

static void stall_event(const struct sh_qp *qp, enum sh_event_kind kind,
			const struct sh_stall_why *why) SH_LOCKED
{
	const struct sh_peer_path *path = qp->paths.routes[qp->active->path];
	struct sh_event *event = stalls.event;
	uint32_t i;

	for (i = 0; i < stalls.n && !stall_same(&event[i], qp, kind, why); i++)
		;
	if (i == STALL_MERGED)
		i--;
	event += i;
	if (i == stalls.n) {
		stalls.n++;
		*event = (struct sh_event){ .kind = kind,
					    .cause = why->cause,
					    .why = why->text,
					    .qpn = qp->qp->qp_num,
					    .peer_qpn = qp->app.attr.dest_qp_num,
					    .peer = qp->peer->instance,
					    .peer_known = path != NULL };
		memcpy(event->from, qp->active->nic->name, sizeof(event->from));
	}
	if (path && event->peer_known) {
		event->peer_from = event->peer_to = path->remote_nic;
		memcpy(event->peer_gid, sh_peer_nic(qp->peer, path->remote_nic)->address.gid,
		       sizeof(event->peer_gid));
	}
	event->qps++;
}

/* True if nothing passes, not only slowly: the program has lost its bandwidth. */
static bool stall_is_loss(const struct sh_stall_why *why)
{
	return why == &stall_no_nic || why == &stall_dark;
}

/* Keeps the account of those that nothing passes for. False: nothing has changed. */
static bool stall_change(struct sh_qp *qp, const struct sh_stall_why *why) SH_LOCKED
{
	const struct sh_stall_why *before = qp->stall.why;
	bool lost = why && stall_is_loss(why), was_lost = before && stall_is_loss(before);

	qp->stall.why = why;
	if (lost)
		stalls.lost_cause = why->cause;
	if (lost != was_lost) {
		stalls.lost += lost ? 1 : UINT32_MAX;
		sh_degraded_changed();
	}
	return before != why;
}

static void stall_set(struct sh_qp *qp, const struct sh_stall_why *why) SH_LOCKED
{
	const struct sh_stall_why *before = qp->stall.why;

	if (!stall_change(qp, why))
		return;
	if (!qp->peer || !qp->active->nic)
		return;
	if (why)
		stall_event(qp, SH_EVENT_STALLED, why);
	else
		stall_event(qp, SH_EVENT_FLOWING, before);
	if (why && stall_is_loss(why) && qp->level == SH_PROTECTED)
		sh_level_set(qp, SH_DRIVEN, why->text);
	else if (!why && qp->why == before->text)
		sh_level_again(qp);
}

/* ---- looks ---------------------------------------------------------------------------------- */

static bool stall_has_work(struct sh_qp *qp)
{
	uint32_t number = 0;

	return sp_qp_sending(qp->sp, &number) == SP_SENDING_AWAITED;
}

/* True if nothing that would be sent now could pass. */
static bool stall_is_hopeless(const struct sh_qp *qp)
{
	uint32_t k;

	if (qp->peer->dark_at)
		return true;
	for (k = 0; k < qp->paths.n; k++)
		if (qp->paths.routes[k] && sh_path_up(&qp->paths.routes[k]->health))
			return false;
	return true;
}

/* True if it goes on, or has nothing to do and could do it. */
static bool stall_goes_on(struct sh_qp *qp)
{
	bool moves = qp->core.move != SC_MOVE_NONE;
	uint32_t progress = moves ? 0 : (uint32_t)sp_qp_progressed(qp->sp);
	bool same = qp->stall.moves == moves && qp->stall.progress == progress;

	qp->stall.moves = moves;
	qp->stall.progress = progress;
	return !same || (!moves && !stall_has_work(qp) && !stall_is_hopeless(qp));
}

/* What completed, and nobody polled, is no stall: it is looked for once. */
static bool stall_is_sure(struct sh_qp *qp) SH_LOCKED
{
	if (qp->stall.moves || qp->stall.collected)
		return true;
	qp->stall.collected = true;
	if (!sh_conn_hands_off(qp))
		(void)sh_carriers_collect(qp);
	return false;
}

static void stall_look(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	bool concerns =
		qp->conn_id && qp->peer && qp->core.guarded && qp->core.move != SC_MOVE_ENDED;

	if (!concerns || stall_goes_on(qp)) {
		qp->stall.since = now;
		qp->stall.collected = false;
		stall_set(qp, NULL);
		return;
	}
	if (now - qp->stall.since >= STALL_ASK_NS && !qp->stall.moves && qp->active->nic)
		sh_holdup_ask(qp->active->nic, now);
	if (now - qp->stall.since >= SH_STALL_NS && stall_is_sure(qp))
		stall_set(qp, qp->stall.moves ? stall_moving(qp) : stall_working(qp, now));
}

static void stall_looked(uint64_t now) SH_LOCKED
{
	uint32_t i;

	(void)now;
	if (sh_conns.check_pass % SH_CONNS_PASSES)
		return;
	for (i = 0; i < stalls.n; i++)
		sh_event_record(&stalls.event[i]);
	stalls.n = 0;
}

static void stall_leaves(struct sh_qp *qp) SH_LOCKED
{
	(void)stall_change(qp, NULL);
}

/* What has ended does not go on: the event of its end tells. */
static void stall_ended(struct sh_qp *qp, bool failed) SH_LOCKED
{
	(void)failed;
	(void)stall_change(qp, NULL);
}

static void stall_reset(struct sh_qp *qp)
{
	memset(&qp->stall, 0, sizeof(qp->stall));
}

static void stalls_reset(void)
{
	memset(&stalls, 0, sizeof(stalls));
}

const struct sh_module sh_stalls_module = { .name = "stalls", .reset = stalls_reset };

const struct sh_conn_part sh_stall_part = {
	.name = "stalls",
	.life = { .reset = stall_reset, .leaves = stall_leaves },
	.step = { .look = stall_look, .looked = stall_looked },
	.move.ended = stall_ended,
};
