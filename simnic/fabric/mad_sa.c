/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Subnet administration: the records of nodes, ports and paths (IBA 15.2.5). */
#include <string.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/mad.h"

enum { GET = 0x01, GET_TABLE = 0x12 };
enum { SA_OFFSET = 44, SA_MASK = 48, SA_DATA = 56 };
enum { CLASS_PORT_INFO = 0x01, NODE_RECORD = 0x11, PORT_INFO_RECORD, PATH_RECORD = 0x35 };
enum { RATE_100 = 16, MTU_4096 = 5, EXACTLY = 2 << 6 };

#define SIZE_MAX_RECORD 112

/* An answer that is being written; what it is asked for is kept in front of it. */
struct answer {
	const struct sn_fabric *fabric;
	const struct sn_nic *from;
	uint64_t mask;		     /* the components that are asked for */
	uint8_t asked[SN_MAD_BYTES]; /* the request */
	uint8_t *mad;
	size_t size;  /* bytes of a record, in units of 8 */
	size_t bytes; /* written behind the header */
};

static bool differs(const struct answer *answer, uint32_t bit, const uint8_t *record, size_t at,
		    size_t n)
{
	return answer->mask >> bit & 1 && memcmp(answer->asked + SA_DATA + at, record + at, n) != 0;
}

/* Adds a record, if there is room. */
static void add(struct answer *answer, const uint8_t *record)
{
	size_t end = SA_DATA + answer->bytes + answer->size;

	if (end > SN_MAD_ANSWER_BYTES)
		return;
	memcpy(answer->mad + SA_DATA + answer->bytes, record, answer->size);
	answer->bytes += answer->size;
}

static void node_record(struct answer *answer, const struct sn_mad_node *node, uint16_t lid)
{
	uint8_t record[SIZE_MAX_RECORD] = { 0 };

	sn_mad_put16(record, lid);
	sn_mad_node_info(answer->fabric, node, record + 4);
	sn_mad_node_description(node, record + 44);
	if (!differs(answer, 0, record, 0, 2) && !differs(answer, 4, record, 6, 1))
		add(answer, record);
}

static void port_record(struct answer *answer, const struct sn_mad_node *node, uint16_t lid)
{
	uint32_t first = node->nic ? 1 : 0;
	uint32_t last = node->nic ? 1 : sn_mad_switch_ports(answer->fabric);

	for (uint32_t port = first; port <= last; port++) {
		uint8_t record[SIZE_MAX_RECORD] = { 0 };

		sn_mad_put16(record, lid);
		record[2] = (uint8_t)port;
		sn_mad_port_info(answer->fabric, node, port, record + 4);
		if (!differs(answer, 0, record, 0, 2) && !differs(answer, 1, record, 2, 1))
			add(answer, record);
	}
}

static void path_record(struct answer *answer, const struct sn_nic *src, const struct sn_nic *dst)
{
	uint8_t record[SIZE_MAX_RECORD] = { 0 };

	memcpy(record + 8, dst->gid, 16);
	memcpy(record + 24, src->gid, 16);
	sn_mad_put16(record + 40, dst->lid);
	sn_mad_put16(record + 42, src->lid);
	record[49] = 0x80 | 1; /* reversible; one path */
	sn_mad_put16(record + 50, 0xffff);
	record[54] = EXACTLY | MTU_4096;
	record[55] = EXACTLY | RATE_100;
	record[56] = EXACTLY | 0;
	if (!differs(answer, 2, record, 8, 16) && !differs(answer, 3, record, 24, 16) &&
	    !differs(answer, 4, record, 40, 2) && !differs(answer, 5, record, 42, 2))
		add(answer, record);
}

/* Calls for each node of the subnet that the subnet manager sees. */
static void each_node(struct answer *answer,
		      void (*record)(struct answer *, const struct sn_mad_node *, uint16_t))
{
	struct sn_mad_node node;

	for (uint32_t lid = 1; lid < 0xc000 && lid < 1024; lid++)
		if (sn_mad_find_lid(answer->fabric, answer->from, (uint16_t)lid, &node) &&
		    sn_mad_reaches(answer->fabric, answer->from, &node)) {
			node.port = node.nic ? 1 : 0;
			record(answer, &node, (uint16_t)lid);
		}
}

static void each_path_from(struct answer *answer, const struct sn_nic *src)
{
	struct sn_mad_node node;

	for (uint32_t lid = 1; lid < 1024; lid++)
		if (sn_mad_find_lid(answer->fabric, src, (uint16_t)lid, &node) && node.nic &&
		    sn_mad_reaches(answer->fabric, src, &node))
			path_record(answer, src, node.nic);
}

static void each_path(struct answer *answer)
{
	struct sn_mad_node node;

	for (uint32_t lid = 1; lid < 1024; lid++)
		if (sn_mad_find_lid(answer->fabric, answer->from, (uint16_t)lid, &node) && node.nic)
			each_path_from(answer, node.nic);
}

static void class_port_info(struct answer *answer)
{
	uint8_t record[SIZE_MAX_RECORD] = { 1, 2 }; /* versions */

	sn_mad_put32(record + 4, 18); /* time of an answer: 4.096 us << 18 */
	add(answer, record);
}

/* Returns -1 if there is no such attribute. */
static int records(struct answer *answer, uint16_t attribute)
{
	switch (attribute) {
	case CLASS_PORT_INFO:
		answer->size = 72;
		class_port_info(answer);
		return 0;
	case NODE_RECORD:
		answer->size = 112;
		each_node(answer, node_record);
		return 0;
	case PORT_INFO_RECORD:
		answer->size = 72;
		each_node(answer, port_record);
		return 0;
	case PATH_RECORD:
		answer->size = 64;
		each_path(answer);
		return 0;
	default: return -1;
	}
}

size_t sn_mad_sa(const struct sn_fabric *fabric, const struct sn_nic *from, uint8_t *mad)
{
	struct answer answer = { .fabric = fabric, .from = from, .mad = mad };
	uint8_t method = mad[SN_MAD_METHOD];
	uint16_t status = 0;

	memcpy(answer.asked, mad, SN_MAD_BYTES);
	answer.mask = sn_mad_get64(mad + SA_MASK);
	if ((method != GET && method != GET_TABLE) ||
	    records(&answer, sn_mad_get16(mad + SN_MAD_ATTRIBUTE)))
		status = SN_MAD_NO_ATTRIBUTE;
	else if (method == GET && answer.bytes != answer.size)
		status = SN_MAD_NO_RECORDS;
	mad[SN_MAD_METHOD] |= SN_MAD_RESPONSE;
	sn_mad_put16(mad + SN_MAD_STATUS, status);
	sn_mad_put16(mad + SA_OFFSET, (uint16_t)(answer.size / 8));
	if (status || method == GET)
		return SN_MAD_BYTES;
	return SA_DATA + answer.bytes;
}
