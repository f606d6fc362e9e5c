/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Heartbeats: does the peer answer on a path? Of no connection in particular. Lock held. */
#ifndef SHIFTLIB_PEER_HEARTBEAT_H
#define SHIFTLIB_PEER_HEARTBEAT_H

#include "shiftlib/peer/peer.h"

void sh_heartbeat_soon(void); /* something has changed: the background thread looks at all paths */
void sh_heartbeat_begin(struct sh_peer_path *path); /* it is new */
bool sh_heartbeat_up(struct sh_peer_path *path);    /* now, for traffic */
bool sh_heartbeat_steady(struct sh_peer_path *path);
uint64_t
sh_heartbeat_next(void); /* when the background thread is to look, at all or at some; 0: never */
uint64_t sh_heartbeat_run(struct sh_peer_path *path,
			  uint64_t now); /* sends what is due; 0, or when again */
void sh_heartbeat_ping_heard(struct sh_peer_path *path, uint32_t seq);
void sh_heartbeat_pong_heard(struct sh_peer_path *path, uint32_t seq);

#endif
