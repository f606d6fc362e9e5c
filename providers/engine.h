/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shell's calls of an engine. Each call finds the engine by its object; the tables of
 * operations (cq.h, srq.h, qp.h, move.h) say what the calls do. Data verbs do not come here: the
 * function pointers of a context lead them straight to the engine.
 */
#ifndef SHIFT_ENGINE_H
#define SHIFT_ENGINE_H

#include "providers/engine_cq.h"
#include "providers/engine_qp.h"
#include "providers/provider.h"

/* -- without an object: over the table of engines, engine.c ----------------------------------- */

/* Engines by number, the first choice first. */
const struct shift_provider *sp_engine_at(uint32_t number);
uint32_t sp_engine_number(const struct shift_provider *engine);

/* A NIC before it is opened. */
struct sp_candidate {
	struct ibv_device *device;
	/*
	 * true if the driver was tried with the engines for any device: auto takes no other there
	 */
	bool tried;
};

/* SHIFT_ENGINE: the name of an engine, or auto. NULL is auto. */
bool sp_engine_named(const char *choice);
/* True if an engine of that choice serves this device. */
bool sp_engine_serves(const char *choice, const struct sp_candidate *nic);
/*
 * Returns the first engine of that choice that serves all of these, a NIC and its backups; NULL:
 * none.
 */
const struct shift_provider *sp_engine_choose(const char *choice, const struct sp_candidate *nics,
					      uint32_t n);
/*
 * True if an engine of that choice can drive the device; else why_not is the last engine's reason.
 */
bool sp_probe(const char *choice, struct ibv_context *ctx, const char **why_not);
void sp_keys_changed(void);

/*
 * Questions about a driver. The engine that knows this driver best answers them, whichever engine
 * drives the QPs; shift_provider says what they do.
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

static inline void sp_srq_query(struct sp_srq_ring *ring, struct sp_srq_state *out)
{
	sp_engine(ring)->srq.query(ring, out);
}

static inline uint32_t sp_srq_recover(struct sp_srq_ring *ring)
{
	return sp_engine(ring)->srq.recover(ring);
}

static inline int sp_srq_renew(struct sp_srq_ring *ring)
{
	return sp_engine(ring)->srq.renew(ring);
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

static inline struct sp_srq_ring *sp_srq_starving(struct sp_srq *srq, uint32_t *taken)
{
	return sp_engine(srq)->srq.starving(srq, taken);
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

#endif
