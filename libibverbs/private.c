/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include "libibverbs/hook.h"
#include "libibverbs/private.h"

typedef int (*create_fn)(WORDS_DECLARE);

/* Not HOOK_CALL: the call comes from a provider, in most cases inside an exported verb. */
static int create_with_real_async(struct ibv_context *context, void *real, WORDS_DECLARE)
{
	bool on = atomic_load_explicit(&hook_on, memory_order_acquire);
	int ret;

	if (on)
		shift_async_real_begin(context);
	ret = ((create_fn)real)(WORDS_PASS);
	if (on)
		shift_async_real_end(context);
	return ret;
}

static struct ibv_comp_channel *real_channel(struct ibv_comp_channel *channel)
{
	if (!channel || !atomic_load_explicit(&hook_on, memory_order_acquire))
		return channel;
	return shift_channel_real(channel);
}

/* (context, cqe, channel, comp_vector, cq, ...) */
HOOK_EXPORT int ibv_cmd_create_cq(WORDS_DECLARE)
{
	a2 = (word)real_channel((struct ibv_comp_channel *)a2);
	return create_with_real_async((struct ibv_context *)a0, real_private()->create_cq,
				      WORDS_PASS);
}

/* The attributes are changed in place and put back, as they may be longer than is known here. */
static int create_cq_ex(void *function, WORDS_DECLARE)
{
	struct ibv_cq_init_attr_ex *attr = (struct ibv_cq_init_attr_ex *)a1;
	struct ibv_comp_channel *channel = attr->channel, *real = real_channel(channel);
	int ret;

	if (real != channel)
		attr->channel = real;
	ret = create_with_real_async((struct ibv_context *)a0, function, WORDS_PASS);
	if (real != channel)
		attr->channel = channel;
	return ret;
}

/* (context, attr, cq, ...) */
HOOK_EXPORT int ibv_cmd_create_cq_ex(WORDS_DECLARE)
{
	return create_cq_ex(real_private()->create_cq_ex, WORDS_PASS);
}

/* (context, attr, provider's attr, cq, ...): libmlx5 calls this one since rdma-core 65. */
HOOK_EXPORT int ibv_cmd_create_cq_ex2(WORDS_DECLARE)
{
	return create_cq_ex(real_private()->create_cq_ex2, WORDS_PASS);
}

/* (pd, ...) */
HOOK_EXPORT int ibv_cmd_create_qp(WORDS_DECLARE)
{
	return create_with_real_async(((struct ibv_pd *)a0)->context, real_private()->create_qp,
				      WORDS_PASS);
}

/* (context, ...) */
HOOK_EXPORT int ibv_cmd_create_qp_ex(WORDS_DECLARE)
{
	return create_with_real_async((struct ibv_context *)a0, real_private()->create_qp_ex,
				      WORDS_PASS);
}

/* (context, ...) */
HOOK_EXPORT int ibv_cmd_create_qp_ex2(WORDS_DECLARE)
{
	return create_with_real_async((struct ibv_context *)a0, real_private()->create_qp_ex2,
				      WORDS_PASS);
}

/* (pd, ...) */
HOOK_EXPORT int ibv_cmd_create_srq(WORDS_DECLARE)
{
	return create_with_real_async(((struct ibv_pd *)a0)->context, real_private()->create_srq,
				      WORDS_PASS);
}

/* (context, ...) */
HOOK_EXPORT int ibv_cmd_create_srq_ex(WORDS_DECLARE)
{
	return create_with_real_async((struct ibv_context *)a0, real_private()->create_srq_ex,
				      WORDS_PASS);
}

/* (context, ...) */
HOOK_EXPORT int ibv_cmd_create_wq(WORDS_DECLARE)
{
	return create_with_real_async((struct ibv_context *)a0, real_private()->create_wq,
				      WORDS_PASS);
}

