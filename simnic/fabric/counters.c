/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"

/* A counter: a number at its place in struct sn_nic, or a function where it has to be found out. */
struct counter {
	const char *file;
	size_t offset;
	uint64_t (*read)(const struct sn_fabric *fabric, const struct sn_nic *nic);
};

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/*
 * Packets that a bad cable damaged, which the port at its end sees: the NIC's port those to the
 * NIC, the switch's port the NIC's own.
 */
static uint64_t damaged(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	uint32_t line = atomic_load(&nic->cable.in);

	return line && line <= SN_LINES ? get(&fabric->line[line - 1].lost) : 0;
}

/* IBA table 265: in units of four bytes. */
static uint64_t xmit_data(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	(void)fabric;
	return get(&nic->count.tx_bytes) / 4;
}

static uint64_t rcv_data(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	(void)fabric;
	return get(&nic->count.rx_bytes) / 4;
}

#define HW(name)                                                                                   \
	{                                                                                          \
		"hw_counters/" #name, offsetof(struct sn_nic, count.hw.name), NULL                 \
	}
static const struct counter counters[] = {
	HW(out_of_sequence),
	HW(duplicate_request),
	HW(out_of_buffer),
	HW(rx_write_requests),
	HW(rx_read_requests),
	HW(rx_atomic_requests),
	HW(packet_seq_err),
	HW(implied_nak_seq_err),
	HW(local_ack_timeout_err),
	HW(rnr_nak_retry_err),
	HW(req_transport_retries_exceeded),
	HW(req_rnr_retries_exceeded),
	{ "counters/symbol_error", 0, damaged },
	{ "counters/port_rcv_errors", 0, damaged },
	{ "counters/link_downed", offsetof(struct sn_nic, count.hw.link_downed), NULL },
	{ "counters/port_xmit_wait", offsetof(struct sn_nic, count.hw.tx_wait), NULL },
	{ "counters/port_xmit_data", 0, xmit_data },
	{ "counters/port_rcv_data", 0, rcv_data },
	{ "counters/port_xmit_packets", offsetof(struct sn_nic, count.hw.tx_packets), NULL },
	{ "counters/port_rcv_packets", offsetof(struct sn_nic, count.hw.rx_packets), NULL },
};
#define N_COUNTERS (sizeof(counters) / sizeof(counters[0]))

const char *sn_counter_file(uint32_t number)
{
	return number < N_COUNTERS ? counters[number].file : NULL;
}

uint64_t sn_counter_read(const struct sn_fabric *fabric, const struct sn_nic *nic, uint32_t number)
{
	const struct counter *counter = &counters[number];

	if (counter->read)
		return counter->read(fabric, nic);
	return get((const _Atomic uint64_t *)((const char *)nic + counter->offset));
}

int sn_counter_find(const char *file)
{
	for (uint32_t i = 0; i < N_COUNTERS; i++)
		if (!strcmp(file, counters[i].file))
			return (int)i;
	return -ENOENT;
}
