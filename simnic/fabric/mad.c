/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The agents of NICs and switches: their answers to SMPs, and to performance managers. */
#include "simnic/fabric/mad.h"

#include <stdio.h>
#include <string.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/path.h"

#define PREFIX	    0xfe80000000000000ULL
#define SM_LID	    1
#define SWITCH_GUID 0x0c42a1030f000000ULL
#define CAPABILITY  0x2651e848 /* as in sysfs */
#define IS_SM	    0x2

enum { GET = 0x01 };
enum { SMP_DATA = 64, SMP_PATH = 128, DR_SLID = 32, PERMISSIVE = 0xffff, DIRECTION = 0x8000 };

/* ---- the subnet ----------------------------------------------------------------------------- */

static const struct sn_nic *nic_at(const struct sn_fabric *fabric, uint32_t host, uint32_t rail)
{
	return &fabric->nic[host][rail];
}

static bool same_subnet(const struct sn_fabric *fabric, uint32_t a, uint32_t b)
{
	return a == b || fabric->joined;
}

uint16_t sn_mad_switch_lid(const struct sn_fabric *fabric, uint32_t rail)
{
	if (fabric->joined)
		return (uint16_t)(fabric->n_hosts * fabric->n_nics + rail + 1);
	return (uint16_t)(fabric->n_hosts + 1);
}

/* A port for each host; where rails are joined, one for each rail behind these. */
uint32_t sn_mad_switch_ports(const struct sn_fabric *fabric)
{
	return fabric->n_hosts + (fabric->joined ? fabric->n_nics : 0);
}

bool sn_mad_find_lid(const struct sn_fabric *fabric, const struct sn_nic *from, uint16_t lid,
		     struct sn_mad_node *node)
{
	for (uint32_t rail = 0; rail < fabric->n_nics; rail++) {
		if (!same_subnet(fabric, from->rail, rail))
			continue;
		*node = (struct sn_mad_node){ .rail = rail, .port = from->host + 1 };
		if (!fabric->direct && sn_mad_switch_lid(fabric, rail) == lid)
			return true;
		node->port = 1;
		for (uint32_t host = 0; host < fabric->n_hosts; host++) {
			node->nic = nic_at(fabric, host, rail);
			if (node->nic->lid == lid)
				return true;
		}
	}
	return false;
}

static bool answers(const struct sn_nic *nic)
{
	return atomic_load(&nic->state) == SN_NIC_OK;
}

bool sn_mad_reaches(const struct sn_fabric *fabric, const struct sn_nic *from,
		    const struct sn_mad_node *to)
{
	if (!answers(from) || (to->nic && !answers(to->nic)))
		return false;
	if (!to->nic)
		return atomic_load(&from->port_up) && !atomic_load(&fabric->rail[to->rail].down);
	return to->nic == from || sn_path_wire_open((struct sn_fabric *)fabric, from->host,
						    from->index, to->nic->host, to->nic->index);
}

/* ---- directed routes ------------------------------------------------------------------------ */

/* Goes one hop out of a NIC: to its switch, or to the other end of the cable. */
static bool hop_from_nic(const struct sn_fabric *fabric, struct sn_mad_node *node, uint32_t port)
{
	const struct sn_nic *nic = node->nic;

	if (port != 1 || !atomic_load(&nic->port_up))
		return false;
	node->nic = fabric->direct ? nic_at(fabric, !nic->host, nic->rail) : NULL;
	node->rail = nic->rail;
	node->port = fabric->direct ? 1 : nic->host + 1;
	return fabric->direct || !atomic_load(&fabric->rail[nic->rail].down);
}

static bool hop_from_switch(const struct sn_fabric *fabric, struct sn_mad_node *node, uint32_t port)
{
	uint32_t rail = port - fabric->n_hosts - 1;

	if (!port || port > sn_mad_switch_ports(fabric))
		return false;
	if (port <= fabric->n_hosts) {
		node->nic = nic_at(fabric, port - 1, node->rail);
		node->port = 1;
		return atomic_load(&node->nic->port_up) && answers(node->nic);
	}
	if (rail == node->rail || atomic_load(&fabric->rail[rail].down))
		return false;
	node->port = fabric->n_hosts + 1 + node->rail;
	node->rail = rail;
	return true;
}

