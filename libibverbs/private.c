/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
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

/*
 * (context, attr, cq, ...). The attributes are changed in place and put back, as they may be longer
 * than this release knows.
 */
HOOK_EXPORT int ibv_cmd_create_cq_ex(WORDS_DECLARE)
{
	struct ibv_cq_init_attr_ex *attr = (struct ibv_cq_init_attr_ex *)a1;
	struct ibv_comp_channel *channel = attr->channel, *real = real_channel(channel);
	int ret;

	if (real != channel)
		attr->channel = real;
	ret = create_with_real_async((struct ibv_context *)a0, real_private()->create_cq_ex,
				     WORDS_PASS);
	if (real != channel)
		attr->channel = channel;
	return ret;
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
