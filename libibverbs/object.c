/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains, memory, completion channels and queues, queue pairs, address handles. */
#include <errno.h>
#include <stdint.h>
#include "libibverbs/hook.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

HOOK_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return HOOK_MAKE(context, shift_alloc_pd(context), real_verbs()->alloc_pd(context));
}

HOOK_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return HOOK_CALL(shift_dealloc_pd(pd), real_verbs()->dealloc_pd(pd));
}

HOOK_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return HOOK_MAKE(
		pd->context,
		shift_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access, false),
		real_verbs()->reg_mr(pd, addr, length, access));
}

/* The distribution's ibv_reg_mr_iova is ibv_reg_mr_iova2 under another name. */
HOOK_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, int access)
{
	return HOOK_MAKE(pd->context,
			 shift_reg_mr(pd, addr, length, iova, (unsigned int)access, true),
			 real_verbs()->reg_mr_iova2(pd, addr, length, iova, (unsigned int)access));
}

HOOK_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					    uint64_t iova, unsigned int access)
{
	return HOOK_MAKE(pd->context, shift_reg_mr(pd, addr, length, iova, access, true),
			 real_verbs()->reg_mr_iova2(pd, addr, length, iova, access));
}

/* Applications find out by dlvsym() whether there is dmabuf support at all; then they handle this
 * errno, which is also that of a kernel without it. */
HOOK_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					     uint64_t iova, int fd, int access)
{
	if (!real_verbs()->reg_dmabuf_mr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return HOOK_MAKE(pd->context, shift_reg_dmabuf_mr(pd, offset, length, iova, fd, access),
			 real_verbs()->reg_dmabuf_mr(pd, offset, length, iova, fd, access));
}

HOOK_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			     size_t length, int access)
{
	return HOOK_CALL(shift_rereg_mr(mr, flags, pd, addr, length, access),
			 real_verbs()->rereg_mr(mr, flags, pd, addr, length, access));
}

HOOK_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return HOOK_CALL(shift_dereg_mr(mr), real_verbs()->dereg_mr(mr));
}

HOOK_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return HOOK_MAKE(context, shift_create_comp_channel(context),
			 real_verbs()->create_comp_channel(context));
}

HOOK_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return HOOK_CALL(shift_destroy_comp_channel(channel),
			 real_verbs()->destroy_comp_channel(channel));
}

/*
 * The real calls, out of line. Both verbs are on the data path, where SHIFT is on: nothing is kept
 * for the other case.
 */
static __attribute__((noinline, cold)) int real_get_cq_event(struct ibv_comp_channel *channel,
							     struct ibv_cq **cq, void **cq_context)
{
	return real_verbs()->get_cq_event(channel, cq, cq_context);
}

static __attribute__((noinline, cold)) void real_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	real_verbs()->ack_cq_events(cq, n);
}

/* See ibv_get_async_event. */
HOOK_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				 void **cq_context)
{
	if (!hook_wanted())
		return real_get_cq_event(channel, cq, cq_context);
	return shift_get_cq_event(channel, cq, cq_context);
}

HOOK_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (hook_wanted())
		shift_ack_cq_events(cq, nevents);
	else
		real_ack_cq_events(cq, nevents);
}

HOOK_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					 struct ibv_comp_channel *channel, int comp_vector)
{
	return HOOK_MAKE(context, shift_create_cq(context, cqe, cq_context, channel, comp_vector),
			 real_verbs()->create_cq(context, cqe, cq_context, channel, comp_vector));
}

HOOK_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return HOOK_CALL(shift_resize_cq(cq, cqe), real_verbs()->resize_cq(cq, cqe));
}

HOOK_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	return HOOK_CALL(shift_destroy_cq(cq), real_verbs()->destroy_cq(cq));
}

HOOK_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return HOOK_MAKE(pd->context, shift_create_srq(pd, attr),
			 real_verbs()->create_srq(pd, attr));
}

HOOK_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return HOOK_CALL(shift_modify_srq(srq, attr, mask),
			 real_verbs()->modify_srq(srq, attr, mask));
}

HOOK_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return HOOK_CALL(shift_query_srq(srq, attr), real_verbs()->query_srq(srq, attr));
}

HOOK_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return HOOK_CALL(shift_destroy_srq(srq), real_verbs()->destroy_srq(srq));
}

HOOK_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return HOOK_MAKE(pd->context, shift_create_qp(pd, attr), real_verbs()->create_qp(pd, attr));
}

HOOK_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return HOOK_CALL(shift_modify_qp(qp, attr, mask), real_verbs()->modify_qp(qp, attr, mask));
}

HOOK_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			     struct ibv_qp_init_attr *init_attr)
{
	return HOOK_CALL(shift_query_qp(qp, attr, mask, init_attr),
			 real_verbs()->query_qp(qp, attr, mask, init_attr));
}

HOOK_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	return HOOK_CALL(shift_destroy_qp(qp), real_verbs()->destroy_qp(qp));
}

/* Address handles belong to UD QPs, which are not moved: only the mark is of use here, as libmlx5
 * may call other verbs for them. */
HOOK_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return HOOK_MAKE(pd->context, real_verbs()->create_ah(pd, attr),
			 real_verbs()->create_ah(pd, attr));
}

HOOK_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	return HOOK_CALL(real_verbs()->destroy_ah(ah), real_verbs()->destroy_ah(ah));
}
