/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rings of the network interface, and the switch of its port. */
#include <errno.h>

#include "simnic/pci/bridge_ether.h"
#include "simnic/pci/bridge_own.h"

#define SEND_LOG_STRIDE 6 /* a WQEBB */

static int attr_of(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
		   struct sn_ether_ring_attr *attr)
{
	const struct sn_bridge_object *cq = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, ring->cq);

	*attr = (struct sn_ether_ring_attr){
		.pdn = ring->pd,
		.cq = cq ? cq->cq : NULL,
		.db = sn_bridge_at(bridge, ring->record, SN_BRIDGE_RECORD_BYTES),
		.entries = 1u << ring->log_size,
		.log_stride = ring->log_stride,
		.keeps_vlan = ring->keeps_vlan,
	};
	return cq && attr->db ? 0 : -EINVAL;
}

static bool ring_is_sane(const struct sn_bridge_frames *ring)
{
	return ring->log_size <= SN_BRIDGE_MAX_LOG_WQES && ring->log_stride <= 12;
}

/* Makes the object, and what the engine has of it. */
static int ring_create(struct sn_bridge *bridge, enum sn_bridge_type type,
		       const struct sn_bridge_frames *ring, uint32_t *number)
{
	struct sn_ether_ring_attr attr;
	struct sn_bridge_object *object;
	int err = ring_is_sane(ring) ? attr_of(bridge, ring, &attr) : -EINVAL;

	if (err)
		return err;
	object = sn_bridge_make(bridge, type, &ring->pages,
				1ull << (ring->log_size + ring->log_stride));
	if (!object)
		return -errno;
	attr.buf = (uint64_t)object->map.at;
	err = type == SN_BRIDGE_IS_SQ
		      ? sn_ether_sq_create(bridge->dev, &attr, number, &object->ether_sq)
		      : sn_ether_rq_create(bridge->dev, &attr, number, &object->ether_rq);
	if (err) {
		sn_bridge_discard(bridge, object);
		return err;
	}
	sn_bridge_add(bridge, object, *number);
	return 0;
}

int sn_bridge_sq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *sqn)
{
	struct sn_bridge_frames sq = *ring;

	sq.log_stride = SEND_LOG_STRIDE;
	return ring_create(bridge, SN_BRIDGE_IS_SQ, &sq, sqn);
}

int sn_bridge_rq_create(struct sn_bridge *bridge, const struct sn_bridge_frames *ring,
			uint32_t *rqn)
{
	return ring_create(bridge, SN_BRIDGE_IS_RQ, ring, rqn);
}

int sn_bridge_sq_set_ready(struct sn_bridge *bridge, uint32_t sqn, bool ready)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SQ, sqn);

	if (!object)
		return -ENOENT;
	sn_ether_sq_set_ready(object->ether_sq, ready);
	return 0;
}

int sn_bridge_rq_set_ready(struct sn_bridge *bridge, uint32_t rqn, bool ready)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_RQ, rqn);

	if (!object)
		return -ENOENT;
	sn_ether_rq_set_ready(object->ether_rq, ready);
	return 0;
}

int sn_bridge_sq_failed(struct sn_bridge *bridge, uint32_t sqn, bool *failed)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SQ, sqn);

	if (!object)
		return -ENOENT;
	*failed = sn_ether_sq_has_failed(object->ether_sq);
	return 0;
}

int sn_bridge_sq_destroy(struct sn_bridge *bridge, uint32_t sqn)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_SQ, sqn);

	if (!object)
		return -ENOENT;
	sn_ether_sq_destroy(object->ether_sq);
	sn_bridge_drop(bridge, object);
	return 0;
}

int sn_bridge_rq_destroy(struct sn_bridge *bridge, uint32_t rqn)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_RQ, rqn);

	if (!object)
		return -ENOENT;
	sn_ether_rq_destroy(object->ether_rq);
	sn_bridge_drop(bridge, object);
	return 0;
}

void sn_bridge_receive_into(struct sn_bridge *bridge, uint32_t rqn)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_RQ, rqn);

	sn_ether_receive_into(bridge->dev, object ? object->ether_rq : NULL);
}

void sn_bridge_switch_off(struct sn_bridge *bridge, bool off)
{
	sn_dev_switch_off(bridge->dev, off);
}
