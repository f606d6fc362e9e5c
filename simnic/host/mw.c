/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows: commands make and free them; requests in a send queue bind them. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"
#include "simnic/host/uverbs.h"

static int mw_make(const struct sn_req *req, const struct ib_uverbs_alloc_mw *cmd,
		   struct sn_obj *pd, struct sn_obj *mw, uint32_t *handle)
{
	int err = sn_window_alloc(req->ctx->dev, pd->pd.pdn, 0, cmd->mw_type == IBV_MW_TYPE_2,
				  &mw->mw.rkey);

	if (err)
		return err;
	err = sn_obj_add(req->ctx, mw, handle);
	if (err) {
		sn_window_free(req->ctx->dev, mw->mw.rkey);
		return err;
	}
	mw->mw.pd = pd;
	pd->users++;
	return 0;
}

int sn_mw_alloc(const struct sn_req *req)
{
	struct ib_uverbs_alloc_mw_resp resp = { 0 };
	struct ib_uverbs_alloc_mw cmd;
	struct sn_obj *mw, *pd;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd));
	pd = err ? NULL : sn_obj_find(req->ctx, cmd.pd_handle, SN_OBJ_PD);
	if (!pd || (cmd.mw_type != IBV_MW_TYPE_1 && cmd.mw_type != IBV_MW_TYPE_2))
		return -EINVAL;
	mw = sn_obj_make(SN_OBJ_MW);
	err = mw ? mw_make(req, &cmd, pd, mw, &resp.mw_handle) : -ENOMEM;
	if (err) {
		free(mw);
		return err;
	}
	resp.rkey = mw->mw.rkey;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int sn_mw_dealloc(const struct sn_req *req)
{
	struct sn_obj *mw;
	uint32_t handle;
	int err;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_MW_HANDLE, &handle))
		return -EINVAL;
	mw = sn_obj_find(req->ctx, handle, SN_OBJ_MW);
	if (!mw)
		return -ENOENT;
	err = sn_window_free(req->ctx->dev, mw->mw.rkey);
	if (err)
		return err;
	sn_obj_unref(mw->mw.pd);
	sn_obj_drop(req->ctx, handle);
	return 0;
}
