/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets that were held back, each with its payload: they outlive their senders. */
#ifndef SIMNIC_FABRIC_HELD_H
#define SIMNIC_FABRIC_HELD_H

#include "simnic/fabric/packet.h"

struct sn_fabric;
struct sn_nic;

enum sn_held_state { SN_HELD_FREE, SN_HELD_BUSY, SN_HELD_KEPT };

struct sn_held {
	_Atomic uint32_t state; /* enum sn_held_state */
	_Atomic uint32_t proc;	/* process slot of the one that fills or empties it, while busy */
	_Atomic uint64_t order;
	struct sn_pkt pkt;
	uint8_t payload[SN_HELD_BYTES];
};

/* True if the NIC that a packet leaves holds the packet back now. */
bool sn_held_wanted(const struct sn_nic *nic, const struct sn_pkt *pkt);
/*
 * sn_held_begin() takes a slot to fill, payload included; NULL: the fabric keeps SN_MAX_HELD
 * already, or /dev/shm has no room. sn_held_end() publishes it. sn_held_take() hands out, oldest
 * first, packets that are free to go on to a QP of this process; packets whose QP nobody has are
 * lost on the way. After use: sn_held_free().
 */
struct sn_held *sn_held_begin(struct sn_fabric *fabric, uint32_t proc);
void sn_held_end(struct sn_fabric *fabric, struct sn_held *held);
struct sn_held *sn_held_take(struct sn_fabric *fabric, uint32_t proc);
void sn_held_free(struct sn_held *held);
/* Frees the slots that a process which died was filling or emptying. */
void sn_held_forget(struct sn_fabric *fabric, uint32_t proc);

#endif
