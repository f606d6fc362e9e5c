/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shell's calls of an engine. Each finds the engine by the object that it is about; what the
 * calls do is said beside the tables of operations (cq.h, srq.h, qp.h, move.h). Data verbs do not
 * come here: the function pointers of a context lead them straight to the engine.
 */
#ifndef SHIFT_ENGINE_H
#define SHIFT_ENGINE_H

#include "providers/engine_qp.h"
#include "providers/provider.h"

/* -- without an object: over the table of engines, engine.c ----------------------------------- */

/* By number, the first choice first. */
const struct shift_provider *sp_engine_at(uint32_t number);
uint32_t sp_engine_number(const struct shift_provider *engine);

/* Before it is opened. */
struct sp_candidate {
	struct ibv_device *device;
	bool tried; /* its driver was, with the engines for any device: auto takes no other there */
};

/* SHIFT_ENGINE: the name of an engine, or auto. NULL is auto. */
bool sp_engine_named(const char *choice);
/* Is there an engine of that choice for this device? */
bool sp_engine_serves(const char *choice, const struct sp_candidate *nic);
/* The first engine of that choice which is for all of these, a NIC and its backups; NULL: none. */
const struct shift_provider *sp_engine_choose(const char *choice, const struct sp_candidate *nics,
					      uint32_t n);
/* Can the device be driven by an engine of that choice? If not, the last one's reason. */
bool sp_probe(const char *choice, struct ibv_context *ctx, const char **why_not);
void sp_keys_changed(void);

/*
 * What a driver does by itself is read by the engine that knows this driver best, whichever drives the
 * QPs: shift_provider has what they do.
 */
void sp_key_command(struct ibv_context *ctx, const struct ib_uverbs_ioctl_hdr *command,
		    struct sp_key_command *out);
int sp_dmabuf_flags(struct ibv_context *ctx, const void *driver, uint32_t *flags);
struct ibv_mr *sp_dmabuf_reg(struct ibv_pd *pd, const struct sp_dmabuf *buf);
uint32_t sp_pd_number(struct ibv_pd *pd);

static inline int sp_dev_init(const struct shift_provider *engine, struct ibv_context *ctx,
			      bool install, const struct sp_callbacks *cb, struct sp_dev **out)
{
	return engine->dev_init(ctx, install, cb, out);
}

static inline bool sp_has(const void *object, enum sp_trait trait)
{
	return sp_engine(object)->traits & trait;
}

/* -- by the object, which knows its engine: contexts, CQs, SRQs -------------------------------- */

static inline void sp_dev_uninit(struct sp_dev *dev)
{
	sp_engine(dev)->dev_uninit(dev);
}

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

static inline void sp_cq_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq, bool mute)
{
	sp_engine(cq)->cq.foreign_mute(cq, private_cq, mute);
}

static inline int sp_cq_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return sp_engine(cq)->cq.foreign_del(cq, private_cq);
}

static inline int sp_srq_drive(struct sp_dev *dev, struct ibv_srq *srq,
			       const struct ibv_srq_attr *attr, void *cookie, struct sp_srq **out)
{
	return sp_engine(dev)->srq.drive(dev, srq, attr, cookie, out);
}

static inline void sp_srq_undrive(struct sp_srq *srq)
{
	sp_engine(srq)->srq.undrive(srq);
}

static inline int sp_srq_ring_add(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
				  const struct ibv_srq_attr *attr, uint8_t path,
				  struct sp_srq_ring **out)
{
	return sp_engine(srq)->srq.ring_add(srq, dev, shadow, attr, path, out);
}

static inline void sp_srq_ring_del(struct sp_srq_ring *ring)
{
	sp_engine(ring)->srq.ring_del(ring);
}

static inline struct sp_srq_ring *sp_srq_own(struct sp_srq *srq)
{
	return sp_engine(srq)->srq.own(srq);
}

static inline void sp_srq_look(struct sp_srq_ring *ring, struct sp_srq_state *out)
{
	sp_engine(ring)->srq.look(ring, out);
}

static inline uint32_t sp_srq_recover(struct sp_srq_ring *ring)
{
	return sp_engine(ring)->srq.recover(ring);
}

static inline int sp_srq_feed(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns)
{
	return sp_engine(srq)->srq.feed(srq, now_ns, patience_ns);
}

static inline int sp_srq_hand_back(struct sp_srq *srq)
{
	return sp_engine(srq)->srq.hand_back(srq);
}

static inline void sp_srq_rest(struct sp_srq_ring *ring, bool rests)
{
	sp_engine(ring)->srq.rest(ring, rests);
}

static inline void sp_srq_limit(struct sp_srq *srq, uint32_t limit)
{
	sp_engine(srq)->srq.limit(srq, limit);
}

static inline struct sp_srq_ring *sp_srq_share(struct sp_srq *srq, uint32_t *n)
{
	return sp_engine(srq)->srq.share(srq, n);
}

static inline int sp_reclaim_make(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
				  struct sp_reclaim **out)
{
	return sp_engine(ring)->reclaim.make(ring, real, cq, out);
}

static inline void sp_reclaim_free(struct sp_reclaim *reclaim)
{
	sp_engine(reclaim)->reclaim.free(reclaim);
}

static inline uint32_t sp_reclaim_ask(struct sp_reclaim *reclaim, uint32_t n)
{
	return sp_engine(reclaim)->reclaim.ask(reclaim, n);
}

static inline int sp_reclaim_collect(struct sp_reclaim *reclaim)
{
	return sp_engine(reclaim)->reclaim.collect(reclaim);
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
