/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of requests and their handlers. */
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <string.h>

#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"
#include "simnic/host/uverbs.h"

struct ib_uverbs_attr *sn_req_attr(const struct sn_req *req, uint16_t id)
{
	for (uint16_t i = 0; i < req->hdr->num_attrs; i++)
		if (req->hdr->attrs[i].attr_id == id)
			return &req->hdr->attrs[i];
	return NULL;
}

int sn_req_in(const struct sn_req *req, uint16_t id, void *to, size_t min, size_t size)
{
	const struct ib_uverbs_attr *attr = sn_req_attr(req, id);
	size_t n;

	memset(to, 0, size);
	if (!attr || attr->len < min)
		return -EINVAL;
	n = attr->len < size ? attr->len : size;
	/* The ABI carries up to eight bytes in place of the pointer. */
	memcpy(to, attr->len <= 8 ? (const void *)&attr->data : (const void *)(uintptr_t)attr->data,
	       n);
	return 0;
}

int sn_req_out(const struct sn_req *req, uint16_t id, const void *from, size_t size)
{
	struct ib_uverbs_attr *attr = sn_req_attr(req, id);

	if (!attr || !attr->data)
		return 0;
	memcpy((void *)(uintptr_t)attr->data, from, attr->len < size ? attr->len : size);
	if (attr->len > size)
		memset((char *)(uintptr_t)attr->data + size, 0, attr->len - size);
	attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return 0;
}

int sn_req_u32(const struct sn_req *req, uint16_t id, uint32_t *value)
{
	const struct ib_uverbs_attr *attr = sn_req_attr(req, id);

	if (!attr)
		return -EINVAL;
	*value = attr->data;
	return 0;
}

struct handler {
	uint32_t code; /* object << 16 | method, or the write command */
	enum sn_gate gate;
	int (*run)(const struct sn_req *req);
};

static struct sn_wait handler_wait(const struct handler *handler, const struct sn_req *req)
{
	struct sn_wait wait = { 0 };

	if (handler->run == sn_mr_reg_cmd)
		sn_mr_reg_wait(req, &wait);
	else if (handler->run == sn_ah_create)
		sn_ah_wait(req, &wait);
	else if (handler->run == sn_qp_modify_cmd)
		sn_qp_modify_wait(req, &wait);
	return wait;
}

static int run_locked(int (*run)(const struct sn_req *req), const struct sn_req *req)
{
	int err;

	pthread_mutex_lock(&req->ctx->lock);
	err = run(req);
	pthread_mutex_unlock(&req->ctx->lock);
	return err;
}

static int handle(const struct handler *handler, const struct sn_req *req)
{
	struct sn_wait wait = handler_wait(handler, req);
	int err = handler->run == sn_pd_dealloc ? run_locked(sn_pd_check, req) : 0;

	if (!err)
		err = sn_gate_pass(req->ctx, handler->gate, &wait);
	return err ? err : run_locked(handler->run, req);
}

static int handler_run(const struct handler *table, size_t n, uint32_t code, int unknown,
		       const struct sn_req *req)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].code == code)
			return handle(&table[i], req);
	return unknown;
}

#define EX(cmd) (IB_USER_VERBS_CMD_FLAG_EXTENDED | (cmd))

