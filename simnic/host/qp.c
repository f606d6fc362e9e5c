/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: creation, modify, query, destroy. */
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/device.h"
#include "simnic/fabric/check.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/gate.h"
#include "simnic/host/qpstate.h"
#include "simnic/host/uverbs.h"

/*
 * Doorbell registers. The low latency ones go to one QP each while there are any, so QPs have a
 * register of their own and libmlx5 takes no lock; later QPs share the rest, least used first.
 * Register 0 takes no BlueFlame writes and is left alone.
 */
static uint32_t bfreg_take(struct sn_ctx *ctx)
{
	uint32_t first_low = ctx->n_bfregs - ctx->n_low_latency, best = ctx->n_bfregs > 1;

	for (uint32_t i = first_low; i < ctx->n_bfregs; i++)
		if (!ctx->bfreg_users[i]) {
			ctx->bfreg_users[i]++;
			return i;
		}
	for (uint32_t i = best; i < first_low; i++)
		if (ctx->bfreg_users[i] < ctx->bfreg_users[best])
			best = i;
	ctx->bfreg_users[best]++;
	return best;
}

/* Finds the register of a thread domain: the library has it, and says which. */
static int bfreg_of_domain(const struct sn_ctx *ctx, uint32_t dynamic, uint32_t *bfreg)
{
	uint32_t uar = dynamic / SN_BFREGS_PER_UAR;

	if (uar >= SN_MAX_DYN_UARS || !ctx->dyn_uars[uar])
		return -EINVAL;
	*bfreg = ctx->n_bfregs + dynamic;
	return 0;
}

static void bfreg_put(struct sn_ctx *ctx, uint32_t bfreg)
{
	SN_ASSERT(bfreg >= ctx->n_bfregs || ctx->bfreg_users[bfreg]);
	if (bfreg < ctx->n_bfregs)
		ctx->bfreg_users[bfreg]--;
}

/* libmlx5 counts four registers a page, two of which (fast path) nobody gets. */
static uint32_t bfreg_for_library(const struct sn_ctx *ctx, uint32_t bfreg)
{
	if (bfreg >= ctx->n_bfregs)
		return 1u << 31; /* none of those */
	return bfreg / 2 * 4 + bfreg % 2;
}

static int qp_type_check(uint8_t type)
{
	return type == IB_UVERBS_QPT_RC || type == IB_UVERBS_QPT_UC || type == IB_UVERBS_QPT_UD
		       ? 0
		       : -EOPNOTSUPP;
}

static int cap_check(const struct sn_nic *nic, const struct ib_uverbs_qp_cap *cap)
{
	uint32_t wr = atomic_load(&nic->max.qp_wr), sge = atomic_load(&nic->max.sge);

	if (cap->max_send_wr > wr || cap->max_recv_wr > wr)
		return -EINVAL;
	return cap->max_send_sge > sge || cap->max_recv_sge > sge ? -EINVAL : 0;
}

