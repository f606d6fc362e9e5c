/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths whose peer does not answer, without an event. The rules are those of core/path_health.c and
 * core/silence.c; here they meet the connections.
 */
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/conn/watch/detector.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/nic_hangs.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/path_health.h"
#include "shiftlib/core/silence.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

#define DETECTOR_UNTOLD_NS (2 * SH_NS_PER_S)
#define DETECTOR_ASK_BEATS 12 /* so long a doubt is looked into */

#define DETECTOR_CONGESTED_BEATS 20 /* heartbeats that a path has whose NIC counts gaps */

#define DETECTOR_LOOKS 4 /* looks at connections of a path, until one shows that the path works */

static struct {
	bool silent;	 /* some path was, when connections were gone through the last time */
	bool silent_now; /* some path is, or was since the last look */
	bool working;	 /* some connection sends or moves */
} detector;

/* ---- who needs which path ------------------------------------------------------------------- */

/*
 * True if the connection needs the path. Without a standby, any other path may have to tell
 * whether the peer is well.
 */
static bool detector_concerns(const struct sh_qp *qp, uint32_t path)
{
	return qp->paths.routes[path] &&
	       (!qp->standby || path == qp->active->path || path == qp->standby->path);
}

static void detector_need_of(struct sh_qp *qp)
{
	uint32_t k;

	for (k = 0; k < qp->paths.n; k++)
		if (detector_concerns(qp, k))
			qp->paths.routes[k]->look.need = SH_PATH_BUSY;
}

static bool detector_looked(const struct sh_peer_path *path)
{
	return path->look.work == SH_PATH_COMPLETES || path->look.looks == DETECTOR_LOOKS;
}

/* Others' work has said so of all its paths: of thousands, few rings are looked into. */
static bool detector_known(const struct sh_qp *qp)
{
	const struct sh_peer_path *path = qp->paths.routes[qp->active->path];
	uint32_t k;

	for (k = 0; k < qp->paths.n; k++)
		if (detector_concerns(qp, k) && qp->paths.routes[k]->look.need != SH_PATH_BUSY)
			return false;
	return !path || detector_looked(path);
}

static bool detector_works(const struct sh_qp *qp)
{
	return qp->conn_id && qp->peer && qp->core.guarded && qp->core.move != SC_MOVE_ENDED;
}

/*
 * A program that ends its work with requests that are not signaled is not told of their end, and
 * neither are we: after a while they count as complete.
 */
static bool detector_sending(struct sh_qp *qp, uint64_t now)
{
	uint32_t number = qp->detector.untold.number;
	enum sp_sending sending = sp_qp_sending(qp->sp, &number);

	if (number != qp->detector.untold.number)
		qp->detector.untold.since = now;
	qp->detector.untold.number = number;
	return sending == SP_SENDING_AWAITED ||
	       (sending == SP_SENDING_UNTOLD &&
		now - qp->detector.untold.since < DETECTOR_UNTOLD_NS);
}

static bool detector_more(const struct sp_sent *mark, const struct sp_sent *sent)
{
	return (mark->posted_known && (int32_t)(sent->done - mark->posted) > 0) ||
	       (mark->done_known && (int32_t)(sent->done - mark->done) > 0);
}

static bool detector_completes(struct sh_qp *qp, uint64_t now)
{
	uint64_t age = now - qp->detector.mark.at, beat = sh.config.path.beat_ns;
	struct sp_sent sent;
	bool completes;

	sp_qp_sent(qp->sp, &sent);
	completes = qp->detector.mark.epoch == qp->active->epoch && age < beat + beat / 2 &&
		    detector_more(&qp->detector.mark.sent, &sent);
	if (completes || age >= beat) {
		qp->detector.mark.sent = sent;
		qp->detector.mark.epoch = qp->active->epoch;
		qp->detector.mark.at = now;
	}
	return completes;
}

static void detector_work_of(struct sh_qp *qp, uint64_t now)
{
	struct sh_peer_path *path = qp->paths.routes[qp->active->path];

	detector_need_of(qp);
	if (!path || detector_looked(path))
		return;
	path->look.looks++;
	path->look.work = qp->core.move == SC_MOVE_NONE && detector_completes(qp, now)
				  ? SH_PATH_COMPLETES
				  : SH_PATH_WORKS;
}