/* Follows the initial path (IBA 14.2.2), which begins at its index 1. */
static bool directed(const struct sn_fabric *fabric, const struct sn_nic *from, uint16_t lid,
		     const uint8_t *mad, struct sn_mad_node *node)
{
	uint32_t hops = mad[SN_MAD_HOPS];

	if (hops >= 64)
		return false;
	*node = (struct sn_mad_node){ .nic = from, .rail = from->rail, .port = 1 };
	if (sn_mad_get16(mad + DR_SLID) != PERMISSIVE && lid != PERMISSIVE && lid &&
	    !sn_mad_find_lid(fabric, from, lid, node))
		return false;
	for (uint32_t i = 1; i <= hops; i++)
		if (!(node->nic ? hop_from_nic : hop_from_switch)(fabric, node, mad[SMP_PATH + i]))
			return false;
	return true;
}

/* ---- attributes of subnet management -------------------------------------------------------- */

static uint64_t node_guid(const struct sn_mad_node *node)
{
	return node->nic ? node->nic->node_guid : SWITCH_GUID | node->rail;
}

void sn_mad_node_info(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint8_t *to)
{
	to[0] = to[1] = 1; /* versions */
	to[2] = node->nic ? 1 : 2;
	to[3] = (uint8_t)(node->nic ? 1 : sn_mad_switch_ports(fabric));
	sn_mad_put64(to + 4, node->nic ? node->nic->image_guid : node_guid(node));
	sn_mad_put64(to + 12, node_guid(node));
	sn_mad_put64(to + 20, node_guid(node));
	sn_mad_put16(to + 28, (uint16_t)(node->nic ? sn_nic_pkeys(node->nic) : 1));
	sn_mad_put16(to + 30, node->nic ? 0x101b : 0xd2f0);
	sn_mad_put32(to + 36, 0x0002c9); /* Mellanox; the port is in front of it */
	to[36] = (uint8_t)node->port;
}

void sn_mad_node_description(const struct sn_mad_node *node, uint8_t *to)
{
	if (node->nic)
		snprintf((char *)to, 64, "h%u simnic", node->nic->host);
	else
		snprintf((char *)to, 64, "simnic rail%u", node->rail);
}

static void switch_info(const struct sn_fabric *fabric, uint8_t *to)
{
	sn_mad_put16(to, 1024); /* forwarding table's size */
	sn_mad_put16(to + 6, (uint16_t)(fabric->n_hosts * fabric->n_nics + fabric->n_nics));
}

/* Each port has 4 lanes of EDR, and MTU 4096. */
static void port_common(uint8_t *to, bool up)
{
	sn_mad_put64(to + 8, PREFIX);
	sn_mad_put16(to + 18, SM_LID);
	sn_mad_put32(to + 20, CAPABILITY);
	to[29] = to[30] = 0x03;			 /* widths enabled and supported: 1x and 4x */
	to[31] = 2;				 /* active: 4x */
	to[32] = (uint8_t)(0x70 | (up ? 4 : 1)); /* speeds supported; state */
	to[33] = (uint8_t)((up ? 5 : 3) << 4 | 2);
	to[35] = 0x47; /* speed active and enabled, of those up to QDR */
	to[36] = 5 << 4;
	to[37] = 1 << 4;
	to[41] = 5;
	to[43] = 1 << 4;
	to[50] = 1; /* GUIDs */
	to[51] = 18;
	to[62] = 2 << 4 | 3; /* EDR is active, FDR and EDR are supported */
	to[63] = 3;
}

static bool switch_port_up(const struct sn_fabric *fabric, uint32_t rail, uint32_t port)
{
	if (port > fabric->n_hosts)
		return !atomic_load(&fabric->rail[port - fabric->n_hosts - 1].down) &&
		       port - fabric->n_hosts - 1 != rail;
	return !port || atomic_load(&nic_at(fabric, port - 1, rail)->port_up);
}

