/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Incidents: connections of one pair of NICs that move, fail, or lose their protection at about
 * the same time, told as one event. Lock held in all of it.
 */
#include <string.h>
#include "providers/callbacks.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/told/cause.h"
#include "shiftlib/conn/told/incident.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/path_health.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/report/event.h"

#define INCIDENTS      32 /* open at a time; when there are more, the oldest is recorded as it is */
#define INCIDENT_MERGE 32 /* kinds of change merged in one look at the protection */

struct incident {
	uint32_t serial; /* 0: free */
	bool ordered, settled;
	uint32_t moving; /* connections that may still join what has settled */
	uint64_t last_ns;
	struct sh_event event;
};

static struct {
	struct incident open[INCIDENTS];
	uint32_t serial; /* the last */
	/* time of the next look at the protection of connections; 0: nothing has changed */
	uint64_t look_at;
} incidents;

/* ---- times ---------------------------------------------------------------------------------- */

static uint64_t incident_silence(const struct sh_qp *qp, enum sh_event_cause cause, uint64_t now)
{
	const struct sh_peer_path *path = qp->paths.routes[qp->active->path];
	uint64_t since = path ? sh_path_unanswered_since(&path->health, now) : 0;

	/* heartbeats and work must both be missing, so the later one begins the silence */
	if (cause == SH_CAUSE_SILENCE && since && since < qp->detector.silence.since)
		return qp->detector.silence.since;
	return since;
}

static uint64_t incident_hang(const struct sh_nic *nic, enum sh_event_cause cause)
{
	if (cause != SH_CAUSE_HANG || nic->state != SH_NIC_OPEN || !nic->control)
		return 0;
	return sh_earlier_ns(sh_control_waiting_since(nic->control),
			     sh_worker_busy_since_ns(nic->prompt));
}

static uint64_t incident_first_sign(const struct sh_qp *qp, enum sh_event_cause cause,
				    uint64_t error_ns, uint64_t now)
{
	uint64_t sign = sh_earlier_ns(error_ns, incident_silence(qp, cause, now));

	sign = sh_earlier_ns(sign, incident_hang(qp->active->nic, cause));
	return sign && sign < now ? sign : now;
}

/* ---- which incident ------------------------------------------------------------------------- */

static void incident_name(char out[SH_EVENT_NIC], const struct sh_nic *nic)
{
	_Static_assert(SH_EVENT_NIC >= sizeof(nic->name), "a NIC's name fits");
	memcpy(out, nic->name, sizeof(nic->name));
}

static void incident_peer(struct sh_event *event, const struct sh_qp *qp, uint8_t path)
{
	const struct sh_peer *peer = qp->peer;

	if (!peer || path >= qp->paths.n)
		return;
	event->peer = peer->instance;
	event->peer_known = true;
	event->peer_from = event->peer_to = qp->paths.peer_nics[path];
	memcpy(event->peer_gid, sh_peer_nic(peer, event->peer_from)->address.gid,
	       sizeof(event->peer_gid));
}

/* Fills in what all connections of an incident have in common. */
static void incident_describe(struct sh_event *event, const struct sh_qp *qp,
			      enum sh_event_kind kind, enum sh_event_cause cause)
{
	memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->cause = cause;
	incident_name(event->from, qp->active->nic);
	event->qpn = qp->qp->qp_num;
	event->peer_qpn = qp->app.attr.dest_qp_num;
	incident_peer(event, qp, qp->active->path);
}

static bool incident_same_pair(const struct sh_event *a, const struct sh_event *b)
{
	return !strcmp(a->from, b->from) && a->peer == b->peer && a->peer_from == b->peer_from;
}

static void incident_clear(struct sh_event *event)
{
	event->qps = 0;
	event->resent = event->resent_bytes = event->settled = event->unknown = 0;
	event->switch_ns = 0;
}

