/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of all connections, and their numbers. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/loop/loop.h"

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
};
