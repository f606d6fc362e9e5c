/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Management datagrams that the fabric answers itself: subnet management agents of NICs and
 * switches (IBA 14), the subnet administration of the manager at LID 1 (IBA 15.2), and performance
 * managers' counters (IBA 16.1). The subnet of a NIC is its rail, or all rails where these are
 * joined. Nothing can be set.
 */
#ifndef SIMNIC_FABRIC_MAD_H
#define SIMNIC_FABRIC_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_fabric;
struct sn_nic;

enum {
	SN_MAD_BYTES = 256,	     /* of one datagram */
	SN_MAD_ANSWER_BYTES = 16384, /* most bytes of an answer of more than one */
	SN_MAD_CLASS_LID = 0x01,
	SN_MAD_CLASS_SA = 0x03,
	SN_MAD_CLASS_PERF = 0x04,
	SN_MAD_CLASS_DIRECTED = 0x81,
	SN_MAD_RESPONSE = 0x80, /* the bit of a method */
	/* status of the header (IBA 13.4.7) */
	SN_MAD_NO_ATTRIBUTE = 0x000c,
	SN_MAD_NO_RECORDS = 0x0300,
};

/* Places in the header (IBA 13.4.2). */
enum {
	SN_MAD_CLASS = 1,
	SN_MAD_METHOD = 3,
	SN_MAD_STATUS = 4,
	SN_MAD_HOPS = 7,
	SN_MAD_TID = 8,
	SN_MAD_ATTRIBUTE = 16,
	SN_MAD_MODIFIER = 20,
	SN_MAD_HEADER = 24,
};

/* A node that has a management agent: a NIC, or a rail's switch. */
struct sn_mad_node {
	const struct sn_nic *nic; /* NULL: a switch */
	uint32_t rail;
	uint32_t port; /* the port that the datagram came in by */
};

/* NULL if the LID is nobody's in the subnet of @from. */
bool sn_mad_find_lid(const struct sn_fabric *fabric, const struct sn_nic *from, uint16_t lid,
		     struct sn_mad_node *node);
/* True if datagrams pass between the NIC and the node now. */
bool sn_mad_reaches(const struct sn_fabric *fabric, const struct sn_nic *from,
		    const struct sn_mad_node *to);

/*
 * Turns a request into its answer, in place. @lid: where it is sent. Returns the length of the
 * answer, 0 if nobody answers.
 */
size_t sn_mad_answer(const struct sn_fabric *fabric, const struct sn_nic *from, uint16_t lid,
		     uint8_t mad[SN_MAD_ANSWER_BYTES]);

/* mad_sa.c, with the request's header in place. */
size_t sn_mad_sa(const struct sn_fabric *fabric, const struct sn_nic *from, uint8_t *mad);

/* The attributes that the agents know of a node; each writes the attribute's bytes (IBA 14.2.5). */
void sn_mad_node_info(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint8_t *to);
void sn_mad_node_description(const struct sn_mad_node *node, uint8_t *to);
bool sn_mad_port_info(const struct sn_fabric *fabric, const struct sn_mad_node *node, uint32_t port,
		      uint8_t *to);
uint16_t sn_mad_switch_lid(const struct sn_fabric *fabric, uint32_t rail);
uint32_t sn_mad_switch_ports(const struct sn_fabric *fabric);

static inline void sn_mad_put16(uint8_t *to, uint16_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}
static inline void sn_mad_put32(uint8_t *to, uint32_t value)
{
	sn_mad_put16(to, (uint16_t)(value >> 16));
	sn_mad_put16(to + 2, (uint16_t)value);
}
static inline void sn_mad_put64(uint8_t *to, uint64_t value)
{
	sn_mad_put32(to, (uint32_t)(value >> 32));
	sn_mad_put32(to + 4, (uint32_t)value);
}
static inline uint16_t sn_mad_get16(const uint8_t *from)
{
	return (uint16_t)(from[0] << 8 | from[1]);
}
static inline uint32_t sn_mad_get32(const uint8_t *from)
{
	return (uint32_t)sn_mad_get16(from) << 16 | sn_mad_get16(from + 2);
}
static inline uint64_t sn_mad_get64(const uint8_t *from)
{
	return (uint64_t)sn_mad_get32(from) << 32 | sn_mad_get32(from + 4);
}

#endif
