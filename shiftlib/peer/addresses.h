/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The addresses of NICs, told to peers and heard of them. */
#ifndef SHIFTLIB_PEER_ADDRESSES_H
#define SHIFTLIB_PEER_ADDRESSES_H

#include "shiftlib/base/locked.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/peer/peer.h"

/* Compares revisions, which wrap. */
static inline bool sh_revision_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* Unless the peer knows all. */
void sh_addresses_send(struct sh_peer *peer, uint64_t now) SH_LOCKED;
void sh_addresses_acked(struct sh_peer *peer, uint32_t revision) SH_LOCKED;
void sh_addresses_heard(struct sh_peer *peer, const struct sh_wire_record *record) SH_LOCKED;

#endif
