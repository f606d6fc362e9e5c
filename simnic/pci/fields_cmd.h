/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fields of the commands' input and output: layout, name, first bit, bits. See field.h.
 */
#ifndef SIMNIC_PCI_FIELDS_CMD_H
#define SIMNIC_PCI_FIELDS_CMD_H

/* clang-format off: a list, one field a line */
#define SN_FIELDS_CMD(F)                                                                           \
	F(query_adapter_out, query_adapter_struct, 0x80, 2048)                                     \
	F(query_adapter_param_block, ieee_vendor_id, 0xc8, 24)                                     \
	F(query_adapter_param_block, vsd_contd_psid, 0x780, 128)                                   \
	F(manage_pages_in, input_num_entries, 0x60, 32)                                            \
	F(manage_pages_in, pas, 0x80, 0)                                                           \
	F(manage_pages_out, output_num_entries, 0x40, 32)                                          \
	F(manage_pages_out, pas, 0x80, 0)                                                          \
	F(query_q_counter_out, rx_write_requests, 0x80, 32)                                        \
	F(query_q_counter_out, rx_read_requests, 0xc0, 32)                                         \
	F(query_q_counter_out, rx_atomic_requests, 0x100, 32)                                      \
	F(query_q_counter_out, out_of_buffer, 0x180, 32)                                           \
	F(query_q_counter_out, out_of_sequence, 0x1c0, 32)                                         \
	F(query_q_counter_out, duplicate_request, 0x200, 32)                                       \
	F(query_q_counter_out, rnr_nak_retry_err, 0x240, 32)                                       \
	F(query_q_counter_out, packet_seq_err, 0x280, 32)                                          \
	F(query_q_counter_out, implied_nak_seq_err, 0x2c0, 32)                                     \
	F(query_q_counter_out, local_ack_timeout_err, 0x300, 32)                                   \
	F(query_q_counter_out, req_transport_retries_exceeded, 0x5a0, 32)                          \
	F(query_vport_counter_out, received_errors, 0x80, 128)                                     \
	F(query_vport_counter_out, received_ib_unicast, 0x180, 128)                                \
	F(query_vport_counter_out, transmitted_ib_unicast, 0x200, 128)                             \
	F(query_vport_counter_out, received_eth_unicast, 0x480, 128)                               \
	F(query_vport_counter_out, transmitted_eth_unicast, 0x500, 128)                            \
	F(traffic_counter, packets, 0x0, 64)                                                       \
	F(traffic_counter, octets, 0x40, 64)                                                       \
	F(mad_ifc_in, mad, 0x80, 2048)                                                             \
	F(mad_ifc_out, response_mad_packet, 0x80, 2048)                                            \
	F(query_pages_out, num_pages, 0x60, 32)                                                    \
	F(query_issi_out, current_issi, 0x50, 16)                                                  \
	F(query_issi_out, supported_issi_dw0, 0x360, 32)                                           \
	F(set_issi_in, current_issi, 0x50, 16)                                                     \
	F(query_special_contexts_out, resd_lkey, 0x60, 32)                                         \
	F(query_special_contexts_out, null_mkey, 0x80, 32)                                         \
	F(create_mkey_in, memory_key_mkey_entry, 0x80, 512)                                        \
	F(create_mkey_in, translations_octword_actual_size, 0x300, 32)                             \
	F(create_mkey_in, klm_pas_mtt, 0x880, 0)                                                   \
	F(create_mkey_out, mkey_index, 0x48, 24)                                                   \
	F(query_mkey_out, memory_key_mkey_entry, 0x80, 512)                                        \
	F(create_eq_in, eq_context_entry, 0x80, 512)                                               \
	F(create_eq_in, event_bitmask, 0x2c0, 256)                                                 \
	F(create_eq_in, pas, 0x880, 0)                                                             \
	F(create_eq_out, eq_number, 0x58, 8)                                                       \
	F(destroy_eq_in, eq_number, 0x58, 8)                                                       \
	F(query_eq_in, eq_number, 0x58, 8)                                                         \
	F(query_eq_out, eq_context_entry, 0x80, 512)                                               \
	F(create_cq_in, cq_context, 0x80, 512)                                                     \
	F(create_cq_in, pas, 0x880, 0)                                                             \
	F(create_cq_out, cqn, 0x48, 24)                                                            \
	F(query_cq_out, cq_context, 0x80, 512)                                                     \
	F(modify_cq_in, cqn, 0x48, 24)                                                             \
	F(modify_cq_in, modify_field_select_resize_field_select, 0x60, 32)                         \
	F(modify_cq_in, cq_context, 0x80, 512)                                                     \
	F(modify_cq_in, pas, 0x880, 0)                                                             \
	F(create_qp_in, input_qpn, 0x48, 24)                                                       \
	F(create_qp_in, opt_param_mask, 0x80, 32)                                                  \
	F(create_qp_in, qpc, 0xc0, 1856)                                                           \
	F(create_qp_in, pas, 0x880, 0)                                                             \
	F(create_qp_out, qpn, 0x48, 24)                                                            \
	F(rst2init_qp_in, qpn, 0x48, 24)                                                           \
	F(rst2init_qp_in, opt_param_mask, 0x80, 32)                                                \
	F(rst2init_qp_in, qpc, 0xc0, 1856)                                                         \
	F(query_qp_in, qpn, 0x48, 24)                                                              \
	F(query_qp_out, qpc, 0xc0, 1856)                                                           \
	F(query_qp_out, opt_param_mask, 0x80, 32)                                                  \
	F(create_srq_in, srq_context_entry, 0x80, 512)                                             \
	F(create_srq_in, pas, 0x880, 0)                                                            \
	F(query_srq_out, srq_context_entry, 0x80, 512)                                             \
	F(arm_rq_in, srq_number, 0x48, 24)                                                         \
	F(arm_rq_in, lwm, 0x70, 16)                                                                \
	F(create_xrc_srq_in, xrc_srq_context_entry, 0x80, 512)                                     \
	F(create_xrc_srq_in, pas, 0x880, 0)                                                        \
	F(query_xrc_srq_out, xrc_srq_context_entry, 0x80, 512)                                     \
	F(arm_xrc_srq_in, xrc_srqn, 0x48, 24)                                                      \
	F(arm_xrc_srq_in, lwm, 0x70, 16)                                                           \
	F(create_rmp_in, ctx, 0x100, 1920)                                                         \
	F(modify_rmp_in, ctx, 0x100, 1920)                                                         \
	F(query_rmp_out, rmp_context, 0x100, 1920)                                                 \
	F(create_sq_in, ctx, 0x100, 1920)                                                          \
	F(modify_sq_in, ctx, 0x100, 1920)                                                          \
	F(query_sq_out, sq_context, 0x100, 1920)                                                   \
	F(create_rq_in, ctx, 0x100, 1920)                                                          \
	F(modify_rq_in, ctx, 0x100, 1920)                                                          \
	F(create_tir_in, ctx, 0x100, 1920)                                                         \
	F(create_rqt_in, rqt_context, 0x100, 0)                                                    \
	F(modify_rqt_in, ctx, 0x100, 0)                                                            \
	F(query_vport_state_out, admin_state, 0x78, 4)                                             \
	F(query_vport_state_out, state, 0x7c, 4)                                                   \
	F(modify_vport_state_in, admin_state, 0x78, 4)                                             \
	F(query_nic_vport_context_in, allowed_list_type, 0x65, 3)                                  \
	F(query_nic_vport_context_out, nic_vport_context, 0x80, 2048)                              \
	F(modify_nic_vport_context_in, field_select, 0x60, 32)                                     \
	F(modify_nic_vport_context_in, nic_vport_context, 0x800, 2048)                             \
	F(query_hca_vport_context_out, hca_vport_context, 0x80, 4096)                              \
	F(query_hca_vport_gid_in, gid_index, 0x70, 16)                                             \
	F(query_hca_vport_gid_out, gids_num, 0x60, 16)                                             \
	F(query_hca_vport_gid_out, gid, 0x80, 0)                                                   \
	F(query_hca_vport_pkey_in, pkey_index, 0x70, 16)                                           \
	F(query_hca_vport_pkey_out, pkey, 0x80, 0)                                                 \
	F(set_roce_address_in, roce_address_index, 0x40, 16)                                       \
	F(set_roce_address_in, roce_address, 0x80, 256)                                            \
	F(query_roce_address_in, roce_address_index, 0x40, 16)                                     \
	F(query_roce_address_out, roce_address, 0x80, 256)                                         \
	F(access_register_in, register_id, 0x50, 16)                                               \
	F(access_register_in, argument, 0x60, 32)                                                  \
	F(access_register_in, register_data, 0x80, 0)                                              \
	F(access_register_out, register_data, 0x80, 0)                                             \
	F(query_hca_cap_out, capability, 0x80, 32768)                                              \
	F(set_hca_cap_in, capability, 0x80, 32768)                                                 \
	F(alloc_uar_out, uar, 0x48, 24)                                                            \
	F(destroy_flow_table_in, table_id, 0xa8, 24)                                               \
	F(destroy_flow_group_in, group_id, 0xc0, 32)                                               \
	F(modify_nic_vport_field_select, roce_en, 0x1e, 1)                                         \
	F(modify_nic_vport_field_select, mtu, 0x19, 1)                                             \
	F(modify_nic_vport_field_select, node_guid, 0x16, 1)                                       \
	F(modify_nic_vport_field_select, permanent_address, 0x1c, 1)                               \
	F(modify_hca_vport_context_in, hca_vport_context, 0x80, 4096)                              \
	F(teardown_hca_in, profile, 0x50, 16)                                                      \
	F(teardown_hca_out, state, 0x7f, 1)
/* clang-format on */

#endif
