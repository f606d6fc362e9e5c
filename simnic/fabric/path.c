/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reachability between NICs: ports, the rail switch between them, and faults that lose packets. */
#include <time.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/path.h"

static uint32_t get(const _Atomic uint32_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/*
 * True if the NIC works. A NIC that is taken away works less with each file (sn_dev_stands_still),
 * not at once.
 */
static bool works(const struct sn_nic *nic)
{
	struct timespec ts;

	if (get(&nic->state) != SN_NIC_DISASSOCIATED)
		return get(&nic->state) == SN_NIC_OK ||
		       (get(&nic->state) == SN_NIC_INTERNAL_ERROR && get(&nic->zombie));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return sn_nic_leaving(nic, ts.tv_sec * 1000000000ULL + ts.tv_nsec);
}

static bool end_alive(const struct sn_nic *nic)
{
	return works(nic) && get(&nic->port_up);
}

/* Only on a NIC that loops back before its port. */
static bool passes_inside(const struct sn_nic *src, const struct sn_nic *dst)
{
	return src == dst && sn_nic_quirk(src, SN_QUIRK_LOOPBACK_INSIDE) && works(src);
}

/*
 * True if the way between the ports is open. Loopback inside a NIC passes no switch, and no cable
 * that could lose it: it has a fault of its own.
 */
static bool wire_open(const struct sn_fabric *fabric, const struct sn_nic *src,
		      const struct sn_nic *dst, enum sn_pkt_op op)
{
	if (src == dst)
		return !get(&src->fault.lose_loopback);
	if ((src->rail != dst->rail && !fabric->joined) || get(&fabric->rail[src->rail].down) ||
	    get(&fabric->rail[dst->rail].down))
		return false;
	if (get(&src->fault.lose_tx) || get(&dst->fault.lose_rx))
		return false;
	return !(sn_pkt_is_response(op) && get(&dst->fault.lose_acks));
}

bool sn_path_open(struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic, uint32_t dst_host,
		  uint32_t dst_nic, enum sn_pkt_op op)
{
	struct sn_nic *src = &fabric->nic[src_host][src_nic];
	struct sn_nic *dst = &fabric->nic[dst_host][dst_nic];

	if (end_alive(src) && end_alive(dst) && wire_open(fabric, src, dst, op))
		return true;
	if (passes_inside(src, dst))
		return true;
	atomic_fetch_add_explicit(&src->count.dropped, 1, memory_order_relaxed);
	return false;
}

bool sn_path_wire_open(struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic,
		       uint32_t dst_host, uint32_t dst_nic)
{
	const struct sn_nic *src = &fabric->nic[src_host][src_nic];
	const struct sn_nic *dst = &fabric->nic[dst_host][dst_nic];

	return get(&src->port_up) && end_alive(dst) && wire_open(fabric, src, dst, SN_PKT_CM);
}

bool sn_path_open_late(struct sn_fabric *fabric, const struct sn_pkt *pkt)
{
	struct sn_nic *dst = &fabric->nic[pkt->dst_host][pkt->dst_nic];

	if (end_alive(dst) && !get(&fabric->rail[dst->rail].down) && !get(&dst->fault.lose_rx) &&
	    !(sn_pkt_is_response(pkt->op) && get(&dst->fault.lose_acks)))
		return true;
	atomic_fetch_add_explicit(&dst->count.dropped, 1, memory_order_relaxed);
	return false;
}

bool sn_path_paused(const struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic,
		    uint32_t dst_host, uint32_t dst_nic)
{
	const struct sn_nic *src = &fabric->nic[src_host][src_nic];
	const struct sn_nic *dst = &fabric->nic[dst_host][dst_nic];

	return src != dst && (get(&src->fault.paused) || get(&dst->fault.paused));
}
