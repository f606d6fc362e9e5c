/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Registers of the port and of the firmware, behind ACCESS_REG. */
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { WRITE = 0, READ = 1 };
enum { PMTU = 0x5003, PTYS = 0x5004, PAOS = 0x5006, PPCNT = 0x5008, PVLC = 0x500f, DTOR = 0xc00e };
enum {
	PTYS_INFINIBAND = 1,
	PTYS_ETHERNET = 4,
	ETH_100G_CR4 = 1 << 20,
	IB_EDR = 1 << 5,
	IB_ALL = 0x3f
};
enum { WIDTH_4X = 2, WIDTHS = 7, IB_MTU = 4096, ETH_MAX_MTU = 4096, PORT_UP = 1, PORT_DOWN = 2 };
enum { DRIVER_TIMEOUT_MS = 2000, SHORTEST = 64 };

static void read_ptys(const struct sn_pci *pci, uint8_t *reg)
{
	SN_SET(ptys_reg, reg, local_port, 1);
	SN_SET(ptys_reg, reg, proto_mask, pci->identity.ethernet ? PTYS_ETHERNET : PTYS_INFINIBAND);
	if (pci->identity.ethernet) {
		SN_SET(ptys_reg, reg, eth_proto_capability, ETH_100G_CR4);
		SN_SET(ptys_reg, reg, eth_proto_admin, ETH_100G_CR4);
		SN_SET(ptys_reg, reg, eth_proto_oper, pci->port.up ? ETH_100G_CR4 : 0);
		return;
	}
	SN_SET(ptys_reg, reg, ib_link_width_capability, WIDTHS);
	SN_SET(ptys_reg, reg, ib_proto_capability, IB_ALL);
	SN_SET(ptys_reg, reg, ib_link_width_oper, WIDTH_4X);
	SN_SET(ptys_reg, reg, ib_proto_oper, IB_EDR);
}

static void read_pmtu(const struct sn_pci *pci, uint8_t *reg)
{
	SN_SET(pmtu_reg, reg, local_port, 1);
	SN_SET(pmtu_reg, reg, max_mtu, pci->identity.ethernet ? ETH_MAX_MTU : IB_MTU);
	SN_SET(pmtu_reg, reg, admin_mtu, pci->identity.ethernet ? pci->port.mtu : IB_MTU);
	SN_SET(pmtu_reg, reg, oper_mtu, pci->identity.ethernet ? pci->port.mtu : IB_MTU);
}

static void read_paos(const struct sn_pci *pci, uint8_t *reg)
{
	SN_SET(paos_reg, reg, local_port, 1);
	SN_SET(paos_reg, reg, admin_status, pci->port.off ? PORT_DOWN : PORT_UP);
	SN_SET(paos_reg, reg, oper_status, pci->port.up ? PORT_UP : PORT_DOWN);
}

static void read_pvlc(uint8_t *reg)
{
	SN_SET(pvlc_reg, reg, local_port, 1);
	SN_SET(pvlc_reg, reg, vl_hw_cap, 4);
	SN_SET(pvlc_reg, reg, vl_admin, 1);
	SN_SET(pvlc_reg, reg, vl_operational, 1);
}

/* The driver's own timeouts, in milliseconds: short, so that a fault is over soon. */
static void read_dtor(const struct sn_pci *pci, uint8_t *reg)
{
	static const enum sn_field timeouts[] = {
		SN_F_dtor_reg_pcie_toggle_to,	    SN_F_dtor_reg_health_poll_to,
		SN_F_dtor_reg_full_crdump_to,	    SN_F_dtor_reg_flush_on_err_to,
		SN_F_dtor_reg_pci_sync_update_to,   SN_F_dtor_reg_tear_down_to,
		SN_F_dtor_reg_fsm_reactivate_to,    SN_F_dtor_reg_reclaim_pages_to,
		SN_F_dtor_reg_reclaim_vfs_pages_to,
	};

	for (uint32_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++)
		sn_field_set(reg, timeouts[i], DRIVER_TIMEOUT_MS);
	SN_SET(dtor_reg, reg, fw_reset_to, pci->reset_timeout_ms);
}

static void read_register(struct sn_pci *pci, uint32_t id, const uint8_t *asked, uint8_t *reg)
{
	switch (id) {
	case PTYS: read_ptys(pci, reg); break;
	case PMTU: read_pmtu(pci, reg); break;
	case PAOS: read_paos(pci, reg); break;
	case PPCNT: sn_read_ppcnt(pci, asked, reg); break;
	case PVLC: read_pvlc(reg); break;
	case DTOR: read_dtor(pci, reg); break;
	default: sn_pci_say(pci, "  register 0x%x reads as zeros", id); break;
	}
}

static void write_register(struct sn_pci *pci, uint32_t id, const uint8_t *reg)
{
	if (id == PMTU && pci->identity.ethernet)
		pci->port.mtu = SN_GET(pmtu_reg, reg, admin_mtu);
	if (id == PAOS && pci->identity.ethernet)
		sn_pci_switch_off(pci, SN_GET(paos_reg, reg, admin_status) == PORT_DOWN);
}

uint8_t sn_access_register(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t id = SN_GET(access_register_in, cmd->in, register_id);
	uint32_t listed = sn_command_listed(cmd, SN_FIELD_BYTE(access_register_in, register_data));
	const uint8_t *asked = SN_AT(access_register_in, cmd->in, register_data);
	uint8_t *answer = SN_AT(access_register_out, cmd->out, register_data);

	if (cmd->op_mod == READ) {
		read_register(pci, id, asked, answer);
		return SN_OK;
	}
	write_register(pci, id, asked);
	memcpy(answer, asked, listed < SHORTEST ? listed : SHORTEST);
	return SN_OK;
}
