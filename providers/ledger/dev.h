/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The context, and its tables by handle and QPN. */
#ifndef LED_DEV_H
#define LED_DEV_H

#include "providers/ledger/base.h"

#pragma GCC visibility push(hidden)

struct sp_dev {
	struct ibv_context *ctx;
	const struct shift_provider *engine;
	const struct sp_callbacks *cb;
	struct ibv_context_ops saved;		/* the provider's verbs */
	_Atomic(struct sp_qp *) *qps;		/* by handle; application contexts only */
	_Atomic(struct sp_cq *) *cqs;		/* by handle; application contexts only */
	_Atomic(struct sp_srq *) *srqs;		/* by handle; application contexts only */
	_Atomic(struct sp_carrier *) *carriers; /* by QPN */
	bool installed;
	/*
	 * true if the driver raises IBV_EVENT_QP_LAST_WQE_REACHED: else what a shared queue gave is
	 * not known
	 */
	bool tells_last;
	bool forwards_wr; /* true if the provider's ibv_wr_* are used as they are: see dev.c */
	/* true if IBV_WC_LOC_QP_OP_ERR also means that the link is down: see dev.c */
	bool down_is_op;
	struct sp_tables tables; /* the same tables for writers: a slot is reserved first */
};

/* Contexts by command fd, and their tables of QPs and CQs, which spare the data path a load. */
extern struct sp_dev *led_devs[LED_MAX_FD];
extern _Atomic(struct sp_qp *) *led_qps[LED_MAX_FD];
extern _Atomic(struct sp_cq *) *led_cqs[LED_MAX_FD];

LED_INLINE struct sp_dev *led_dev_of(const struct ibv_context *ctx)
{
	return led_devs[ctx->cmd_fd];
}

LED_INLINE struct sp_qp *led_qp_of(const struct ibv_qp *qp)
{
	uint32_t handle = qp->handle;

	if (led_unlikely(handle >= LED_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&led_qps[qp->context->cmd_fd][handle], memory_order_acquire);
}

LED_INLINE struct sp_cq *led_cq_of(const struct ibv_context *ctx, uint32_t handle)
{
	if (led_unlikely(handle >= LED_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&led_cqs[ctx->cmd_fd][handle], memory_order_acquire);
}

LED_INLINE struct sp_srq *led_srq_of(const struct ibv_srq *srq)
{
	const struct sp_dev *dev = led_dev_of(srq->context);

	if (led_unlikely(srq->handle >= LED_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&dev->srqs[srq->handle], memory_order_acquire);
}

/* Returns the carrier with that QPN; NULL: none of ours. */
LED_INLINE struct sp_carrier *led_carrier_of(_Atomic(struct sp_carrier *) *carriers, uint32_t qpn)
{
	return atomic_load_explicit(&carriers[qpn & (SP_TABLE_MAX - 1)], memory_order_acquire);
}

bool led_serves(struct ibv_device *device);
bool led_probe(struct ibv_context *ctx, const char **why_not);
int led_dev_init(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
		 struct sp_dev **out);
void led_dev_uninit(struct sp_dev *dev);

#pragma GCC visibility pop

#endif