/* (cq, ...). Between the kernel's part of a resize and the provider's: see shift_cq_resized(). */
HOOK_EXPORT int ibv_cmd_resize_cq(WORDS_DECLARE)
{
	int ret = ((create_fn)real_private()->resize_cq)(WORDS_PASS);

	if (!ret && atomic_load_explicit(&hook_on, memory_order_acquire))
		shift_cq_resized((struct ibv_cq *)a0);
	return ret;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * Reports a region. The provider's struct begins with the struct ibv_mr. Calls from inside a
 * hooked verb are left out: that verb knows more.
 */
static int mr_made(int ret, word pd, word mr, const struct shift_region *region)
{
	if (!ret && hook_enter()) {
		shift_mr_made((struct ibv_pd *)pd, (struct ibv_mr *)mr, region);
		hook_leave();
	}
	return ret;
}

/*
 * (pd, offset, length, iova, fd, access, mr), since rdma-core 54 also what the provider adds:
 * whether a7 is one more argument or nothing is for the engine to know.
 */
HOOK_EXPORT int ibv_cmd_reg_dmabuf_mr(WORDS_DECLARE)
{
	const struct shift_region region = { .kind = SHIFT_REGION_DMABUF,
					     .offset = a1,
					     .length = a2,
					     .iova = a3,
					     .fd = (int)a4,
					     .access = (unsigned int)a5,
					     .driver = (const void *)a7 };

	return mr_made(((create_fn)real_private()->reg_dmabuf_mr)(WORDS_PASS), a0, a6, &region);
}

/* (pd, dm, offset, length, access, mr, ...) */
HOOK_EXPORT int ibv_cmd_reg_dm_mr(WORDS_DECLARE)
{
	const struct shift_region region = {
		.kind = SHIFT_REGION_DEVICE, .offset = a2, .length = a3, .access = (unsigned int)a4
	};

	return mr_made(((create_fn)real_private()->reg_dm_mr)(WORDS_PASS), a0, a5, &region);
}

/* struct ibv_mr_init_attr of rdma-core 59 and later, as far as it is needed here. */
struct mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
};

enum { MR_ATTR_IOVA = 1, MR_ATTR_FD = 4 };

/* (pd, mr, attr) */
HOOK_EXPORT int ibv_cmd_reg_mr_ex(WORDS_DECLARE)
{
	const struct mr_attr *attr = (const struct mr_attr *)a2;
	bool fd = attr->comp_mask & MR_ATTR_FD, iova = attr->comp_mask & MR_ATTR_IOVA;
	const struct shift_region region = { .kind = fd ? SHIFT_REGION_DMABUF : SHIFT_REGION_MEMORY,
					     .addr = attr->addr,
					     .offset = attr->fd_offset,
					     .length = attr->length,
					     .iova = iova ? attr->iova : (uintptr_t)attr->addr,
					     .fd = fd ? attr->fd : -1,
					     .access = (unsigned int)attr->access };

	return mr_made(((create_fn)real_private()->reg_mr_ex)(WORDS_PASS), a0, a1, &region);
}

/* (pd, mr, ...): ibv_import_mr. The region is never deregistered, so nothing is kept of it. */
HOOK_EXPORT int ibv_cmd_query_mr(WORDS_DECLARE)
{
	const struct shift_region region = { .kind = SHIFT_REGION_IMPORTED };

	return mr_made(((create_fn)real_private()->query_mr)(WORDS_PASS), a0, a1, &region);
}

/*
 * struct ibv_command_buffer as of rdma-core 18 and later: the kernel's part lies behind
 * libibverbs' own.
 */
struct command_buffer {
	void *own[3];
	uint8_t flags[8];
	struct ib_uverbs_ioctl_hdr hdr;
};

static bool command_readable(const struct ib_uverbs_ioctl_hdr *hdr)
{
	return hdr->length == sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]);
}

/*
 * True if the command makes a driver's own object, or sets something of a queue pair that no hooked
 * verb sets. Objects that all drivers have come through verbs, which tell more.
 */
static bool command_of_interest(const struct ib_uverbs_ioctl_hdr *hdr)
{
	return !command_readable(hdr) || hdr->object_id >> UVERBS_ID_NS_SHIFT ||
	       (hdr->object_id == UVERBS_OBJECT_QP && hdr->method_id > UVERBS_METHOD_QP_DESTROY);
}

/* (context, command) */
HOOK_EXPORT int execute_ioctl(WORDS_DECLARE)
{
	const struct ib_uverbs_ioctl_hdr *hdr = &((const struct command_buffer *)a1)->hdr;
	int ret = ((create_fn)real_private()->execute_ioctl)(WORDS_PASS);

	if (!ret && command_of_interest(hdr) && hook_enter()) {
		shift_command_done((struct ibv_context *)a0, command_readable(hdr) ? hdr : NULL);
		hook_leave();
	}
	return ret;
}
