/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Opening a device and asking it what it can: the answers of a ConnectX-6, as far as simulated. */
#include <endian.h>
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/gate.h"
#include "simnic/host/uverbs.h"

#define SN_FW_VER (20ULL << 32 | 35ULL << 16 | 1012)
/* size of the table, as RoCE on mlx5 has it; entries that are not set are empty */
#define SN_GID_ENTRIES 256

/* Fills the facts that libmlx5 needs; 0: the feature is absent. */
static void ucontext_fill(const struct sn_ctx *ctx, struct mlx5_ib_alloc_ucontext_resp *resp)
{
	*resp = (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = 1 << 18,
		.bf_reg_size = 512,
		.tot_bfregs = ctx->n_bfregs,
		.cache_line_size = 64,
		.max_sq_desc_sz = 1024,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = atomic_load(&ctx->nic->max.qp_wr),
		.max_recv_wr = atomic_load(&ctx->nic->max.qp_wr),
		.max_srq_recv_wr = SN_MAX_QP_WR - 1,
		.num_ports = 1,
		.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY |
			     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET,
		.hca_core_clock_offset = 0,
		.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1,
		.response_length = sizeof(*resp),
		.cqe_version = 1,
		/* RoCE address handles learn the destination's MAC from us, not from ARP. */
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = SN_MAX_DYN_UARS * SN_BFREGS_PER_UAR,
		.dump_fill_mkey = SN_NULL_KEY,
	};
}

/*
 * True if DEVX is granted. A kernel grants it to all. Here the environment asks for it, as few
 * commands are known: libmlx5 asks again without it where it may.
 */
static bool devx_granted(void)
{
	const char *wanted = getenv("SIMNIC_DEVX");

	return wanted && *wanted == '1';
}

static int context_take(struct sn_ctx *ctx, const struct mlx5_ib_alloc_ucontext_req_v2 *want)
{
	uint32_t total = (want->total_num_bfregs + 1) & ~1U;

	if (want->flags & ~(devx_granted() ? (uint32_t)MLX5_IB_ALLOC_UCTX_DEVX : 0))
		return -EINVAL;
	if (!total || want->num_low_latency_bfregs > total - 1)
		return -EINVAL;
	if (total > SN_MAX_BFREGS)
		return -ENOMEM;
	ctx->devx = want->flags & MLX5_IB_ALLOC_UCTX_DEVX;
	ctx->n_bfregs = total;
	ctx->n_low_latency = want->num_low_latency_bfregs;
	ctx->n_uars = total / SN_BFREGS_PER_UAR;
	return 0;
}

static int device_open(struct sn_ctx *ctx)
{
	int err;

	ctx->uar = sn_ctx_mmap(ctx, NULL, (size_t)ctx->n_uars * sn_page(), PROT_READ | PROT_WRITE,
			       MAP_SHARED, 0);
	if (ctx->uar == MAP_FAILED) {
		ctx->uar = NULL;
		return -ENOMEM;
	}
	err = sn_dev_open(ctx->nic_index, &ctx->dev);
	for (uint32_t i = 0; i < ctx->n_uars && !err; i++)
		err = sn_uar_add(ctx->dev, i, ctx->uar + (size_t)i * sn_page());
	if (!err && ctx->async)
		err = sn_dev_set_async_fd(ctx->dev, ctx->async->dev_fd);
	return err;
}

/* Maps a page, whose place in the file is behind all static pages that a context may have. */
static int dyn_uar_add_locked(struct sn_ctx *ctx, uint32_t index, off_t *offset)
{
	uint8_t *page;
	int err;

	if (!ctx->dev || index >= SN_MAX_DYN_UARS)
		return -EINVAL;
	if (ctx->dyn_uars[index])
		return -EBUSY;
	*offset = ((off_t)SN_MAX_BFREGS / SN_BFREGS_PER_UAR + index) * sn_page();
	page = sn_ctx_mmap(ctx, NULL, sn_page(), PROT_READ | PROT_WRITE, MAP_SHARED, *offset);
	if (page == MAP_FAILED)
		return -ENOMEM;
	err = sn_uar_add(ctx->dev, ctx->n_uars + index, page);
	if (err)
		munmap(page, sn_page());
	else
		ctx->dyn_uars[index] = page;
	return err;
}

