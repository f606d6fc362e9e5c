/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The watch of completion queues whose pollers may keep the shell's threads from their core: polls
 * that find nothing ask.
 */
#include "providers/mlx5/cq.h"
#include "providers/mlx5/dev.h"

void ring_cq_watch_locked(struct sp_cq *cq)
{
	if (cq->watched || !cq->dev->cb->owed)
		return;
	cq->watched = true;
	ring_cq_refresh_slow(cq);
}

void ring_cq_watch(struct sp_cq *cq)
{
	sp_lock(&cq->lock);
	ring_cq_watch_locked(cq);
	sp_unlock(&cq->lock);
}

/*
 * Called when a poll of a watched CQ found nothing; true: the poller has to give way, behind the
 * locks. The lock is held.
 */
bool ring_cq_owed(struct sp_cq *cq)
{
	const struct sp_callbacks *cb = cq->dev->cb;

	cq->watched = cb->owed();
	if (!cq->watched)
		ring_cq_refresh_slow(cq);
	return cq->watched;
}
