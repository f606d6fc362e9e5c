/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The paths of connections to their peers: which of them work, as the core is told. */
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/conn/turn.h"
#include "shiftlib/core/core.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reach.h"

/*
 * True if path k is up as seen from this side: its NIC is up, the peer's NIC k answers, and
 * there is room for memory and flushes.
 */
static bool paths_up(const struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	return qp->paths.routes[path] && sh_heartbeat_up(qp->paths.routes[path]) &&
	       (path == qp->active->path || (qp->paths.fits && sh_reach_covers(qp->ctx, path)));
}

static bool paths_steady(const struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	return qp->paths.routes[path] && sh_heartbeat_steady(qp->paths.routes[path]);
}

/* True if the NIC says that it can do less than the default NIC does. */
static bool paths_lesser(const struct sh_qp *qp, const struct sh_nic *nic)
{
	return nic->address.mtu < (uint8_t)qp->app.attr.path_mtu ||
	       !sh_fit_caps(&qp->init.cap, &nic->max);
}

/* Is anything known that would refuse a standby on another path? Then making one shows it. */
static bool paths_suspicious(const struct sh_qp *qp, uint8_t up) SH_LOCKED
{
	uint8_t k;

	for (k = 0; k < qp->paths.n; k++)
		if (k != qp->active->path && up >> k & 1 &&
		    (qp->carriers.refused || sh_pd_refuses(qp->pd, k) ||
		     paths_lesser(qp, qp->ctx->path[k]) || sh_tenant_doubt(qp, qp->ctx->path[k])))
			return true;
	return false;
}

/*
 * Would the core begin an ordered move at once, if it is told of this path? Where a standby is
 * made first, these come one after the other by themselves; and what is done for atomics alone
 * has no turns.
 */
static bool paths_asks(const struct sh_qp *qp, const struct sc_event *event, uint8_t k)
{
	const struct sc_conn *core = &qp->core;
	uint8_t bit = (uint8_t)(1u << k), told = qp->paths.steady & (uint8_t)~qp->paths.drained;

	if (core->standby.phase != SC_STANDBY_READY || (qp->paths.homed | core->paths.homed) & bit)
		return false;
	if (k == core->path)
		return event->drained & bit & (uint8_t)~qp->paths.drained;
	return core->standby.path == k &&
	       event->steady & (uint8_t)~event->drained & (uint8_t)~told & bit &&
	       (core->leader || qp->paths.drained & bit) &&
	       sc_order_rank(core->standby.order, k) <
		       sc_order_rank(core->standby.order, core->path);
}

/* Lets the core know of such paths what it knew before, until the connection has its turn. */
static void paths_wait(struct sh_qp *qp, struct sc_event *event) SH_LOCKED
{
	uint8_t k, asks = 0;

	if (qp->core.guarded && qp->core.move == SC_MOVE_NONE)
		for (k = 0; k < qp->paths.n; k++)
			asks |= (uint8_t)(paths_asks(qp, event, k) << k);
	if (!asks)
		sh_turn_waits_no_more(qp);
	if (!asks || sh_turn_take(qp))
		return;
	event->steady = (event->steady & (uint8_t)~asks) | (qp->paths.steady & asks);
	event->drained = (event->drained & (uint8_t)~asks) | (qp->paths.drained & asks);
}

void sh_paths_changed(struct sh_qp *qp)
{
	struct sc_event event = { .type = SC_EV_PATHS };
	uint8_t k;

	if (!qp->conn_id || !qp->peer)
		return;
	SH_PARTS_TELL(standby.paths, qp);
	event.default_dead = qp->ctx->nic->fatal || qp->ctx->nic->sick;
	for (k = 0; k < qp->paths.n; k++) {
		event.up |= (uint8_t)(paths_up(qp, k) << k);
		event.steady |= (uint8_t)(paths_steady(qp, k) << k);
		event.drained |= (uint8_t)(!!qp->ctx->path[k]->drained << k);
		event.well |= (uint8_t)(sh_nic_usable(qp->ctx->path[k]) << k);
	}
	paths_wait(qp, &event);
	event.homed =
		qp->paths.homed & (uint8_t)~event.drained & (uint8_t)((1u << qp->paths.n) - 1);
	event.cannot = event.homed ? qp->paths.cannot : 0;
	event.drained |= event.homed;
	event.suspicious = qp->core.config.lazy && paths_suspicious(qp, event.up);
	if ((!event.default_dead || qp->core.beyond) && event.up == qp->paths.up &&
	    event.steady == qp->paths.steady && event.drained == qp->paths.drained &&
	    event.homed == qp->core.paths.homed && event.cannot == qp->core.paths.cannot &&
	    event.suspicious == qp->core.suspicious && event.well == qp->core.paths.well)
		return;
	qp->paths.up = event.up;
	qp->paths.steady = event.steady;
	qp->paths.drained = event.drained;
	sh_log(SH_LOG_DEBUG, "QP 0x%06x: paths up 0x%x, steady 0x%x, drained 0x%x", qp->qp->qp_num,
	       qp->paths.up, qp->paths.steady, qp->paths.drained);
	sh_conn_event(qp, &event);
}

