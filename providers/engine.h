/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shell's calls of an engine. Each finds the engine by the object that it is about; what they
 * do is said in provider.h. Data verbs do not come here: the provider's function pointers lead
 * them straight to the engine.
 */
#ifndef SHIFT_ENGINE_H
#define SHIFT_ENGINE_H

#include "providers/provider.h"

/* -- without an object: over the table of engines, engine.c ----------------------------------- */

/* The engine for this device; NULL: none. */
const struct shift_provider *sp_engine_for(struct ibv_device *device);
bool sp_probe(struct ibv_context *ctx, const char **why_not);
/* -EOPNOTSUPP: no engine is for the device. */
int sp_dev_init(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
		struct sp_dev **out);
void sp_keys_changed(void);

/* -- by the object, which knows its engine ---------------------------------------------------- */

static inline const struct shift_provider *sp_engine(const void *object)
{
	return *(const struct shift_provider *const *)((const char *)object + SP_ENGINE_AT);
}

static inline void sp_dev_uninit(struct sp_dev *dev)
{
	sp_engine(dev)->dev_uninit(dev);
}

static inline int sp_cq_drive(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
			      void *cookie, struct sp_cq **out)
{
	return sp_engine(dev)->cq_drive(dev, cq, cq_ex, wc_flags, cookie, out);
}

static inline int sp_cq_undrive(struct sp_cq *cq)
{
	return sp_engine(cq)->cq_undrive(cq);
}

static inline int sp_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
				 struct sp_cq_ring **out)
{
	return sp_engine(cq)->cq_ring_add(cq, dev, shadow, out);
}

static inline void sp_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring)
{
	sp_engine(cq)->cq_ring_del(cq, ring);
}

static inline struct sp_cq_ring *sp_cq_own_ring(struct sp_cq *cq)
{
	return sp_engine(cq)->cq_own_ring(cq);
}

static inline void sp_cq_event_read(struct sp_cq_ring *ring)
{
	sp_engine(ring)->cq_event_read(ring);
}

static inline int sp_cq_collect(struct sp_cq *cq)
{
	return sp_engine(cq)->cq_collect(cq);
}

static inline int sp_cq_resize_reserve(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq_resize_reserve(cq, real);
}

static inline int sp_cq_resize_begin(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq_resize_begin(cq, real);
}

static inline int sp_cq_resize_end(struct sp_cq *cq, struct ibv_cq *real)
{
	return sp_engine(cq)->cq_resize_end(cq, real);
}

static inline int sp_cq_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return sp_engine(cq)->cq_foreign_add(cq, private_cq);
}

static inline int sp_cq_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return sp_engine(cq)->cq_foreign_del(cq, private_cq);
}

static inline int sp_srq_drive(struct sp_dev *dev, struct ibv_srq *srq, void *cookie,
			       struct sp_srq **out)
{
	return sp_engine(dev)->srq_drive(dev, srq, cookie, out);
}

static inline void sp_srq_undrive(struct sp_srq *srq)
{
	sp_engine(srq)->srq_undrive(srq);
}

static inline int sp_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
				  uint8_t path, struct sp_srq_ring **out)
{
	return sp_engine(srq)->srq_ring_add(srq, dev, shadow, path, out);
}

static inline void sp_srq_ring_del(struct sp_srq_ring *ring)
{
	sp_engine(ring)->srq_ring_del(ring);
}

static inline struct sp_srq_ring *sp_srq_own(struct sp_srq *srq)
{
	return sp_engine(srq)->srq_own(srq);
}

static inline void sp_srq_look(struct sp_srq_ring *ring, struct sp_srq_state *out)
{
	sp_engine(ring)->srq_look(ring, out);
}

static inline uint32_t sp_srq_recover(struct sp_srq_ring *ring)
{
	return sp_engine(ring)->srq_recover(ring);
}

static inline int sp_srq_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	return sp_engine(srq)->srq_feed(srq, now_ns, patience_ns);
}

static inline int sp_srq_hand_back(struct sp_srq *srq)
{
	return sp_engine(srq)->srq_hand_back(srq);
}

static inline void sp_srq_limit(struct sp_srq *srq, uint32_t limit)
{
	sp_engine(srq)->srq_limit(srq, limit);
}

static inline struct sp_srq_ring *sp_srq_share(struct sp_srq *srq, uint32_t *n)
{
	return sp_engine(srq)->srq_share(srq, n);
}

static inline int sp_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
				  struct sp_reclaim **out)
{
	return sp_engine(ring)->reclaim_make(ring, real, cq, out);
}

static inline void sp_reclaim_free(struct sp_reclaim *reclaim)
{
	sp_engine(reclaim)->reclaim_free(reclaim);
}