/* What the peer saw first, the NIC of this end may have said meanwhile. */
static void incident_ask_nic(struct sh_event *event) SH_LOCKED
{
	uint32_t i;

	for (i = 0; event->cause == SH_CAUSE_PEER && i < sh_nics.n; i++)
		if (!strcmp(sh_nics.nic[i].name, event->from))
			event->cause = sh_cause_of_peer(&sh_nics.nic[i]);
}

/* Connections that are still moving are told later, with the same beginning. */
static void incident_record(struct incident *incident) SH_LOCKED
{
	if (incident->event.qps) {
		incident_ask_nic(&incident->event);
		sh_event_record(&incident->event);
		sh_degraded_moved(&incident->event);
	}
	incident_clear(&incident->event);
	incident->settled = false;
	if (!incident->moving)
		incident->serial = 0;
}

/* A place for a new one; the connections of the one that had it go on without. */
static struct incident *incident_place(void) SH_LOCKED
{
	struct incident *oldest = incidents.open;
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++) {
		struct incident *incident = &incidents.open[i];

		if (!incident->serial)
			return incident;
		if ((int32_t)(incident->serial - oldest->serial) < 0)
			oldest = incident;
	}
	incident_record(oldest);
	return oldest;
}

static struct incident *incident_open(const struct sh_event *event, bool ordered) SH_LOCKED
{
	struct incident *incident = incident_place();

	memset(incident, 0, sizeof(*incident));
	incident->event = *event;
	incident->ordered = ordered;
	if (!++incidents.serial)
		++incidents.serial;
	incident->serial = incidents.serial;
	return incident;
}

static struct incident *incident_of(const struct sh_qp *qp)
{
	uint32_t i;

	for (i = 0; qp->incident.moving && i < INCIDENTS; i++)
		if (incidents.open[i].serial == qp->incident.moving)
			return &incidents.open[i];
	return NULL;
}

static uint64_t incident_due(const struct incident *incident)
{
	if (!incident->serial)
		return 0;
	if (!incident->moving)
		return incident->last_ns + SH_EVENT_LINGER_NS;
	return incident->settled ? incident->last_ns + SH_EVENT_STRAGGLER_NS : 0;
}

static void incident_touched(struct incident *incident, uint64_t now) SH_LOCKED
{
	incident->last_ns = now;
	sh_wake_at(incident_due(incident));
}

/* ---- moves ---------------------------------------------------------------------------------- */

static bool incident_is_move(enum sh_event_kind kind)
{
	return kind == SH_EVENT_SWITCH || kind == SH_EVENT_RETURN;
}

/* Finds an open incident of the same pair of NICs, whatever made its connections move. */
static struct incident *incident_to_join(const struct sh_event *event, bool ordered)
{
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++) {
		struct incident *incident = &incidents.open[i];

		if (incident->serial && incident_is_move(incident->event.kind) &&
		    incident->ordered == ordered && incident_same_pair(&incident->event, event))
			return incident;
	}
	return NULL;
}

static void incident_moves(struct sh_qp *qp, enum sc_reason reason) SH_LOCKED
{
	uint64_t now = sh_now_ns(), error_ns = atomic_load(&qp->mailbox.error_ns);
	bool ordered = qp->fence.number && !error_ns;
	struct incident *incident;
	struct sh_event event;

	if (qp->incident.moving)
		return;
	incident_describe(&event, qp, SH_EVENT_SWITCH, sh_cause_of(qp, qp->core.reason));
	incident = incident_to_join(&event, ordered);
	if (!incident) {
		event.decided_ns = ordered ? qp->fence.since : now;
		if (!ordered)
			event.detect_ns = now - incident_first_sign(qp, event.cause, error_ns, now);
		incident = incident_open(&event, ordered);
	}
	incident->moving++;
	incident->last_ns = now;
	qp->incident.moving = incident->serial;
}

/*
 * Returns the incident for a connection that goes to that NIC: connections that go elsewhere
 * than the first have one of their own.
 */
static struct incident *incident_towards(struct incident *incident, const struct sh_carrier *to,
					 enum sh_event_kind kind) SH_LOCKED
{
	struct sh_event event = incident->event;
	bool ordered = incident->ordered;
	uint32_t i;

