/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of commands, by opcode. A command that is not here is refused, as unknown. */
#include <stddef.h>

#include "simnic/pci/handlers.h"

static const struct sn_opcode opcodes[] = {
	{ 0x100, "QUERY_HCA_CAP", sn_query_hca_cap, 0 },
	{ 0x101, "QUERY_ADAPTER", sn_query_adapter, 0 },
	{ 0x102, "INIT_HCA", sn_do_nothing, 0 },
	{ 0x103, "TEARDOWN_HCA", sn_do_nothing, 0 },
	{ 0x104, "ENABLE_HCA", sn_enable_hca, 0 },
	{ 0x105, "DISABLE_HCA", sn_do_nothing, 0 },
	{ 0x107, "QUERY_PAGES", sn_query_pages, 0 },
	{ 0x108, "MANAGE_PAGES", sn_manage_pages, 0 },
	{ 0x109, "SET_HCA_CAP", sn_set_hca_cap, 0 },
	{ 0x10a, "QUERY_ISSI", sn_query_issi, 0 },
	{ 0x10b, "SET_ISSI", sn_set_issi, 0 },
	{ 0x10d, "SET_DRIVER_VERSION", sn_do_nothing, 0 },
	{ 0x301, "CREATE_EQ", sn_create_eq, 0 },
	{ 0x302, "DESTROY_EQ", sn_destroy_eq, 0 },
	{ 0x303, "QUERY_EQ", sn_query_eq, 0 },
	{ 0x750, "QUERY_VPORT_STATE", sn_query_vport_state, 0 },
	{ 0x751, "MODIFY_VPORT_STATE", sn_do_nothing, 0 },
	{ 0x754, "QUERY_NIC_VPORT_CONTEXT", sn_query_nic_vport_context, 0 },
	{ 0x755, "MODIFY_NIC_VPORT_CONTEXT", sn_modify_nic_vport_context, 0 },
	{ 0x760, "QUERY_ROCE_ADDRESS", sn_query_roce_address, 0 },
	{ 0x761, "SET_ROCE_ADDRESS", sn_set_roce_address, 0 },
	{ 0x762, "QUERY_HCA_VPORT_CONTEXT", sn_query_hca_vport_context, 0 },
	{ 0x764, "QUERY_HCA_VPORT_GID", sn_query_hca_vport_gid, 0 },
	{ 0x765, "QUERY_HCA_VPORT_PKEY", sn_query_hca_vport_pkey, 0 },
	{ 0x770, "QUERY_VPORT_COUNTER", sn_do_nothing, 0 },
	{ 0x771, "ALLOC_Q_COUNTER", sn_give_number, SN_KIND_Q_COUNTER },
	{ 0x772, "DEALLOC_Q_COUNTER", sn_drop_number, SN_KIND_Q_COUNTER },
	{ 0x773, "QUERY_Q_COUNTER", sn_do_nothing, 0 },
	{ 0x800, "ALLOC_PD", sn_give_number, SN_KIND_PD },
	{ 0x801, "DEALLOC_PD", sn_drop_number, SN_KIND_PD },
	{ 0x802, "ALLOC_UAR", sn_give_number, SN_KIND_UAR },
	{ 0x803, "DEALLOC_UAR", sn_drop_number, SN_KIND_UAR },
	{ 0x804, "CONFIG_INT_MODERATION", sn_do_nothing, 0 },
	{ 0x805, "ACCESS_REG", sn_access_register, 0 },
	{ 0x806, "ATTACH_TO_MCG", sn_do_nothing, 0 },
	{ 0x807, "DETACH_FROM_MCG", sn_do_nothing, 0 },
	{ 0x80d, "NOP", sn_do_nothing, 0 },
	{ 0x80e, "ALLOC_XRCD", sn_give_number, SN_KIND_XRCD },
	{ 0x80f, "DEALLOC_XRCD", sn_drop_number, SN_KIND_XRCD },
	{ 0x816, "ALLOC_TRANSPORT_DOMAIN", sn_give_number, SN_KIND_TRANSPORT_DOMAIN },
	{ 0x817, "DEALLOC_TRANSPORT_DOMAIN", sn_drop_number, SN_KIND_TRANSPORT_DOMAIN },
	{ 0x829, "SET_L2_TABLE_ENTRY", sn_do_nothing, 0 },
	{ 0x82b, "DELETE_L2_TABLE_ENTRY", sn_do_nothing, 0 },
	{ 0x900, "CREATE_TIR", sn_give_number, SN_KIND_TIR },
	{ 0x901, "MODIFY_TIR", sn_do_nothing, 0 },
	{ 0x902, "DESTROY_TIR", sn_drop_number, SN_KIND_TIR },
	{ 0x904, "CREATE_SQ", sn_give_number, SN_KIND_SQ },
	{ 0x905, "MODIFY_SQ", sn_do_nothing, 0 },
	{ 0x906, "DESTROY_SQ", sn_drop_number, SN_KIND_SQ },
	{ 0x908, "CREATE_RQ", sn_give_number, SN_KIND_RQ },
	{ 0x909, "MODIFY_RQ", sn_do_nothing, 0 },
	{ 0x90a, "DESTROY_RQ", sn_drop_number, SN_KIND_RQ },
	{ 0x912, "CREATE_TIS", sn_give_number, SN_KIND_TIS },
	{ 0x913, "MODIFY_TIS", sn_do_nothing, 0 },
	{ 0x914, "DESTROY_TIS", sn_drop_number, SN_KIND_TIS },
	{ 0x916, "CREATE_RQT", sn_give_number, SN_KIND_RQT },
	{ 0x917, "MODIFY_RQT", sn_do_nothing, 0 },
	{ 0x918, "DESTROY_RQT", sn_drop_number, SN_KIND_RQT },
	{ 0x92f, "SET_FLOW_TABLE_ROOT", sn_do_nothing, 0 },
	{ 0x930, "CREATE_FLOW_TABLE", sn_give_number, SN_KIND_FLOW_TABLE },
	{ 0x931, "DESTROY_FLOW_TABLE", sn_destroy_flow_table, SN_KIND_FLOW_TABLE },
	{ 0x933, "CREATE_FLOW_GROUP", sn_give_number, SN_KIND_FLOW_GROUP },
	{ 0x934, "DESTROY_FLOW_GROUP", sn_destroy_flow_group, SN_KIND_FLOW_GROUP },
	{ 0x936, "SET_FLOW_TABLE_ENTRY", sn_do_nothing, 0 },
	{ 0x938, "DELETE_FLOW_TABLE_ENTRY", sn_do_nothing, 0 },
	{ 0x939, "ALLOC_FLOW_COUNTER", sn_give_number, SN_KIND_FLOW_COUNTER },
	{ 0x93a, "DEALLOC_FLOW_COUNTER", sn_drop_number, SN_KIND_FLOW_COUNTER },
	{ 0x93c, "MODIFY_FLOW_TABLE", sn_do_nothing, 0 },
};

const struct sn_opcode *sn_opcode_find(uint16_t opcode)
{
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		if (opcodes[i].opcode == opcode)
			return &opcodes[i];
	return NULL;
}
