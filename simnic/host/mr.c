/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains and memory regions. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/device/device.h"
#include "simnic/fabric/check.h"
#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"
#include "simnic/host/uverbs.h"

int sn_pd_alloc(const struct sn_req *req)
{
	static _Atomic uint32_t next_pdn = 1;
	struct ib_uverbs_alloc_pd_resp resp = { 0 };
	struct mlx5_ib_alloc_pd_resp uhw;
	struct sn_obj *pd = sn_obj_make(SN_OBJ_PD);
	int err;

	if (!pd)
		return -ENOMEM;
	pd->pd.pdn = uhw.pdn = atomic_fetch_add(&next_pdn, 1) & 0xffffff;
	err = sn_obj_add(req->ctx, pd, &resp.pd_handle);
	if (err) {
		free(pd);
		return err;
	}
	sn_req_out(req, UVERBS_ATTR_UHW_OUT, &uhw, sizeof(uhw));
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

/* The kernel counts users itself, and asks no firmware where there are any. */
int sn_pd_check(const struct sn_req *req)
{
	struct sn_obj *pd;
	uint32_t handle;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_PD_HANDLE, &handle))
		return -EINVAL;
	pd = sn_obj_find(req->ctx, handle, SN_OBJ_PD);
	if (!pd)
		return -ENOENT;
	return pd->users ? -EBUSY : 0;
}

int sn_pd_dealloc(const struct sn_req *req)
{
	uint32_t handle;
	int err = sn_pd_check(req); /* another thread may have made a user meanwhile */

	if (err)
		return err;
	sn_req_u32(req, UVERBS_ATTR_DESTROY_PD_HANDLE, &handle);
	sn_obj_drop(req->ctx, handle);
	return 0;
}

static int access_check(const struct ib_uverbs_reg_mr *cmd)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_ON_DEMAND |
			       IB_UVERBS_ACCESS_MW_BIND | IB_UVERBS_ACCESS_OPTIONAL_RANGE;
	const uint32_t writes = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;

	if (cmd->access_flags & ~known)
		return -EOPNOTSUPP; /* huge pages */
	/* IBA 10.6.3.1: a remote write right needs the local one. */
	if ((cmd->access_flags & writes) && !(cmd->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if (!cmd->length || cmd->start + cmd->length < cmd->start)
		return -EINVAL;
	return (cmd->start ^ cmd->hca_va) % sn_page() ? -EINVAL : 0;
}

/* A kernel pins the pages, and cannot pin what is not there. */
static int range_check(uint64_t start, uint64_t length)
{
	uint64_t at = start & ~(sn_page() - 1ULL), end = start + length;
	unsigned char seen[4096];

	while (at < end) {
		uint64_t n = end - at;

		if (n > sizeof(seen) * (uint64_t)sn_page())
			n = sizeof(seen) * (uint64_t)sn_page();
		if (mincore((void *)(uintptr_t)at, n, seen))
			return -EFAULT;
		at += n;
	}
	return 0;
}

/*
 * Bytes that this process has pinned, on all its NICs: the kernel counts like that
 * (mm->pinned_vm).
 */
static _Atomic uint64_t pinned;

/* RLIMIT_MEMLOCK counts only where a test asks for it: CI containers set it tiny. */
static uint64_t memlock_limit(void)
{
	const char *wanted = getenv("SIMNIC_MEMLOCK");
	uint64_t bytes = wanted ? strtoull(wanted, NULL, 0) : 0;
	struct rlimit limit;

	if (bytes == 1)
		return getrlimit(RLIMIT_MEMLOCK, &limit) ? UINT64_MAX : limit.rlim_cur;
	return bytes ? bytes : UINT64_MAX;
}

static int memlock_charge(uint64_t length)
{
	uint64_t sum = atomic_fetch_add(&pinned, length) + length;

	if (sum <= memlock_limit())
		return 0;
	atomic_fetch_sub(&pinned, length);
	return -ENOMEM;
}

/* Memory that is paged on demand is not pinned: all of the process's may be registered so. */
static uint64_t pinned_length(const struct ib_uverbs_reg_mr *cmd)
{
	return cmd->access_flags & IB_UVERBS_ACCESS_ON_DEMAND ? 0 : cmd->length;
}

void sn_mr_unpin(const struct sn_obj *obj)
{
	if (!obj || obj->type != SN_OBJ_MR || obj->mr.dm)
		return;
	SN_ASSERT(atomic_load(&pinned) >= pinned_length(&obj->mr.cmd));
	atomic_fetch_sub(&pinned, pinned_length(&obj->mr.cmd));
	if (obj->mr.map)
		munmap(obj->mr.map, obj->mr.map_length);
}

static int mr_check(const struct ib_uverbs_reg_mr *cmd)
{
	int err = access_check(cmd);

	if (err || cmd->access_flags & IB_UVERBS_ACCESS_ON_DEMAND)
		return err;
	return range_check(cmd->start, cmd->length);
}

int sn_mr_make(struct sn_ctx *ctx, const struct ib_uverbs_reg_mr *cmd, struct sn_obj *pd,
	       struct sn_obj *mr, uint32_t *handle)
{
	int err;

	err = sn_mr_reg(ctx->dev, pd->pd.pdn, cmd->start, cmd->length, cmd->hca_va,
			cmd->access_flags, &mr->mr.lkey, &mr->mr.rkey);
	if (err)
		return err;
	err = sn_obj_add(ctx, mr, handle);
	if (err) {
		sn_mr_dereg(ctx->dev, mr->mr.lkey);
		return err;
	}
	mr->mr.pd = pd;
	mr->mr.cmd = *cmd;
	pd->users++;
	return 0;
}

/* Firmware that writes the translations of all pages before it serves anybody else. */
void sn_mr_reg_wait(const struct sn_req *req, struct sn_wait *wait)
{
	struct ib_uverbs_reg_mr cmd;

	if (!sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd)))
		wait->line_ns = (cmd.length >> 20) * atomic_load(&req->ctx->nic->slow.register_ns) +
				atomic_load(&req->ctx->nic->slow.region_ns);
}

