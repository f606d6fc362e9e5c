/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is made by DEVX: memory keys and queue pairs; and memory keys that are made by
 * mlx5dv_reg_dmabuf_mr. Layouts: CREATE_MKEY, CREATE_QP, CREATE_DCT and CREATE_GENERAL_OBJECT of
 * the PRM.
 */
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>

#include "providers/mlx5/command.h"
#include "providers/mlx5/libmlx5.h"

enum {
	OP_CREATE_MKEY = 0x200,
	OP_CREATE_QP = 0x500,
	OP_CREATE_DCT = 0x710,
	OP_CREATE_GENERAL_OBJECT = 0xa00,
	TYPE_MKEY = 0xff01, /* a general object: an alias of another function's key */
	MKEY_PD_AT = 28,    /* bytes from the command's start; the lower 24 bits */
	MKEY_BYTES = 32,
	OBJECT_BYTES = 16,
	OP_QP_FIRST = 0x502, /* transitions of queue pairs, RST2INIT to 2RST */
	OP_QP_LAST = 0x50a,
	OP_QP_INIT2INIT = 0x50e,
};

static const struct ib_uverbs_attr *attr_find(const struct ib_uverbs_ioctl_hdr *command,
					      uint16_t id)
{
	for (uint32_t i = 0; i < command->num_attrs; i++)
		if (command->attrs[i].attr_id == id)
			return &command->attrs[i];
	return NULL;
}

static uint32_t read_word(const uint8_t *in, uint32_t at)
{
	__be32 be;

	memcpy(&be, in + at, sizeof(be));
	return be32toh(be);
}

/* True if the command makes a key; *pd: the PD of it. */
static bool makes_key(const struct ib_uverbs_attr *attr, uint32_t *pd)
{
	const uint8_t *in = (const uint8_t *)(uintptr_t)attr->data;

	*pd = SP_PD_ANY;
	if (attr->len < OBJECT_BYTES)
		return false;
	switch (read_word(in, 0) >> 16) {
	case OP_CREATE_MKEY:
		if (attr->len >= MKEY_BYTES)
			*pd = read_word(in, MKEY_PD_AT) & 0xffffff;
		return true;
	case OP_CREATE_GENERAL_OBJECT: return (read_word(in, 4) & 0xffff) == TYPE_MKEY;
	default: return false;
	}
}

/* True if the command makes a queue pair, as UCX does, or one whose rings a GPU writes to. */
static bool makes_qp(const struct ib_uverbs_attr *attr)
{
	uint32_t opcode;

	if (attr->len < OBJECT_BYTES)
		return false;
	opcode = read_word((const uint8_t *)(uintptr_t)attr->data, 0) >> 16;
	return opcode == OP_CREATE_QP || opcode == OP_CREATE_DCT;
}

/*
 * mlx5dv_modify_qp_udp_sport(), _lag_port(), _sched_elem() and mlx5dv_devx_qp_modify(). A handle is
 * that of one object of the context, whatever its kind.
 */
static bool sets_qp(const struct ib_uverbs_ioctl_hdr *command, uint32_t *handle)
{
	const struct ib_uverbs_attr *object =
		attr_find(command, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE);
	const struct ib_uverbs_attr *attr = attr_find(command, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
	uint32_t opcode;

	if (!object || !attr || attr->len < OBJECT_BYTES)
		return false;
	opcode = read_word((const uint8_t *)(uintptr_t)attr->data, 0) >> 16;
	*handle = (uint32_t)object->data;
	return (opcode >= OP_QP_FIRST && opcode <= OP_QP_LAST) || opcode == OP_QP_INIT2INIT;
}

void ring_key_command(const struct ib_uverbs_ioctl_hdr *command, struct sp_key_command *out)
{
	const struct ib_uverbs_attr *handle, *in;

	out->what = SP_KEY_NONE;
	if (command->object_id != MLX5_IB_OBJECT_DEVX_OBJ)
		return;
	if (command->method_id == MLX5_IB_METHOD_DEVX_OBJ_MODIFY) {
		if (sets_qp(command, &out->object))
			out->what = SP_QP_SET;
		return;
	}
	if (command->method_id == MLX5_IB_METHOD_DEVX_OBJ_DESTROY) {
		handle = attr_find(command, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
		out->what = handle ? SP_KEY_GONE : SP_KEY_NONE; /* gone, if the object was a key */
	} else if (command->method_id == MLX5_IB_METHOD_DEVX_OBJ_CREATE) {
		handle = attr_find(command, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
		in = attr_find(command, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
		if (handle && in && makes_key(in, &out->pd))
			out->what = SP_KEY_MADE;
		else if (handle && in && makes_qp(in))
			out->what = SP_QP_MADE;
	} else {
		return;
	}
	if (out->what != SP_KEY_NONE)
		out->object = (uint32_t)handle->data;
}

uint32_t ring_pd_number(struct ibv_pd *pd)
{
	struct mlx5dv_pd dv = { .pdn = SP_PD_ANY };
	struct mlx5dv_obj obj = { .pd = { .in = pd, .out = &dv } };

	return ring_init_obj(&obj, MLX5DV_OBJ_PD) ? SP_PD_ANY : dv.pdn;
}

/* ---- mlx5dv_reg_dmabuf_mr -------------------------------------------------------------------- */

enum { DMABUF_FLAGS = 1 << UVERBS_ID_NS_SHIFT, MAX_ATTRS = 8 };

/* struct ibv_command_buffer since rdma-core 18: attributes that libmlx5 adds to a command. */
struct added {
	const void *next;
	const struct ib_uverbs_attr *end, *last;
	uint8_t flags[8];
	struct ib_uverbs_ioctl_hdr hdr;
};

/*
 * A libmlx5 without that verb knows no flags, and the libibverbs of its release passes none. A
 * buffer that is mapped for a path of its own (data direct) may be registered without the flag too,
 * but then the NIC fails to reach it.
 */
int ring_dmabuf_flags(const void *driver, uint32_t *flags)
{
	const struct added *added = driver;
	const struct ib_uverbs_attr *attr;

	*flags = 0;
	if (!ring_reg_dmabuf() || !driver)
		return 0;
	if (added->hdr.object_id != UVERBS_OBJECT_MR ||
	    added->hdr.method_id != UVERBS_METHOD_REG_DMABUF_MR || added->end < added->hdr.attrs ||
	    added->end > added->hdr.attrs + MAX_ATTRS)
		return -EINVAL;
	for (attr = added->hdr.attrs; attr < added->end; attr++) {
		if (attr->attr_id != DMABUF_FLAGS || attr->len != sizeof(*flags))
			return -EINVAL;
		*flags = (uint32_t)attr->data;
	}
	return 0;
}

struct ibv_mr *ring_dmabuf_reg(struct ibv_pd *pd, const struct sp_dmabuf *buf)
{
	ring_reg_dmabuf_fn reg = ring_reg_dmabuf();

	if (!reg) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return reg(pd, buf->offset, buf->length, buf->iova, buf->fd, buf->access, (int)buf->flags);
}
