/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys: what is told of ours, and what peers have said. Lock held. */
#ifndef SHIFTLIB_KEYS_H
#define SHIFTLIB_KEYS_H

#include "shiftlib/peer/peer.h"

struct sh_mr;

void sh_peer_ask_keys(struct sh_peer *peer);
struct sh_keymap *sh_peer_rkeys(struct sh_peer *peer, uint8_t nic, uint8_t replica);
void sh_key_add(struct sh_mr *mr, uint8_t path);
void sh_key_remove(struct sh_mr *mr, uint8_t path);
uint32_t sh_keys_last(void); /* number of the last entry of the journal */
/* Behind the registration of a key that another region may have had. Lock given up meanwhile. */
void sh_key_wait(uint32_t rkey);

/* Between peer.c and keys.c: our journal to the peer, its answer, its journal, its question. */
void sh_peer_send_keys(struct sh_peer *peer, uint64_t now);
void sh_peer_keys_acked(struct sh_peer *peer, uint32_t seq);
void sh_peer_keys_heard(struct sh_peer *peer, const struct sh_wire_record *record);
void sh_peer_keys_asked(struct sh_peer *peer, uint32_t seq);
void sh_peer_keys_back(struct sh_peer *peer); /* one that was silent is heard again */

#endif