static enum sh_path_need detector_need_without_work(const struct sh_peer *peer, uint64_t now)
{
	if (!peer->conns)
		return SH_PATH_UNUSED;
	return peer->ask_until > now ? SH_PATH_BUSY : SH_PATH_IDLE;
}

/* True: some connection can be moved, so that work must be looked for. */
static bool detector_needs(uint64_t now)
{
	struct sh_peer *peer;
	struct sh_qp *qp;
	bool any = false;
	uint32_t i;

	detector.working = false;
	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		for (i = 0; i < peer->n_paths; i++) {
			memset(&peer->paths[i]->look, 0, sizeof(peer->paths[i]->look));
			peer->paths[i]->look.need = detector_need_without_work(peer, now);
		}
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!detector_works(qp))
			continue;
		any = true;
		detector.working |= qp->core.move != SC_MOVE_NONE;
		if (!detector_known(qp) && detector_sending(qp, now)) {
			detector.working = true;
			detector_work_of(qp, now);
		}
	}
	return any;
}

/* ---- nothing to detect ---------------------------------------------------------------------- */

/* Has the next post of each connection told. False: one of them is at work. */
static bool detector_arm(uint64_t now) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (detector_works(qp) &&
		    (detector_sending(qp, now) || !sp_qp_tell(qp->sp, qp->detector.untold.number)))
			return false;
	return true;
}

static bool detector_peers_calm(uint64_t now)
{
	struct sh_peer *peer;
	uint32_t i;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link) {
		if (peer->ask_until > now)
			return false;
		for (i = 0; i < peer->n_paths; i++)
			if (sh_path_suspect(&peer->paths[i]->health))
				return false;
	}
	return true;
}

/* True if neither work, nor a doubt, nor a command is under way. */
static bool detector_calm(uint64_t now) SH_LOCKED
{
	return !detector.working && !sh_conns.unknown && !sh_conns.roomless &&
	       !sh_conns.n_suspects && detector_peers_calm(now) && sh_nic_hangs_calm();
}

/* ---- silence -------------------------------------------------------------------------------- */

/* So long a silence may be congestion, for all that the port's counters say; then no more. */
static bool detector_may_be_congested(const struct sh_peer_path *path, uint64_t now)
{
	return now - path->health.silent_since <
	       DETECTOR_CONGESTED_BEATS * path->health.config->beat_ns;
}

/* Where a queue overflows, packets come through, and no ping for a while: it is given more time. */
static bool detector_congested(const struct sh_peer_path *path, uint64_t now) SH_LOCKED
{
	return detector_may_be_congested(path, now) && sh_gray_gaps(path->nic, now);
}

static bool detector_lost(const struct sh_peer *peer, const struct sh_peer_path *path,
			  uint64_t now) SH_LOCKED
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		if (peer->paths[i] != path &&
		    sh_path_lost(&path->health, &peer->paths[i]->health, now))
			return !detector_congested(path, now);
	return false;
}

/* Carriers that no work shows to be alive are given up with their path. */
static void detector_path_lost(struct sh_peer *peer, struct sh_peer_path *path,
			       uint64_t now) SH_LOCKED
{
	struct sh_carrier *carrier;
	struct sh_qp *qp;
	uint32_t i;

	sh_path_fall(&path->health, now);
	sh_blame_lost(path);
	sh_outbox_hold();
	sh_paths_changed_peer(peer);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!detector_works(qp) || qp->peer != peer)
			continue;
		for (i = 0; i < SH_MAX_CARRIERS; i++) {
			carrier = sh_carrier_at(qp, i);
			if (carrier->nic && carrier != qp->active &&
			    qp->paths.routes[carrier->path] == path)
				sh_carrier_fault(qp, carrier, SC_REASON_SILENCE);
		}
	}
	sh_outbox_release();
}

/* Else a path that passes heartbeats but not the work would take its connections back for ever. */
static void detector_blame(struct sh_qp *qp, uint32_t epoch) SH_LOCKED
{
	struct sh_peer_path *path = qp->active ? qp->paths.routes[qp->active->path] : NULL;

	if (!path || qp->active->epoch != epoch || qp->core.move != SC_MOVE_NONE)
		return;
	sh_path_blame(&path->health, sh_now_ns());
	sh_paths_changed_peer(qp->peer);
	sh_heartbeat_soon(); /* the hold-down has an end */
}

