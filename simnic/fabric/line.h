/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Long cables. A packet leaves at the line's rate, lies in the fabric for the line's delay, and is
 * then taken by the process that has its queue pair. Longer messages were cut into packets before
 * (device/requester.c).
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
	_Atomic uint32_t ready; /* 1: the payload is here (release, for its taker) */
	struct sn_pkt pkt;
	uint8_t payload[SN_LINE_PAYLOAD];
};

/* A line. Its lock protects every member that is not atomic. */
struct sn_line {
	_Atomic uint32_t active, on; /* has been set up; packets are sent by it now */
	_Atomic int32_t holder;	     /* process that holds the lock; 0: nobody */
	_Atomic uint64_t next_ns;    /* time of the next arrival; UINT64_MAX: none is under way */
	_Atomic uint64_t sent, lost, overflown, reordered, duplicated, oversized;
	struct sn_line_config config;
	uint64_t rate_bps; /* configured rate, as far as the NIC's speed allows */
	uint64_t n, free_ns, order;
	bool refused;	    /* the line refused a packet, which waits */
	uint64_t caught_ns; /* time of the batch in which the refused sender came back */
	uint32_t n_heap, n_free;
	uint32_t heap[SN_LINE_SLOTS], free[SN_LINE_SLOTS]; /* heap: by due_ns */
	uint64_t roomy[SN_LINE_SLOTS / 64]; /* bits of the slots that have room in /dev/shm */
	struct sn_line_slot slot[SN_LINE_SLOTS];
};

/*
 * The line of a packet's way: that of the sending NIC's cable, else of the receiving NIC's. NULL:
 * there is none.
 */
struct sn_line *sn_line_of(struct sn_fabric *fabric, const struct sn_pkt *pkt);
enum sn_line_way { SN_LINE_OUT = 1, SN_LINE_IN = 2, SN_LINE_BOTH = 3 };

/*
 * Sets directions of a NIC's cable. NULL: takes the line away. -ENOSPC: the fabric has no more
 * lines.
 */
int sn_line_set_way(struct sn_fabric *fabric, uint32_t host, uint32_t nic, enum sn_line_way way,
		    const struct sn_line_config *config);
void sn_line_speed_changed(struct sn_fabric *fabric, struct sn_nic *nic); /* speed.h */
int sn_line_set(struct sn_fabric *fabric, uint32_t host, uint32_t nic,
		const struct sn_line_config *config);
/*
 * Returns the number of copies that go on their way, into slots that the caller fills and makes
 * ready: 0 (lost), 1 or 2. -ENOBUFS: the line is busy, if may_wait; otherwise the packet queues,
 * or is lost.
 */
int sn_line_enter(struct sn_fabric *fabric, struct sn_line *line, uint64_t bytes, uint32_t proc,
		  uint64_t now_ns, bool may_wait, struct sn_line_slot *slots[2]);
/* Publishes the packet; wakes the process that has the queue pair. */
void sn_line_ready(struct sn_fabric *fabric, struct sn_line_slot *slot);
/*
 * Takes the next packet that has arrived for this process, or for nobody any more. To be given
 * back.
 */
struct sn_line_slot *sn_line_take(struct sn_fabric *fabric, uint32_t proc, uint64_t now_ns,
				  struct sn_line **line);
void sn_line_free(struct sn_fabric *fabric, struct sn_line *line, struct sn_line_slot *slot,
		  uint32_t proc);
uint64_t sn_line_next_ns(const struct sn_fabric *fabric); /* UINT64_MAX: none */

#endif
