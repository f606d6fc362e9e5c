/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fields of registers, the init segment and the command queue: layout, name, first bit, bits. See
 * field.h.
 */
#ifndef SIMNIC_PCI_FIELDS_REG_H
#define SIMNIC_PCI_FIELDS_REG_H

/* clang-format off: a list, one field a line */
#define SN_FIELDS_REG(F)                                                                           \
	F(ptys_reg, local_port, 0x8, 8)                                                            \
	F(ptys_reg, proto_mask, 0x1d, 3)                                                           \
	F(ptys_reg, eth_proto_capability, 0x60, 32)                                                \
	F(ptys_reg, eth_proto_admin, 0xc0, 32)                                                     \
	F(ptys_reg, eth_proto_oper, 0x120, 32)                                                     \
	F(ptys_reg, ib_link_width_capability, 0x80, 16)                                            \
	F(ptys_reg, ib_proto_capability, 0x90, 16)                                                 \
	F(ptys_reg, ib_link_width_oper, 0x140, 16)                                                 \
	F(ptys_reg, ib_proto_oper, 0x150, 16)                                                      \
	F(pmtu_reg, local_port, 0x8, 8)                                                            \
	F(pmtu_reg, max_mtu, 0x20, 16)                                                             \
	F(pmtu_reg, admin_mtu, 0x40, 16)                                                           \
	F(pmtu_reg, oper_mtu, 0x60, 16)                                                            \
	F(pvlc_reg, local_port, 0x8, 8)                                                            \
	F(pvlc_reg, vl_hw_cap, 0x3c, 4)                                                            \
	F(pvlc_reg, vl_admin, 0x5c, 4)                                                             \
	F(pvlc_reg, vl_operational, 0x7c, 4)                                                       \
	F(paos_reg, local_port, 0x8, 8)                                                            \
	F(paos_reg, admin_status, 0x14, 4)                                                         \
	F(paos_reg, oper_status, 0x1c, 4)                                                          \
	F(ppcnt_reg, local_port, 0x8, 8)                                                           \
	F(ppcnt_reg, grp, 0x1a, 6)                                                                 \
	F(ppcnt_reg, counter_set, 0x40, 1984)                                                      \
	F(ib_port_cntrs_grp_data_layout, symbol_error_counter, 0x0, 16)                            \
	F(ib_port_cntrs_grp_data_layout, link_downed_counter, 0x18, 8)                             \
	F(ib_port_cntrs_grp_data_layout, port_rcv_errors, 0x20, 16)                                \
	F(ib_port_cntrs_grp_data_layout, port_xmit_wait, 0x120, 32)                                \
	F(dtor_reg, pcie_toggle_to, 0x20, 32)                                                      \
	F(dtor_reg, health_poll_to, 0xa0, 32)                                                      \
	F(dtor_reg, full_crdump_to, 0xc0, 32)                                                      \
	F(dtor_reg, fw_reset_to, 0xe0, 32)                                                         \
	F(dtor_reg, flush_on_err_to, 0x100, 32)                                                    \
	F(dtor_reg, pci_sync_update_to, 0x120, 32)                                                 \
	F(dtor_reg, tear_down_to, 0x140, 32)                                                       \
	F(dtor_reg, fsm_reactivate_to, 0x160, 32)                                                  \
	F(dtor_reg, reclaim_pages_to, 0x180, 32)                                                   \
	F(dtor_reg, reclaim_vfs_pages_to, 0x1a0, 32)                                               \
	F(initial_seg, fw_rev_minor, 0x0, 16)                                                      \
	F(initial_seg, fw_rev_major, 0x10, 16)                                                     \
	F(initial_seg, cmd_interface_rev, 0x20, 16)                                                \
	F(initial_seg, fw_rev_subminor, 0x30, 16)                                                  \
	F(initial_seg, cmdq_phy_addr_63_32, 0x80, 32)                                              \
	F(initial_seg, cmdq_phy_addr_31_12, 0xa0, 20)                                              \
	F(initial_seg, nic_interface, 0xb6, 2)                                                     \
	F(initial_seg, log_cmdq_size, 0xb8, 4)                                                     \
	F(initial_seg, log_cmdq_stride, 0xbc, 4)                                                   \
	F(initial_seg, command_doorbell_vector, 0xc0, 32)                                          \
	F(initial_seg, initializing, 0xfe0, 1)                                                     \
	F(initial_seg, health_buffer, 0x1000, 512)                                                 \
	F(initial_seg, health_syndrome, 0x8080, 8)                                                 \
	F(initial_seg, health_counter, 0x8088, 24)                                                 \
	F(health_buffer, assert_existptr, 0x100, 32)                                               \
	F(health_buffer, assert_callra, 0x120, 32)                                                 \
	F(health_buffer, fw_version, 0x180, 32)                                                    \
	F(health_buffer, hw_id, 0x1a0, 32)                                                         \
	F(health_buffer, rfr, 0x1c0, 1)                                                            \
	F(health_buffer, severity, 0x1c5, 3)                                                       \
	F(health_buffer, irisc_index, 0x1e0, 8)                                                    \
	F(health_buffer, synd, 0x1e8, 8)                                                           \
	F(health_buffer, ext_synd, 0x1f0, 16)                                                      \
	F(cmd_queue_entry, type, 0x0, 8)                                                           \
	F(cmd_queue_entry, input_length, 0x20, 32)                                                 \
	F(cmd_queue_entry, input_mailbox_pointer_63_32, 0x40, 32)                                  \
	F(cmd_queue_entry, input_mailbox_pointer_31_9, 0x60, 23)                                   \
	F(cmd_queue_entry, command_input_inline_data, 0x80, 128)                                   \
	F(cmd_queue_entry, command_output_inline_data, 0x100, 128)                                 \
	F(cmd_queue_entry, output_mailbox_pointer_63_32, 0x180, 32)                                \
	F(cmd_queue_entry, output_mailbox_pointer_31_9, 0x1a0, 23)                                 \
	F(cmd_queue_entry, output_length, 0x1c0, 32)                                               \
	F(cmd_queue_entry, token, 0x1e0, 8)                                                        \
	F(cmd_queue_entry, signature, 0x1e8, 8)                                                    \
	F(cmd_queue_entry, status, 0x1f8, 7)                                                       \
	F(cmd_queue_entry, ownership, 0x1ff, 1)
/* clang-format on */

#endif
