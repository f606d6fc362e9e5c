/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Heartbeats over control paths. The rules are those of core/path_health.c. */
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
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

void sh_heartbeat_begin(struct sh_peer_path *path)
{
	sh_path_init(&path->health, &sh.config.path, (uint32_t)sh_random_u64());
	sh_heartbeat_soon();
}

/* What it is sent over may have gone or come since it was asked last. */
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

static void heartbeat_send(struct sh_peer_path *path, enum sh_wire_type type, uint32_t seq)
{
	struct sh_wire_ping ping = { .seq = seq, .nic = path->nic->index };
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, path->peer->instance);
	if (type == SH_WIRE_PING)
		sh_wire_put_ping(&writer, &ping);
	else
		sh_wire_put_pong(&writer, &ping);
	sh_peer_send(path, buf, sh_wire_end(&writer));
}

void sh_heartbeat_ping(struct sh_peer_path *path, uint32_t seq)
{
	heartbeat_send(path, SH_WIRE_PING, seq);
}

void sh_heartbeat_ping_heard(struct sh_peer_path *path, uint32_t seq)
{
	heartbeat_send(path, SH_WIRE_PONG, seq);
	sh_path_heard(&path->health, sh_now_ns());
	if (!sh_path_up(&path->health))
		sh_heartbeat_soon();
}

void sh_heartbeat_pong_heard(struct sh_peer_path *path, uint32_t seq)
{
	if (!sh_path_pong(&path->health, seq, sh_now_ns()))
		return;
	sh_log(SH_LOG_DEBUG, "%s: the peer's NIC %u answers", path->nic->name, path->remote_nic);
	sh_heartbeat_soon();
}