static int uverbs_write(const struct sn_req *req)
{
	static const struct handler table[] = {
		{ IB_USER_VERBS_CMD_QUERY_DEVICE, SN_GATE_FREE, sn_query_device },
		{ EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE), SN_GATE_COMMAND, sn_query_device_ex },
		{ IB_USER_VERBS_CMD_QUERY_PORT, SN_GATE_COMMAND, sn_query_port_write },
		{ IB_USER_VERBS_CMD_ALLOC_PD, SN_GATE_COMMAND, sn_pd_alloc },
		{ IB_USER_VERBS_CMD_REG_MR, SN_GATE_COMMAND, sn_mr_reg_cmd },
		{ IB_USER_VERBS_CMD_REREG_MR, SN_GATE_COMMAND, sn_mr_rereg_cmd },
		{ IB_USER_VERBS_CMD_ALLOC_MW, SN_GATE_COMMAND, sn_mw_alloc },
		{ IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, SN_GATE_FREE, sn_comp_channel_create },
		{ IB_USER_VERBS_CMD_CREATE_AH, SN_GATE_FREE, sn_ah_create },
		{ IB_USER_VERBS_CMD_RESIZE_CQ, SN_GATE_COMMAND, sn_cq_resize_cmd },
		{ IB_USER_VERBS_CMD_MODIFY_SRQ, SN_GATE_COMMAND, sn_srq_modify_cmd },
		{ IB_USER_VERBS_CMD_QUERY_SRQ, SN_GATE_COMMAND, sn_srq_query_cmd },
		{ IB_USER_VERBS_CMD_QUERY_QP, SN_GATE_COMMAND, sn_qp_query_cmd },
		{ IB_USER_VERBS_CMD_MODIFY_QP, SN_GATE_MODIFY, sn_qp_modify_cmd },
		{ EX(IB_USER_VERBS_EX_CMD_MODIFY_QP), SN_GATE_MODIFY, sn_qp_modify_cmd },
	};
	uint32_t command;
	int err;

	err = sn_req_u32(req, UVERBS_ATTR_WRITE_CMD, &command);
	if (err)
		return err;
	if (!sn_req_attr(req, UVERBS_ATTR_CORE_IN))
		return -ENOSPC; /* libibverbs' probe: "is there an ioctl interface?" */
	return handler_run(table, sizeof(table) / sizeof(table[0]), command, -EOPNOTSUPP, req);
}

#define METHOD(object, method) ((object) << 16 | (method))

int sn_uverbs_ioctl(struct sn_ctx *ctx, struct ib_uverbs_ioctl_hdr *hdr)
{
	static const struct handler table[] = {
		{ METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT), SN_GATE_OPEN,
		  sn_get_context },
		{ METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT), SN_GATE_COMMAND,
		  sn_query_port },
		{ METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE), SN_GATE_FREE,
		  sn_query_gid_table },
		{ METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY), SN_GATE_FREE,
		  sn_query_gid },
		{ METHOD(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC), SN_GATE_FREE,
		  sn_async_alloc },
		{ METHOD(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY), SN_GATE_DESTROY,
		  sn_pd_dealloc },
		{ METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY), SN_GATE_DESTROY,
		  sn_mr_destroy_cmd },
		{ METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR), SN_GATE_FREE,
		  sn_mr_advise_cmd },
		{ METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR), SN_GATE_COMMAND,
		  sn_mr_reg_dmabuf },
		{ METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG), SN_GATE_COMMAND,
		  sn_mr_reg_dm },
		{ METHOD(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY), SN_GATE_DESTROY,
		  sn_mw_dealloc },
		{ METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC), SN_GATE_COMMAND, sn_dm_alloc },
		{ METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE), SN_GATE_DESTROY, sn_dm_free },
		{ METHOD(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER), SN_GATE_COMMAND,
		  sn_devx_other },
		{ METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE), SN_GATE_COMMAND,
		  sn_devx_create },
		{ METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY), SN_GATE_DESTROY,
		  sn_devx_destroy },
		{ METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY), SN_GATE_COMMAND,
		  sn_devx_modify },
		{ METHOD(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY), SN_GATE_DROP, sn_ah_destroy },
		{ METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE), SN_GATE_COMMAND,
		  sn_cq_create_cmd },
		{ METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY), SN_GATE_DESTROY,
		  sn_cq_destroy_cmd },
		{ METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE), SN_GATE_COMMAND,
		  sn_srq_create_cmd },
		{ METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY), SN_GATE_DESTROY,
		  sn_srq_destroy_cmd },
		{ METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE), SN_GATE_COMMAND,
		  sn_qp_create_cmd },
		{ METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY), SN_GATE_DESTROY_QP,
		  sn_qp_destroy_cmd },
	};
	struct sn_req req = { ctx, hdr };

	if (hdr->length != sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]))
		return -EINVAL;
	if (hdr->object_id == UVERBS_OBJECT_DEVICE && hdr->method_id == UVERBS_METHOD_INVOKE_WRITE)
		return uverbs_write(&req);
	return handler_run(table, sizeof(table) / sizeof(table[0]),
			   METHOD(hdr->object_id, hdr->method_id), -EPROTONOSUPPORT, &req);
}
