/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Device memory: bytes that the NIC itself has, and no other NIC reaches. */
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simnic/device/device.h"
#include "simnic/fabric/check.h"
#include "simnic/host/ctx.h"
#include "simnic/host/uverbs.h"

/* Place of a page, behind all doorbell pages that a context may have. */
off_t sn_dm_offset(uint32_t page)
{
	return ((off_t)SN_MAX_BFREGS / SN_BFREGS_PER_UAR + SN_MAX_DYN_UARS + page) * sn_page();
}

/* Whole pages, one after the other; -ENOMEM. */
static int pages_take(struct sn_ctx *ctx, uint32_t n)
{
	uint32_t at, run = 0;

	for (at = 0; at < SN_DM_PAGES; at++) {
		run = ctx->dm_taken[at] ? 0 : run + 1;
		if (run < n)
			continue;
		memset(ctx->dm_taken + at + 1 - n, 1, n);
		return (int)(at + 1 - n);
	}
	return -ENOMEM;
}

static void pages_give(struct sn_ctx *ctx, const struct sn_obj *dm)
{
	SN_ASSERT(dm->dm.page + dm->dm.n_pages <= SN_DM_PAGES && ctx->dm_taken[dm->dm.page]);
	munmap(dm->dm.map, (size_t)dm->dm.n_pages * sn_page());
	memset(ctx->dm_taken + dm->dm.page, 0, dm->dm.n_pages);
}

static int dm_map(struct sn_ctx *ctx, struct sn_obj *dm, uint64_t length)
{
	uint32_t n = (uint32_t)((length + sn_page() - 1) / sn_page());
	int page = length && length <= SN_DM_BYTES ? pages_take(ctx, n) : -EINVAL;
	void *map;

	if (page < 0)
		return page;
	map = sn_ctx_mmap(ctx, NULL, (size_t)n * sn_page(), PROT_READ | PROT_WRITE, MAP_SHARED,
			  sn_dm_offset((uint32_t)page));
	if (map == MAP_FAILED) {
		memset(ctx->dm_taken + page, 0, n);
		return -ENOMEM;
	}
	dm->dm.map = map;
	dm->dm.page = (uint32_t)page;
	dm->dm.n_pages = n;
	dm->dm.length = length;
	return 0;
}

int sn_dm_alloc(const struct sn_req *req)
{
	struct sn_obj *dm = sn_obj_make(SN_OBJ_DM);
	uint64_t length, offset = 0;
	uint32_t handle;
	uint16_t page;
	int err;

	if (!dm)
		return -ENOMEM;
	err = sn_req_in(req, UVERBS_ATTR_ALLOC_DM_LENGTH, &length, 8, 8);
	if (!err)
		err = dm_map(req->ctx, dm, length);
	if (err) {
		free(dm);
		return err;
	}
	err = sn_obj_add(req->ctx, dm, &handle);
	if (err) {
		pages_give(req->ctx, dm);
		free(dm);
		return err;
	}
	page = (uint16_t)dm->dm.page;
	sn_req_attr(req, UVERBS_ATTR_ALLOC_DM_HANDLE)->data = handle;
	sn_req_out(req, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &offset, sizeof(offset));
	return sn_req_out(req, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &page, sizeof(page));
}

int sn_dm_free(const struct sn_req *req)
{
	struct sn_obj *dm = sn_obj_attr(req, UVERBS_ATTR_FREE_DM_HANDLE, SN_OBJ_DM);
	uint32_t handle;

	if (!dm || sn_req_u32(req, UVERBS_ATTR_FREE_DM_HANDLE, &handle))
		return -ENOENT;
	if (dm->users)
		return -EBUSY;
	pages_give(req->ctx, dm);
	sn_obj_drop(req->ctx, handle);
	return 0;
}

/* Reads the attributes of a region in device memory, whose addresses begin at 0. */
static int dm_mr_attrs(const struct sn_req *req, const struct sn_obj *dm,
		       struct ib_uverbs_reg_mr *cmd)
{
	uint64_t offset, length;
	int err;

	memset(cmd, 0, sizeof(*cmd));
	err = sn_req_in(req, UVERBS_ATTR_REG_DM_MR_OFFSET, &offset, 8, 8);
	if (!err)
		err = sn_req_in(req, UVERBS_ATTR_REG_DM_MR_LENGTH, &length, 8, 8);
	if (!err)
		err = sn_req_u32(req, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, &cmd->access_flags);
	if (err)
		return err;
	if (!(cmd->access_flags & IB_UVERBS_ACCESS_ZERO_BASED) || offset > dm->dm.length ||
	    length > dm->dm.length - offset)
		return -EINVAL;
	cmd->start = (uintptr_t)dm->dm.map + offset;
	cmd->length = length;
	return 0;
}

int sn_mr_reg_dm(const struct sn_req *req)
{
	struct sn_obj *pd = sn_obj_attr(req, UVERBS_ATTR_REG_DM_MR_PD_HANDLE, SN_OBJ_PD), *mr;
	struct sn_obj *dm = sn_obj_attr(req, UVERBS_ATTR_REG_DM_MR_DM_HANDLE, SN_OBJ_DM);
	struct ib_uverbs_reg_mr cmd;
	uint32_t handle;
	int err;

	err = pd && dm ? dm_mr_attrs(req, dm, &cmd) : -EINVAL;
	if (err)
		return err;
	mr = sn_obj_make(SN_OBJ_MR);
	err = mr ? sn_mr_make(req->ctx, &cmd, pd, mr, &handle) : -ENOMEM;
	if (err) {
		free(mr);
		return err;
	}
	mr->mr.dm = dm;
	dm->users++;
	sn_req_attr(req, UVERBS_ATTR_REG_DM_MR_HANDLE)->data = handle;
	sn_req_out(req, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mr->mr.lkey, sizeof(mr->mr.lkey));
	return sn_req_out(req, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mr->mr.rkey, sizeof(mr->mr.rkey));
}
