/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Heartbeats: they show whether the peer answers on a path, for all connections. */
#ifndef SHIFTLIB_PEER_HEARTBEAT_H
#define SHIFTLIB_PEER_HEARTBEAT_H

#include "shiftlib/base/locked.h"
#include "shiftlib/peer/peer.h"

void sh_heartbeat_soon(void) SH_LOCKED; /* the background thread is to look at all paths */
void sh_heartbeat_begin(struct sh_peer_path *path) SH_LOCKED; /* the path is new */
bool sh_heartbeat_up(struct sh_peer_path *path) SH_LOCKED;    /* now, for traffic */
bool sh_heartbeat_steady(struct sh_peer_path *path) SH_LOCKED;
/* Next look of the background thread at paths; 0: never. */
uint64_t sh_heartbeat_next(void) SH_LOCKED;
uint64_t sh_heartbeat_run(struct sh_peer_path *path,
			  uint64_t now) SH_LOCKED; /* pings if due; 0, or the time to call again */
void sh_heartbeat_ping_heard(struct sh_peer_path *path, uint32_t seq) SH_LOCKED;
void sh_heartbeat_pong_heard(struct sh_peer_path *path, uint32_t seq) SH_LOCKED;

#endif
