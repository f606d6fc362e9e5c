/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Heartbeats over control paths. The rules are those of core/path_health.c. */
#include <errno.h>
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/path_health.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/peer.h"

void sh_heartbeat_soon(void)
{
	sh_peers.beat_at = 1;
}

uint64_t sh_heartbeat_next(void)
{
	const struct sh_timer *first = sh_timers_first(&sh_peers.beats);

	return sh_earlier_ns(sh_peers.beat_at, first ? first->at : 0);
}

static void heartbeat_at(struct sh_peer *peer, uint64_t at)
{
	sh_timer_set(&sh_peers.beats, &peer->beat, sh_earlier_ns(peer->beat.at, at));
}

void sh_heartbeat_begin(struct sh_peer_path *path)
{
	sh_path_init(&path->health, &sh.config.path, (uint32_t)sh_random_u64());
	sh_heartbeat_soon();
}

/*
 * Tells whether the path is up now: its NIC or path may have gone or come since the last question.
 */
bool sh_heartbeat_up(struct sh_peer_path *path)
{
	enum sh_path_state before = path->health.state;

	sh_path_enable(&path->health, path->path && sh_nic_up(path->nic), sh_now_ns());
	if (path->health.state != before)
		sh_heartbeat_soon();
	return sh_path_up(&path->health);
}

bool sh_heartbeat_steady(struct sh_peer_path *path)
{
	return sh_path_steady(&path->health, sh_now_ns());
}

/* True if the ring does not move: a ping that waits for room is then as good as one in the ring. */
static bool heartbeat_stuck(const struct sh_peer_path *path)
{
	uint64_t since = sh_control_waiting_since(path->nic->control);

	return since && sh_now_ns() >= since + sh.config.path.beat_ns;
}

/* Sends a ping or pong. False: there was no room, and will be. */
static bool heartbeat_send(struct sh_peer_path *path, enum sh_wire_type type, uint32_t seq)
{
	struct sh_wire_ping ping = { .seq = seq, .nic = path->nic->index };
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, path->peer->instance);
	if (type == SH_WIRE_PING)
		sh_wire_put_ping(&writer, &ping);
	else
		sh_wire_put_pong(&writer, &ping);
	return sh_peer_send(path, buf, sh_wire_end(&writer)) != -EAGAIN || heartbeat_stuck(path);
}

static void heartbeat_ping(struct sh_peer_path *path, uint64_t now)
{
	uint32_t seq;

	if (sh_path_ping(&path->health, now, &seq) && !heartbeat_send(path, SH_WIRE_PING, seq))
		sh_path_unsent(&path->health, now);
}

static void heartbeat_pong(struct sh_peer_path *path, uint64_t now)
{
	path->pong_owed = !heartbeat_send(path, SH_WIRE_PONG, path->pong_seq);
	if (path->pong_owed)
		heartbeat_at(path->peer, now + SH_PATH_RETRY_NS);
}

uint64_t sh_heartbeat_run(struct sh_peer_path *path, uint64_t now)
{
	if (path->pong_owed)
		heartbeat_pong(path, now);
	heartbeat_ping(path, now);
	return path->pong_owed ? now + SH_PATH_RETRY_NS : 0;
}

void sh_heartbeat_ping_heard(struct sh_peer_path *path, uint32_t seq)
{
	uint64_t now = sh_now_ns();

	path->pong_seq = seq;
	heartbeat_pong(path, now);
	sh_path_heard(&path->health, now);
	sh_path_join(&path->health, now);
	heartbeat_at(path->peer, sh_path_next(&path->health, now));
	if (!sh_path_up(&path->health))
		sh_heartbeat_soon();
}

void sh_heartbeat_pong_heard(struct sh_peer_path *path, uint32_t seq)
{
	uint64_t now = sh_now_ns(), trip_ns = sh_path_trip_ns(&path->health, seq, now);

	if (trip_ns) {
		sh_gray_trip_add(&path->trip, trip_ns);
		sh_slow_path_add(&path->slow, trip_ns);
	}
	if (!sh_path_pong(&path->health, seq, now))
		return;
	sh_log(SH_LOG_DEBUG, "%s: the peer's NIC %u answers", path->nic->name, path->remote_nic);
	sh_heartbeat_soon();
}
