/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues with fewer receives than NICs take from them. No NIC tells whose peer
 * waits for a receive, so the last receives visit each ring that has users. Such a visit lasts
 * longer and longer while the program gets nothing at all.
 */
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/srq.h"

#define VISIT_MIN_NS (2 * SH_NS_PER_MS)
#define VISIT_MAX_NS (100 * SH_NS_PER_MS)
/*
 * A message that meets an empty ring is sent again, a datagram is lost: a visit among datagrams
 * lasts so many times as long.
 */
#define VISIT_DATAGRAMS 4

static bool takes_datagrams(const struct sh_qp *qp)
{
	return qp->init.qp_type == IBV_QPT_UD &&
	       (qp->app.state == IBV_QPS_RTR || qp->app.state == IBV_QPS_RTS);
}

/* ring: NULL for any. */
static bool datagrams_come(const struct sh_srq *srq, const struct sp_srq_ring *ring)
{
	const struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && takes_datagrams(qp) &&
		    (!ring || ring == (qp->own.srq ? qp->own.srq->ring : sp_srq_own(srq->sp))))
			return true;
	return false;
}

static uint64_t visit_ns(const struct sh_srq *srq, const struct sp_srq_ring *ring)
{
	return srq->few.visit * (datagrams_come(srq, ring) ? VISIT_DATAGRAMS : 1);
}

/* The next visit: as short as it can be behind one that brought something to the program. */
static void visit_next(struct sh_srq *srq, uint32_t taken)
{
	struct sh_srq_few *few = &srq->few;
	uint64_t max = datagrams_come(srq, NULL) ? VISIT_MAX_NS / VISIT_DATAGRAMS : VISIT_MAX_NS;

	few->visit = few->taken == taken ? 2 * few->visit : VISIT_MIN_NS;
	if (few->visit > max)
		few->visit = max;
	few->taken = taken;
}

static void few_check_at(struct sh_srq *srq, uint64_t at)
{
	srq->few.look_at = at;
	srq->look_at = sh_earlier_ns(srq->look_at, at);
}

static void few_move(struct sh_srq *srq, uint64_t now) SH_LOCKED
{
	struct sh_srq_few *few = &srq->few;
	struct sp_srq_ring *from;
	uint64_t until;
	uint32_t taken;

	few->look_at = 0;
	from = sp_srq_starving(srq->sp, &taken);
	if (!from) {
		few->visit = 0;
		return;
	}
	until = few->since + visit_ns(srq, from);
	if (until > now) {
		few_check_at(srq, until);
		return;
	}
	if (sh_reclaim_from(srq, from, 1, now)) {
		visit_next(srq, taken);
		few->since = now;
	}
	few_check_at(srq, now + few->visit);
}

void sh_srq_few_run(struct sh_srq *srq, bool told, uint64_t now)
{
	struct sh_srq_few *few = &srq->few;

	if (told && !few->look_at) {
		few->visit = few->visit ? few->visit : VISIT_MIN_NS;
		few->since = now;
		few_check_at(srq, now + few->visit);
	}
	if (few->look_at && few->look_at <= now)
		few_move(srq, now);
	else if (few->look_at)
		few_check_at(srq, few->look_at);
}
