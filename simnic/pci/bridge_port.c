/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/mad.h"
#include "simnic/pci/bridge_port.h"
#include "simnic/pci/bridge_own.h"

bool sn_bridge_is_ethernet(const struct sn_bridge *bridge)
{
	return bridge->nic->link_layer == SN_LINK_ETH;
}

void sn_bridge_port(const struct sn_bridge *bridge, struct sn_bridge_port *port)
{
	const struct sn_nic *nic = bridge->nic;

	*port = (struct sn_bridge_port){
		.up = atomic_load(&nic->port_up),
		.ethernet = sn_bridge_is_ethernet(bridge),
		.lid = nic->lid,
		.node_guid = nic->node_guid,
	};
}

uint16_t sn_bridge_pkey(const struct sn_bridge *bridge, uint32_t index)
{
	return index < sn_nic_pkeys(bridge->nic) ? atomic_load(&bridge->nic->tenant.pkey[index])
						 : 0;
}

void sn_bridge_gid(const struct sn_bridge *bridge, uint32_t index, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (index < SN_MAX_GIDS && atomic_load(&bridge->nic->gid_type[index]) != SN_GID_NONE)
		sn_nic_gid_at(bridge->nic, index, gid);
}

int sn_bridge_set_gid(struct sn_bridge *bridge, uint32_t index, const uint8_t gid[16],
		      uint32_t roce_version, uint16_t vlan)
{
	static const uint32_t types[] = { SN_GID_NONE, SN_GID_ROCE_V1, SN_GID_ROCE_V2 };

	if (!sn_bridge_is_ethernet(bridge) || roce_version > 2)
		return -EINVAL;
	return sn_dev_set_gid(bridge->dev, index, gid, types[roce_version], vlan);
}

uint64_t sn_bridge_counter(const struct sn_bridge *bridge, const char *file)
{
	int number = sn_counter_find(file);

	return number < 0 ? 0 : sn_counter_read(bridge->fabric, bridge->nic, (uint32_t)number);
}

bool sn_bridge_mad(const struct sn_bridge *bridge, uint8_t mad[256])
{
	uint8_t whole[SN_MAD_ANSWER_BYTES] = { 0 };

	memcpy(whole, mad, SN_MAD_BYTES);
	if (!sn_mad_answer(bridge->fabric, bridge->nic, bridge->nic->lid, whole))
		return false;
	memcpy(mad, whole, SN_MAD_BYTES);
	return true;
}
