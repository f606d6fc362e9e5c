/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The capabilities of the function, as tables, and the commands that ask for them and set them. */
#include <string.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
enum { GENERAL = 0, ETHERNET = 1, ATOMIC = 3, ROCE = 4, FLOW_TABLE = 7, HEAD = 16 };

struct value {
	enum sn_field field;
	uint32_t value;
};

#define C(name, value)                                                                             \
	{                                                                                          \
		SN_F_cmd_hca_cap_##name, value                                                     \
	}

static const struct value general[] = {
	/* what there is of each object, as log2 */
	C(log_max_qp, 17),
	C(log_max_qp_sz, 15),
	C(log_max_cq, 16),
	C(log_max_cq_sz, 22),
	C(log_max_eq, 6),
	C(log_max_eq_sz, 22),
	C(max_num_eqs, SN_EQS - 1),
	C(log_max_mkey, 20),
	C(log_max_mrw_sz, 40),
	C(log_max_klm_list_size, 16),
	C(log_max_bsf_list_size, 6),
	C(max_indirection, 4),
	C(log_max_srq, 16),
	C(log_max_srq_sz, 15),
	C(log_max_pd, 16),
	C(log_max_xrcd, 16),
	C(log_max_transport_domain, 16),
	C(log_max_mcg, 13),
	C(max_qp_mcg, 240),
	C(max_qp_cnt, 128),
	/* transport */
	C(rc, 1),
	C(uc, 1),
	C(ud, 1),
	C(xrc, 1),
	C(atomic, 1),
	C(log_max_msg, 30),
	C(log_max_ra_req_qp, 4),
	C(log_max_ra_res_qp, 4),
	C(local_ca_ack_delay, 15),
	C(max_wqe_sz_sq, 1024),
	C(max_wqe_sz_rq, 512),
	C(max_sgl_for_optimized_performance, 30),
	C(imaicl, 1),
	C(sctr_data_cqe, 1),
	C(set_deth_sqpn, 1),
	C(compact_address_vector, 1),
	C(block_lb_mc, 1),
	C(pkv, 1),
	C(qkv, 1),
	C(cd, 1),
	C(drain_sigerr, 1),
	/* keys */
	C(null_mkey, 1),
	C(umr_fence, 2),
	C(umr_ptr_rlky, 1),
	/* completion queues */
	C(cqe_version, 1),
	C(cq_moderation, 1),
	C(cq_resize, 1),
	C(cq_oi, 1),
	/* doorbells */
	C(bf, 1),
	C(log_bf_reg_size, 9),
	C(uar_sz, 5), /* log2 of MiB */
	C(num_of_uars_per_page, 1),
	C(log_pg_sz, 12),
	/* the port */
	C(num_ports, 1),
	C(out_of_seq_cnt, 1),
	C(log_max_current_uc_list, 7),
	C(log_max_current_mc_list, 7),
	C(log_max_vlan_list, 7),
	C(device_frequency_khz, 156250),
};

static const struct value ethernet_general[] = {
	C(port_type, 1),
	C(eth_net_offloads, 1),
	C(nic_flow_table, 1),
	C(roce, 1),
	C(roce_rw_supported, 1),
	C(vport_counters, 1),
	C(log_max_l2_table, 10),
	C(log_max_rq, 16),
	C(log_max_sq, 16),
	C(log_max_tir, 12),
	C(log_max_tis, 12),
	C(log_max_rqt, 10),
	C(log_max_rqt_size, 8),
	C(log_max_rmp, 10),
	C(log_max_wq_sz, 15),
	C(log_max_stride_sz_rq, 12),
	C(log_min_stride_sz_rq, 4),
	C(log_max_stride_sz_sq, 8),
	C(log_min_stride_sz_sq, 6),
	C(basic_cyclic_rcv_wqe, 1),
};

static const struct value infiniband_general[] = {
	C(ib_virt, 1),
};
#undef C

static const struct value atomic[] = {
	{ SN_F_atomic_caps_atomic_operations, 3 }, /* swap if equal, add */
	{ SN_F_atomic_caps_atomic_size_qp, 8 },	   /* 8 bytes alone */
	{ SN_F_atomic_caps_atomic_req_8B_endianness_mode, 1 },
};

#define E(name, value)                                                                             \
	{                                                                                          \
		SN_F_per_protocol_networking_offload_caps_##name, value                            \
	}
