/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a NIC wrote to other devices' memory is there before the peer sends over another NIC. The
 * peer does so when it knows the count. So the count, which is final behind the quiesce, waits
 * until the NICs that are left have read from that memory (replica/push.h). A NIC that obeys and
 * does not read is waited for SHARE of the time that a flush may take, and then no longer: with
 * its port down it may not loop back. NICs that do not obey have their own waits.
 */
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/push.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"

#define PUSH_SHARE 8 /* of SHIFT_FLUSH_WAIT_MS */

static bool push_matters(const struct sh_qp *qp)
{
	return sh.config.push && qp->pd->foreign && !qp->pd->unprotected;
}

static void push_reset(struct sh_qp *qp)
{
	qp->push.since = 0;
}

/* The paths of NICs that have just obeyed, as bits. */
static uint32_t push_paths(const struct sh_qp *qp) SH_LOCKED
{
	uint32_t paths = 0;
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		const struct sh_carrier *carrier = sh_carrier_at(qp, i);

		if (sh_quiesce_left(qp, carrier) && carrier->in_error && !carrier->lost &&
		    !sh_carrier_dead(carrier))
			paths |= 1u << carrier->path;
	}
	return paths;
}

/* Asks all of them, so that they read at the same time; returns those that have not. */
static uint32_t push_waits(const struct sh_qp *qp, uint32_t paths, uint64_t now) SH_LOCKED
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (paths >> path & 1 &&
		    sh_push(qp->pd, path, qp->push.since, now) != SH_PUSH_WAITS)
			paths &= ~(1u << path);
	return paths;
}

static bool push_delays(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	uint32_t paths;
	uint8_t path;

	if (!push_matters(qp))
		return false;
	if (!qp->push.since)
		qp->push.since = now;
	paths = push_waits(qp, push_paths(qp), now);
	if (!paths)
		return false;
	if (sh_starved_had_ns(qp->push.since, now) < sh.config.flush_wait_ns / PUSH_SHARE)
		return true;
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (paths >> path & 1)
			sh_push_give_up(qp->pd, path);
	return false;
}

/* Ahead of need: in a move, each command counts. */
static void push_made(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	if (!push_matters(qp))
		return;
	sh_push_prepare(qp->pd, qp->active->path);
	sh_push_prepare(qp->pd, carrier->path);
}

/* Regions may come when the connection is there, and a NIC that did not read may do so again. */
static void push_look(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	(void)now;
	if (!push_matters(qp) || !qp->counted.guarded || !sh_nic_up(qp->active->nic))
		return;
	sh_push_prepare(qp->pd, qp->active->path);
	if (qp->standby && qp->standby->qp && sh_nic_up(qp->standby->nic))
		sh_push_prepare(qp->pd, qp->standby->path);
}

const struct sh_conn_part sh_push_part = {
	.name = "push",
	.standby.made = push_made,
	.step.look = push_look,
	.move = { .quiesces = push_reset, .delays = push_delays },
};
