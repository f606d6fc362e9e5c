/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Late packets. While a NIC holds requests or acknowledgements back, what leaves it is copied into
 * the fabric, payload and all, so that it arrives even if its sender is gone by then. The device
 * thread that has the destination's QP at that time takes it from here.
 */
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/held.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/room.h"

static uint32_t get(const _Atomic uint32_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

bool sn_held_wanted(const struct sn_nic *nic, const struct sn_pkt *pkt)
{
	if (sn_pkt_is_datagram(pkt->op) || pkt->op == SN_PKT_CM ||
	    (pkt->src_host == pkt->dst_host && pkt->src_nic == pkt->dst_nic))
		return false;
	return sn_pkt_is_response(pkt->op) ? get(&nic->fault.hold_acks)
					   : get(&nic->fault.hold_requests);
}

/* Room for a slot that nobody has touched before. */
static bool slot_make(struct sn_fabric *fabric, uint32_t slot)
{
	return !sn_room_grow(fabric, &fabric->held_slots, slot, &fabric->held[slot],
			     sizeof(fabric->held[slot]));
}

struct sn_held *sn_held_begin(struct sn_fabric *fabric, uint32_t proc)
{
	for (uint32_t i = 0; i < SN_MAX_HELD && slot_make(fabric, i); i++) {
		uint32_t expected = SN_HELD_FREE;

		if (!atomic_compare_exchange_strong(&fabric->held[i].state, &expected,
						    SN_HELD_BUSY))
			continue;
		atomic_store(&fabric->held[i].proc, proc);
		return &fabric->held[i];
	}
	return NULL;
}

void sn_held_end(struct sn_fabric *fabric, struct sn_held *held)
{
	const struct sn_pkt *pkt = &held->pkt;

	atomic_fetch_add_explicit(&fabric->nic[pkt->src_host][pkt->src_nic].count.held, 1,
				  memory_order_relaxed);
	atomic_store(&held->order, atomic_fetch_add(&fabric->held_order, 1));
	atomic_fetch_add(&fabric->n_held, 1);
	/* Release: who sees KEPT sees the packet. */
	atomic_store_explicit(&held->state, SN_HELD_KEPT, memory_order_release);
}

void sn_held_free(struct sn_held *held)
{
	atomic_store_explicit(&held->state, SN_HELD_FREE, memory_order_release);
}

/* The process that has its QP now; -1: nobody. */
static int owner_of(const struct sn_fabric *fabric, const struct sn_pkt *pkt)
{
	return (int)atomic_load(&fabric->nic[pkt->dst_host][pkt->dst_nic].qpn_owner[pkt->dst_qpn]) -
	       1;
}

/* Free to go on, and this process's to take: to a QP of its own, or of nobody any more. */
static bool goes_to(const struct sn_fabric *fabric, const struct sn_pkt *pkt, uint32_t proc)
{
	int owner = owner_of(fabric, pkt);

	if (sn_held_wanted(&fabric->nic[pkt->src_host][pkt->src_nic], pkt))
		return false;
	return owner < 0 || owner == (int)proc;
}

static struct sn_held *oldest_of(struct sn_fabric *fabric, uint32_t proc)
{
	struct sn_held *oldest = NULL;

	for (uint32_t i = 0; i < atomic_load(&fabric->held_slots); i++) {
		struct sn_held *held = &fabric->held[i];

		if (atomic_load_explicit(&held->state, memory_order_acquire) == SN_HELD_KEPT &&
		    goes_to(fabric, &held->pkt, proc) && (!oldest || held->order < oldest->order))
			oldest = held;
	}
	return oldest;
}

struct sn_held *sn_held_take(struct sn_fabric *fabric, uint32_t proc)
{
	uint32_t expected = SN_HELD_KEPT;
	struct sn_held *held;

	if (!get(&fabric->n_held))
		return NULL;
	held = oldest_of(fabric, proc);
	if (!held || !atomic_compare_exchange_strong(&held->state, &expected, SN_HELD_BUSY))
		return NULL; /* nobody had the QP, and another process was first */
	if (!goes_to(fabric, &held->pkt, proc)) {
		/* Another process was first, and the slot holds another packet already. */
		atomic_store_explicit(&held->state, SN_HELD_KEPT, memory_order_release);
		return NULL;
	}
	atomic_store(&held->proc, proc);
	atomic_fetch_sub(&fabric->n_held, 1);
	return held;
}

void sn_held_forget(struct sn_fabric *fabric, uint32_t proc)
{
	for (uint32_t i = 0; i < atomic_load(&fabric->held_slots); i++) {
		struct sn_held *held = &fabric->held[i];

		if (atomic_load(&held->state) == SN_HELD_BUSY && atomic_load(&held->proc) == proc)
			sn_held_free(held);
	}
}
