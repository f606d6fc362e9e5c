/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/uverbs.h"

static uint32_t ring_size(uint32_t wanted)
{
	uint32_t n = 1;

	while (n < wanted)
		n <<= 1;
	return n;
}

static int cq_check(const struct sn_nic *nic, const struct mlx5_ib_create_cq *uhw, uint32_t cqe,
		    uint32_t vector)
{
	if (!cqe || cqe > atomic_load(&nic->max.cqe) || vector >= SN_COMP_VECTORS)
		return -EINVAL;
	if (uhw->cqe_size != 64 && uhw->cqe_size != 128)
		return -EINVAL;
	if (uhw->cqe_comp_en || uhw->flags & ~MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)
		return -EOPNOTSUPP; /* compression, padding, time stamps */
	return 0;
}

static int cq_decode(const struct sn_req *req, struct sn_obj *cq, struct sn_cq_attr *dev)
{
	struct mlx5_ib_create_cq uhw;
	uint32_t cqe, vector;
	int err;

	if (sn_req_in(req, UVERBS_ATTR_UHW_IN, &uhw, 20, sizeof(uhw)) ||
	    sn_req_u32(req, UVERBS_ATTR_CREATE_CQ_CQE, &cqe) ||
	    sn_req_u32(req, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &vector) ||
	    sn_req_in(req, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &cq->user_handle, 8, 8))
		return -EINVAL;
	err = cq_check(req->ctx->nic, &uhw, cqe, vector);
	if (!err)
		err = sn_event_file_attr(req, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, false, &cq->comp);
	if (!err)
		err = sn_event_file_attr(req, UVERBS_ATTR_CREATE_CQ_EVENT_FD, true, &cq->async);
	if (err)
		return err;
	cq->cq.cqes = ring_size(cqe + 1);
	cq->cq.cqe_size = uhw.cqe_size;
	*dev = (struct sn_cq_attr){
		.buf = uhw.buf_addr,
		.db = uhw.db_addr,
		.cqes = cq->cq.cqes,
		.cqe_size = uhw.cqe_size,
		.channel_fd = cq->comp ? cq->comp->dev_fd : -1,
		.async_fd = cq->async ? cq->async->dev_fd : -1,
		.user_handle = cq->user_handle,
		.vector = vector,
	};
	return 0;
}

static int cq_make(const struct sn_req *req, struct sn_obj *cq, uint32_t *handle, uint32_t *cqn)
{
	struct sn_cq_attr attr;
	uint32_t events;
	int err;

	err = cq_decode(req, cq, &attr);
	if (!err)
		err = sn_cq_create(req->ctx->dev, &attr, cqn, &cq->cq.dev);
	if (err)
		return err;
	err = sn_obj_add(req->ctx, cq, handle);
	if (err) {
		sn_cq_destroy(cq->cq.dev, &events, &events);
		return err;
	}
	if (cq->comp)
		cq->comp->users++;
	if (cq->async)
		cq->async->users++;
	return 0;
}

int sn_cq_create_cmd(const struct sn_req *req)
{
	struct ib_uverbs_attr *out = sn_req_attr(req, UVERBS_ATTR_CREATE_CQ_HANDLE);
	struct mlx5_ib_create_cq_resp uhw = { 0 };
	struct sn_obj *cq;
	uint32_t handle, cqe;
	int err;

	if (!out || !req->ctx->dev)
		return -EINVAL;
	cq = sn_obj_make(SN_OBJ_CQ);
	err = cq ? cq_make(req, cq, &handle, &uhw.cqn) : -ENOMEM;
	if (err) {
		free(cq);
		return err;
	}
	out->data = handle;
	cqe = cq->cq.cqes - 1;
	sn_req_out(req, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe, sizeof(cqe));
	return sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
}

int sn_cq_resize_cmd(const struct sn_req *req)
{
	struct ib_uverbs_resize_cq_resp resp = { 0 };
	struct mlx5_ib_resize_cq uhw;
	struct ib_uverbs_resize_cq cmd;
	struct sn_obj *cq;
	uint32_t cqes;
	int err;

	if (sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd)) ||
	    sn_req_in(req, UVERBS_ATTR_UHW_IN, &uhw, 10, sizeof(uhw)))
		return -EINVAL;
	cq = sn_obj_find(req->ctx, cmd.cq_handle, SN_OBJ_CQ);
	if (!cq || !cmd.cqe || cmd.cqe > atomic_load(&req->ctx->nic->max.cqe))
		return -EINVAL;
	if (!atomic_load(&req->ctx->nic->max.resize))
		return -ENOSYS; /* the error of mlx5_ib without the capability */
	cqes = ring_size(cmd.cqe + 1);
	if (cqes - 1 > atomic_load(&req->ctx->nic->max.resize))
		return -ENOMEM;
	err = sn_cq_resize(cq->cq.dev, uhw.buf_addr, cqes, uhw.cqe_size);
	if (err)
		return err;
	cq->cq.cqes = cqes;
	resp.cqe = cqes - 1;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_cq_destroy_cmd(const struct sn_req *req)
{
	struct ib_uverbs_destroy_cq_resp resp;
	struct sn_obj *cq;
	uint32_t handle, comp = 0, async = 0;
	int err;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_CQ_HANDLE, &handle))
		return -EINVAL;
	cq = sn_obj_find(req->ctx, handle, SN_OBJ_CQ);
	if (!cq)
		return -ENOENT;
	if (cq->users)
		return -EBUSY;
	err = sn_cq_destroy(cq->cq.dev, &comp, &async);
	if (err)
		return err;
	/* libibverbs waits until the application has acknowledged as many as are reported here. */
	resp.comp_events_reported = comp - sn_event_file_take_back(cq->comp, cq->user_handle);
	resp.async_events_reported = async - sn_event_file_take_back(cq->async, cq->user_handle);
	sn_event_file_put(req->ctx, cq->comp);
	sn_event_file_put(req->ctx, cq->async);
	sn_obj_drop(req->ctx, handle);
	return sn_req_out(req, UVERBS_ATTR_DESTROY_CQ_RESP, &resp, sizeof(resp));
}
