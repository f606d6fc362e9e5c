/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Staging: where a sender keeps the payload of READ responses and datagrams until the receiver has
 * fetched it. Lock held.
 */
#ifndef SIMNIC_DEVICE_STAGE_H
#define SIMNIC_DEVICE_STAGE_H

#include <sys/uio.h>

#include "simnic/fabric/packet.h"

#define SN_STAGE_BYTES (128 * 1024)

/* The slots of one kind that this process hands out. */
struct sn_stage {
	uint8_t *arena; /* NULL: of datagrams, in the fabric; or not made yet */
	uint64_t ticket;
	uint32_t hint;
	uint64_t taken_ns[SN_BOUNCE_SLOTS], last_ns; /* last: of any */
};

/*
 * Puts payload up to SN_STAGE_BYTES into the packet when small, else into a slot. -EAGAIN: no slot
 * is free now; -ENOSPC: a datagram gets none.
 */
int sn_stage_put(struct sn_pkt *pkt, const struct iovec *src, uint32_t n_src, uint64_t bytes);
/*
 * Finds a packet's payload in its sender's memory, or in the fabric; returns the number of pieces.
 */
uint32_t sn_stage_source(const struct sn_pkt *pkt, struct iovec *src);
/* Checks that the slot was the packet's until its last byte was read. 0, or -ESTALE. */
int sn_stage_check(const struct sn_pkt *pkt);
/* Frees the slot that the packet holds, if any. */
void sn_stage_release(const struct sn_pkt *pkt);

#endif