void sh_paths_changed_nic(const struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint8_t k;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (k = 0; k < qp->paths.n; k++)
			if (qp->ctx->path[k] == nic)
				sh_paths_changed(qp);
	sh_outbox_release();
}

bool sh_paths_held(const struct sh_qp *qp, struct sh_held_path *held)
{
	const struct sc_masks *peer = &qp->core.peer.paths;
	uint32_t order = qp->core.standby.order;
	uint8_t k, up = qp->paths.up & peer->up,
		   drained = qp->paths.drained | peer->drained | qp->core.paths.drained;
	uint8_t waits = up & (uint8_t)~drained & (uint8_t) ~(qp->paths.steady & peer->steady);

	if (!qp->conn_id || !qp->peer || !qp->core.peer.masks_known ||
	    qp->core.move == SC_MOVE_ENDED)
		return false;
	for (k = 0; k < qp->paths.n; k++) {
		if (!(waits >> k & 1) || !qp->paths.routes[k] ||
		    sc_order_rank(order, k) >= sc_order_rank(order, qp->core.path))
			continue;
		*held = (struct sh_held_path){
			.nic = qp->ctx->path[k],
			.falls = qp->paths.routes[k]->health.falls,
			.left_ns = sh_path_held_ns(&qp->paths.routes[k]->health, sh_now_ns()),
		};
		return true;
	}
	return false;
}

void sh_paths_changed_peer(const struct sh_peer *peer)
{
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->peer == peer)
			sh_paths_changed(qp);
	sh_outbox_release();
}

void sh_paths_use_peer(struct sh_qp *qp, struct sh_peer *peer)
{
	struct sh_peer *before = qp->peer;

	if (before == peer)
		return;
	if (qp->standby && qp->standby->keys_wait) { /* the answer would be the former peer's */
		qp->standby->keys_wait = false;
		before->keys_waiting--;
	}
	if (before) {
		SH_PARTS_TELL(life.leaves_peer, qp);
		sh_peer_leave(before);
	}
	qp->peer = peer;
	sp_keys_changed();
	if (peer) /* a connection that leaves asks for nothing more */
		sh_heartbeat_soon();
	if (peer)
		sh_peer_join(peer);
}

void sh_news_peer_path_opened(struct sh_peer *peer, const struct sh_peer_path *path)
{
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || qp->peer != peer)
			continue;
		sh_paths_changed(qp);
		SH_PARTS_TELL(standby.path_opened, qp);
		if (qp->paths.routes[qp->active->path] == path)
			sh_conn_simple(qp, SC_EV_PATH_UP, SC_REASON_NONE);
	}
	sh_outbox_release();
}

bool sh_news_peer_translates(const struct sh_peer *peer)
{
	struct sh_qp *qp;

	if (!sh_conns.away) /* asked at each registration: the list may be long */
		return false;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->conn_id && qp->peer == peer &&
		    (qp->active->epoch || qp->core.move != SC_MOVE_NONE))
			return true;
	return false;
}

/* Connections of this PD cannot go to that path: standbys there are lost. */
void sh_news_pd_lost_path(const struct sh_pd *pd, uint8_t path)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (qp->pd != pd || !qp->conn_id)
			continue;
		if (qp->standby && qp->standby->path == path)
			sh_conn_about(qp, SC_EV_STANDBY_LOST, SC_REASON_RESOURCE,
				      qp->standby->epoch);
		if (qp->core.config.lazy) /* the path is suspicious now */
			sh_paths_changed(qp);
	}
}
