/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls that make a completion queue on a context of the application: for the application, or
 * one beside its own.
 */
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/replica/cq.h"

struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector)
{
	struct sh_yield yield = { context, SH_YIELD_NIC };
	struct ibv_cq *real;

	do {
		shift_async_real_begin(context);
		real = sh.real->create_cq(context, cqe, cq_context, real_channel, comp_vector);
		shift_async_real_end(context);
	} while (!real && sh_yield(&yield));
	return real;
}

struct ibv_cq_ex *sh_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				  struct ibv_cq_ex *(*create)(struct ibv_context *,
							      struct ibv_cq_init_attr_ex *))
{
	struct sh_yield yield = { context, SH_YIELD_NIC };
	struct ibv_cq_ex *real;

	do {
		shift_async_real_begin(context);
		real = create(context, attr);
		shift_async_real_end(context);
	} while (!real && sh_yield(&yield));
	return real;
}

struct ibv_cq *sh_cq_create_like(const struct sh_cq *cq, void *cq_context,
				 struct ibv_comp_channel *real_channel)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = (uint32_t)cq->cq->cqe,
					    .cq_context = cq_context,
					    .channel = real_channel,
					    .comp_vector = (uint32_t)cq->comp_vector,
					    .wc_flags = cq->how.wc_flags,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = cq->how.flags };
	struct ibv_cq_ex *made;

	if (!cq->ex)
		return sh_cq_create(cq->ctx->ctx, cq->cq->cqe, cq_context, real_channel,
				    cq->comp_vector);
	made = sh_cq_create_ex(cq->ctx->ctx, &attr, cq->how.create);
	return made ? ibv_cq_ex_to_cq(made) : NULL;
}
