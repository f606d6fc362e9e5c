/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Error completions that no application thread comes to poll must be found all the same. And rings
 * that somebody else writes to, if only to say so: before each action it is looked for anyway.
 */
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

#define CHECK_HANDS_PASSES 16 /* for one look at whether a QP is still ours */

struct sh_conns sh_conns;

struct sh_qp *sh_conns_find(uint32_t conn_id)
{
	return conn_id < sh_conns.room ? sh_conns.by_id[conn_id] : NULL;
}

/* An error lies in it: a connection that may move is there to be told, unless it is not ours. */
static void check_collect(struct sh_cq *cq)
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

static void check_cqs(void)
{
	struct sh_ctx *ctx;
	struct sh_cq *cq;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			if (cq->guarded && sp_cq_error_waiting(cq->sp))
				check_collect(cq);
}

static void check_run(uint64_t now)
{
	uint32_t i;

	if (!sh_conns.check_at || sh_conns.check_at > now)
		return;
	for (i = sh_conns.check_pass++ % CHECK_HANDS_PASSES; i < sh_conns.room;
	     i += CHECK_HANDS_PASSES)
		if (sh_conns.by_id[i] && sh_conns.by_id[i]->counted.guarded)
			sh_conn_hands_off(sh_conns.by_id[i]);
	check_cqs();
	sh_conns.check_at = sh_conns.guarded ? now + sh.config.watch_ns : 0;
}

static uint64_t check_next_timer(void)
{
	return sh_conns.check_at;
}

static void conns_reset(void)
{
	sh_timers_uninit(&sh_conns.timers);
	memset(&sh_conns, 0, sizeof(sh_conns));
	list_init(&sh_conns.qps);
	list_init(&sh_conns.touched);
}

const struct sh_module sh_conns_module = {
	.name = "connections",
	.reset = conns_reset,
	.run = check_run,
	.next_timer = check_next_timer,
};