int sn_mr_reg_cmd(const struct sn_req *req)
{
	struct ib_uverbs_reg_mr_resp resp = { 0 };
	struct ib_uverbs_reg_mr cmd;
	struct sn_obj *mr, *pd;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd), sizeof(cmd));
	if (err)
		return err;
	pd = sn_obj_find(req->ctx, cmd.pd_handle, SN_OBJ_PD);
	if (!pd)
		return -EINVAL;
	err = mr_check(&cmd);
	if (!err)
		err = memlock_charge(pinned_length(&cmd));
	if (err)
		return err;
	mr = sn_obj_make(SN_OBJ_MR);
	err = mr ? sn_mr_make(req->ctx, &cmd, pd, mr, &resp.mr_handle) : -ENOMEM;
	if (err) {
		atomic_fetch_sub(&pinned, pinned_length(&cmd));
		free(mr);
		return err;
	}
	resp.lkey = mr->mr.lkey;
	resp.rkey = mr->mr.rkey;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

/* Decodes the region's form from now on. */
static int rereg_decode(const struct ib_uverbs_rereg_mr *want, struct ib_uverbs_reg_mr *cmd)
{
	if (!want->flags || want->flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED)
		return -EINVAL;
	if (want->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		cmd->start = want->start;
		cmd->length = want->length;
		cmd->hca_va = want->hca_va;
	}
	if (want->flags & IBV_REREG_MR_CHANGE_ACCESS)
		cmd->access_flags = want->access_flags;
	if (want->flags & IBV_REREG_MR_CHANGE_PD)
		cmd->pd_handle = want->pd_handle;
	return mr_check(cmd);
}

static void mr_set(struct sn_obj *mr, struct sn_obj *pd, const struct ib_uverbs_reg_mr *cmd)
{
	mr->mr.cmd = *cmd;
	sn_obj_unref(mr->mr.pd);
	mr->mr.pd = pd;
	pd->users++;
}

/* Changes rights or domain in place, as the kernel's driver does: programs go on with the key. */
static int mr_change(struct sn_ctx *ctx, struct sn_obj *mr, struct sn_obj *pd,
		     const struct ib_uverbs_reg_mr *cmd)
{
	int err = sn_mr_change(ctx->dev, mr->mr.lkey, pd->pd.pdn, cmd->access_flags);

	if (!err)
		mr_set(mr, pd, cmd);
	return err;
}

