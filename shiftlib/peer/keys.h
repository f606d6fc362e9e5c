/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys: the journal of ours, and those that peers have told. */
#ifndef SHIFTLIB_PEER_KEYS_H
#define SHIFTLIB_PEER_KEYS_H

#include "shiftlib/base/locked.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/peer/peer.h"

/* Write our journal: a region's key has got, or has lost, one on another NIC (op). */
void sh_keys_add(const struct sh_wire_key *key) SH_LOCKED;
void sh_keys_remove(const struct sh_wire_key *key)
	SH_LOCKED;		       /* while sh_news_keys_live() still names the key */
uint32_t sh_keys_last(void) SH_LOCKED; /* number of the last entry of the journal */
/* Waits after the registration of a key that another region may have had. */
void sh_keys_wait(uint32_t rkey) SH_DROPS;
void sh_keys_ask(struct sh_peer *peer) SH_LOCKED; /* asks the peer for its journal */

/* Send our journal to the peer; take its answer, its journal, its question. */
void sh_keys_send(struct sh_peer *peer, uint64_t now) SH_LOCKED;
void sh_keys_acked(struct sh_peer *peer, uint32_t seq) SH_LOCKED;
void sh_keys_heard(struct sh_peer *peer, const struct sh_wire_record *record) SH_LOCKED;
void sh_keys_asked(struct sh_peer *peer, uint32_t seq) SH_LOCKED;
void sh_keys_back(struct sh_peer *peer) SH_LOCKED; /* a silent peer was heard again */

#endif
