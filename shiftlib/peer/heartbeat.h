/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Heartbeats: they show whether the peer answers on a path, for all connections. Lock held. */
#ifndef SHIFTLIB_PEER_HEARTBEAT_H
#define SHIFTLIB_PEER_HEARTBEAT_H

#include "shiftlib/peer/peer.h"

void sh_heartbeat_soon(void); /* the background thread is to look at all paths */
void sh_heartbeat_begin(struct sh_peer_path *path); /* the path is new */
bool sh_heartbeat_up(struct sh_peer_path *path);    /* now, for traffic */
bool sh_heartbeat_steady(struct sh_peer_path *path);
uint64_t sh_heartbeat_next(void); /* next look of the background thread at paths; 0: never */
uint64_t sh_heartbeat_run(struct sh_peer_path *path,
			  uint64_t now); /* pings if due; 0, or the time to call again */
void sh_heartbeat_ping_heard(struct sh_peer_path *path, uint32_t seq);
void sh_heartbeat_pong_heard(struct sh_peer_path *path, uint32_t seq);

#endif
