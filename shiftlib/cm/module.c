/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs of shift.h for librdmacm, and what of the shell they ask. */
#include <poll.h>
#include "shiftlib/base/table.h"
#include "shiftlib/cm/events.h"
#include "shiftlib/cm/module.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"

static uint64_t due_at;

static void cm_lock(void) SH_ACQUIRES
{
	sh_lock();
}

static void cm_unlock(void) SH_RELEASES
{
	sh_unlock();
}

static bool cm_knows(const struct ibv_qp *qp)
{
	return sh_table_get(&sh_objects.by_qp, qp) != NULL;
}

static enum sh_cm_standing cm_standing(const struct ibv_qp *real)
{
	const struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, real);

	if (!qp || !qp->conn_id || qp->level == SH_FOREIGN)
		return SH_CM_FOREIGN;
	if (qp->core.move == SC_MOVE_ENDED)
		return qp->core.peer.known ? SH_CM_ENDED : SH_CM_FOREIGN;
	return qp->counted.user == SH_USER_MASKED ? SH_CM_ALIVE : SH_CM_FOREIGN;
}

static bool cm_fault(const struct ibv_qp *real)
{
	const struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, real);

	if (!qp || !qp->conn_id)
		return false;
	return qp->active->epoch || !sh_nic_up(qp->ctx->nic) || !(qp->paths.up & 1);
}

static bool cm_readable(const struct rdma_event_channel *channel)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* Asks a peer soon. A peer without work is pinged seldom: now it matters whether it lives. */
static void cm_doubt(const struct ibv_qp *real, uint64_t until) SH_LOCKED
{
	const struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, real);

	if (!qp || !qp->peer || qp->peer->ask_until > until)
		return;
	qp->peer->ask_until = until;
	sh_heartbeat_soon();
}

static uint64_t cm_heard_at(const struct ibv_qp *real)
{
	const struct sh_qp *qp = sh_table_get(&sh_objects.by_qp, real);

	return qp && qp->peer ? qp->peer->heard_at : 0;
}

static void cm_wake_at(uint64_t at) SH_LOCKED
{
	due_at = sh_earlier_ns(due_at, at);
	sh_wake_at(due_at);
}

static void cm_thread_inside(void)
{
	sh.real->thread_inside();
}

static void cm_reset(void)
{
	const struct sh_cm_oracle oracle = {
		.lock = cm_lock,
		.unlock = cm_unlock,
		.knows = cm_knows,
		.standing = cm_standing,
		.doubt = cm_doubt,
		.heard_at = cm_heard_at,
		.fault = cm_fault,
		.wake_at = cm_wake_at,
		.thread_inside = cm_thread_inside,
		.readable = cm_readable,
		.patience_ns = SH_PATH_BEATS * sh.config.path.beat_ns,
	};

	due_at = 0;
	sh_cm_events_reset(&oracle);
}

static void cm_run(uint64_t now)
{
	if (due_at && due_at <= now)
		due_at = sh_cm_events_run(now);
}

static uint64_t cm_next_timer(void)
{
	return due_at;
}

const struct sh_module sh_cm_module = {
	.name = "cm", .reset = cm_reset, .run = cm_run, .next_timer = cm_next_timer
};

/* ---- news of conn/ --------------------------------------------------------------------------- */

void sh_news_conn_ended(const struct ibv_qp *real)
{
	sh_cm_events_ended(real);
}

void sh_news_qp_gone(const struct ibv_qp *real)
{
	sh_cm_events_qp_gone(real);
}

/* ---- verbs ----------------------------------------------------------------------------------- */

int shift_cm_get_event(const struct shift_cm_real *real, struct rdma_event_channel *channel,
		       struct rdma_cm_event **event)
{
	return sh_cm_events_get(real, channel, event);
}

int shift_cm_ack_event(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	return sh_cm_events_ack(real, event);
}

bool shift_cm_disconnects(struct rdma_cm_id *id)
{
	return sh_cm_events_disconnect(id);
}

int shift_cm_destroy_id(const struct shift_cm_real *real, struct rdma_cm_id *id)
{
	return sh_cm_events_destroy(real, id);
}

int shift_cm_migrate_id(const struct shift_cm_real *real, struct rdma_cm_id *id,
			struct rdma_event_channel *channel)
{
	return sh_cm_events_migrate(real, id, channel);
}