	if (!incident->settled ||
	    (incident->event.kind == kind && !strcmp(incident->event.to, to->nic->name)))
		return incident;
	for (i = 0; i < INCIDENTS; i++) {
		struct incident *other = &incidents.open[i];

		if (other->serial && other->settled && other->event.kind == kind &&
		    incident_same_pair(&other->event, &event) &&
		    !strcmp(other->event.to, to->nic->name))
			return other;
	}
	event.kind = kind;
	incident_clear(&event);
	return incident_open(&event, ordered);
}

static enum sh_event_kind incident_kind(const struct sh_qp *qp, const struct incident *incident,
					const struct sh_carrier *to)
{
	uint32_t order = qp->core.standby.order;
	bool back = sc_order_rank(order, to->path) < sc_order_rank(order, qp->active->path);

	return incident->ordered && back ? SH_EVENT_RETURN : SH_EVENT_SWITCH;
}

static void incident_settled(struct sh_qp *qp, const struct sh_carrier *to,
			     const struct sp_settled *settled) SH_LOCKED
{
	struct incident *incident = incident_of(qp);
	uint64_t now = sh_now_ns();

	if (!incident) { /* the incident has lost its place to another */
		qp->incident.moving = 0;
		incident_moves(qp, qp->core.reason);
		incident = incident_of(qp);
	}
	qp->incident.moving = 0;
	incident->moving--;
	incident = incident_towards(incident, to, incident_kind(qp, incident, to));
	incident->event.kind = incident_kind(qp, incident, to);
	incident->settled = true;
	incident_name(incident->event.to, to->nic);
	if (to->path < qp->paths.n)
		incident->event.peer_to = qp->paths.peer_nics[to->path];
	incident->event.qps++;
	incident->event.resent += settled->resent;
	incident->event.resent_bytes += settled->resent_bytes;
	incident->event.settled += settled->delivered;
	incident->event.switch_ns = now - incident->event.decided_ns;
	incident_touched(incident, now);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static struct incident *incident_failing(const struct sh_event *event) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++) {
		struct incident *incident = &incidents.open[i];

		if (incident->serial && incident->event.kind == event->kind &&
		    incident->event.cause == event->cause && incident->event.why == event->why &&
		    incident_same_pair(&incident->event, event))
			return incident;
	}
	return incident_open(event, false);
}

static void incident_left(struct sh_qp *qp) SH_LOCKED
{
	struct incident *incident = incident_of(qp);

	qp->incident.moving = 0;
	qp->incident.level_at = 0;
	if (!incident)
		return;
	incident->moving--;
	incident_touched(incident, sh_now_ns());
}

/* The error of a program that does not poll is told as such (P6), whatever move it ended. */
static void incident_blame_program(struct sh_event *event, const struct sh_qp *qp,
				   enum sc_reason reason) SH_LOCKED
{
	if (reason == SC_REASON_PEER_APPLICATION)
		event->kind = SH_EVENT_ENDED;
	if (reason != SC_REASON_OVERRUN)
		return;
	if (sh_carriers_outran(qp)) {
		event->kind = SH_EVENT_ENDED;
		event->cause = SH_CAUSE_APPLICATION;
		event->why = sh_cause_outran;
	} else if (qp->error.peer_outran) {
		event->kind = SH_EVENT_ENDED;
		event->cause = SH_CAUSE_PEER_APPLICATION;
		event->why = sh_cause_peer_outran;
	}
}

/* Counts the connection, which tells of one end, among those that ended so. */
static struct incident *incident_ends(struct sh_qp *qp, const struct sh_event *event,
				      uint64_t now) SH_LOCKED
{
	struct incident *incident = incident_failing(event);

	qp->incident.ended = true;
	incident->event.qps++;
	incident_touched(incident, now);
	return incident;
}

void sh_incident_overran(struct sh_qp *qp)
{
	struct sh_event event;

	if (qp->incident.ended)
		return;
	incident_describe(&event, qp, SH_EVENT_ENDED, SH_CAUSE_APPLICATION);
	event.why = sh_cause_outran;
	event.decided_ns = sh_now_ns();
	(void)incident_ends(qp, &event, event.decided_ns);
}

