/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table of all connections. And a look at them now and then: error completions that no
 * application thread comes to poll must be found all the same, and rings that somebody else writes
 * to, if only to say so: before each action it is looked for anyway.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

struct sh_conns sh_conns;

struct sh_qp *sh_conns_find(uint32_t conn_id)
{
	return conn_id < sh_conns.room ? sh_conns.by_id[conn_id] : NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int conns_grow(void)
{
	uint32_t n = sh_conns.room ? sh_conns.room * 2 : 64;
	struct sh_qp **grown = realloc(sh_conns.by_id, n * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	memset(grown + sh_conns.room, 0, (n - sh_conns.room) * sizeof(*grown));
	sh_conns.next_id = sh_conns.room ? sh_conns.room : 1;
	sh_conns.by_id = grown;
	sh_conns.room = n;
	return 0;
}

/* Round and round, so that one in use is rarely met; number 0 is nobody's. */
static int conns_number(struct sh_qp *qp)
{
	uint32_t tries;

	for (tries = 0; tries < sh_conns.room; tries++) {
		if (sh_conns.next_id >= sh_conns.room)
			sh_conns.next_id = 1;
		if (!sh_conns.by_id[sh_conns.next_id])
			break;
		sh_conns.next_id++;
	}
	if (tries >= sh_conns.room && conns_grow())
		return -ENOMEM;
	qp->conn_id = sh_conns.next_id++;
	sh_conns.by_id[qp->conn_id] = qp;
	return 0;
}

static uint32_t conns_nonce(void)
{
	static_assert(sizeof(sh_conns.nonces) <= 256, "sh_random() gives no more");
	if (!sh_conns.n_nonces) {
		sh_random(sh_conns.nonces, sizeof(sh_conns.nonces));
		sh_conns.n_nonces = sizeof(sh_conns.nonces) / sizeof(sh_conns.nonces[0]);
	}
	return sh_conns.nonces[--sh_conns.n_nonces];
}

int sh_conns_add(struct sh_qp *qp)
{
	if (conns_number(qp))
		return -ENOMEM;
	if (sh_timers_reserve(&sh_conns.timers, sh_conns.room)) {
		sh_conns_remove(qp);
		return -ENOMEM;
	}
	qp->nonce = conns_nonce();
	return 0;
}

void sh_conns_remove(struct sh_qp *qp)
{
	sh_conns.by_id[qp->conn_id] = NULL;
	qp->conn_id = 0;
}

bool sh_conns_spare(const struct sh_nic *nic)
{
	return !sh_nics.map.n_backups[nic->index] && !sh_conns.spread[nic->index].carries;
}

/* ---- the look ------------------------------------------------------------------------------- */

/* An error lies in it: a connection that may move is there to be told, unless it is not ours. */
static void conns_collect(struct sh_cq *cq)
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

static void conns_look_at_cqs(void)
{
	struct sh_ctx *ctx;
	struct sh_cq *cq;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			if (cq->guarded && sp_cq_error_waiting(cq->sp))
				conns_collect(cq);
}

/* Is it still ours, and is what it uses known? */
static void conns_look_at(struct sh_qp *qp, uint64_t now)
{
	if (qp->counted.guarded && sh_conn_hands_off(qp))
		return;
	SH_PARTS_TELL(step.look, qp, now);
}

static void conns_run(uint64_t now)
{
	uint32_t i;

	if (!sh_conns.check_at || sh_conns.check_at > now)
		return;
	for (i = sh_conns.check_pass++ % SH_CONNS_PASSES; i < sh_conns.room; i += SH_CONNS_PASSES)
		if (sh_conns.by_id[i])
			conns_look_at(sh_conns.by_id[i], now);
	SH_PARTS_TELL(step.looked, now);
	conns_look_at_cqs();
	sh_conns.check_at = sh_conns.guarded || sh_conns.unknown || sh_conns.roomless
				    ? now + sh.config.watch_ns
				    : 0;
}

static uint64_t conns_next_timer(void)
{
	return sh_conns.check_at;
}

static void conns_reset(void)
{
	sh_timers_uninit(&sh_conns.timers);
	memset(&sh_conns, 0, sizeof(sh_conns));
	list_init(&sh_conns.qps);
	list_init(&sh_conns.touched);
	list_init(&sh_conns.suspects);
	list_init(&sh_conns.pool);
}

const struct sh_module sh_conns_module = {
	.name = "connections",
	.reset = conns_reset,
	.run = conns_run,
	.next_timer = conns_next_timer,
};
