/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys that are given out again: not before peers have forgotten what they stood for. */
#include <time.h>
#include "shiftlib/shell.h"

#define KEYS_WAIT_S 1 /* a peer that has not answered by then does not use them either */

/* It translates our keys, or is about to. */
static bool peer_translates(const struct sh_peer *peer)
{
	struct sh_qp *qp;

	list_for_each (&sh.qps, qp, struct sh_qp, link)
		if (qp->conn_id && qp->peer == peer &&
		    (qp->active->epoch || qp->core.move != SC_MOVE_NONE))
			return true;
	return false;
}

static bool peer_key_stale(const struct sh_peer *peer, uint32_t rkey)
{
	uint32_t i;

	if (peer->keys_acked < sh.keys.before)
		return true;
	for (i = peer->keys_acked - sh.keys.before; i < sh.keys.n; i++)
		if (sh.keys.entries[i].op == SH_WIRE_KEY_REMOVE && sh.keys.entries[i].rkey == rkey)
			return true;
	return false;
}

static bool key_stale(uint32_t rkey)
{
	struct sh_peer *peer;

	list_for_each (&sh.peers, peer, struct sh_peer, link)
		if (peer->conns && peer_key_stale(peer, rkey) && peer_translates(peer))
			return true;
	return false;
}

/*
 * The kernel's driver gives the key of a region that is gone to the next one. A peer that has not heard
 * of it yet would take it for what it was: a request of its application, which learns of the key from
 * ours, would be refused on the other NIC, or write where it must not.
 */
void sh_key_wait(uint32_t rkey)
{
	struct timespec until;
	int ret = 0;

	if (!key_stale(rkey))
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += KEYS_WAIT_S;
	while (!ret && key_stale(rkey))
		ret = pthread_cond_timedwait(&sh.idle, &sh.lock, &until);
}