static const struct value ethernet[] = {
	E(csum_cap, 1),	       E(vlan_cap, 1),
	E(wqe_vlan_insert, 1), E(self_lb_en_modifiable, 1),
	E(max_lso_cap, 16),    E(rss_ind_tbl_cap, 8),
};
#undef E

#define R(name, value)                                                                             \
	{                                                                                          \
		SN_F_roce_cap_##name, value                                                        \
	}
static const struct value roce[] = {
	R(roce_version, 5), /* v1, v2 */
	R(l3_type, 7),	    /* GRH, IPv4, IPv6 */
	R(roce_address_table_size, SN_ROCE_ADDRESSES),
	R(r_roce_dest_udp_port, 4791),
	R(r_roce_min_src_udp_port, 0xc000),
	R(r_roce_max_src_udp_port, 0xffff),
	R(sw_r_roce_src_udp_port, 1),
};
#undef R

#define T(name, value)                                                                             \
	{                                                                                          \
		SN_F_flow_table_prop_layout_##name, value                                          \
	}
static const struct value flow_table[] = {
	T(ft_support, 1),	 T(max_ft_level, 64),  T(log_max_ft_num, 16),
	T(log_max_ft_size, 20),	 T(log_max_flow, 20),  T(log_max_destination, 8),
	T(modify_root, 1),	 T(flow_modify_en, 1), T(identified_miss_table_mode, 1),
	T(flow_table_modify, 1),
};
#undef T

static void set(uint8_t *layout, const struct value *values, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sn_field_set(layout, values[i].field, values[i].value);
}

/* A direction of flow tables that matches on everything. */
static void set_flow_table(uint8_t *properties)
{
	set(properties, flow_table, COUNT(flow_table));
	memset(SN_AT(flow_table_prop_layout, properties, ft_field_support), 0xff, 16);
}

static void set_ethernet(uint8_t most[SN_CAP_TYPES][SN_CAP_BYTES])
{
	set(most[GENERAL], ethernet_general, COUNT(ethernet_general));
	set(most[ETHERNET], ethernet, COUNT(ethernet));
	set(most[ROCE], roce, COUNT(roce));
	set_flow_table(
		SN_AT(flow_table_nic_cap, most[FLOW_TABLE], flow_table_properties_nic_receive));
	set_flow_table(SN_AT(flow_table_nic_cap, most[FLOW_TABLE],
			     flow_table_properties_nic_receive_rdma));
	set_flow_table(
		SN_AT(flow_table_nic_cap, most[FLOW_TABLE], flow_table_properties_nic_transmit));
	set_flow_table(SN_AT(flow_table_nic_cap, most[FLOW_TABLE],
			     flow_table_properties_nic_transmit_rdma));
}

void sn_caps_reset(struct sn_caps *caps, const struct sn_pci_identity *identity)
{
	memset(caps, 0, sizeof(*caps));
	set(caps->most[GENERAL], general, COUNT(general));
	set(caps->most[ATOMIC], atomic, COUNT(atomic));
	SN_SET(cmd_hca_cap, caps->most[GENERAL], vhca_id, identity->vhca_id);
	if (identity->ethernet)
		set_ethernet(caps->most);
	else
		set(caps->most[GENERAL], infiniband_general, COUNT(infiniband_general));
	memcpy(caps->current, caps->most, sizeof(caps->current));
}

/* Bits of the modifier: the type, and below it whether the current half is meant. */
static uint32_t type_of(const struct sn_command *cmd)
{
	return cmd->op_mod >> 1;
}

static uint32_t capability_bytes(uint32_t command_bytes)
{
	uint32_t bytes = command_bytes > HEAD ? command_bytes - HEAD : 0;

	return bytes < SN_CAP_BYTES ? bytes : SN_CAP_BYTES;
}

uint8_t sn_query_hca_cap(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t type = type_of(cmd);
	const uint8_t *from;

	if (type >= SN_CAP_TYPES)
		return SN_BAD_PARAM;
	from = cmd->op_mod & 1 ? pci->caps.current[type] : pci->caps.most[type];
	memcpy(cmd->out + HEAD, from, capability_bytes(cmd->out_bytes));
	return SN_OK;
}

uint8_t sn_set_hca_cap(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t type = type_of(cmd);

	if (type >= SN_CAP_TYPES)
		return SN_BAD_PARAM;
	memcpy(pci->caps.current[type], cmd->in + HEAD, capability_bytes(cmd->in_bytes));
	return SN_OK;
}
