/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues: creation, modify, query, destroy. Basic ones: no XRC, no tag matching. */
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/uverbs.h"

#define SEGMENT	  16 /* the link of a WQE, and a data segment */
#define MIN_SHIFT 5

/* Sizes a WQE like the library, which tells only the application's wishes. */
static uint32_t wqe_shift(uint32_t max_sge)
{
	uint32_t shift = MIN_SHIFT;

	while ((1u << shift) < (max_sge + 1) * SEGMENT)
		shift++;
	return shift;
}

static uint32_t ring_wqes(uint32_t max_wr)
{
	uint32_t n = 1;

	while (n < max_wr + 1)
		n <<= 1;
	return n;
}

static int srq_type_check(const struct sn_req *req)
{
	uint32_t type = IB_UVERBS_SRQT_BASIC;

	sn_req_u32(req, UVERBS_ATTR_CREATE_SRQ_TYPE, &type);
	return type == IB_UVERBS_SRQT_BASIC ? 0 : -EOPNOTSUPP;
}

static int srq_decode(const struct sn_req *req, struct sn_obj *srq, struct sn_srq_attr *dev)
{
	struct mlx5_ib_create_srq uhw;
	uint32_t max_wr, max_sge;
	int err = srq_type_check(req);

	if (err)
		return err;
	srq->srq.pd = sn_obj_attr(req, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, SN_OBJ_PD);
	if (!srq->srq.pd ||
	    sn_req_in(req, UVERBS_ATTR_UHW_IN, &uhw, offsetof(struct mlx5_ib_create_srq, uidx),
		      sizeof(uhw)) ||
	    sn_req_in(req, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, &srq->user_handle, 8, 8) ||
	    sn_req_u32(req, UVERBS_ATTR_CREATE_SRQ_MAX_WR, &max_wr) ||
	    sn_req_u32(req, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, &max_sge))
		return -EINVAL;
	if (max_wr >= SN_MAX_QP_WR || max_sge > SN_MAX_SGE + 1 || uhw.flags)
		return -EINVAL;
	err = sn_event_file_attr(req, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, true, &srq->async);
	if (err)
		return err;
	*dev = (struct sn_srq_attr){
		.pdn = srq->srq.pd->pd.pdn,
		.buf = uhw.buf_addr,
		.db = uhw.db_addr,
		.wqe_cnt = ring_wqes(max_wr),
		.wqe_shift = wqe_shift(max_sge),
		.user_handle = srq->user_handle,
		.async_fd = srq->async ? srq->async->dev_fd : -1,
	};
	srq->srq.wqe_cnt = dev->wqe_cnt;
	srq->srq.max_sge = (1u << dev->wqe_shift) / SEGMENT - 1;
	return 0;
}

static int srq_make(const struct sn_req *req, struct sn_obj *srq, uint32_t *handle, uint32_t *srqn)
{
	struct sn_srq_attr attr;
	uint32_t events;
	int err;

	err = srq_decode(req, srq, &attr);
	if (!err)
		err = sn_srq_create(req->ctx->dev, &attr, srqn, &srq->srq.dev);
	if (err)
		return err;
	err = sn_obj_add(req->ctx, srq, handle);
	if (err) {
		sn_srq_destroy(srq->srq.dev, &events);
		return err;
	}
	srq->srq.pd->users++;
	if (srq->async)
		srq->async->users++;
	return 0;
}

int sn_srq_create_cmd(const struct sn_req *req)
{
	struct ib_uverbs_attr *out = sn_req_attr(req, UVERBS_ATTR_CREATE_SRQ_HANDLE);
	struct mlx5_ib_create_srq_resp uhw = { 0 };
	struct sn_obj *srq;
	uint32_t handle, max_wr;
	int err;

	if (!out || !req->ctx->dev)
		return -EINVAL;
	srq = sn_obj_make(SN_OBJ_SRQ);
	err = srq ? srq_make(req, srq, &handle, &uhw.srqn) : -ENOMEM;
	if (err) {
		free(srq);
		return err;
	}
	out->data = handle;
	max_wr = srq->srq.wqe_cnt - 1;
	sn_req_out(req, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &max_wr, sizeof(max_wr));
	sn_req_out(req, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &srq->srq.max_sge,
		   sizeof(srq->srq.max_sge));
	sn_req_out(req, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &uhw.srqn, sizeof(uhw.srqn));
	return sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
}

/* The ring cannot be resized, on a ConnectX either; the limit can be set. */
int sn_srq_modify_cmd(const struct sn_req *req)
{
	struct ib_uverbs_modify_srq cmd;
	struct sn_obj *srq;

	if (sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd)))
		return -EINVAL;
	srq = sn_obj_find(req->ctx, cmd.srq_handle, SN_OBJ_SRQ);
	if (!srq || cmd.attr_mask & ~(uint32_t)IBV_SRQ_LIMIT)
		return -EINVAL;
	if (!(cmd.attr_mask & IBV_SRQ_LIMIT))
		return 0;
	return sn_srq_set_limit(srq->srq.dev, cmd.srq_limit);
}

int sn_srq_query_cmd(const struct sn_req *req)
{
	struct ib_uverbs_query_srq_resp resp = { 0 };
	struct ib_uverbs_query_srq cmd;
	struct sn_obj *srq;

	if (sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd)))
		return -EINVAL;
	srq = sn_obj_find(req->ctx, cmd.srq_handle, SN_OBJ_SRQ);
	if (!srq)
		return -EINVAL;
	resp.max_wr = srq->srq.wqe_cnt - 1;
	resp.max_sge = srq->srq.max_sge;
	resp.srq_limit = sn_srq_limit(srq->srq.dev);
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_srq_destroy_cmd(const struct sn_req *req)
{
	struct ib_uverbs_destroy_srq_resp resp;
	struct sn_obj *srq;
	uint32_t handle, async = 0;
	int err;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_SRQ_HANDLE, &handle))
		return -EINVAL;
	srq = sn_obj_find(req->ctx, handle, SN_OBJ_SRQ);
	if (!srq)
		return -ENOENT;
	if (srq->users)
		return -EBUSY;
	err = sn_srq_destroy(srq->srq.dev, &async);
	if (err)
		return err;
	resp.events_reported = async - sn_event_file_take_back(srq->async, srq->user_handle);
	sn_event_file_put(req->ctx, srq->async);
	sn_obj_unref(srq->srq.pd);
	sn_obj_drop(req->ctx, handle);
	return sn_req_out(req, UVERBS_ATTR_DESTROY_SRQ_RESP, &resp, sizeof(resp));
}
