/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters as the driver reads them: of the port (QUERY_VPORT_COUNTER, the register PPCNT), of
 * queue pairs (QUERY_Q_COUNTER), and by datagrams to the NIC's own agent (MAD_IFC). One set counts
 * for all queue pairs of the NIC, whichever set they name.
 */
#include <string.h>

#include "simnic/pci/bridge_port.h"
#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { MAD = 256, MAD_CLASS = 1, MAD_METHOD = 3, MAD_ATTRIBUTE = 16, IB_GROUP = 0x20 };

/* A field, and the file of the counter that it tells. */
struct counter {
	enum sn_field field;
	const char *file;
};

static uint64_t count(const struct sn_pci *pci, const char *file)
{
	return pci->bridge ? sn_bridge_counter(pci->bridge, file) : 0;
}

/* A counter that is narrower than its number stays at its end (IBA 16.1.3.5). */
static void put_counter(uint8_t *at, enum sn_field field, uint64_t value)
{
	uint32_t bits = (uint32_t)field & 0xfff;
	uint64_t most = bits < 64 ? (1ull << bits) - 1 : UINT64_MAX;

	sn_field_set(at, field, value < most ? value : most);
}

static void put_counters(const struct sn_pci *pci, uint8_t *at, const struct counter *counters,
			 uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_counter(at, counters[i].field, count(pci, counters[i].file));
}

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* Packets, and bytes; the files have these in units of four, as the datagrams have. */
static void put_traffic(const struct sn_pci *pci, uint8_t *at, const char *packets,
			const char *words)
{
	SN_SET(traffic_counter, at, packets, count(pci, packets));
	SN_SET(traffic_counter, at, octets, 4 * count(pci, words));
}

uint8_t sn_query_vport_counter(struct sn_pci *pci, struct sn_command *cmd)
{
	bool ethernet = pci->identity.ethernet;
	uint8_t *in = ethernet ? SN_AT(query_vport_counter_out, cmd->out, received_eth_unicast)
			       : SN_AT(query_vport_counter_out, cmd->out, received_ib_unicast);
	uint8_t *out = ethernet ? SN_AT(query_vport_counter_out, cmd->out, transmitted_eth_unicast)
				: SN_AT(query_vport_counter_out, cmd->out, transmitted_ib_unicast);

	put_traffic(pci, in, "counters/port_rcv_packets", "counters/port_rcv_data");
	put_traffic(pci, out, "counters/port_xmit_packets", "counters/port_xmit_data");
	SN_SET(traffic_counter, SN_AT(query_vport_counter_out, cmd->out, received_errors), packets,
	       count(pci, "counters/port_rcv_errors"));
	return SN_OK;
}

#define Q_COUNTER(name)                                                                            \
	{                                                                                          \
		SN_F_query_q_counter_out_##name, "hw_counters/" #name                              \
	}
uint8_t sn_query_q_counter(struct sn_pci *pci, struct sn_command *cmd)
{
	static const struct counter counters[] = {
		Q_COUNTER(rx_write_requests),
		Q_COUNTER(rx_read_requests),
		Q_COUNTER(rx_atomic_requests),
		Q_COUNTER(out_of_buffer),
		Q_COUNTER(out_of_sequence),
		Q_COUNTER(duplicate_request),
		Q_COUNTER(rnr_nak_retry_err),
		Q_COUNTER(packet_seq_err),
		Q_COUNTER(implied_nak_seq_err),
		Q_COUNTER(local_ack_timeout_err),
		Q_COUNTER(req_transport_retries_exceeded),
	};

	put_counters(pci, cmd->out, counters, N_OF(counters));
	return SN_OK;
}

void sn_read_ppcnt(const struct sn_pci *pci, const uint8_t *asked, uint8_t *reg)
{
#define PORT_COUNTER(name)                                                                         \
	{                                                                                          \
		SN_F_ib_port_cntrs_grp_data_layout_##name, "counters/" #name                       \
	}
	static const struct counter counters[] = {
		{ SN_F_ib_port_cntrs_grp_data_layout_symbol_error_counter,
		  "counters/symbol_error" },
		{ SN_F_ib_port_cntrs_grp_data_layout_link_downed_counter, "counters/link_downed" },
		PORT_COUNTER(port_rcv_errors),
		PORT_COUNTER(port_xmit_wait),
	};

	SN_SET(ppcnt_reg, reg, local_port, 1);
	SN_SET(ppcnt_reg, reg, grp, SN_GET(ppcnt_reg, asked, grp));
	if (SN_GET(ppcnt_reg, asked, grp) == IB_GROUP)
		put_counters(pci, SN_AT(ppcnt_reg, reg, counter_set), counters, N_OF(counters));
}

uint8_t sn_mad_ifc(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *mad = SN_AT(mad_ifc_out, cmd->out, response_mad_packet);

	memcpy(mad, SN_AT(mad_ifc_in, cmd->in, mad), MAD);
	if (pci->bridge && sn_bridge_mad(pci->bridge, mad))
		return SN_OK;
	sn_pci_say(pci, "  nobody answers the datagram of class 0x%x, method 0x%x, attribute 0x%x",
		   mad[MAD_CLASS], mad[MAD_METHOD], sn_load32(mad + MAD_ATTRIBUTE) >> 16);
	return SN_BAD_PARAM;
}
