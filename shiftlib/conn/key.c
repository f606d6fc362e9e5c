/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Questions about memory keys: does a key of a connection's requests name a region? */
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/conn/key.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/memory.h"

bool sh_key_told(const struct sh_qp *qp, uint32_t rkey)
{
	const struct sh_keymap *map;
	uint32_t out, k;

	for (k = 0; k < qp->paths.n; k++) {
		map = sh_peer_keys(qp->peer, qp->paths.peer_nics[0], qp->paths.peer_nics[k]);
		if (map && sh_keymap_get(map, rkey, &out))
			return true;
	}
	return false;
}

static bool key_local(const struct sh_qp *qp, uint32_t lkey)
{
	const struct sh_mr *mr;

	list_for_each (&qp->pd->mrs, mr, struct sh_mr, link)
		if (mr->mr->lkey == lkey)
			return true;
	return false;
}

bool sh_key_unknown(const struct sh_qp *qp, uint32_t key, bool remote)
{
	if (remote)
		return !qp->peer || !sh_key_told(qp, key);
	return !qp->pd || !key_local(qp, key);
}
