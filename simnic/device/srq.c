/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues: a linked list of WQEs in the application's memory (layouts: mlx5dv.h).
 * The library appends freed WQEs at the list's end and counts what it posts in the doorbell record;
 * there is no register. The device follows the links, as far as it was posted.
 */
#include <errno.h>
#include <stdlib.h>

#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/srq.h"
#include "simnic/fabric/check.h"

static uint16_t srq_posted(const struct sn_srq *srq)
{
	const _Atomic uint32_t *db = (const _Atomic uint32_t *)srq->attr.db;

	return (uint16_t)be32toh(atomic_load_explicit(db, memory_order_acquire));
}

uint32_t sn_srq_available(const struct sn_srq *srq)
{
	uint16_t n = (uint16_t)(srq_posted(srq) - srq->taken);

	return n <= srq->attr.wqe_cnt ? n : 0; /* a record from before the queue: nothing */
}

const uint8_t *sn_srq_wqe(const struct sn_srq *srq, uint16_t idx)
{
	return (const uint8_t *)srq->attr.buf + ((size_t)idx << srq->attr.wqe_shift);
}

/* IBA 10.2.9.1: raised once, when fewer than the limit are left; then it has to be armed again. */
static void srq_check_limit(struct sn_srq *srq)
{
	if (sn_srq_available(srq) >= srq->limit)
		return;
	srq->limit = 0;
	sn_async_event(srq->dev, srq->attr.async_fd, srq->attr.user_handle,
		       IBV_EVENT_SRQ_LIMIT_REACHED, &srq->async_events);
}

/* The link is read before the completion: with that the WQE is the library's to link anew. */
uint16_t sn_srq_take(struct sn_srq *srq)
{
	const struct mlx5_wqe_srq_next_seg *seg = (const void *)sn_srq_wqe(srq, srq->head);
	uint16_t idx = srq->head, next = be16toh(seg->next_wqe_index);

	SN_ASSERT(idx < srq->attr.wqe_cnt);
	if (next >= srq->attr.wqe_cnt)
		sn_protocol_error("link of a shared receive WQE is out of range", srq->srqn, next,
				  srq->attr.wqe_cnt);
	srq->head = next & (uint16_t)(srq->attr.wqe_cnt - 1);
	srq->taken++;
	srq_check_limit(srq);
	return idx;
}

/* ---- commands ------------------------------------------------------------------------------- */

static int srq_attr_check(const struct sn_srq_attr *attr)
{
	if (!attr->buf || !attr->db || !attr->wqe_cnt || attr->wqe_cnt > 32768)
		return -EINVAL;
	if (attr->wqe_cnt & (attr->wqe_cnt - 1) || attr->wqe_shift < 5 || attr->wqe_shift > 12)
		return -EINVAL;
	return 0;
}

int sn_srq_create(struct sn_dev *dev, const struct sn_srq_attr *attr, uint32_t *srqn,
		  struct sn_srq **out)
{
	struct sn_srq *srq;
	int rc = srq_attr_check(attr);

	if (rc)
		return rc;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->dev = dev;
	srq->attr = *attr;
	sn_lock();
	*srqn = srq->srqn = ++sn_engine.next_srqn;
	LIST_INSERT_HEAD(&dev->srqs, srq, link);
	sn_unlock();
	*out = srq;
	return 0;
}

int sn_srq_set_limit(struct sn_srq *srq, uint32_t limit)
{
	if (limit >= srq->attr.wqe_cnt)
		return -EINVAL;
	sn_lock();
	srq->limit = limit;
	srq_check_limit(srq);
	sn_unlock();
	return 0;
}

uint32_t sn_srq_limit(struct sn_srq *srq)
{
	uint32_t limit;

	sn_lock();
	limit = srq->limit;
	sn_unlock();
	return limit;
}

int sn_srq_destroy(struct sn_srq *srq, uint32_t *async_events)
{
	sn_lock();
	if (srq->refs) {
		sn_unlock();
		return -EBUSY;
	}
	SN_LIST_REMOVE(srq, link);
	sn_unlock();
	*async_events = srq->async_events;
	free(srq);
	return 0;
}

void sn_srq_free_all(struct sn_dev *dev)
{
	struct sn_srq *srq;

	while ((srq = LIST_FIRST(&dev->srqs))) {
		SN_ASSERT(!srq->refs);
		SN_LIST_REMOVE(srq, link);
		free(srq);
	}
}
