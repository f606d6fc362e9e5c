/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Long cables. A packet leaves at the line's rate, lies in the fabric for the line's delay, and is then taken by the process that has
 * its queue pair. What is longer than a packet was cut into packets before (device/requester.c).
 */
#ifndef SIMNIC_FABRIC_LINE_H
#define SIMNIC_FABRIC_LINE_H

#include "simnic/fabric/loss.h"
#include "simnic/fabric/packet.h"

#define SN_LINES	16
#define SN_LINE_SLOTS	4096
#define SN_LINE_PAYLOAD 4096

struct sn_fabric;
struct sn_nic;

struct sn_line_config {
	uint64_t rate_bps; /* 0: no limit */
	uint64_t delay_ns, reorder_ns;
	uint64_t queue; /* bytes that may wait; more get lost. 0: the sender waits */
	struct sn_loss loss;
};

struct sn_line_slot {
	uint64_t due_ns, order;
	_Atomic uint32_t ready; /* its payload is here: release, for who takes it */
	struct sn_pkt pkt;
	uint8_t payload[SN_LINE_PAYLOAD];
};

/* Its lock protects all but what is atomic. */
struct sn_line {
	_Atomic uint32_t active, on; /* has been set up; packets are sent by it now */
	_Atomic int32_t holder;	     /* of the lock: its process; 0: nobody */
	_Atomic uint64_t next_ns;    /* when the first arrives; UINT64_MAX: none is under way */
	_Atomic uint64_t sent, lost, overflown, reordered, duplicated, oversized;
	struct sn_line_config config;
	uint64_t rate_bps; /* of the configured one, as much as the NIC's speed leaves */
	uint64_t n, free_ns, order;
	bool refused;	    /* a packet, which waits for the line */
	uint64_t caught_ns; /* of the sender that brought it then: the batch that it belongs to */
	uint32_t n_heap, n_free;
	uint32_t heap[SN_LINE_SLOTS], free[SN_LINE_SLOTS]; /* heap: by due_ns */
	struct sn_line_slot slot[SN_LINE_SLOTS];
};

/* The line of a packet's way: that of the sending NIC's cable, else of the receiving one's. NULL: there is none. */
struct sn_line *sn_line_of(struct sn_fabric *fabric, const struct sn_pkt *pkt);
enum sn_line_way { SN_LINE_OUT = 1, SN_LINE_IN = 2, SN_LINE_BOTH = 3 };

/* Directions of a NIC's cable. NULL: without a line again. -ENOSPC: the fabric has no more of them. */
int sn_line_set_way(struct sn_fabric *fabric, uint32_t host, uint32_t nic, enum sn_line_way way,
		    const struct sn_line_config *config);
void sn_line_speed_changed(struct sn_fabric *fabric, struct sn_nic *nic); /* speed.h */
int sn_line_set(struct sn_fabric *fabric, uint32_t host, uint32_t nic,
		const struct sn_line_config *config);
/*
 * How many copies go on their way, into slots that the caller fills and makes ready: 0 (lost), 1 or 2. -ENOBUFS: the line is busy,
 * if may_wait; else it queues, or is lost.
 */
int sn_line_enter(struct sn_fabric *fabric, struct sn_line *line, uint64_t bytes, uint32_t proc,
		  uint64_t now_ns, bool may_wait, struct sn_line_slot *slots[2]);
/* Now it can be taken; whoever has the queue pair is woken. */
void sn_line_ready(struct sn_fabric *fabric, struct sn_line_slot *slot);
/* The next that has arrived for this process, or for nobody any more. To be given back. */
struct sn_line_slot *sn_line_take(struct sn_fabric *fabric, uint32_t proc, uint64_t now_ns,
				  struct sn_line **line);
void sn_line_free(struct sn_fabric *fabric, struct sn_line *line, struct sn_line_slot *slot,
		  uint32_t proc);
uint64_t sn_line_next_ns(const struct sn_fabric *fabric); /* UINT64_MAX: none */

#endif
