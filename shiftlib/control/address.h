/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Where a control QP is reached, and the GIDs of its port. */
#ifndef SHIFTLIB_CONTROL_ADDRESS_H
#define SHIFTLIB_CONTROL_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shiftlib/shift.h"

/* Kinds of RoCE GIDs, as bits. Both ends of a connection have one of the same kind. */
enum sh_gid_kind {
	SH_GID_V1_IPV4 = 1,
	SH_GID_V1_IPV6 = 2,
	SH_GID_V2_IPV4 = 4,
	SH_GID_V2_IPV6 = 8,
	SH_GID_ALL = 15,
};

/* Where a control QP is reached. Plain data: introduced through the KV. */
struct sh_address {
	uint8_t gid[16];
	uint16_t lid;
	uint8_t link_layer;  /* IBV_LINK_LAYER_* */
	uint8_t gid_index;   /* means something on its own host only */
	uint8_t mtu;	     /* enum ibv_mtu, of the port when it was opened */
	uint8_t active;	     /* port state was ACTIVE when last asked */
	uint8_t gid_kind;    /* of gid; 0: not told. This and the next five: on its own host only */
	uint8_t gid_kinds;   /* of all GIDs of the port */
	uint16_t vlan;	     /* of gid; 0: none */
	uint16_t pkey_index; /* of the control QP */
	uint8_t sl, traffic_class; /* a peer's: of what is sent there */
	uint32_t
		speed; /* of the port, in Mb/s, when it was active; 0: not known. On its own host only */
	uint32_t qpn, qkey;
};

static inline uint32_t sh_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

/* Of a datagram between them: the smaller MTU. */
size_t sh_address_payload_max(const struct sh_address *local, const struct sh_address *peer);
/* The kind of a GID of the port's table; 0: the kernel does not tell. It reads a file. */
uint8_t sh_gid_kind(const struct ibv_context *context, uint8_t port, int index,
		    const union ibv_gid *gid);
/* A NIC cannot stand in where it has no GID of that kind: the reason, a constant; NULL: it can. */
const char *sh_gid_missing(uint8_t kind, const struct sh_address *address);
/* A GID of a port's table. */
struct sh_gid_place {
	uint8_t index, kind;
	uint16_t vlan;
	uint8_t gid[16];
};

/*
 * The GID of that kind (0: of any) on that VLAN, of highest rank. It may block, and goes through the table,
 * unless *place, zeros at first, is still right. 0, or -EADDRNOTAVAIL.
 */
int sh_gid_on_vlan(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		   uint8_t kind, uint16_t vlan, struct sh_gid_place *place);
/* The VLAN of a GID of the port's table; 0: none. It reads files. */
uint16_t sh_gid_vlan(const struct ibv_context *context, uint8_t port, int index);
/* Asks the provider itself, where it can be asked. 0, or -errno. */
int sh_port_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		  struct ibv_port_attr *attr);
/*
 * Asks the port (may block). before: NULL, or the address so far: its GID is found again wherever it is
 * now; else the one of highest rank. qpn and qkey are 0. 0, or -errno; -EADDRNOTAVAIL: it has no GID.
 */
int sh_address_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		     const struct sh_address *before, struct sh_address *address,
		     bool *grh_required);

#endif
