/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of a port in /sys/class/infiniband/<device>/ports/1: mlx5's hw_counters/, about
 * requests and packets of connections, and counters/, the port's own (IBA 16.1.3.5). Names and
 * meanings are those of Linux' mlx5_ib; only counters that the device really keeps have a file.
 */
#ifndef SIMNIC_FABRIC_COUNTERS_H
#define SIMNIC_FABRIC_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct sn_fabric;
struct sn_nic;

/* Part of struct sn_counters. The device threads of the NIC's host add to them. */
struct sn_hw_counters {
	/*
	 * Responder: packets behind a gap; packets that were here before; packets that found no
	 * receive.
	 */
	_Atomic uint64_t out_of_sequence, duplicate_request, out_of_buffer;
	_Atomic uint64_t rx_write_requests, rx_read_requests, rx_atomic_requests;
	/*
	 * Requester: NAKs of a gap; gaps in the answer to a READ; timeouts and RNR NAKs that were
	 * not the last.
	 */
	_Atomic uint64_t packet_seq_err, implied_nak_seq_err, local_ack_timeout_err,
		rnr_nak_retry_err;
	_Atomic uint64_t req_transport_retries_exceeded, req_rnr_retries_exceeded;
	_Atomic uint64_t tx_packets, rx_packets, link_downed; /* counted by the port */
	/* Times that a packet of a connection could not leave, as the path was paused. */
	_Atomic uint64_t tx_wait;
};

/*
 * Name of a counter's file below ports/1, such as "hw_counters/out_of_sequence"; numbers begin
 * with 0. NULL: there are no more.
 */
const char *sn_counter_file(uint32_t number);
uint64_t sn_counter_read(const struct sn_fabric *fabric, const struct sn_nic *nic, uint32_t number);
/* -ENOENT: no counter has that file. */
int sn_counter_find(const char *file);

#endif
