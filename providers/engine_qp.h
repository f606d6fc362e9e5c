/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The calls of engine.h that are about a queue pair. */
#ifndef SHIFT_ENGINE_QP_H
#define SHIFT_ENGINE_QP_H

#include "providers/provider.h"

static inline const struct shift_provider *sp_engine(const void *object)
{
	return *(const struct shift_provider *const *)((const char *)object + SP_ENGINE_AT);
}

static inline int sp_qp_drive(struct sp_dev *dev, struct ibv_qp *qp,
			      const struct ibv_qp_init_attr_ex *attr, struct sp_cq *scq,
			      struct sp_cq *rcq, void *cookie, struct sp_qp **out,
			      const char **why_not)
{
	return sp_engine(dev)->qp.drive(dev, qp, attr, scq, rcq, cookie, out, why_not);
}

static inline const char *sp_qp_drivable(struct sp_dev *dev, struct ibv_qp *qp,
					 const struct ibv_qp_init_attr_ex *attr)
{
	return sp_engine(dev)->qp.drivable(dev, qp, attr);
}

static inline void sp_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp)
{
	sp_engine(dev)->qp.foreign(dev, qp);
}

static inline bool sp_qp_posted(struct sp_qp *qp)
{
	return sp_engine(qp)->qp.posted(qp);
}

static inline const char *sp_qp_reason(struct sp_qp *qp, bool *intruder)
{
	return sp_engine(qp)->qp.reason(qp, intruder);
}

static inline uint32_t sp_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
				  uint32_t room)
{
	return sp_engine(qp)->qp.keys(qp, sends, turn, keys, room);
}

static inline void sp_qp_undrive(struct sp_qp *qp)
{
	sp_engine(qp)->qp.undrive(qp);
}

static inline void sp_qp_modified(struct sp_qp *qp, enum ibv_qp_state state)
{
	sp_engine(qp)->qp.modified(qp, state);
}

static inline void sp_qp_number(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu)
{
	sp_engine(qp)->qp.number(qp, epoch, psn, mtu);
}

static inline uint32_t sp_qp_recv_count(struct sp_qp *qp)
{
	return sp_engine(qp)->qp.recv_count(qp);
}

static inline void sp_qp_send_counts(struct sp_qp *qp, uint32_t *two_sided_posted,
				     uint32_t *two_sided_done)
{
	sp_engine(qp)->qp.send_counts(qp, two_sided_posted, two_sided_done);
}

static inline enum sp_sending sp_qp_sending(struct sp_qp *qp, uint32_t *number)
{
	return sp_engine(qp)->qp.sending(qp, number);
}

static inline bool sp_qp_tell(struct sp_qp *qp, uint32_t number)
{
	return sp_engine(qp)->qp.tell(qp, number);
}

static inline void sp_qp_sent(struct sp_qp *qp, struct sp_sent *sent)
{
	sp_engine(qp)->qp.sent(qp, sent);
}

static inline void sp_qp_guard(struct sp_qp *qp, bool on)
{
	sp_engine(qp)->qp.guard(qp, on);
}

static inline int sp_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev,
				 struct ibv_qp *real, const struct ibv_qp_cap *caps,
				 struct sp_cq_ring *sring, struct sp_cq_ring *rring,
				 struct sp_carrier **out)
{
	return sp_engine(qp)->carrier.add(qp, epoch, dev, real, caps, sring, rring, out);
}

static inline void sp_carrier_del(struct sp_carrier *carrier)
{
	sp_engine(carrier)->carrier.del(carrier);
}

static inline void sp_qp_last_receive(struct sp_qp *qp, uint32_t epoch)
{
	sp_engine(qp)->move.last_receive(qp, epoch);
}

static inline void sp_qp_withhold(struct sp_qp *qp)
{
	sp_engine(qp)->move.withhold(qp);
}

static inline int sp_qp_fence(struct sp_qp *qp, bool *atomics)
{
	return sp_engine(qp)->move.fence(qp, atomics);
}

static inline bool sp_qp_fenced(struct sp_qp *qp)
{
	return sp_engine(qp)->move.fenced(qp);
}

static inline uint64_t sp_qp_progressed(struct sp_qp *qp)
{
	return sp_engine(qp)->qp.progressed(qp);
}

static inline int sp_qp_resume(struct sp_qp *qp)
{
	return sp_engine(qp)->move.resume(qp);
}

static inline void sp_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out)
{
	sp_engine(qp)->move.flushed(qp, in_error, out);
}

static inline void sp_qp_seal(struct sp_qp *qp)
{
	sp_engine(qp)->move.seal(qp);
}

static inline int sp_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to)
{
	return sp_engine(qp)->move.lay_receives(qp, to);
}

static inline int sp_qp_recall(struct sp_qp *qp, enum sp_last_seen *seen)
{
	return sp_engine(qp)->move.recall(qp, seen);
}

static inline void sp_qp_writes_only(struct sp_qp *qp)
{
	sp_engine(qp)->move.writes_only(qp);
}

static inline uint32_t sp_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max)
{
	return sp_engine(qp)->move.outstanding(qp, info, max);
}

static inline int sp_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates,
			       uint32_t n, struct sp_settled *out)
{
	return sp_engine(qp)->move.settle(qp, to, fates, n, out);
}

static inline int sp_qp_publish(struct sp_qp *qp)
{
	return sp_engine(qp)->move.publish(qp);
}

static inline int sp_qp_gate(struct sp_qp *qp, bool on)
{
	return sp_engine(qp)->qp.gate(qp, on);
}

static inline uint32_t sp_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max)
{
	return sp_engine(qp)->qp.gated(qp, reads, max);
}

static inline int sp_qp_atomics(struct sp_qp *qp, bool may, bool *used)
{
	return sp_engine(qp)->qp.atomics(qp, may, used);
}

static inline const char *sp_qp_log(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log)
{
	return sp_engine(qp)->qp.log(qp, epoch, log);
}

static inline int32_t sp_qp_logged(struct sp_qp *qp, uint32_t number)
{
	return sp_engine(qp)->qp.logged(qp, number);
}

static inline int sp_qp_pass(struct sp_qp *qp, uint32_t n)
{
	return sp_engine(qp)->qp.pass(qp, n);
}

static inline void sp_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			      uint32_t n_delivered)
{
	sp_engine(qp)->move.fail_all(qp, first, vendor_err, n_delivered);
}

#endif
