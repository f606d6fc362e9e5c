/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Partitions, VLANs, and the record of what packets had of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/proc.h"
#include "simnic/fabric/sysfs.h"
#include "simnic/fabric/tenant.h"

/* ---- the record ----------------------------------------------------------------------------- */

#define CLASS_USED (1ULL << 63)

static uint64_t class_key(const struct sn_service *service)
{
	return CLASS_USED | (uint64_t)service->pkey << 32 | (uint64_t)service->vlan << 16 |
	       service->sl << 8 | service->traffic_class;
}

struct sn_service sn_class_service(const struct sn_class *seen)
{
	uint64_t key = atomic_load(&seen->key);

	return (struct sn_service){ .pkey = key >> 32 & 0xffff,
				    .vlan = key >> 16 & 0xffff,
				    .sl = key >> 8 & 0xff,
				    .traffic_class = key & 0xff };
}

void sn_class_count(struct sn_nic *nic, const struct sn_service *service, bool ud)
{
	uint64_t key = class_key(service), there;
	struct sn_class *seen = nic->tenant.sent;

	for (; seen < nic->tenant.sent + SN_MAX_CLASSES; seen++) {
		there = atomic_load_explicit(&seen->key, memory_order_relaxed);
		if (!there && atomic_compare_exchange_strong(&seen->key, &there, key))
			there = key;
		if (there != key)
			continue;
		sn_count(ud ? &seen->ud_packets : &seen->rc_packets, 1);
		return;
	}
}

/* ---- partitions ----------------------------------------------------------------------------- */

uint32_t sn_nic_pkeys(const struct sn_nic *nic)
{
	return nic->link_layer == SN_LINK_ETH ? 1 : SN_MAX_PKEYS;
}

bool sn_pkey_match(uint16_t a, uint16_t b)
{
	uint16_t base = a & ~SN_PKEY_FULL;

	return base && base == (b & ~SN_PKEY_FULL) && (a | b) & SN_PKEY_FULL;
}

int sn_nic_set_pkeys(struct sn_fabric *fabric, struct sn_nic *nic, const uint16_t *pkeys,
		     uint32_t n)
{
	if (nic->link_layer == SN_LINK_ETH)
		return -EOPNOTSUPP;
	if (n > SN_MAX_PKEYS)
		return -EINVAL;
	for (uint32_t i = 0; i < SN_MAX_PKEYS; i++)
		atomic_store(&nic->tenant.pkey[i], i < n ? pkeys[i] : 0);
	sn_sysfs_pkeys_refresh(fabric, nic);
	atomic_fetch_add(&nic->tenant.pkey_gen, 1);
	atomic_fetch_add(&nic->event_gen, 1);
	sn_proc_wake_all(fabric);
	return 0;
}

/* ---- VLANs ---------------------------------------------------------------------------------- */

uint16_t sn_nic_vlan_at(const struct sn_nic *nic, uint32_t index)
{
	return index < SN_MAX_GIDS
		       ? atomic_load_explicit(&nic->tenant.gid_vlan[index], memory_order_relaxed)
		       : 0;
}

/* 10.rail.0.host+1 becomes 10+(VLAN / 256).rail.(VLAN % 256).host+1. */
static void vlan_gid(const struct sn_nic *nic, uint16_t vlan, uint8_t gid[16])
{
	memcpy(gid, nic->gid, 16);
	gid[12] += vlan >> 8;
	gid[14] = vlan & 0xff;
}

/* ---- GIDs ----------------------------------------------------------------------------------- */

void sn_nic_use_driver_gids(struct sn_nic *nic, bool use)
{
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		atomic_store(&nic->gid_type[i], SN_GID_NONE);
		atomic_store(&nic->tenant.gid_vlan[i], 0);
	}
	memset(nic->tenant.driver_gid.at, 0, sizeof(nic->tenant.driver_gid.at));
	atomic_store(&nic->tenant.driver_gid.used, use);
}

/* The entry is empty while its bytes change: other processes read them. */
int sn_nic_set_driver_gid(struct sn_nic *nic, uint32_t index, const uint8_t gid[16], uint32_t type,
			  uint16_t vlan)
{
	if (index >= SN_MAX_GIDS || vlan > SN_VLAN_MAX)
		return -EINVAL;
	atomic_store(&nic->gid_type[index], SN_GID_NONE);
	memcpy(nic->tenant.driver_gid.at[index], gid, 16);
	atomic_store(&nic->tenant.gid_vlan[index], vlan);
	atomic_store(&nic->gid_type[index], type);
	return 0;
}

void sn_nic_gid_at(const struct sn_nic *nic, uint32_t index, uint8_t gid[16])
{
	uint16_t vlan = sn_nic_vlan_at(nic, index);

	if (atomic_load_explicit(&nic->tenant.driver_gid.used, memory_order_relaxed)) {
		memcpy(gid, nic->tenant.driver_gid.at[index < SN_MAX_GIDS ? index : 0], 16);
		return;
	}
	memcpy(gid, nic->gid, 16);
	if (vlan)
		vlan_gid(nic, vlan, gid);
}

void sn_nic_vlan_name(const struct sn_nic *nic, uint16_t vlan, char *buf, uint32_t len)
{
	snprintf(buf, len, "%.10s.%u", nic->netdev, vlan);
}

static bool driver_has_gid(const struct sn_nic *nic, const uint8_t gid[16], uint16_t vlan)
{
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		if (atomic_load(&nic->gid_type[i]) != SN_GID_NONE &&
		    sn_nic_vlan_at(nic, i) == vlan &&
		    !memcmp(nic->tenant.driver_gid.at[i], gid, 16))
			return true;
	return false;
}

static bool nic_has_gid(const struct sn_nic *nic, const uint8_t gid[16], uint16_t vlan)
{
	uint8_t own[16];

	if (atomic_load(&nic->tenant.driver_gid.used))
		return driver_has_gid(nic, gid, vlan);
	if (!vlan)
		return !memcmp(nic->gid, gid, 16);
	vlan_gid(nic, vlan, own);
	if (memcmp(own, gid, 16))
		return false;
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		if (sn_nic_vlan_at(nic, i) == vlan)
			return true;
	return false;
}

int sn_fabric_find_gid(const struct sn_fabric *fabric, const uint8_t gid[16], uint16_t vlan,
		       int *host, int *nic)
{
	for (uint32_t h = 0; h < fabric->n_hosts; h++)
		for (uint32_t n = 0; n < fabric->n_nics; n++)
			if (nic_has_gid(&fabric->nic[h][n], gid, vlan)) {
				*host = (int)h;
				*nic = (int)n;
				return 0;
			}
	return -EHOSTUNREACH;
}

int sn_nic_set_vlan(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t index, uint16_t vlan)
{
	if (nic->link_layer != SN_LINK_ETH)
		return -EOPNOTSUPP;
	if (index >= SN_MAX_GIDS || vlan > SN_VLAN_MAX)
		return -EINVAL;
	atomic_store(&nic->tenant.gid_vlan[index], vlan);
	atomic_store(&nic->gid_type[index], vlan ? SN_GID_ROCE_V2 : SN_GID_NONE);
	sn_nic_gids_changed(fabric, nic);
	return 0;
}