static uint64_t detector_completions(struct sh_qp *qp) SH_LOCKED
{
	(void)sh_carriers_collect(qp);
	return sp_qp_progressed(qp->sp);
}

static bool detector_silent(const struct sh_peer_path *path)
{
	return path && path->health.state != SH_PATH_OFF &&
	       (!sh_path_up(&path->health) || sh_path_suspect(&path->health));
}

/* Heartbeats may be lost alone. Only both together mean that the path is dead. */
static void detector_progress(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	struct sh_peer_path *path = qp->paths.routes[qp->active->path];
	uint64_t completions;

	if (!detector_silent(path)) {
		sh_silence_over(&qp->detector.silence);
		return;
	}
	if (sh_conn_hands_off(qp))
		return; /* the completions are somebody else's to take */
	completions = detector_completions(qp);
	if (sh_silence_stands(&qp->detector.silence, completions, now) &&
	    !sh_path_up(&path->health) && detector_sending(qp, now) &&
	    sh_silence_dead(&qp->detector.silence, sh.config.path.loss_ns / 2, now))
		sh_carrier_fault(qp, qp->active, SC_REASON_SILENCE);
}

static bool detector_any_silent(const struct sh_peer *peer)
{
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++)
		if (detector_silent(peer->paths[i]))
			return true;
	return false;
}

/* Connections are only gone through while a path is in doubt, and once when none is any more. */
static void detector_qps(bool silent, uint64_t now) SH_LOCKED
{
	bool before = detector.silent;
	struct sh_qp *qp;

	detector.silent = silent;
	if (!silent && !before)
		return;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (detector_works(qp) && qp->core.move == SC_MOVE_NONE)
			detector_progress(qp, now);
}

/* ---- darkness ------------------------------------------------------------------------------- */

/* 0: a path answers. What this process slept through was not the peer's silence. */
static uint64_t detector_dark_since(const struct sh_peer *peer) SH_LOCKED
{
	uint64_t since = peer->n_paths ? sh_starved_last() : 0, path;
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++) {
		path = sh_path_dark_since(&peer->paths[i]->health);
		if (!path)
			return 0;
		since = path > since ? path : since;
	}
	return since;
}

static void detector_tell_dark(struct sh_peer *peer, uint64_t since, uint64_t now) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_DARK,
				  .ok = since,
				  .silent_ns = since && since < now ? now - since : 0 };
	struct sh_qp *qp;

	peer->dark_at = since ? now : 0;
	sh_asleep_end();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->peer == peer && detector_works(qp))
			sh_conn_event(qp, &event);
}

/*
 * Tells connections that their peer is dark, or no more. Darkness lasts until a word of the
 * peer's comes: without work, paths are asked too rarely to tell.
 */
static void detector_darkness(struct sh_peer *peer, uint64_t now) SH_LOCKED
{
	uint64_t since;

	if (peer->dark_at) {
		if (peer->heard_at > peer->dark_at)
			detector_tell_dark(peer, 0, now);
		return;
	}
	since = detector_dark_since(peer);
	if (since)
		detector_tell_dark(peer, since, now);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t detector_path(struct sh_peer *peer, struct sh_peer_path *path, uint64_t now,
			      bool *changed) SH_LOCKED
{
	uint64_t again;
	bool steady;

	sh_heartbeat_up(path);
	if (!peer->conns)
		sh_path_set_need(&path->health, SH_PATH_UNUSED, now);
	again = sh_heartbeat_run(path, now);
	if (sh_path_doubted(&path->health, now)) {
		peer->ask_until = now + DETECTOR_ASK_BEATS * sh.config.path.beat_ns;
		sh_heartbeat_soon();
	}
	if (sh_path_suspect(&path->health) && detector_may_be_congested(path, now))
		sh_gray_peek(path->nic, now);
	if (detector_lost(peer, path, now))
		detector_path_lost(peer, path, now);
	steady = sh_path_steady(&path->health, now);
	*changed |= path->told_up != sh_path_up(&path->health) || path->told_steady != steady;
	path->told_up = sh_path_up(&path->health);
	path->told_steady = steady;
	return sh_earlier_ns(again, sh_path_next(&path->health, now));
}

/*
 * Tells paths what is needed of them. While a peer is asked because of a doubt, each of its
 * paths has to answer itself.
 */
static void detector_tell_paths(struct sh_peer *peer, uint64_t now) SH_LOCKED
{
	struct sh_path_health *paths[SH_MAX_PEER_PATHS];
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++) {
		sh_heartbeat_up(peer->paths[i]);
		paths[i] = &peer->paths[i]->health;
		sh_path_set_need(paths[i], peer->paths[i]->look.need, now);
		sh_path_set_work(paths[i], peer->paths[i]->look.work, now);
	}
	if (peer->ask_until <= now)
		sh_paths_spare(paths, i, now);
	else
		sh_peers.beat_at = sh_earlier_ns(sh_peers.beat_at, peer->ask_until);
}