static void incident_failed(struct sh_qp *qp, enum sc_reason reason, uint32_t unknown) SH_LOCKED
{
	struct incident *moved = incident_of(qp), *incident;
	uint64_t now = sh_now_ns();
	struct sh_event event;

	incident_describe(&event, qp, SH_EVENT_FAILED, sh_cause_of(qp, reason));
	event.why = sc_reason_text(reason);
	if (reason == SC_REASON_DEADLINE && qp->peer && sh_blame_peer_gone(qp->peer)) {
		event.cause = SH_CAUSE_PEER_GONE;
		event.why = sh_blame_gone;
	}
	event.decided_ns = moved ? moved->event.decided_ns : now;
	event.detect_ns = moved ? moved->event.detect_ns : 0;
	incident_left(qp);
	if (reason == SC_REASON_APPLICATION || qp->incident.ended)
		return;
	incident_blame_program(&event, qp, reason);
	incident = incident_ends(qp, &event, now);
	incident->event.unknown += unknown;
	incident->event.switch_ns = now - incident->event.decided_ns;
}

static enum sh_event_cause incident_cause_lost(const struct sh_qp *qp,
					       enum ibv_wc_status status) SH_LOCKED
{
	if (qp->peer && sh_blame_peer_gone(qp->peer))
		return SH_CAUSE_PEER_GONE;
	return status == IBV_WC_RETRY_EXC_ERR ? SH_CAUSE_RETRY_EXCEEDED : SH_CAUSE_TRANSPORT;
}

/*
 * An error that SHIFT does not mend. What is lost without protection, at a peer that SHIFT knows
 * and that has not closed, is a loss that an operator is alerted of; the error of a program is
 * none.
 */
static void incident_passed(struct sh_qp *qp, enum ibv_wc_status status) SH_LOCKED
{
	bool lost = sp_error_class_of(status) == SP_ERROR_TRANSPORT && status != IBV_WC_SUCCESS;
	bool closed = lost && qp->core.move == SC_MOVE_ENDED && !qp->core.failed &&
		      qp->core.reason == SC_REASON_PEER_CLOSED;
	enum sh_event_cause cause = SH_CAUSE_APPLICATION;
	struct sh_event event;

	if (qp->incident.ended || (lost && qp->core.move == SC_MOVE_ENDED && !closed))
		return;
	if (closed)
		cause = SH_CAUSE_PEER_CLOSED;
	else if (lost)
		cause = incident_cause_lost(qp, status);
	incident_describe(&event, qp,
			  lost && !closed && qp->core.peer.introduced ? SH_EVENT_FAILED
								      : SH_EVENT_ENDED,
			  cause);
	event.why = closed ? sc_reason_text(SC_REASON_PEER_CLOSED) : sh_cause_passed(status);
	event.decided_ns = sh_now_ns();
	(void)incident_ends(qp, &event, event.decided_ns);
	sh_log(SH_LOG_INFO, "QP 0x%06x: its error is passed on to the program (status %d): %s",
	       qp->qp->qp_num, (int)status, event.why);
}

/* ---- protection ----------------------------------------------------------------------------- */

static void incident_level(struct sh_qp *qp) SH_LOCKED
{
	bool told = (qp->level == SH_PROTECTED) == qp->incident.told_protected;

	qp->incident.level_at = told ? 0 : sh_now_ns();
	if (told || incidents.look_at)
		return;
	incidents.look_at = qp->incident.level_at + SH_EVENT_SETTLES_NS;
	sh_wake_at(incidents.look_at);
}

/*
 * True if the loss of protection is to be told. An end by the application's will, or one told
 * as a failure, is none.
 */
static bool incident_lost(const struct sh_qp *qp)
{
	enum sc_reason reason = qp->core.reason;

	if (qp->core.move != SC_MOVE_ENDED)
		return true;
	return !qp->core.failed && reason != SC_REASON_APPLICATION &&
	       reason != SC_REASON_PEER_CLOSED;
}

