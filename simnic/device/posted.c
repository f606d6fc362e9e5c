/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posted writes: payload that is still on its way when its completion is in memory already, as on
 * PCIe where the two go to different places (a GPU's memory, the host's). A NIC's own reads push
 * its earlier writes ahead of them (PCIe base specification 2.4.1: nothing that is read passes
 * posted writes); another NIC's reads do not. Only for NICs with posted_ns, which `simnicctl
 * posted-writes` sets. With posted_lost all goes to the host's memory: completions come behind
 * payload, and a NIC that loses its bus loses payload that it has acknowledged and not written
 * yet. With posted_unflushed payload is in memory before a good completion, but commands and
 * flushes say nothing of it.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

#define SMALL_WRITE   64
#define BEHIND_LOG_NS 200000

struct sn_posted {
	struct sn_posted *next;
	const struct sn_nic *nic;
	uint64_t due_ns, bytes;
	uint32_t n;
	struct iovec dst[SN_WQE_MAX_SGE];
	uint8_t data[];
};

static struct sn_posted_queue *queue_of(const struct sn_dev *dev)
{
	return &sn_engine.posted[dev->nic_index];
}

static void queue_push(struct sn_posted_queue *queue, struct sn_posted *posted)
{
	posted->next = NULL;
	if (queue->last)
		queue->last->next = posted;
	else
		queue->first = posted;
	queue->last = posted;
	sn_engine.n_posted++;
}

static bool died_with_it(const struct sn_nic *nic)
{
	uint32_t pci = atomic_load(&nic->pci);

	/* a NIC that is taken away in order loses its bus after its queue pairs */
	return atomic_load(&nic->posted.lost) &&
	       (pci == SN_PCI_ALL_ONES ||
		(pci == SN_PCI_NO_MASTER && atomic_load(&nic->state) != SN_NIC_DISASSOCIATED));
}

/* Memory that was unmapped meanwhile takes nothing, and nobody dies of it. */
static void land(const struct sn_posted *posted)
{
	struct iovec src = { (void *)posted->data, posted->bytes };

	sn_copy_tear(atomic_load_explicit(&posted->nic->posted.torn, memory_order_relaxed));
	if (sn_copy_is_guarded() || sn_copy_mapped(posted->dst, posted->n))
		(void)sn_copy_pieces(posted->dst, posted->n, &src, 1, posted->bytes);
}

static void queue_land_first(struct sn_posted_queue *queue)
{
	struct sn_posted *posted = queue->first;

	SN_ASSERT(sn_engine.n_posted);
	if (!died_with_it(posted->nic))
		land(posted);
	queue->first = posted->next;
	if (!queue->first)
		queue->last = NULL;
	sn_engine.n_posted--;
	free(posted);
}

void sn_posted_push(const struct sn_dev *dev)
{
	struct sn_posted_queue *queue = queue_of(dev);

	sn_atomic_land(dev->nic_index);
	while (queue->first)
		queue_land_first(queue);
}

static bool ranges_meet(const struct iovec *a, uint32_t n_a, const struct iovec *b, uint32_t n_b)
{
	uint32_t i, k;

	for (i = 0; i < n_a; i++)
		for (k = 0; k < n_b; k++)
			if ((uint8_t *)a[i].iov_base < (uint8_t *)b[k].iov_base + b[k].iov_len &&
			    (uint8_t *)b[k].iov_base < (uint8_t *)a[i].iov_base + a[i].iov_len)
				return true;
	return false;
}

void sn_posted_push_under(const struct sn_dev *dev, const struct iovec *iov, uint32_t n)
{
	const struct sn_posted *posted;

	if (sn_engine.n_atomics)
		sn_atomic_land_under(dev->nic_index, iov, n);
	if (!sn_engine.n_posted)
		return;
	for (posted = queue_of(dev)->first; posted; posted = posted->next)
		if (ranges_meet(posted->dst, posted->n, iov, n)) {
			sn_posted_push(dev);
			return;
		}
}

static void posted_queue(const struct sn_qp *qp, struct sn_posted *posted, uint64_t lag_ns,
			 const struct iovec *dst, uint32_t n_dst)
{
	posted->nic = qp->dev->nic;
	posted->due_ns = sn_engine.now_ns + lag_ns;
	SN_ASSERT(n_dst <= SN_WQE_MAX_SGE);
	posted->n = n_dst;
	memcpy(posted->dst, dst, n_dst * sizeof(*dst));
	queue_push(queue_of(qp->dev), posted);
}

/* data-behind-log: what is longer than a word or two goes another way through the host. */
static uint64_t lag_of(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	const struct sn_nic *nic = qp->dev->nic;
	uint64_t lag_ns = atomic_load_explicit(&nic->posted.ns, memory_order_relaxed);

	if (pkt->op == SN_PKT_WRITE && pkt->length > SMALL_WRITE && lag_ns < BEHIND_LOG_NS &&
	    sn_nic_quirk(nic, SN_QUIRK_DATA_BEHIND_LOG))
		return BEHIND_LOG_NS;
	return lag_ns;
}

/*
 * sn_wire_land() for NICs with posted writes: the payload is taken off the wire now, and is in
 * memory later.
 */
int sn_posted_land(const struct sn_qp *qp, const struct sn_pkt *pkt, const struct iovec *dst,
		   uint32_t n_dst, struct sn_span *span)
{
	uint64_t lag_ns = lag_of(qp, pkt);
	uint64_t begin = span->from;
	struct sn_posted *posted;
	struct iovec data;
	int rc;

	if (!lag_ns || span->from == span->to || !sn_qp_is_connected(qp)) {
		sn_posted_push_under(qp->dev, dst, n_dst);
		return sn_wire_land(pkt, dst, n_dst, span);
	}
	posted = malloc(sizeof(*posted) + span->to - begin);
	if (!posted)
		return -ENOMEM;
	data = (struct iovec){ posted->data, span->to - begin };
	rc = sn_wire_land(pkt, &data, 1, span);
	SN_ASSERT(span->from >= begin && span->from <= span->to);
	posted->bytes = span->from - begin;
	if (posted->bytes)
		posted_queue(qp, posted, lag_ns, dst, n_dst);
	else
		free(posted);
	return rc;
}

/* Of a connection that works: a flush, or a datagram, says nothing of what others wrote. */
static bool completes_data(const struct sn_dev *dev, const struct mlx5_cqe64 *cqe)
{
	uint32_t qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff;
	const struct sn_qp *qp = sn_qp_find(dev->nic_index, qpn);

	return (cqe->op_own >> 4) < MLX5_CQE_REQ_ERR && qp && sn_qp_is_connected(qp);
}

void sn_posted_push_completion(const struct sn_dev *dev, const struct mlx5_cqe64 *cqe)
{
	if (!sn_engine.n_posted)
		return;
	if (atomic_load(&dev->nic->posted.lost) ||
	    sn_nic_quirk(dev->nic, SN_QUIRK_DATA_BEHIND_LOG) ||
	    (atomic_load(&dev->nic->posted.unflushed) && completes_data(dev, cqe)))
		sn_posted_push(dev);
}

/* Its answer goes to the host's memory, and orders nothing that goes to another device's. */
void sn_posted_push_command(const struct sn_dev *dev)
{
	if (!atomic_load(&dev->nic->posted.unflushed))
		sn_posted_push(dev);
}

bool sn_posted_run(void)
{
	uint64_t before = sn_engine.n_posted;
	uint32_t nic;

	for (nic = 0; sn_engine.n_posted && nic < SN_MAX_NICS; nic++)
		while (sn_engine.posted[nic].first &&
		       sn_engine.posted[nic].first->due_ns <= sn_engine.now_ns)
			queue_land_first(&sn_engine.posted[nic]);
	return sn_engine.n_posted != before;
}

uint64_t sn_posted_next_ns(void)
{
	uint64_t due_ns = UINT64_MAX;
	uint32_t nic;

	for (nic = 0; sn_engine.n_posted && nic < SN_MAX_NICS; nic++)
		if (sn_engine.posted[nic].first && sn_engine.posted[nic].first->due_ns < due_ns)
			due_ns = sn_engine.posted[nic].first->due_ns;
	return due_ns;
}
