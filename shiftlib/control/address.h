/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses of control QPs, and the GIDs of their ports. */
#ifndef SHIFTLIB_CONTROL_ADDRESS_H
#define SHIFTLIB_CONTROL_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shiftlib/shift.h"

/* Kinds of RoCE GIDs, as bits. Both ends of a connection have a GID of the same kind. */
enum sh_gid_kind {
	SH_GID_V1_IPV4 = 1,
	SH_GID_V1_IPV6 = 2,
	SH_GID_V2_IPV4 = 4,
	SH_GID_V2_IPV6 = 8,
	SH_GID_ALL = 15,
};

/* The address of a control QP. Plain data: introduced through the KV. */
struct sh_address {
	uint8_t gid[16];
	uint16_t lid;
	uint8_t link_layer;  /* IBV_LINK_LAYER_* */
	uint8_t gid_index;   /* meaningful on its own host only */
	uint8_t mtu;	     /* enum ibv_mtu, of the port when it was opened */
	uint8_t active;	     /* port state was ACTIVE when last asked */
	uint8_t gid_kind;    /* kind of gid; 0: not told. This and the next five: on its own host
			      * only */
	uint8_t gid_kinds;   /* kinds of all GIDs of the port */
	uint16_t vlan;	     /* VLAN of gid; 0: none */
	uint16_t pkey_index; /* index of the control QP's P_Key */
	uint8_t sl, traffic_class; /* in a peer's address: for datagrams sent there */
	uint32_t
		speed; /* Mb/s of the port when it was active; 0: not known. On its own host only */
	uint32_t qpn, qkey;
};

static inline uint32_t sh_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

/* Returns the largest payload of a datagram between them: the smaller MTU. */
size_t sh_address_payload_max(const struct sh_address *local, const struct sh_address *peer);
/* Returns the kind of a GID of the port's table; 0: the kernel does not tell. Reads a file. */
uint8_t sh_gid_kind(const struct ibv_context *context, uint8_t port, int index,
		    const union ibv_gid *gid);
/*
 * Returns the reason, a constant, why a NIC without a GID of that kind cannot stand in; NULL: it
 * can.
 */
const char *sh_gid_missing(uint8_t kind, const struct sh_address *address);
/* A GID of a port's table. */
struct sh_gid_place {
	uint8_t index, kind;
	uint16_t vlan;
	uint8_t gid[16];
};

/*
 * Finds the GID of that kind (0: any) and VLAN with the highest rank. Goes through the table, and
 * may block, unless *place, zeros at first, is still right. 0, or -EADDRNOTAVAIL.
 */
int sh_gid_on_vlan(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		   uint8_t kind, uint16_t vlan, struct sh_gid_place *place);
/* Returns the VLAN of a GID of the port's table; 0: none. Reads files. */
uint16_t sh_gid_vlan(const struct ibv_context *context, uint8_t port, int index);
/* Asks the provider itself, if possible. 0, or -errno. */
int sh_port_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		  struct ibv_port_attr *attr);
/*
 * Asks the port (may block). before: NULL, or the address so far, whose GID is found wherever it is
 * now; else the GID of highest rank is taken. qpn and qkey are 0. 0, or -errno; -EADDRNOTAVAIL: the
 * port has no GID.
 */
int sh_address_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		     const struct sh_address *before, struct sh_address *address,
		     bool *grh_required);

#endif
