/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rings of the network interface (ether.h): made, started, destroyed. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/ether_own.h"
#include "simnic/fabric/nic.h"

/* Rings have numbers that no queue pair has. */
enum { FIRST_NUMBER = SN_QPN_MAX, NUMBERS = 0xffffff - SN_QPN_MAX };

uint16_t sn_ether_producer(const struct sn_ether_ring_attr *attr, int record)
{
	_Atomic uint32_t *words = (_Atomic uint32_t *)attr->db;

	return (uint16_t)be32toh(atomic_load_explicit(&words[record], memory_order_acquire));
}

static bool attr_is_sane(const struct sn_ether_ring_attr *attr)
{
	return attr->entries && !(attr->entries & (attr->entries - 1)) &&
	       attr->entries <= SN_MAX_QP_WR && attr->buf && attr->db && attr->log_stride <= 12;
}

static uint32_t next_number(struct sn_dev *dev)
{
	return FIRST_NUMBER + dev->ether.numbers++ % NUMBERS;
}

int sn_ether_sq_create(struct sn_dev *dev, const struct sn_ether_ring_attr *attr, uint32_t *number,
		       struct sn_ether_sq **out)
{
	struct sn_ether_sq *sq = attr_is_sane(attr) ? calloc(1, sizeof(*sq)) : NULL;

	if (!sq)
		return attr_is_sane(attr) ? -ENOMEM : -EINVAL;
	sq->dev = dev;
	sq->attr = *attr;
	sn_lock();
	*number = sq->number = next_number(dev);
	sq->next = dev->ether.sqs;
	dev->ether.sqs = sq;
	attr->cq->refs++;
	sn_unlock();
	*out = sq;
	return 0;
}

void sn_ether_sq_set_ready(struct sn_ether_sq *sq, bool ready)
{
	sn_lock();
	if (ready && !sq->ready)
		sq->rung = sq->done = 0;
	if (ready)
		sq->failed = false;
	sq->ready = ready;
	sn_unlock();
}

bool sn_ether_sq_has_failed(struct sn_ether_sq *sq)
{
	bool failed;

	sn_lock();
	failed = sq->failed;
	sn_unlock();
	return failed;
}

static void free_sq(struct sn_ether_sq **link)
{
	struct sn_ether_sq *sq = *link;

	*link = sq->next;
	sq->attr.cq->refs--;
	free(sq);
}

void sn_ether_sq_destroy(struct sn_ether_sq *sq)
{
	struct sn_ether_sq **link = &sq->dev->ether.sqs;

	sn_lock();
	while (*link != sq)
		link = &(*link)->next;
	free_sq(link);
	sn_unlock();
}

/* The first receive ring makes this process the one that frames to the NIC come to. */
int sn_ether_rq_create(struct sn_dev *dev, const struct sn_ether_ring_attr *attr, uint32_t *number,
		       struct sn_ether_rq **out)
{
	struct sn_ether_rq *rq = attr_is_sane(attr) ? calloc(1, sizeof(*rq)) : NULL;
	uint16_t nobody = 0;

	if (!rq)
		return attr_is_sane(attr) ? -ENOMEM : -EINVAL;
	rq->dev = dev;
	rq->attr = *attr;
	sn_lock();
	*number = rq->number = next_number(dev);
	rq->next = dev->ether.rqs;
	dev->ether.rqs = rq;
	attr->cq->refs++;
	atomic_compare_exchange_strong(&dev->nic->qpn_owner[SN_QPN_FRAMES], &nobody,
				       (uint16_t)(sn_engine.slot + 1));
	sn_unlock();
	*out = rq;
	return 0;
}

void sn_ether_rq_set_ready(struct sn_ether_rq *rq, bool ready)
{
	sn_lock();
	if (ready && !rq->ready)
		rq->done = 0;
	rq->ready = ready;
	sn_unlock();
}

void sn_ether_receive_into(struct sn_dev *dev, struct sn_ether_rq *rq)
{
	sn_lock();
	dev->ether.into = rq;
	sn_unlock();
}

static void free_rq(struct sn_ether_rq **link)
{
	struct sn_ether_rq *rq = *link;

	*link = rq->next;
	if (rq->dev->ether.into == rq)
		rq->dev->ether.into = NULL;
	rq->attr.cq->refs--;
	free(rq);
}

void sn_ether_rq_destroy(struct sn_ether_rq *rq)
{
	struct sn_ether_rq **link = &rq->dev->ether.rqs;

	sn_lock();
	while (*link != rq)
		link = &(*link)->next;
	free_rq(link);
	sn_unlock();
}

void sn_ether_free_all(struct sn_dev *dev)
{
	uint16_t owner = (uint16_t)(sn_engine.slot + 1);

	if (dev->ether.rqs)
		atomic_compare_exchange_strong(&dev->nic->qpn_owner[SN_QPN_FRAMES], &owner, 0);
	while (dev->ether.sqs)
		free_sq(&dev->ether.sqs);
	while (dev->ether.rqs)
		free_rq(&dev->ether.rqs);
}
