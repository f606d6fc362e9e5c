/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The marks that keep an application's traffic apart on the wire: its partition (P_Key), on
 * Ethernet the VLAN of its GID. A standby has the same, by value, or is not made.
 */
#ifndef SHIFTLIB_CONN_TENANT_H
#define SHIFTLIB_CONN_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sc_address;
struct sh_carrier;
struct sh_nic;
struct sh_qp;

struct sh_tenant {
	uint16_t pkey; /* 0: none on this link, or not known */
	uint16_t pkey_index;
	uint16_t vlan;	  /* 0: none */
	uint8_t gid_kind; /* enum sh_gid_kind */
};

/* Where a port has it. */
struct sh_tenant_place {
	uint16_t pkey_index;
	uint8_t gid_index;
	uint8_t gid[16];
	uint16_t pkey, vlan;
};

struct sh_tenant sh_tenant_of(const struct sh_qp *qp) SH_LOCKED;
/*
 * Finds the tenant's place on a NIC, on its worker; @own: a copy of the NIC's address. NULL, or
 * why a queue pair there would leave the tenant.
 */
const char *sh_tenant_find(const struct sh_tenant *tenant, struct sh_nic *nic,
			   const struct sh_address *own, struct sh_tenant_place *place);
/* Compares a standby's two ends. NULL, or why they do not belong together. */
const char *sh_tenant_differ(const struct sc_address *own, const struct sc_address *peer);
/* Why a standby there is likely to be refused; NULL: nothing speaks against it. */
const char *sh_tenant_doubt(const struct sh_qp *qp, const struct sh_nic *nic) SH_LOCKED;
/* Its NIC's table is another, and it is not where it was. */
bool sh_tenant_left(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED;

#endif