static inline uint32_t sp_reclaim_ask(struct sp_reclaim *reclaim, uint32_t n)
{
	return sp_engine(reclaim)->reclaim_ask(reclaim, n);
}

static inline int sp_reclaim_collect(struct sp_reclaim *reclaim)
{
	return sp_engine(reclaim)->reclaim_collect(reclaim);
}

static inline int sp_qp_drive(struct sp_dev *dev, struct ibv_qp *qp,
			      const struct ibv_qp_init_attr_ex *attr, struct sp_cq *scq,
			      struct sp_cq *rcq, void *cookie, struct sp_qp **out,
			      const char **why_not)
{
	return sp_engine(dev)->qp_drive(dev, qp, attr, scq, rcq, cookie, out, why_not);
}

static inline void sp_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp)
{
	sp_engine(dev)->qp_foreign(dev, qp);
}

static inline const char *sp_qp_reason(struct sp_qp *qp, bool *intruder)
{
	return sp_engine(qp)->qp_reason(qp, intruder);
}

static inline void sp_qp_undrive(struct sp_qp *qp)
{
	sp_engine(qp)->qp_undrive(qp);
}

static inline void sp_qp_modified(struct sp_qp *qp, enum ibv_qp_state state)
{
	sp_engine(qp)->qp_modified(qp, state);
}

static inline uint32_t sp_qp_recv_count(struct sp_qp *qp)
{
	return sp_engine(qp)->qp_recv_count(qp);
}

static inline void sp_qp_send_counts(struct sp_qp *qp, uint32_t *two_sided_posted,
				     uint32_t *two_sided_done)
{
	sp_engine(qp)->qp_send_counts(qp, two_sided_posted, two_sided_done);
}

static inline enum sp_sending sp_qp_sending(struct sp_qp *qp, uint32_t *number)
{
	return sp_engine(qp)->qp_sending(qp, number);
}

static inline void sp_qp_guard(struct sp_qp *qp, bool on)
{
	sp_engine(qp)->qp_guard(qp, on);
}

static inline int sp_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev,
				 struct ibv_qp *real, const struct sp_qp_caps *caps,
				 struct sp_cq_ring *sring, struct sp_cq_ring *rring,
				 struct sp_carrier **out)
{
	return sp_engine(qp)->carrier_add(qp, epoch, dev, real, caps, sring, rring, out);
}

static inline void sp_carrier_del(struct sp_carrier *carrier)
{
	sp_engine(carrier)->carrier_del(carrier);
}

static inline void sp_qp_last_receive(struct sp_qp *qp, uint32_t epoch)
{
	sp_engine(qp)->qp_last_receive(qp, epoch);
}

static inline void sp_qp_withhold(struct sp_qp *qp)
{
	sp_engine(qp)->qp_withhold(qp);
}

static inline int sp_qp_fence(struct sp_qp *qp, bool *atomics)
{
	return sp_engine(qp)->qp_fence(qp, atomics);
}

static inline bool sp_qp_fenced(struct sp_qp *qp)
{
	return sp_engine(qp)->qp_fenced(qp);
}

static inline uint64_t sp_qp_progressed(struct sp_qp *qp)
{
	return sp_engine(qp)->qp_progressed(qp);
}

static inline int sp_qp_resume(struct sp_qp *qp)
{
	return sp_engine(qp)->qp_resume(qp);
}

static inline void sp_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out)
{
	sp_engine(qp)->qp_flushed(qp, in_error, out);
}

static inline void sp_qp_seal(struct sp_qp *qp)
{
	sp_engine(qp)->qp_seal(qp);
}

static inline int sp_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to)
{
	return sp_engine(qp)->qp_lay_receives(qp, to);
}

static inline uint32_t sp_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max)
{
	return sp_engine(qp)->qp_outstanding(qp, info, max);
}

static inline int sp_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates,
			       uint32_t n, struct sp_settled *out)
{
	return sp_engine(qp)->qp_settle(qp, to, fates, n, out);
}

static inline int sp_qp_publish(struct sp_qp *qp)
{
	return sp_engine(qp)->qp_publish(qp);
}

static inline int sp_qp_gate(struct sp_qp *qp, bool on)
{
	return sp_engine(qp)->qp_gate(qp, on);
}

static inline uint32_t sp_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max)
{
	return sp_engine(qp)->qp_gated(qp, reads, max);
}

static inline int sp_qp_pass(struct sp_qp *qp, uint32_t n)
{
	return sp_engine(qp)->qp_pass(qp, n);
}

static inline void sp_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			      uint32_t n_delivered)
{
	sp_engine(qp)->qp_fail(qp, first, vendor_err, n_delivered);
}

static inline bool sp_cq_error_waiting(struct sp_cq *cq)
{
	return sp_engine(cq)->cq_error_waiting(cq);
}

#endif