/* The new one under a key of its own, then the old one goes. */
static int mr_replace(struct sn_ctx *ctx, struct sn_obj *mr, struct sn_obj *pd,
		      const struct ib_uverbs_reg_mr *cmd)
{
	uint32_t lkey, rkey;
	int err;

	err = sn_mr_reg(ctx->dev, pd->pd.pdn, cmd->start, cmd->length, cmd->hca_va,
			cmd->access_flags, &lkey, &rkey);
	if (err)
		return err;
	sn_mr_dereg(ctx->dev, mr->mr.lkey);
	sn_mr_unpin(mr);
	mr->mr.lkey = lkey;
	mr->mr.rkey = rkey;
	mr_set(mr, pd, cmd);
	return 0;
}

static int mr_pin_and_replace(struct sn_ctx *ctx, struct sn_obj *mr, struct sn_obj *pd,
			      const struct ib_uverbs_reg_mr *cmd)
{
	int err = memlock_charge(pinned_length(cmd));

	if (err)
		return err;
	err = mr_replace(ctx, mr, pd, cmd);
	if (err)
		atomic_fetch_sub(&pinned, pinned_length(cmd));
	return err;
}

/* Paged memory is pinned from now on, or no more: that is another region. */
static bool changes_in_place(uint32_t flags, const struct ib_uverbs_reg_mr *from,
			     const struct ib_uverbs_reg_mr *to)
{
	return !(flags & IBV_REREG_MR_CHANGE_TRANSLATION) &&
	       !((from->access_flags ^ to->access_flags) & IB_UVERBS_ACCESS_ON_DEMAND);
}