static int qp_decode_core(const struct sn_req *req, struct sn_obj *qp)
{
	uint32_t type, flags = 0;
	int err;

	qp->qp.pd = sn_obj_attr(req, UVERBS_ATTR_CREATE_QP_PD_HANDLE, SN_OBJ_PD);
	qp->qp.scq = sn_obj_attr(req, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, SN_OBJ_CQ);
	qp->qp.rcq = sn_obj_attr(req, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, SN_OBJ_CQ);
	if (!qp->qp.pd || !qp->qp.scq || !qp->qp.rcq)
		return -EINVAL;
	qp->qp.srq = sn_obj_attr(req, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, SN_OBJ_SRQ);
	if (!qp->qp.srq && sn_req_attr(req, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE))
		return -EINVAL;
	if (sn_req_in(req, UVERBS_ATTR_CREATE_QP_CAP, &qp->qp.cap, sizeof(qp->qp.cap),
		      sizeof(qp->qp.cap)) ||
	    sn_req_in(req, UVERBS_ATTR_CREATE_QP_USER_HANDLE, &qp->user_handle, 8, 8) ||
	    sn_req_u32(req, UVERBS_ATTR_CREATE_QP_TYPE, &type))
		return -EINVAL;
	sn_req_u32(req, UVERBS_ATTR_CREATE_QP_FLAGS, &flags);
	if (flags & ~(uint32_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
		return -EOPNOTSUPP;
	qp->qp.sig_all = flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
	qp->qp.type = type;
	if (qp->qp.srq) /* no receives of its own, whatever was asked for */
		qp->qp.cap.max_recv_wr = qp->qp.cap.max_recv_sge = 0;
	err = sn_event_file_attr(req, UVERBS_ATTR_CREATE_QP_EVENT_FD, true, &qp->async);
	if (err)
		return err;
	return qp_type_check(type) ? -EOPNOTSUPP : cap_check(req->ctx->nic, &qp->qp.cap);
}

static int qp_decode_mlx5(const struct sn_req *req, struct sn_obj *qp, struct sn_qp_attr *dev)
{
	const uint32_t known = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
			       MLX5_QP_FLAG_BFREG_INDEX;
	struct mlx5_ib_create_qp uhw;
	bool scatter;

	if (sn_req_in(req, UVERBS_ATTR_UHW_IN, &uhw,
		      offsetof(struct mlx5_ib_create_qp, bfreg_index), sizeof(uhw)))
		return -EINVAL;
	if (uhw.flags & ~known)
		return -EOPNOTSUPP; /* signatures, DC, tunnels */
	scatter = uhw.flags & MLX5_QP_FLAG_SCATTER_CQE && qp->qp.type == IB_UVERBS_QPT_RC;
	*dev = (struct sn_qp_attr){
		.type = qp->qp.type,
		.pdn = qp->qp.pd->pd.pdn,
		.scq = qp->qp.scq->cq.dev,
		.rcq = qp->qp.rcq->cq.dev,
		.srq = qp->qp.srq ? qp->qp.srq->srq.dev : NULL,
		.buf = uhw.buf_addr,
		.db = uhw.db_addr,
		.sq_wqe_cnt = uhw.sq_wqe_count,
		.rq_wqe_cnt = qp->qp.srq ? 0 : uhw.rq_wqe_count,
		.rq_wqe_shift = uhw.rq_wqe_shift,
		.uidx = uhw.uidx,
		.sig_all = qp->qp.sig_all,
		.scatter_to_cqe = scatter,
		/*
		 * The kernel's driver does so, too: a requester scatters only if every request
		 * completes.
		 */
		.scatter_to_cqe_send =
			scatter && (qp->qp.sig_all || uhw.flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE),
		.user_handle = qp->user_handle,
		.async_fd = qp->async ? qp->async->dev_fd : -1,
	};
	if (uhw.flags & MLX5_QP_FLAG_BFREG_INDEX)
		return bfreg_of_domain(req->ctx, uhw.bfreg_index, &qp->qp.bfreg);
	qp->qp.bfreg = bfreg_take(req->ctx);
	return 0;
}

static void qp_publish(struct sn_obj *qp)
{
	qp->qp.pd->users++;
	qp->qp.scq->users++;
	qp->qp.rcq->users++;
	if (qp->qp.srq)
		qp->qp.srq->users++;
	if (qp->async)
		qp->async->users++;
}

static int qp_make(const struct sn_req *req, struct sn_obj *qp, uint32_t *handle, uint32_t *qpn)
{
	struct sn_qp_attr attr;
	uint32_t events;
	int err;

	err = qp_decode_core(req, qp);
	if (!err)
		err = qp_decode_mlx5(req, qp, &attr);
	if (err)
		return err;
	attr.bfreg_index = qp->qp.bfreg;
	err = sn_qp_create(req->ctx->dev, &attr, qpn, &qp->qp.dev);
	if (err)
		goto put_bfreg;
	err = sn_obj_add(req->ctx, qp, handle);
	if (err)
		goto destroy;
	qp_publish(qp);
	return 0;
destroy:
	sn_qp_destroy(qp->qp.dev, &events);
put_bfreg:
	bfreg_put(req->ctx, qp->qp.bfreg);
	return err;
}

int sn_qp_create_cmd(const struct sn_req *req)
{
	struct ib_uverbs_attr *out = sn_req_attr(req, UVERBS_ATTR_CREATE_QP_HANDLE);
	struct mlx5_ib_create_qp_resp uhw = { 0 };
	struct sn_obj *qp;
	uint32_t handle, qpn;
	int err;

	if (!out || !req->ctx->dev)
		return -EINVAL;
	qp = sn_obj_make(SN_OBJ_QP);
	err = qp ? qp_make(req, qp, &handle, &qpn) : -ENOMEM;
	if (err) {
		free(qp);
		return err;
	}
	out->data = handle;
	uhw.bfreg_index = bfreg_for_library(req->ctx, qp->qp.bfreg);
	sn_req_out(req, UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp->qp.cap, sizeof(qp->qp.cap));
	sn_req_out(req, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qpn, sizeof(qpn));
	return sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
}

static int path_check(const struct sn_ctx *ctx, const struct ib_uverbs_modify_qp *cmd)
{
	const struct ib_uverbs_qp_dest *dest = &cmd->dest;

	if (cmd->attr_mask & IBV_QP_PORT && cmd->port_num != 1)
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_PKEY_INDEX && cmd->pkey_index >= sn_nic_pkeys(ctx->nic))
		return -EINVAL;
	if (!(cmd->attr_mask & IBV_QP_AV))
		return 0;
	if (!dest->is_global)
		return ctx->nic->link_layer == SN_LINK_ETH ? -EINVAL : 0;
	return sn_gid_index_ok(ctx, dest->sgid_index) ? 0 : -EINVAL;
}

/*
 * Finds the way to the destination, as Linux does on Ethernet before it asks the NIC: there is none
 * to an address that nobody has. On InfiniBand nobody looks.
 */
static int route_check(const struct sn_ctx *ctx, const struct ib_uverbs_modify_qp *cmd)
{
	if (!(cmd->attr_mask & IBV_QP_AV) || ctx->nic->link_layer != SN_LINK_ETH)
		return 0;
	return sn_gid_known(ctx, cmd->dest.dgid, cmd->dest.sgid_index) ? 0 : -ETIMEDOUT;
}

static int modify_alive(const struct sn_req *req, struct sn_obj *qp,
			struct ib_uverbs_modify_qp *cmd)
{
	struct ib_uverbs_query_qp_resp now = { 0 };
	int err;

	err = path_check(req->ctx, cmd);
	if (!err)
		err = sn_qp_query(qp->qp.dev, &now);
	if (!err)
		err = sn_qp_check_modify(qp->qp.type, now.qp_state, cmd);
	if (!err)
		err = route_check(req->ctx, cmd);
	return err ? err : sn_qp_modify(qp->qp.dev, cmd);
}

/* mlx5 with an internal error answers 2ERR and 2RST with success, so that teardown ends. */
static int modify_dead(struct sn_obj *qp, const struct ib_uverbs_modify_qp *cmd)
{
	if (!(cmd->attr_mask & IBV_QP_STATE) ||
	    (cmd->qp_state != IBV_QPS_ERR && cmd->qp_state != IBV_QPS_RESET))
		return -ENOLINK;
	return sn_qp_modify_dead(qp->qp.dev, cmd->qp_state);
}

void sn_qp_modify_wait(const struct sn_req *req, struct sn_wait *wait)
{
	struct ib_uverbs_ex_modify_qp cmd;

	if (!sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd.base), sizeof(cmd)) &&
	    cmd.base.attr_mask & IBV_QP_AV)
		wait->route_ns = atomic_load(&req->ctx->nic->slow.route_ns);
}