bool sn_mad_port_info(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint32_t port,
		      uint8_t *to)
{
	if (node->nic) {
		if (port > 1)
			return false;
		port_common(to, atomic_load(&node->nic->port_up));
		sn_mad_put16(to + 16, node->nic->lid);
		if (node->nic->lid == SM_LID)
			sn_mad_put32(to + 20, CAPABILITY | IS_SM);
	} else {
		if (port > sn_mad_switch_ports(fabric))
			return false;
		port_common(to, switch_port_up(fabric, node->rail, port));
		sn_mad_put16(to + 16, port ? 0 : sn_mad_switch_lid(fabric, node->rail));
	}
	to[28] = (uint8_t)node->port;
	return true;
}

/* Writes 32 of a table, which no switch has. */
static bool pkeys(const struct sn_mad_node *node, uint32_t block, uint8_t *to)
{
	uint32_t n = node->nic ? sn_nic_pkeys(node->nic) : 0;

	for (uint32_t i = 0; i < 32 && block * 32 + i < n; i++)
		sn_mad_put16(to + 2 * i,
			     (uint16_t)atomic_load(&node->nic->tenant.pkey[block * 32 + i]));
	return node->nic;
}

static bool sm_info(const struct sn_mad_node *node, uint8_t *to)
{
	if (!node->nic || node->nic->lid != SM_LID)
		return false;
	sn_mad_put64(to, node->nic->node_guid);
	to[20] = 3; /* the state of a master */
	return true;
}

/* The port that a switch sends to a LID by, for 64 LIDs of a block; 255: none. */
static bool forwarding(const struct sn_fabric *fabric, const struct sn_mad_node *node,
		       uint32_t block, uint8_t *to)
{
	const struct sn_nic *any = nic_at(fabric, 0, node->rail);
	struct sn_mad_node found;

	for (uint32_t i = 0; i < 64 && !node->nic; i++) {
		to[i] = 255;
		if (!sn_mad_find_lid(fabric, any, (uint16_t)(block * 64 + i), &found))
			continue;
		if (found.rail != node->rail)
			to[i] = (uint8_t)(fabric->n_hosts + 1 + found.rail);
		else
			to[i] = (uint8_t)(found.nic ? found.nic->host + 1 : 0);
	}
	return !node->nic;
}

enum {
	NODE_DESCRIPTION = 0x10,
	NODE_INFO,
	SWITCH_INFO,
	GUID_INFO = 0x14,
	PORT_INFO,
	PKEY_TABLE,
	FORWARDING = 0x19,
	SM_INFO = 0x20,
	VENDOR_PORT_INFO = 0xff90, /* Mellanox's own, which programs ask a ConnectX for */
};

static bool smp_get(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint8_t *mad)
{
	uint32_t modifier = sn_mad_get32(mad + SN_MAD_MODIFIER);
	uint8_t *data = mad + SMP_DATA;

	memset(data, 0, 64);
	switch (sn_mad_get16(mad + SN_MAD_ATTRIBUTE)) {
	case NODE_DESCRIPTION: sn_mad_node_description(node, data); return true;
	case NODE_INFO: sn_mad_node_info(fabric, node, data); return true;
	case SWITCH_INFO: switch_info(fabric, data); return !node->nic;
	case GUID_INFO:
		if (!modifier)
			sn_mad_put64(data, node_guid(node));
		return true;
	case PORT_INFO: return sn_mad_port_info(fabric, node, modifier & 0xff, data);
	case PKEY_TABLE: return pkeys(node, modifier & 0xffff, data);
	case FORWARDING: return forwarding(fabric, node, modifier, data);
	case SM_INFO: return sm_info(node, data);
	case VENDOR_PORT_INFO: return true; /* FDR10 is off */
	default: return false;
	}
}

/* ---- performance management ----------------------------------------------------------------- */

enum { PM_CLASS_PORT_INFO = 0x01, PM_COUNTERS = 0x12, PM_EXTENDED = 0x1d };

static uint64_t counter(const struct sn_fabric *fabric, const struct sn_nic *nic, const char *name)
{
	int number = sn_counter_find(name);

	return number < 0 ? 0 : sn_counter_read(fabric, nic, (uint32_t)number);
}

