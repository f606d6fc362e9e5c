/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The calls of engine.h that are about a completion queue. */
#ifndef SHIFT_ENGINE_CQ_H
#define SHIFT_ENGINE_CQ_H

#include "providers/engine_qp.h"

static inline int sp_cq_drive(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
			      void *cookie, struct sp_cq **out)
{
	return sp_engine(dev)->cq.drive(dev, cq, cq_ex, wc_flags, cookie, out);
}

static inline int sp_cq_drive_used(struct sp_dev *dev, struct ibv_cq *cq, void *cookie,
				   const struct sp_cq_user *users, uint32_t n, struct sp_cq **out)
{
	return sp_engine(dev)->cq.drive_used(dev, cq, cookie, users, n, out);
}

static inline int sp_cq_undrive(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.undrive(cq);
}

static inline void sp_cq_take_over(struct sp_cq *cq, const struct sp_cq_past *past)
{
	sp_engine(cq)->cq.take_over(cq, past);
}

static inline int sp_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
				 struct sp_cq_ring **out)
{
	return sp_engine(cq)->cq.ring_add(cq, dev, shadow, out);
}

static inline void sp_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring)
{
	sp_engine(cq)->cq.ring_del(cq, ring);
}

static inline struct sp_cq_ring *sp_cq_own_ring(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.own_ring(cq);
}

static inline bool sp_cq_event_read(struct sp_cq_ring *ring)
{
	return sp_engine(ring)->cq.event_read(ring);
}

static inline int sp_cq_collect(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.collect(cq);
}

static inline int sp_cq_resize_reserve(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq.resize_reserve(cq, real);
}

static inline void sp_cq_resize_release(struct sp_cq *cq)
{
	sp_engine(cq)->cq.resize_release(cq);
}

static inline int sp_cq_resize_keep_out(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.resize_keep_out(cq);
}

static inline void sp_cq_resize_let_poll(struct sp_cq *cq)
{
	sp_engine(cq)->cq.resize_let_poll(cq);
}

static inline bool sp_direct_verbs(const struct sp_cq *cq)
{
	return sp_engine(cq)->direct_verbs();
}

static inline bool sp_cq_polled(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.polled(cq);
}

static inline int sp_cq_resize_begin(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq.resize_begin(cq, real);
}

static inline int sp_cq_resize_end(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq.resize_end(cq, real);
}

static inline int sp_cq_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq,
				    struct sp_cq_ring **events)
{
	return sp_engine(cq)->cq.foreign_add(cq, private_cq, events);
}

static inline int sp_cq_foreign_feed(struct sp_cq *cq, const struct sp_cq_user *user)
{
	return sp_engine(cq)->cq.foreign_feed(cq, user);
}

static inline void sp_cq_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq)
{
	sp_engine(cq)->cq.foreign_mute(cq, private_cq);
}

static inline void sp_cq_foreign_unmute(struct sp_cq *cq, const struct ibv_cq *private_cq,
					bool reset)
{
	sp_engine(cq)->cq.foreign_unmute(cq, private_cq, reset);
}

static inline int sp_cq_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return sp_engine(cq)->cq.foreign_del(cq, private_cq);
}

static inline bool sp_cq_error_waiting(struct sp_cq *cq)
{
	return sp_engine(cq)->cq.error_waiting(cq);
}

static inline void sp_cq_watch(struct sp_cq *cq)
{
	sp_engine(cq)->cq.watch(cq);
}

#endif
