/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The port as the driver sees it: its state, names and addresses, GIDs and partition keys. */
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { GID = 16, ROCE_V2 = 2 };
enum { PHYSICAL_POLLING = 2, PHYSICAL_LINK_UP = 5, LOGICAL_DOWN = 1, LOGICAL_ACTIVE = 4 };
enum {
	DEFAULT_PKEY = 0xffff,
	ALL_PKEYS = 0xffff,
	ALL_GIDS = 0xffff,
	SM_LID = 1,
	SUBNET_TIMEOUT = 18
};
#define LINK_LOCAL 0xfe80000000000000ull
/*
 * Capabilities of an InfiniBand port, as IBA's PortInfo has them: traps, automatic migration,
 * system image GUID, ...
 */
#define PORT_CAPABILITIES 0x2259e84au

uint8_t sn_query_vport_state(struct sn_pci *pci, struct sn_command *cmd)
{
	SN_SET(query_vport_state_out, cmd->out, admin_state, 1);
	SN_SET(query_vport_state_out, cmd->out, state, pci->port.up);
	return SN_OK;
}

uint8_t sn_query_nic_vport_context(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *context = SN_AT(query_nic_vport_context_out, cmd->out, nic_vport_context);
	const struct sn_pci_identity *id = &pci->identity;

	SN_SET(nic_vport_context, context, mtu, pci->port.mtu);
	SN_SET(nic_vport_context, context, roce_en, pci->port.roce);
	SN_SET(nic_vport_context, context, system_image_guid, id->guid);
	SN_SET(nic_vport_context, context, node_guid, id->guid);
	SN_SET(nic_vport_context, context, port_guid, id->guid);
	/* two bytes of nothing come first */
	memcpy(SN_AT(nic_vport_context, context, permanent_address) + 2, id->mac, sizeof(id->mac));
	return SN_OK;
}

uint8_t sn_modify_nic_vport_context(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *select = SN_AT(modify_nic_vport_context_in, cmd->in, field_select);
	const uint8_t *context = SN_AT(modify_nic_vport_context_in, cmd->in, nic_vport_context);

	if (SN_GET(modify_nic_vport_field_select, select, roce_en))
		pci->port.roce = SN_GET(nic_vport_context, context, roce_en);
	if (SN_GET(modify_nic_vport_field_select, select, mtu))
		pci->port.mtu = SN_GET(nic_vport_context, context, mtu);
	return SN_OK;
}

/* The subnet manager may give another while the function lives. */
static uint32_t lid_of(const struct sn_pci *pci)
{
	struct sn_bridge_port port;

	if (!pci->bridge)
		return pci->identity.lid;
	sn_bridge_port(pci->bridge, &port);
	return port.lid;
}

uint8_t sn_query_hca_vport_context(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *context = SN_AT(query_hca_vport_context_out, cmd->out, hca_vport_context);
	uint32_t logical = pci->port.up ? LOGICAL_ACTIVE : LOGICAL_DOWN;

	SN_SET(hca_vport_context, context, has_smi, 1);
	SN_SET(hca_vport_context, context, port_physical_state,
	       pci->port.up ? PHYSICAL_LINK_UP : PHYSICAL_POLLING);
	SN_SET(hca_vport_context, context, vport_state, logical);
	SN_SET(hca_vport_context, context, port_state, logical);
	SN_SET(hca_vport_context, context, system_image_guid, pci->identity.guid);
	SN_SET(hca_vport_context, context, port_guid, pci->identity.guid);
	SN_SET(hca_vport_context, context, node_guid, pci->identity.guid);
	SN_SET(hca_vport_context, context, cap_mask1, PORT_CAPABILITIES);
	SN_SET(hca_vport_context, context, lid, lid_of(pci));
	SN_SET(hca_vport_context, context, sm_lid, SM_LID);
	SN_SET(hca_vport_context, context, subnet_timeout, SUBNET_TIMEOUT);
	return SN_OK;
}

/* Where no fabric says more, there is one GID, of the subnet without a manager's prefix. */
static void gid_of(const struct sn_pci *pci, uint32_t index, uint8_t *gid)
{
	if (pci->bridge) {
		sn_bridge_gid(pci->bridge, index, gid);
	} else if (!index) {
		sn_store64(gid, LINK_LOCAL);
		sn_store64(gid + 8, pci->identity.guid);
	}
}

uint8_t sn_query_hca_vport_gid(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t index = SN_GET(query_hca_vport_gid_in, cmd->in, gid_index);
	uint8_t *gid = SN_AT(query_hca_vport_gid_out, cmd->out, gid);

	if (index >= SN_IB_GIDS && index != ALL_GIDS)
		return SN_BAD_INDEX;
	SN_SET(query_hca_vport_gid_out, cmd->out, gids_num, 1);
	gid_of(pci, index == ALL_GIDS ? 0 : index, gid);
	return SN_OK;
}

static uint32_t pkey_of(const struct sn_pci *pci, uint32_t index)
{
	if (pci->bridge)
		return sn_bridge_pkey(pci->bridge, index);
	return index ? 0 : DEFAULT_PKEY;
}

uint8_t sn_query_hca_vport_pkey(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t index = SN_GET(query_hca_vport_pkey_in, cmd->in, pkey_index);
	uint8_t *list = SN_AT(query_hca_vport_pkey_out, cmd->out, pkey);
	uint32_t room = SN_FIELD_BYTE(query_hca_vport_pkey_out, pkey) + 4;

	if (index >= SN_PKEYS && index != ALL_PKEYS)
		return SN_BAD_INDEX;
	if (cmd->out_bytes < room)
		return SN_BAD_OUTPUT_LENGTH;
	if (index != ALL_PKEYS) {
		sn_store32(list, pkey_of(pci, index));
		return SN_OK;
	}
	for (index = 0; index < SN_PKEYS && 4 * index < cmd->out_bytes - room + 4; index++)
		sn_store32(list + 4 * index, pkey_of(pci, index));
	return SN_OK;
}

/* Peers find the NIC by its addresses; one of zeros takes the old one away. */
static int set_gid(struct sn_pci *pci, uint32_t index, const uint8_t *address)
{
	static const uint8_t none[GID];
	const uint8_t *gid = SN_AT(roce_addr_layout, address, source_l3_address);
	uint32_t version = SN_GET(roce_addr_layout, address, roce_version) == ROCE_V2 ? 2 : 1;
	bool has_vlan = SN_GET(roce_addr_layout, address, vlan_valid);
	uint16_t vlan = has_vlan ? SN_GET(roce_addr_layout, address, vlan_id) : 0;

	if (!memcmp(gid, none, GID))
		version = 0;
	return sn_bridge_set_gid(pci->bridge, index, gid, version, vlan);
}

uint8_t sn_set_roce_address(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *address = SN_AT(set_roce_address_in, cmd->in, roce_address);
	uint32_t index = SN_GET(set_roce_address_in, cmd->in, roce_address_index);

	if (index >= SN_ROCE_ADDRESSES)
		return SN_BAD_INDEX;
	memcpy(pci->port.gid[index], address, SN_ROCE_ADDRESS_BYTES);
	return pci->bridge ? sn_data_status(set_gid(pci, index, address)) : SN_OK;
}

uint8_t sn_query_roce_address(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t index = SN_GET(query_roce_address_in, cmd->in, roce_address_index);

	if (index >= SN_ROCE_ADDRESSES)
		return SN_BAD_INDEX;
	memcpy(SN_AT(query_roce_address_out, cmd->out, roce_address), pci->port.gid[index],
	       SN_ROCE_ADDRESS_BYTES);
	return SN_OK;
}
