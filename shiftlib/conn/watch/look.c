/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A look at all connections now and then. It finds error completions that no application thread
 * comes to poll, and rings that somebody else writes to, if only to say so: before each action
 * it is looked for anyway. Parts look along.
 */
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/conn/watch/look.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

/* An error lies in it: a connection that may move is there to be told, unless it is not ours. */
static void look_collect(struct sh_cq *cq) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->counted.guarded || (qp->scq != cq && qp->rcq != cq) ||
		    sh_conn_hands_off(qp))
			continue;
		sp_cq_collect(cq->sp);
		return;
	}
}

static void look_at_cqs(void) SH_LOCKED
{
	struct sh_ctx *ctx;
	struct sh_cq *cq;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			if (cq->guarded && sp_cq_error_waiting(cq->sp))
				look_collect(cq);
}

/* Is it still ours, and is what it uses known? */
static void look_at(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (qp->counted.guarded && sh_conn_hands_off(qp))
		return;
	SH_PARTS_TELL(step.look, qp, now);
}

static void look_pass(uint32_t pass, uint64_t now) SH_LOCKED
{
	uint32_t i;

	for (i = pass % SH_CONNS_PASSES; i < sh_conns.room; i += SH_CONNS_PASSES)
		if (sh_conns.by_id[i])
			look_at(sh_conns.by_id[i], now);
}

/* Asleep, each look is at all connections. */
static void look_passes(uint64_t now) SH_LOCKED
{
	do
		look_pass(sh_conns.check_pass++, now);
	while (sh_asleep() && sh_conns.check_pass % SH_CONNS_PASSES);
}

static uint64_t look_next(uint64_t now) SH_LOCKED
{
	if (!sh_conns.guarded && !sh_conns.unknown && !sh_conns.roomless)
		return 0;
	return sh_asleep() ? sh_rare_next(now) : now + sh.config.watch_ns;
}

static void look_run(uint64_t now) SH_LOCKED
{
	if (!sh_conns.check_at || sh_conns.check_at > now)
		return;
	look_passes(now);
	SH_PARTS_TELL(step.looked, now);
	look_at_cqs();
	sh_conns.check_at = look_next(now);
}

static uint64_t look_next_timer(void)
{
	return sh_conns.check_at;
}

const struct sh_module sh_looks_module = {
	.name = "looks",
	.run = look_run,
	.next_timer = look_next_timer,
};