static void incident_level_merge(struct sh_event merged[INCIDENT_MERGE], uint32_t *n,
				 const struct sh_event *event) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < *n; i++)
		if (merged[i].kind == event->kind && merged[i].cause == event->cause &&
		    merged[i].why == event->why && !strcmp(merged[i].to, event->to) &&
		    incident_same_pair(&merged[i], event))
			break;
	if (i == INCIDENT_MERGE) {
		sh_event_record(&merged[--i]);
		*n = i;
	}
	if (i == *n)
		merged[(*n)++] = *event;
	merged[i].qps++;
}

static void incident_level_event(struct sh_event *event, const struct sh_qp *qp) SH_LOCKED
{
	if (qp->level == SH_PROTECTED) {
		incident_describe(event, qp, SH_EVENT_PROTECTED, SH_CAUSE_NONE);
		if (qp->standby && !sc_rests(&qp->core))
			incident_name(event->to, qp->standby->nic);
		return;
	}
	incident_describe(event, qp, SH_EVENT_UNPROTECTED, SH_CAUSE_STANDBY);
	if (qp->core.move == SC_MOVE_ENDED || qp->core.reason == SC_REASON_RESOURCE)
		event->cause =
			sh_cause_of(qp, qp->core.reason); /* else it is that of its last move */
	event->why = sh_level_why(qp);
}

/* Has it been so for long enough? Later: when to look again. Those that came a little behind the
 * first are told with it. */
static bool incident_level_rests(const struct sh_qp *qp, uint64_t now, uint64_t *later)
{
	bool moves = qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED;
	uint64_t since = moves ? now : qp->incident.level_at;

	if (!qp->incident.level_at)
		return false;
	if (now - since >= SH_EVENT_SETTLES_NS / 2)
		return true;
	*later = sh_earlier_ns(*later, since + SH_EVENT_SETTLES_NS);
	return false;
}

static void incidents_check(uint64_t now) SH_LOCKED
{
	struct sh_event merged[INCIDENT_MERGE], event;
	uint32_t i, n = 0;
	struct sh_qp *qp;

	incidents.look_at = 0;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!incident_level_rests(qp, now, &incidents.look_at))
			continue;
		qp->incident.level_at = 0;
		qp->incident.told_protected = qp->level == SH_PROTECTED;
		if (!qp->incident.told_protected && !incident_lost(qp))
			continue;
		incident_level_event(&event, qp);
		incident_level_merge(merged, &n, &event);
	}
	for (i = 0; i < n; i++)
		sh_event_record(&merged[i]);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t incidents_next_timer(void)
{
	uint64_t at = incidents.look_at;
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++)
		at = sh_earlier_ns(at, incident_due(&incidents.open[i]));
	return at;
}

static void incidents_run(uint64_t now) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++) {
		uint64_t due = incident_due(&incidents.open[i]);

		if (due && due <= now)
			incident_record(&incidents.open[i]);
	}
	if (incidents.look_at && incidents.look_at <= now)
		incidents_check(now);
}

void sh_incidents_end(void)
{
	uint32_t i;

	for (i = 0; i < INCIDENTS; i++)
		if (incidents.open[i].serial)
			incident_record(&incidents.open[i]);
}

static void incidents_reset(void)
{
	memset(&incidents, 0, sizeof(incidents));
}

const struct sh_module sh_incidents_module = {
	.name = "incidents",
	.reset = incidents_reset,
	.run = incidents_run,
	.next_timer = incidents_next_timer,
};

static void incident_reset(struct sh_qp *qp)
{
	memset(&qp->incident, 0, sizeof(qp->incident));
}

const struct sh_conn_part sh_incident_part = {
	.name = "incidents",
	.life = { .reset = incident_reset, .leaves = incident_left },
	.step.leveled = incident_level,
	.move = { .begins = incident_moves,
		  .settled = incident_settled,
		  .passed = incident_passed,
		  .failed = incident_failed },
};
