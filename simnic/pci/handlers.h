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
/* counter.c */
sn_handler sn_query_vport_counter, sn_query_q_counter, sn_mad_ifc;
/* The register PPCNT; @asked names a group of counters, and one that is unknown reads as zeros. */
void sn_read_ppcnt(const struct sn_pci *pci, const uint8_t *asked, uint8_t *reg);
/* key.c */
sn_handler sn_query_special_contexts, sn_create_mkey, sn_query_mkey, sn_destroy_mkey;
/* cq.c */
sn_handler sn_create_cq, sn_destroy_cq, sn_query_cq, sn_modify_cq;
/* srq.c: shared receive queues, which the driver makes by three commands */
sn_handler sn_create_srq, sn_create_rmp, sn_destroy_srq;
sn_handler sn_query_srq, sn_query_rmp, sn_arm_srq, sn_arm_rmp;
/* ether.c */
sn_handler sn_create_sq, sn_modify_sq, sn_query_sq, sn_destroy_sq;
sn_handler sn_create_rq, sn_modify_rq, sn_destroy_rq;
sn_handler sn_create_tir, sn_destroy_tir, sn_create_rqt, sn_modify_rqt, sn_destroy_rqt;
/* qp.c */
sn_handler sn_create_qp, sn_destroy_qp, sn_query_qp, sn_modify_qp;

#endif
