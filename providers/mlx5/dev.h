/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The context, and its tables by handle and QPN. */
#ifndef RING_DEV_H
#define RING_DEV_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

struct sp_dev {
	struct ibv_context *ctx;
	const struct shift_provider *engine;
	const struct sp_callbacks *cb;
	struct ibv_context_ops saved;		/* the provider's own, for what is not driven */
	_Atomic(struct sp_qp *) *qps;		/* by handle; application contexts only */
	_Atomic(struct sp_cq *) *cqs;		/* by handle */
	_Atomic(struct sp_srq *) *srqs;		/* by handle; application contexts only */
	_Atomic(struct sp_carrier *) *carriers; /* by QPN */
	struct sp_lock lock;			/* bfs and their refs */
	struct ring_bf *bfs;
	bool installed, atomics, shut_up_bf, prefer_bf;
	struct sp_tables tables; /* the same tables for writers: a slot is reserved first */
};

/* Contexts by command fd, and their tables of QPs and CQs, which spare the data path a load. */
extern struct sp_dev *ring_devs[RING_MAX_FD];
extern _Atomic(struct sp_qp *) *ring_qps[RING_MAX_FD];
extern _Atomic(struct sp_cq *) *ring_cqs[RING_MAX_FD];

RING_INLINE struct sp_dev *ring_dev_of(const struct ibv_context *ctx)
{
	return ring_devs[ctx->cmd_fd];
}

RING_INLINE struct sp_qp *ring_qp_of(const struct ibv_qp *qp)
{
	uint32_t handle = qp->handle;

	if (ring_unlikely(handle >= RING_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&ring_qps[qp->context->cmd_fd][handle], memory_order_acquire);
}

/* Return a QP or CQ whose function pointers are ours: it is driven. */
RING_INLINE struct sp_qp *ring_qp_known(const struct ibv_qp *qp)
{
	return atomic_load_explicit(&ring_qps[qp->context->cmd_fd][qp->handle],
				    memory_order_relaxed);
}

RING_INLINE struct sp_cq *ring_cq_known(const struct ibv_context *ctx, uint32_t handle)
{
	return atomic_load_explicit(&ring_cqs[ctx->cmd_fd][handle], memory_order_relaxed);
}

RING_INLINE struct sp_cq *ring_cq_of(const struct ibv_context *ctx, uint32_t handle)
{
	if (ring_unlikely(handle >= RING_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&ring_cqs[ctx->cmd_fd][handle], memory_order_acquire);
}

/*
 * As ring_cq_of(), and in order behind atomics of the caller: an acquiring load alone is not, on
 * arm64 (tests/litmus/arm_v8_0.litmus).
 */
RING_INLINE struct sp_cq *ring_cq_of_behind(const struct ibv_context *ctx, uint32_t handle)
{
	return handle < RING_MAX_HANDLE ? atomic_load(&ring_cqs[ctx->cmd_fd][handle]) : NULL;
}

RING_INLINE struct sp_carrier *ring_carrier_of(struct sp_dev *dev, uint32_t qpn)
{
	return atomic_load_explicit(&dev->carriers[qpn], memory_order_acquire);
}

bool ring_probe(struct ibv_context *ctx, const char **why_not);
int ring_dev_init(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
		  struct sp_dev **out);
void ring_dev_uninit(struct sp_dev *dev);

#pragma GCC visibility pop

#endif
