/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues and shared receive queues. */
#include <errno.h>

#include "simnic/pci/bridge_own.h"

#define MAX_LOG_CQES 22

/* ---- completion queues ---------------------------------------------------------------------- */

static bool cq_is_sane(const struct sn_bridge_cq *cq)
{
	return cq->log_size <= MAX_LOG_CQES && (cq->cqe_size == 64 || cq->cqe_size == 128);
}

static uint64_t cq_bytes(const struct sn_bridge_cq *cq)
{
	return (uint64_t)cq->cqe_size << cq->log_size;
}

int sn_bridge_cq_create(struct sn_bridge *bridge, const struct sn_bridge_cq *cq, uint32_t *cqn)
{
	uint64_t record = sn_bridge_at(bridge, cq->record, SN_BRIDGE_RECORD_BYTES);
	struct sn_bridge_object *object;
	int err;

	if (!cq_is_sane(cq) || !record)
		return -EINVAL;
	object = sn_bridge_make(bridge, SN_BRIDGE_IS_CQ, &cq->pages, cq_bytes(cq));
	if (!object)
		return -errno;
	object->user = cq->user;
	err = sn_cq_create(bridge->dev,
			   &(struct sn_cq_attr){ .buf = (uint64_t)object->map.at,
						 .db = record,
						 .cqes = 1u << cq->log_size,
						 .cqe_size = cq->cqe_size,
						 .channel_fd = -1,
						 .async_fd = -1,
						 .user_handle = (uint64_t)object },
			   cqn, &object->cq);
	if (err) {
		sn_bridge_discard(bridge, object);
		return err;
	}
	sn_bridge_add(bridge, object, *cqn);
	return 0;
}

int sn_bridge_cq_resize(struct sn_bridge *bridge, uint32_t cqn, const struct sn_bridge_cq *cq)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, cqn);
	void *at;
	int err;

	if (!object)
		return -ENOENT;
	if (!cq_is_sane(cq))
		return -EINVAL;
	at = sn_bridge_map(bridge, &cq->pages, cq_bytes(cq));
	if (!at)
		return -errno;
	err = sn_cq_resize(object->cq, (uint64_t)at, 1u << cq->log_size, cq->cqe_size);
	if (err) {
		sn_bridge_unmap(bridge, at, cq_bytes(cq));
		return err;
	}
	sn_bridge_unmap(bridge, object->map.at, object->map.bytes);
	object->map.at = at;
	object->map.bytes = cq_bytes(cq);
	return 0;
}

int sn_bridge_cq_destroy(struct sn_bridge *bridge, uint32_t cqn)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, cqn);
	uint32_t events;
	int err;

	if (!object)
		return -ENOENT;
	err = sn_cq_destroy(object->cq, &events, &events);
	if (!err)
		sn_bridge_drop(bridge, object);
	return err;
}

int sn_bridge_cq_query(struct sn_bridge *bridge, uint32_t cqn, struct sn_bridge_cq_state *state)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, cqn);
	struct sn_cq_state now;

	if (!object)
		return -ENOENT;
	sn_cq_query(object->cq, &now);
	*state = (struct sn_bridge_cq_state){ now.produced, now.consumed, now.armed, now.overrun };
	return 0;
}

/* ---- shared receive queues ------------------------------------------------------------------ */

int sn_bridge_srq_create(struct sn_bridge *bridge, const struct sn_bridge_srq *srq, uint32_t *srqn)
{
	uint64_t record = sn_bridge_at(bridge, srq->record, SN_BRIDGE_RECORD_BYTES);
	struct sn_bridge_object *object;
	int err;

	if (srq->log_size > SN_BRIDGE_MAX_LOG_WQES || srq->log_stride > 12 || !record)
		return -EINVAL;
	object = sn_bridge_make(bridge, SN_BRIDGE_IS_SRQ, &srq->pages,
				1ull << (srq->log_size + srq->log_stride));
	if (!object)
		return -errno;
	err = sn_srq_create(bridge->dev,
			    &(struct sn_srq_attr){ .pdn = srq->pd,
						   .buf = (uint64_t)object->map.at,
						   .db = record,
						   .wqe_cnt = 1u << srq->log_size,
						   .wqe_shift = srq->log_stride,
						   .user_handle = (uint64_t)object,
						   .async_fd = -1 },
			    srqn, &object->srq);
	if (err) {
		sn_bridge_discard(bridge, object);
		return err;
	}
	sn_bridge_add(bridge, object, *srqn);
	return 0;
}

int sn_bridge_srq_arm(struct sn_bridge *bridge, uint32_t srqn, uint32_t limit)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SRQ, srqn);

	return object ? sn_srq_set_limit(object->srq, limit) : -ENOENT;
}

int sn_bridge_srq_limit(struct sn_bridge *bridge, uint32_t srqn, uint32_t *limit)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SRQ, srqn);

	if (!object)
		return -ENOENT;
	*limit = sn_srq_limit(object->srq);
	return 0;
}

int sn_bridge_srq_destroy(struct sn_bridge *bridge, uint32_t srqn)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SRQ, srqn);
	uint32_t events;
	int err;

	if (!object)
		return -ENOENT;
	err = sn_srq_destroy(object->srq, &events);
	if (!err)
		sn_bridge_drop(bridge, object);
	return err;
}
