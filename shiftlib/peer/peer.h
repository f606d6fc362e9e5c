/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Between peer.c, which talks to peers, and keys.c, which keeps memory keys in step with them. */
#ifndef SHIFTLIB_PEER_H
#define SHIFTLIB_PEER_H

#include "shiftlib/shell.h"

/* peer.c; lock held. Over some live paths, others each time. */
void sh_peer_send_any(struct sh_peer *peer, const void *buf, size_t length);

/* keys.c; lock held: our journal to the peer, its answer, its journal, its question. */
void sh_peer_send_keys(struct sh_peer *peer, uint64_t now);
void sh_peer_keys_acked(struct sh_peer *peer, uint32_t seq);
void sh_peer_keys_heard(struct sh_peer *peer, const struct sh_wire_record *record);
void sh_peer_keys_asked(struct sh_peer *peer, uint32_t seq);
void sh_peer_keys_back(struct sh_peer *peer); /* one that was silent is heard again */

#endif