/* A counter of 1, 2 or 4 bytes stays at its end. */
static void put_narrow(uint8_t *to, uint32_t bytes, uint64_t value)
{
	uint64_t most = (1ull << 8 * bytes) - 1, rest = value < most ? value : most;

	for (uint32_t i = bytes; i; i--, rest >>= 8)
		to[i - 1] = (uint8_t)rest;
}

/* Counters of the attribute PortCounters alone, by their place in it (IBA table 267). */
static void put_errors(const struct sn_fabric *fabric, const struct sn_nic *nic, uint8_t *data)
{
	static const struct {
		const char *file;
		uint32_t at, bytes;
	} errors[] = {
		{ "counters/symbol_error", 4, 2 },
		{ "counters/link_downed", 7, 1 },
		{ "counters/port_rcv_errors", 8, 2 },
		{ "counters/port_xmit_wait", 40, 4 },
	};

	for (uint32_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		put_narrow(data + errors[i].at, errors[i].bytes,
			   counter(fabric, nic, errors[i].file));
}

static bool pm_get(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint8_t *mad)
{
	static const char *const names[] = { "counters/port_xmit_data", "counters/port_rcv_data",
					     "counters/port_xmit_packets",
					     "counters/port_rcv_packets" };
	uint16_t attribute = sn_mad_get16(mad + SN_MAD_ATTRIBUTE);
	uint8_t *data = mad + SMP_DATA, port = data[1];

	memset(data, 0, SN_MAD_BYTES - SMP_DATA);
	if (attribute == PM_CLASS_PORT_INFO) {
		data[0] = data[1] = 1;
		sn_mad_put16(data + 2, 0x0200); /* the port has the extended counters */
		return true;
	}
	if (!node->nic || (port != 1 && port != 0xff) ||
	    (attribute != PM_COUNTERS && attribute != PM_EXTENDED))
		return false;
	data[1] = port;
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t value = counter(fabric, node->nic, names[i]);

		if (attribute == PM_EXTENDED)
			sn_mad_put64(data + 8 + 8 * i, value);
		else
			put_narrow(data + 24 + 4 * i, 4, value);
	}
	if (attribute == PM_COUNTERS)
		put_errors(fabric, node->nic, data);
	return true;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void becomes_answer(uint8_t *mad, uint16_t status)
{
	mad[SN_MAD_METHOD] |= SN_MAD_RESPONSE;
	sn_mad_put16(mad + SN_MAD_STATUS, status);
}

static size_t answer_of_node(const struct sn_fabric *fabric, const struct sn_mad_node *node,
			     uint8_t *mad)
{
	bool of_perf = mad[SN_MAD_CLASS] == SN_MAD_CLASS_PERF;
	bool known = mad[SN_MAD_METHOD] == GET && (of_perf ? pm_get : smp_get)(fabric, node, mad);
	uint16_t status = known ? 0 : SN_MAD_NO_ATTRIBUTE;

	if (mad[SN_MAD_CLASS] == SN_MAD_CLASS_DIRECTED)
		status |= DIRECTION;
	becomes_answer(mad, status);
	return SN_MAD_BYTES;
}

size_t sn_mad_answer(const struct sn_fabric *fabric, const struct sn_nic *from, uint16_t lid,
		     uint8_t mad[SN_MAD_ANSWER_BYTES])
{
	struct sn_mad_node node;

	if (!answers(from))
		return 0;
	if (mad[SN_MAD_CLASS] == SN_MAD_CLASS_DIRECTED)
		return directed(fabric, from, lid, mad, &node) ? answer_of_node(fabric, &node, mad)
							       : 0;
	if (!sn_mad_find_lid(fabric, from, lid, &node) || !sn_mad_reaches(fabric, from, &node))
		return 0;
	if (mad[SN_MAD_CLASS] == SN_MAD_CLASS_SA)
		return lid == SM_LID ? sn_mad_sa(fabric, from, mad) : 0;
	return answer_of_node(fabric, &node, mad);
}
