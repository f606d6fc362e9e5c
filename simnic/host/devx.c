/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Objects that a program makes by commands of its own (DEVX). Known are memory keys: free ones
 * with a list that UMR fills, and keys that stand for a part of another key. Offsets as in the
 * PRM's CREATE_MKEY.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/device.h"
#include "simnic/host/ctx.h"
#include "simnic/host/uverbs.h"

#define CREATE_MKEY 0x200

enum {
	MKC_AT = 16,  /* the key's context in the command */
	KLM_AT = 272, /* place of the list, behind the context */
	KLM_BYTES = 16,
	MKC_FREE = 1 << 30,
	MKC_UMR_EN = 1 << 15,
	MKC_EN_RINVAL = 1 << 24, /* in the word of the protection domain */
	MKC_ENTRIES_AT = 52,	 /* length of the list */
	MKC_RIGHTS_SHIFT =
		10, /* shift of local read; then local write, remote read, remote write, atomic */
	MKC_MODE_SHIFT = 8,
	MODE_KLM = 2,
};

static uint32_t word(const uint8_t *at)
{
	uint32_t be;

	memcpy(&be, at, sizeof(be));
	return be32toh(be);
}

static uint64_t word64(const uint8_t *at)
{
	return (uint64_t)word(at) << 32 | word(at + 4);
}

static uint32_t rights(uint32_t flags)
{
	static const uint32_t of[] = { 0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ,
				       IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC };
	uint32_t access = 0;

	for (uint32_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (flags >> MKC_RIGHTS_SHIFT >> i & 1)
			access |= of[i];
	return access;
}

static int mkey_decode(const uint8_t *in, size_t length, struct sn_indirect *out)
{
	const uint8_t *mkc = in + MKC_AT, *klm = in + KLM_AT;
	uint32_t flags;

	if (length < KLM_AT || word(in) >> 16 != CREATE_MKEY)
		return -EOPNOTSUPP;
	flags = word(mkc);
	*out = (struct sn_indirect){ .pdn = word(mkc + 12) & 0xffffff,
				     .variant = word(mkc + 4) & 0xff,
				     .remote_end = word(mkc + 12) & MKC_EN_RINVAL };
	if (flags & MKC_FREE) {
		out->n_entries = flags & MKC_UMR_EN ? word(mkc + MKC_ENTRIES_AT) : 0;
		return out->n_entries > SN_MAX_ENTRIES ? -EINVAL : 0;
	}
	if ((flags >> MKC_MODE_SHIFT & 3) != MODE_KLM || word(in + 96) != 1 ||
	    length < KLM_AT + KLM_BYTES)
		return -EOPNOTSUPP;
	out->iova = word64(mkc + 16);
	out->length = word64(mkc + 24);
	out->access = rights(flags);
	out->of_key = word(klm + 4);
	out->of_va = word64(klm + 8);
	return 0;
}

int sn_devx_create(const struct sn_req *req)
{
	const struct ib_uverbs_attr *in = sn_req_attr(req, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
	struct sn_obj *obj = sn_obj_make(SN_OBJ_DEVX);
	struct sn_indirect want;
	uint32_t handle, answer[4] = { 0 };
	int err;

	if (!obj)
		return -ENOMEM;
	/*
	 * A kernel takes no key from a program that did not ask for DEVX when it opened the
	 * device.
	 */
	err = in && req->ctx->devx
		      ? mkey_decode((const uint8_t *)(uintptr_t)in->data, in->len, &want)
		      : -EINVAL;
	if (!err)
		err = sn_mr_reg_indirect(req->ctx->dev, &want, &obj->devx.key);
	if (err) {
		free(obj);
		return err;
	}
	err = sn_obj_add(req->ctx, obj, &handle);
	if (err) {
		sn_mr_dereg(req->ctx->dev, obj->devx.key);
		free(obj);
		return err;
	}
	answer[2] = htobe32(obj->devx.key >> 8);
	sn_req_attr(req, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)->data = handle;
	return sn_req_out(req, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, answer, sizeof(answer));
}

int sn_devx_destroy(const struct sn_req *req)
{
	struct sn_obj *obj = sn_obj_attr(req, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, SN_OBJ_DEVX);
	uint32_t handle;
	int err;

	if (!obj || sn_req_u32(req, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, &handle))
		return -ENOENT;
	err = sn_mr_dereg(req->ctx->dev, obj->devx.key);
	if (!err)
		sn_obj_drop(req->ctx, handle);
	return err;
}

/* ---- settings of queue pairs ----------------------------------------------------------------- */

#define RTS2RTS_QP   0x505
#define INIT2INIT_QP 0x50e

/*
 * Takes settings that verbs do not have: the source port of UDP, a port of a bond. They have no
 * effect, as there is one way here.
 */
int sn_devx_modify(const struct sn_req *req)
{
	const struct ib_uverbs_attr *in = sn_req_attr(req, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
	const uint8_t *cmd = in ? (const uint8_t *)(uintptr_t)in->data : NULL;
	uint32_t answer[4] = { 0 };

	if (!sn_obj_attr(req, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, SN_OBJ_QP))
		return -ENOENT;
	if (!cmd || in->len < sizeof(answer) ||
	    (word(cmd) >> 16 != RTS2RTS_QP && word(cmd) >> 16 != INIT2INIT_QP))
		return -EOPNOTSUPP;
	return sn_req_out(req, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, answer, sizeof(answer));
}

/* ---- capabilities of the device -------------------------------------------------------------- */

#define QUERY_HCA_CAP 0x100

enum {
	CAP_ATOMIC_NOW = 3 << 1 | 1, /* atomic capabilities, as they are set now */
	CAP_DM_NOW = 15 << 1 | 1,    /* capabilities of device memory */
	CAP_AT = 16,		     /* place of the capabilities in the answer */
	CAP_FETCH_ADD_PCI = CAP_AT + 0x50,
	CAP_SWAP_PCI = CAP_AT + 0x52,
	CAP_COMPARE_SWAP_PCI = CAP_AT + 0x54,
	CAP_BYTES = CAP_AT + 0x100,
	BYTES_8 = 2, /* bit in a mask of sizes */
};

static bool says_global(const struct sn_nic *nic)
{
	return atomic_load(&nic->atomic.glob) || sn_nic_quirk(nic, SN_QUIRK_GLOB_CLAIMED);
}

/*
 * Answers libmlx5, which asks whether atomics go to PCI, and with that to all of the host; and who
 * asks for operations on device memory: there are none.
 */
int sn_devx_other(const struct sn_req *req)
{
	const struct ib_uverbs_attr *in = sn_req_attr(req, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
	uint8_t answer[CAP_BYTES] = { 0 };
	const uint8_t *cmd = in ? (const uint8_t *)(uintptr_t)in->data : NULL;
	uint32_t which;

	if (!cmd || in->len < 8 || word(cmd) >> 16 != QUERY_HCA_CAP)
		return -EOPNOTSUPP;
	which = word(cmd + 4) & 0xffff;
	if (which != CAP_ATOMIC_NOW && which != CAP_DM_NOW)
		return -EOPNOTSUPP;
	if (which == CAP_ATOMIC_NOW && says_global(req->ctx->nic)) {
		answer[CAP_FETCH_ADD_PCI + 1] = BYTES_8;
		answer[CAP_SWAP_PCI + 1] = BYTES_8;
		answer[CAP_COMPARE_SWAP_PCI + 1] = BYTES_8;
	}
	return sn_req_out(req, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, answer, sizeof(answer));
}
