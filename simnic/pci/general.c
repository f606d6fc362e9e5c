/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands of the function as a whole, and of objects that are no more than a number. */
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { MELLANOX_OUI = 0x2c9, ISSI_0_AND_1 = 3, ISSI_MOST = 1 };

uint8_t sn_do_nothing(struct sn_pci *pci, struct sn_command *cmd)
{
	(void)pci;
	(void)cmd;
	return SN_OK;
}

uint8_t sn_give_number(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t number = sn_numbers_give(pci->numbers, cmd->row->kind);

	if (!number)
		return SN_NO_RESOURCES;
	sn_command_give_number(cmd, number);
	return SN_OK;
}

static uint8_t drop(struct sn_pci *pci, const struct sn_command *cmd, uint32_t number)
{
	return sn_numbers_drop(pci->numbers, cmd->row->kind, number) ? SN_OK : SN_BAD_RESOURCE;
}

uint8_t sn_drop_number(struct sn_pci *pci, struct sn_command *cmd)
{
	return drop(pci, cmd, sn_command_number(cmd));
}

uint8_t sn_destroy_flow_table(struct sn_pci *pci, struct sn_command *cmd)
{
	return drop(pci, cmd, SN_GET(destroy_flow_table_in, cmd->in, table_id));
}

uint8_t sn_destroy_flow_group(struct sn_pci *pci, struct sn_command *cmd)
{
	return drop(pci, cmd, SN_GET(destroy_flow_group_in, cmd->in, group_id));
}

uint8_t sn_query_adapter(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *block = SN_AT(query_adapter_out, cmd->out, query_adapter_struct);

	(void)pci;
	SN_SET(query_adapter_param_block, block, ieee_vendor_id, MELLANOX_OUI);
	memcpy(SN_AT(query_adapter_param_block, block, vsd_contd_psid), "SIMNIC0000000001", 16);
	return SN_OK;
}

/*
 * A new life: whatever the driver of the last one left behind is forgotten before anything is
 * written there.
 */
uint8_t sn_enable_hca(struct sn_pci *pci, struct sn_command *cmd)
{
	(void)cmd;
	sn_pci_forget(pci);
	sn_iseg_clear_health(pci);
	return SN_OK;
}

uint8_t sn_query_issi(struct sn_pci *pci, struct sn_command *cmd)
{
	(void)pci;
	SN_SET(query_issi_out, cmd->out, supported_issi_dw0, ISSI_0_AND_1);
	return SN_OK;
}

uint8_t sn_set_issi(struct sn_pci *pci, struct sn_command *cmd)
{
	(void)pci;
	return SN_GET(set_issi_in, cmd->in, current_issi) <= ISSI_MOST ? SN_OK : SN_BAD_PARAM;
}