int sn_dyn_uar_add(struct sn_ctx *ctx, uint32_t index, off_t *offset)
{
	int err = sn_gate_pass(ctx, SN_GATE_COMMAND, &(struct sn_wait){ 0 });

	if (err)
		return err;
	pthread_mutex_lock(&ctx->lock);
	err = dyn_uar_add_locked(ctx, index, offset);
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

int sn_get_context(const struct sn_req *req)
{
	struct mlx5_ib_alloc_ucontext_req_v2 want;
	struct mlx5_ib_alloc_ucontext_resp resp;
	uint32_t vectors = SN_COMP_VECTORS;
	uint64_t core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	int err;

	if (req->ctx->dev)
		return -EINVAL;
	err = sn_req_in(req, UVERBS_ATTR_UHW_IN, &want, sizeof(struct mlx5_ib_alloc_ucontext_req),
			sizeof(want));
	if (!err)
		err = context_take(req->ctx, &want);
	if (!err)
		err = device_open(req->ctx);
	if (err)
		return err;
	ucontext_fill(req->ctx, &resp);
	sn_req_out(req, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
	sn_req_out(req, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support, sizeof(core_support));
	return sn_req_out(req, UVERBS_ATTR_UHW_OUT, &resp, sizeof(resp));
}

static void device_fill(const struct sn_ctx *ctx, struct ib_uverbs_query_device_resp *resp)
{
	*resp = (struct ib_uverbs_query_device_resp){
		.fw_ver = SN_FW_VER,
		.node_guid = htobe64(ctx->nic->node_guid),
		.sys_image_guid = htobe64(ctx->nic->image_guid),
		.max_mr_size = ~0ULL,
		.page_size_cap = 0xfffffffffffff000ULL,
		.vendor_id = 0x02c9,
		.vendor_part_id = 4123,
		.max_qp = 1 << 15,
		.max_qp_wr = atomic_load(&ctx->nic->max.qp_wr),
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = atomic_load(&ctx->nic->max.sge),
		.max_sge_rd = atomic_load(&ctx->nic->max.sge),
		.max_cq = 1 << 16,
		.max_cqe = atomic_load(&ctx->nic->max.cqe),
		.max_mr = 1 << 20,
		.max_mw = 1 << 20,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = atomic_load(&ctx->nic->max.reads),
		.max_res_rd_atom = SN_MAX_RD_ATOMIC << 15,
		.max_qp_init_rd_atom = atomic_load(&ctx->nic->max.reads),
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = 1 << 16,
		.max_srq = 1 << 16,
		.max_srq_wr = SN_MAX_QP_WR - 1,
		.max_srq_sge = SN_MAX_SRQ_SGE,
		.max_pkeys = sn_nic_pkeys(ctx->nic),
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
}

int sn_query_device(const struct sn_req *req)
{
	struct ib_uverbs_query_device_resp resp;

	device_fill(req->ctx, &resp);
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_query_device_ex(const struct sn_req *req)
{
	struct ib_uverbs_ex_query_device_resp resp = { .response_length = sizeof(resp),
						       .timestamp_mask = INT64_MAX,
						       .hca_core_clock = SN_CLOCK_KHZ,
						       .max_dm_size = SN_DM_BYTES };
	struct mlx5_ib_query_device_resp uhw = { .response_length = sizeof(uhw) };

	device_fill(req->ctx, &resp.base);
	resp.device_cap_flags_ex = resp.base.device_cap_flags;
	sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

static uint32_t gid_entries(const struct sn_nic *nic)
{
	return nic->link_layer == SN_LINK_ETH ? SN_GID_ENTRIES : 8;
}

static void port_fill(const struct sn_nic *nic, struct ib_uverbs_query_port_resp *resp)
{
	bool eth = nic->link_layer == SN_LINK_ETH, up = atomic_load(&nic->port_up);

	*resp = (struct ib_uverbs_query_port_resp){
		.port_cap_flags = IB_UVERBS_PCF_CM_SUP | (eth ? IB_UVERBS_PCF_IP_BASED_GIDS : 0),
		.max_msg_sz = 1 << 30,
		.gid_tbl_len = gid_entries(nic),
		.pkey_tbl_len = sn_nic_pkeys(nic),
		.lid = nic->lid,
		.sm_lid = eth ? 0 : 1,
		.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = atomic_load(&nic->mtu),
		.max_vl_num = 4,
		.subnet_timeout = eth ? 0 : 18,
		.active_width = sn_speed_width(&nic->cable.speed),
		.active_speed = sn_speed_lane(&nic->cable.speed),
		.phys_state = up ? 5 : 3,
		.link_layer = eth ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
		.flags = eth ? IB_UVERBS_QPF_GRH_REQUIRED : 0,
	};
}

int sn_query_port(const struct sn_req *req)
{
	struct ib_uverbs_query_port_resp_ex resp = { 0 };
	uint8_t port;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, 1, 1);
	if (err || port != 1)
		return -EINVAL;
	port_fill(req->ctx->nic, &resp.legacy_resp);
	return sn_req_out(req, UVERBS_ATTR_QUERY_PORT_RESP, &resp, sizeof(resp));
}

int sn_query_port_write(const struct sn_req *req)
{
	struct ib_uverbs_query_port cmd;
	struct ib_uverbs_query_port_resp resp;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd));
	if (err || cmd.port_num != 1)
		return -EINVAL;
	port_fill(req->ctx->nic, &resp);
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

bool sn_gid_index_ok(const struct sn_ctx *ctx, uint32_t index)
{
	return index < SN_MAX_GIDS && atomic_load(&ctx->nic->gid_type[index]) != SN_GID_NONE;
}

bool sn_gid_known(const struct sn_ctx *ctx, const uint8_t dgid[16], uint32_t sgid_index)
{
	int host, nic;

	return !sn_fabric_find_gid(sn_host_fabric(), dgid, sn_nic_vlan_at(ctx->nic, sgid_index),
				   &host, &nic);
}

/* The index of the entry's network interface; 0: none, or it is of another namespace. */
static uint32_t gid_interface(const struct sn_nic *nic, uint32_t index)
{
	uint16_t vlan = sn_nic_vlan_at(nic, index);
	char name[32];

	if (!nic->netdev[0])
		return 0;
	if (!vlan)
		return if_nametoindex(nic->netdev);
	sn_nic_vlan_name(nic, vlan, name, sizeof(name));
	return if_nametoindex(name);
}

/* false: the entry is empty. */
static bool gid_fill(const struct sn_ctx *ctx, uint32_t index, struct ib_uverbs_gid_entry *entry)
{
	uint32_t type;

	if (!sn_gid_index_ok(ctx, index))
		return false;
	type = atomic_load(&ctx->nic->gid_type[index]);
	*entry = (struct ib_uverbs_gid_entry){
		.gid_index = index,
		.port_num = 1,
		.gid_type = type - SN_GID_IB, /* counted as in enum ib_uverbs_gid_type */
		.netdev_ifindex = gid_interface(ctx->nic, index),
	};
	sn_nic_gid_at(ctx->nic, index, (uint8_t *)entry->gid);
	return true;
}

int sn_query_gid(const struct sn_req *req)
{
	struct ib_uverbs_gid_entry resp;
	uint32_t port, index;

	if (sn_req_u32(req, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, &port) || port != 1 ||
	    sn_req_u32(req, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index) ||
	    index >= gid_entries(req->ctx->nic))
		return -EINVAL;
	if (!gid_fill(req->ctx, index, &resp))
		return -ENODATA;
	return sn_req_out(req, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &resp, sizeof(resp));
}

/* The entries that are not empty, one behind the other. */
int sn_query_gid_table(const struct sn_req *req)
{
	struct ib_uverbs_attr *out = sn_req_attr(req, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	struct ib_uverbs_gid_entry entry;
	uint64_t size, room, n = 0;

	if (!out || sn_req_in(req, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &size, 8, 8))
		return -EINVAL;
	if (size < sizeof(entry))
		return -EOPNOTSUPP; /* an interface older than all that is supported */
	room = out->len / size;
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		uint8_t *to = (uint8_t *)(uintptr_t)out->data + n * size;

		if (!gid_fill(req->ctx, i, &entry))
			continue;
		if (n++ == room)
			return -EINVAL;
		memset(to, 0, size);
		memcpy(to, &entry, sizeof(entry));
	}
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return sn_req_out(req, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}
