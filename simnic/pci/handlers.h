/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The handlers of all commands, by the file that has them; the table is opcode.c. See opcode.h for
 * what a handler does.
 */
#ifndef SIMNIC_PCI_HANDLERS_H
#define SIMNIC_PCI_HANDLERS_H

#include "simnic/pci/opcode.h"

/* general.c */
sn_handler sn_do_nothing, sn_give_number, sn_drop_number;
sn_handler sn_query_adapter, sn_enable_hca, sn_query_issi, sn_set_issi;
sn_handler sn_destroy_flow_table, sn_destroy_flow_group;
/* caps.c, pages.c */
sn_handler sn_query_hca_cap, sn_set_hca_cap, sn_query_pages, sn_manage_pages;
/* eq.c */
sn_handler sn_create_eq, sn_destroy_eq, sn_query_eq;
/* vport.c, register.c */
sn_handler sn_query_vport_state, sn_query_nic_vport_context, sn_modify_nic_vport_context;
sn_handler sn_query_hca_vport_context, sn_query_hca_vport_gid, sn_query_hca_vport_pkey;
sn_handler sn_set_roce_address, sn_query_roce_address, sn_access_register;

#endif
