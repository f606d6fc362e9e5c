/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles. libmlx5 keeps them in user space; on Ethernet it asks for the destination's MAC.
 * The fabric has no MACs: they are made from the GID, which is what routes.
 */
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"
#include "simnic/host/uverbs.h"

static int ah_check(const struct sn_ctx *ctx, const struct ib_uverbs_ah_attr *attr)
{
	if (attr->port_num != 1)
		return -EINVAL;
	if (!attr->is_global)
		return ctx->nic->link_layer == SN_LINK_ETH ? -EINVAL : 0;
	if (!sn_gid_index_ok(ctx, attr->grh.sgid_index))
		return -EINVAL;
	/* A kernel finds no route, or no neighbour that answers. */
	if (ctx->nic->link_layer == SN_LINK_ETH &&
	    !sn_gid_known(ctx, attr->grh.dgid, attr->grh.sgid_index))
		return -EHOSTUNREACH;
	return 0;
}

void sn_ah_wait(const struct sn_req *req, struct sn_wait *wait)
{
	wait->route_ns = atomic_load(&req->ctx->nic->slow.route_ns);
}

int sn_ah_create(const struct sn_req *req)
{
	struct mlx5_ib_create_ah_resp uhw = { .response_length = sizeof(uhw), .dmac = { 2 } };
	struct ib_uverbs_create_ah_resp resp = { 0 };
	struct ib_uverbs_create_ah cmd;
	struct sn_obj *ah, *pd;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd));
	pd = err ? NULL : sn_obj_find(req->ctx, cmd.pd_handle, SN_OBJ_PD);
	if (!pd)
		return -EINVAL;
	err = ah_check(req->ctx, &cmd.attr);
	if (err)
		return err;
	ah = sn_obj_make(SN_OBJ_AH);
	err = ah ? sn_obj_add(req->ctx, ah, &resp.ah_handle) : -ENOMEM;
	if (err) {
		free(ah);
		return err;
	}
	ah->ah.pd = pd;
	pd->users++;
	memcpy(uhw.dmac + 2, cmd.attr.grh.dgid + 12, 4);
	sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_ah_destroy(const struct sn_req *req)
{
	struct sn_obj *ah;
	uint32_t handle;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_AH_HANDLE, &handle))
		return -EINVAL;
	ah = sn_obj_find(req->ctx, handle, SN_OBJ_AH);
	if (!ah)
		return -ENOENT;
	sn_obj_unref(ah->ah.pd);
	sn_obj_drop(req->ctx, handle);
	return 0;
}
