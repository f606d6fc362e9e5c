/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The separation of tenants and classes of traffic: partitions, VLANs, and a record of the
 * partition, VLAN and service level that the packets of a NIC had.
 */
#ifndef SIMNIC_FABRIC_TENANT_H
#define SIMNIC_FABRIC_TENANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/limits.h"

struct sn_fabric;
struct sn_nic;

#define SN_PKEY_DEFAULT 0xffff
#define SN_PKEY_FULL	0x8000
#define SN_VLAN_MAX	4094

/* Packets that had the same. Filled in order; used slots stay. */
struct sn_class {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t rc_packets, ud_packets;
};

/* Part of struct sn_nic. simnicctl writes the tables. */
struct sn_tenant {
	_Atomic uint16_t pkey[SN_MAX_PKEYS];
	_Atomic uint16_t gid_vlan[SN_MAX_GIDS]; /* VLAN of each index; 0: none */
	struct {
		_Atomic uint32_t used; /* 1: nic.gid is no address of the NIC, these are */
		uint8_t at[SN_MAX_GIDS][16];
	} driver_gid; /* Ethernet: GIDs that a driver of the NIC has set, by index */
	_Atomic uint32_t gid_gen, pkey_gen;   /* bumped when a table changed */
	struct sn_class sent[SN_MAX_CLASSES]; /* classes seen; further ones are not recorded */
};

/* The tenant and class of a packet. */
struct sn_service {
	uint16_t pkey, vlan;
	uint8_t sl, traffic_class;
};

struct sn_service sn_class_service(const struct sn_class *seen);
void sn_class_count(struct sn_nic *nic, const struct sn_service *service, bool ud);

uint32_t sn_nic_pkeys(const struct sn_nic *nic); /* length of the NIC's table */
/* IBA 10.9.3: the same partition, at least one end is a full member of it. */
bool sn_pkey_match(uint16_t a, uint16_t b);
/* Replaces the NIC's table. Raises PKEY_CHANGE. -EOPNOTSUPP: Ethernet; -EINVAL: too many. */
int sn_nic_set_pkeys(struct sn_fabric *fabric, struct sn_nic *nic, const uint16_t *pkeys,
		     uint32_t n);
/*
 * Puts a RoCE v2 GID of a VLAN interface at an index, with an address of its own; vlan 0: the
 * entry becomes empty. Raises GID_CHANGE. -EOPNOTSUPP: InfiniBand; -EINVAL: no such index or VLAN.
 */
int sn_nic_set_vlan(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t index, uint16_t vlan);
/*
 * Gives an Ethernet NIC's table to a driver that sets its entries, as a real one does: it is empty
 * then. False: the NIC has its own GID again. No event is raised, and sysfs does not change. One
 * caller at a time.
 */
void sn_nic_use_driver_gids(struct sn_nic *nic, bool use);
/* Sets an entry of such a table; type: enum sn_gid_type. -EINVAL: no such index or VLAN. */
int sn_nic_set_driver_gid(struct sn_nic *nic, uint32_t index, const uint8_t gid[16], uint32_t type,
			  uint16_t vlan);
/* The table's entry at an index that is not empty. */
void sn_nic_gid_at(const struct sn_nic *nic, uint32_t index, uint8_t gid[16]);
uint16_t sn_nic_vlan_at(const struct sn_nic *nic, uint32_t index); /* 0: none */
/* "simnic0.100" */
void sn_nic_vlan_name(const struct sn_nic *nic, uint16_t vlan, char *buf, uint32_t len);
/* Finds the NIC that has the address, within that VLAN. -EHOSTUNREACH: none. */
int sn_fabric_find_gid(const struct sn_fabric *fabric, const uint8_t gid[16], uint16_t vlan,
		       int *host, int *nic);

#endif