int sn_mr_rereg_cmd(const struct sn_req *req)
{
	struct ib_uverbs_rereg_mr_resp resp = { 0 };
	struct ib_uverbs_rereg_mr want;
	struct ib_uverbs_reg_mr cmd;
	struct sn_obj *mr, *pd;
	int err;

	err = sn_req_in(req, UVERBS_ATTR_CORE_IN, &want, sizeof(want), sizeof(want));
	if (err)
		return err;
	mr = sn_obj_find(req->ctx, want.mr_handle, SN_OBJ_MR);
	if (!mr || mr->mr.map || mr->mr.dm)
		return -EINVAL;
	cmd = mr->mr.cmd;
	err = rereg_decode(&want, &cmd);
	pd = sn_obj_find(req->ctx, cmd.pd_handle, SN_OBJ_PD);
	if (err || !pd)
		return err ? err : -EINVAL;
	err = changes_in_place(want.flags, &mr->mr.cmd, &cmd)
		      ? mr_change(req->ctx, mr, pd, &cmd)
		      : mr_pin_and_replace(req->ctx, mr, pd, &cmd);
	if (err)
		return err;
	resp.lkey = mr->mr.lkey;
	resp.rkey = mr->mr.rkey;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

/* ---- prefetching: pages are where they are, so only the request is checked ------------------ */

static int prefetch_all(const struct sn_req *req, const struct sn_obj *pd, bool writes)
{
	const struct ib_uverbs_attr *list = sn_req_attr(req, UVERBS_ATTR_ADVISE_MR_SGE_LIST);
	const struct ibv_sge *sge = list ? (const struct ibv_sge *)(uintptr_t)list->data : NULL;
	size_t n = list ? list->len / sizeof(*sge) : 0;
	int err = n ? 0 : -EINVAL;

	for (size_t i = 0; i < n && !err; i++)
		err = sn_mr_prefetch(req->ctx->dev, pd->pd.pdn, &sge[i], writes);
	return err;
}

int sn_mr_advise_cmd(const struct sn_req *req)
{
	const struct sn_obj *pd = sn_obj_attr(req, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, SN_OBJ_PD);
	const struct ib_uverbs_attr *advice = sn_req_attr(req, UVERBS_ATTR_ADVISE_MR_ADVICE);

	if (!pd || !advice)
		return -EINVAL;
	switch (advice->data) {
	case IBV_ADVISE_MR_ADVICE_PREFETCH:
	case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: return prefetch_all(req, pd, false);
	case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: return prefetch_all(req, pd, true);
	default: return -EOPNOTSUPP;
	}
}

/* ---- dma-buf: whatever can be mapped serves, memfd too --------------------------------------- */

static int dmabuf_attrs(const struct sn_req *req, struct ib_uverbs_reg_mr *cmd, int *fd)
{
	uint64_t value = 0;
	int err;

	memset(cmd, 0, sizeof(*cmd));
	err = sn_req_in(req, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &cmd->start, 8, 8);
	if (!err)
		err = sn_req_in(req, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &value, 8, 8);
	cmd->length = value;
	if (!err)
		err = sn_req_in(req, UVERBS_ATTR_REG_DMABUF_MR_IOVA, &value, 8, 8);
	cmd->hca_va = value;
	if (!err)
		err = sn_req_u32(req, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &cmd->access_flags);
	if (!err)
		err = sn_req_u32(req, UVERBS_ATTR_REG_DMABUF_MR_FD, (uint32_t *)fd);
	return err ? err : access_check(cmd);
}

/* Says so for a program whose libibverbs, older than rdma-core 54, cannot pass the attribute. */
bool simnic_data_direct(void) __attribute__((weak));

enum { DIRECT_ATTR = 1 << UVERBS_ID_NS_SHIFT, DIRECT_FLAG = 1 };

static bool direct_asked(const struct sn_req *req)
{
	uint32_t flags;

	if (!sn_req_u32(req, DIRECT_ATTR, &flags))
		return flags & DIRECT_FLAG;
	return simnic_data_direct && simnic_data_direct();
}

/*
 * True if the registration reaches the buffer. A buffer of the name "bar1" is mapped for data
 * direct alone: it can be registered without data direct, and is not reached then.
 */
static bool dmabuf_reached(const struct sn_req *req, int fd)
{
	char path[32], name[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = 0;
	return strncmp(name, "/memfd:bar1", 11) != 0 || direct_asked(req);
}

/* cmd->start is where it begins in the buffer, and then where it is mapped. */
static int dmabuf_map(struct ib_uverbs_reg_mr *cmd, int fd, struct sn_obj *mr)
{
	uint64_t in_page = cmd->start % sn_page();
	struct stat st;
	void *map;

	if (fstat(fd, &st))
		return -EBADF;
	if (cmd->start + cmd->length > (uint64_t)st.st_size)
		return -EINVAL;
	map = mmap(NULL, cmd->length + in_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)(cmd->start - in_page));
	if (map == MAP_FAILED)
		return -EINVAL;
	mr->mr.map = map;
	mr->mr.map_length = cmd->length + in_page;
	cmd->start = (uintptr_t)map + in_page;
	return 0;
}

static int dmabuf_answer(const struct sn_req *req, struct sn_obj *mr, uint32_t handle)
{
	sn_req_attr(req, UVERBS_ATTR_REG_DMABUF_MR_HANDLE)->data = handle;
	sn_req_out(req, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->mr.lkey, sizeof(mr->mr.lkey));
	return sn_req_out(req, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->mr.rkey,
			  sizeof(mr->mr.rkey));
}

int sn_mr_reg_dmabuf(const struct sn_req *req)
{
	struct sn_obj *pd = sn_obj_attr(req, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, SN_OBJ_PD), *mr;
	struct ib_uverbs_reg_mr cmd;
	uint32_t handle;
	int err, fd;

	err = pd ? dmabuf_attrs(req, &cmd, &fd) : -EINVAL;
	if (!err)
		err = memlock_charge(pinned_length(&cmd));
	if (err)
		return err;
	mr = sn_obj_make(SN_OBJ_MR);
	err = mr ? dmabuf_map(&cmd, fd, mr) : -ENOMEM;
	if (!err && !dmabuf_reached(req, fd))
		cmd.hca_va ^= 1ULL << 63;
	if (!err)
		err = sn_mr_make(req->ctx, &cmd, pd, mr, &handle);
	if (!err)
		return dmabuf_answer(req, mr, handle);
	atomic_fetch_sub(&pinned, pinned_length(&cmd));
	if (mr && mr->mr.map)
		munmap(mr->mr.map, mr->mr.map_length);
	free(mr);
	return err;
}

int sn_mr_destroy_cmd(const struct sn_req *req)
{
	struct sn_obj *mr;
	uint32_t handle;
	int err;

	if (sn_req_u32(req, UVERBS_ATTR_DESTROY_MR_HANDLE, &handle))
		return -EINVAL;
	mr = sn_obj_find(req->ctx, handle, SN_OBJ_MR);
	if (!mr)
		return -ENOENT;
	err = sn_mr_dereg(req->ctx->dev, mr->mr.lkey);
	if (err)
		return err;
	sn_mr_unpin(mr);
	sn_obj_unref(mr->mr.pd);
	if (mr->mr.dm)
		sn_obj_unref(mr->mr.dm);
	sn_obj_drop(req->ctx, handle);
	return 0;
}