int sn_qp_modify_cmd(const struct sn_req *req)
{
	struct mlx5_ib_modify_qp_resp uhw = { .response_length = sizeof(uhw) };
	struct ib_uverbs_ex_modify_qp_resp resp = { .response_length = sizeof(resp) };
	struct ib_uverbs_ex_modify_qp cmd;
	struct sn_obj *qp;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd.base), sizeof(cmd));
	if (err)
		return err;
	qp = sn_obj_find(req->ctx, cmd.base.qp_handle, SN_OBJ_QP);
	if (!qp)
		return -EINVAL;
	err = sn_gate_internal_error(req->ctx) ? modify_dead(qp, &cmd.base)
					       : modify_alive(req, qp, &cmd.base);
	if (err)
		return err;
	sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_qp_query_cmd(const struct sn_req *req)
{
	struct ib_uverbs_query_qp_resp resp = { 0 };
	struct ib_uverbs_query_qp cmd;
	struct sn_obj *qp;
	int err;

	atomic_fetch_add(&req->ctx->nic->count.qp_queries, 1);
	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd));
	if (err)
		return err;
	qp = sn_obj_find(req->ctx, cmd.qp_handle, SN_OBJ_QP);
	if (!qp)
		return -EINVAL;
	err = sn_qp_query(qp->qp.dev, &resp);
	if (err)
		return err;
	resp.max_send_wr = qp->qp.cap.max_send_wr;
	resp.max_send_sge = qp->qp.cap.max_send_sge;
	resp.max_recv_sge = qp->qp.cap.max_recv_sge;
	resp.max_inline_data = qp->qp.cap.max_inline_data;
	resp.sq_sig_all = qp->qp.sig_all;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_qp_destroy_cmd(const struct sn_req *req)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct sn_ctx *ctx = req->ctx;
	struct sn_obj *qp;
	uint32_t handle, async = 0;
	int err;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_QP_HANDLE, &handle))
		return -EINVAL;
	qp = sn_obj_find(ctx, handle, SN_OBJ_QP);
	if (!qp)
		return -ENOENT;
	err = sn_qp_destroy(qp->qp.dev, &async);
	if (err)
		return err;
	resp.events_reported = async - sn_event_file_take_back(qp->async, qp->user_handle);
	sn_event_file_put(ctx, qp->async);
	bfreg_put(ctx, qp->qp.bfreg);
	sn_obj_unref(qp->qp.pd);
	sn_obj_unref(qp->qp.scq);
	sn_obj_unref(qp->qp.rcq);
	if (qp->qp.srq)
		sn_obj_unref(qp->qp.srq);
	sn_obj_drop(ctx, handle);
	return sn_req_out(req, UVERBS_ATTR_DESTROY_QP_RESP, &resp, sizeof(resp));
}
