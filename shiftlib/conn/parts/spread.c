/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Each NIC has the connections that this process has on it, whoever leads them: what the leader
 * of one deals counts for the NICs of both ends.
 */
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/spread.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"

static struct sh_spread *spread_of(const struct sh_nic *nic)
{
	return &sh_conns.spread[nic->index];
}

/* Two processes on one NIC, which know nothing of each other, begin with different paths. */
static uint32_t spread_salt(const struct sh_qp *qp)
{
	uint64_t mixed = (sh.instance ^ qp->ctx->nic->index) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(mixed >> 32);
}

static void spread_ways(const struct sh_qp *qp, struct backup_way ways[SC_MAX_PATHS])
{
	const struct sh_nic *nic;
	uint32_t k;

	for (k = 1; k < qp->paths.n; k++) {
		nic = qp->ctx->path[k];
		ways[k] = (struct backup_way){
			.speed = nic->address.speed,
			.last = k > sh_nics.map.n_even[qp->ctx->nic->index],
			.carries = spread_of(nic)->carries,
			.peers = qp->peer->first[k],
		};
	}
}

uint32_t sh_spread_draw(const struct sh_qp *qp)
{
	struct backup_way ways[SC_MAX_PATHS] = { 0 };

	if (!sh_nics.map.spread)
		return 0;
	spread_ways(qp, ways);
	return backup_spread_draw(&spread_of(qp->ctx->nic)->load, ways, qp->paths.n,
				  spread_salt(qp));
}

static void spread_count(struct sh_qp *qp, uint32_t order, bool on)
{
	uint8_t first = backup_spread_first(order);

	backup_spread_count(&spread_of(qp->ctx->nic)->load, order, on);
	if (first)
		qp->peer->first[first] += on ? 1 : UINT32_MAX;
}

static void spread_stepped(struct sh_qp *qp)
{
	uint32_t order = qp->core.standby.order;

	if (!qp->paths.carried && qp->core.peer.introduced) {
		qp->paths.carried = true;
		spread_of(qp->ctx->nic)->carries++;
	}
	if (order == qp->paths.order || !qp->peer)
		return;
	spread_count(qp, qp->paths.order, false);
	qp->paths.order = order;
	spread_count(qp, order, true);
}

static void spread_forget(struct sh_qp *qp)
{
	if (qp->paths.carried)
		spread_of(qp->ctx->nic)->carries--;
	if (qp->paths.order && qp->peer)
		spread_count(qp, qp->paths.order, false);
	qp->paths.carried = false;
	qp->paths.order = 0;
}

const struct sh_conn_part sh_spread_part = {
	.name = "spread",
	.life.leaves_peer = spread_forget, /* the next peer deals anew */
	.step.stepped = spread_stepped,
};