/* A NIC that has pings and sends none says nothing of the path. */
static bool detector_held(const struct sh_peer_path *path, uint64_t now)
{
	uint64_t since = sh_control_waiting_since(path->nic->control);

	return since && now - since >= sh.config.path.beat_ns / SH_NIC_HELD_PART;
}

static void detector_paths_together(struct sh_peer *peer, uint64_t now)
{
	struct sh_path_health *paths[SH_MAX_PEER_PATHS];
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++) {
		paths[i] = &peer->paths[i]->health;
		if (paths[i]->missed && detector_held(peer->paths[i], now))
			sh_path_held(paths[i], now);
	}
	sh_paths_join(paths, i, now);
	sh_paths_hurry(paths, i);
}

static uint64_t detector_peer(struct sh_peer *peer, uint64_t now) SH_LOCKED
{
	uint64_t next = 0;
	bool changed = false;
	uint32_t i;

	detector_paths_together(peer, now);
	for (i = 0; i < peer->n_paths; i++)
		next = sh_earlier_ns(next, detector_path(peer, peer->paths[i], now, &changed));
	if (changed) {
		sh_paths_changed_peer(peer);
		sh_blame_update();
		sh_asleep_end();
	}
	detector_darkness(peer, now);
	return next;
}

static void detector_check(uint64_t now) SH_LOCKED
{
	struct sh_peer *peer;

	sh_peers.beat_at = detector_needs(now) ? now + sh.config.path.beat_ns / SH_PATH_LOOKS : 0;
	sh_asleep_judge(sh_peers.beat_at && detector_calm(now), detector_arm, now);
	if (sh_asleep())
		sh_peers.beat_at = sh_rare_next(now);
	detector.silent_now = false;
	list_for_each (&sh_peers.list, peer, struct sh_peer, link) {
		detector_tell_paths(peer, now);
		sh_timer_set(&sh_peers.beats, &peer->beat, now);
	}
}

static void detector_peers(uint64_t now) SH_LOCKED
{
	struct sh_timer *first;
	struct sh_peer *peer;
	uint64_t next;

	while ((first = sh_timers_first(&sh_peers.beats)) && first->at <= now) {
		peer = list_entry(first, struct sh_peer, beat);
		next = detector_peer(peer, now);
		sh_timer_set(&sh_peers.beats, first, next && next <= now ? now + 1 : next);
		detector.silent_now |= detector_any_silent(peer);
	}
}

static uint64_t detector_next_timer(void) SH_LOCKED
{
	return sh_earlier_ns(sh_heartbeat_next(), sh_nic_hangs_next());
}

/* All peers at a look; between two of them, those that something is due for. */
static void detector_run(uint64_t now) SH_LOCKED
{
	uint64_t at = detector_next_timer();

	if (!at || at > now)
		return;
	if (sh_peers.beat_at && sh_peers.beat_at <= now)
		detector_check(now);
	detector_peers(now);
	detector_qps(detector.silent_now, now);
	sh_nic_hangs_look();
}

static void detector_reset(void)
{
	memset(&detector, 0, sizeof(detector));
	sh_nic_hangs_reset();
}

const struct sh_module sh_detector_module = {
	.name = "detector",
	.reset = detector_reset,
	.run = detector_run,
	.next_timer = detector_next_timer,
};

const struct sh_conn_part sh_detector_part = {
	.name = "detector",
	.news.blamed = detector_blame,
};
