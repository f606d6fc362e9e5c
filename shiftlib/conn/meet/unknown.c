/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Now and then the keys of what is outstanding are held against those that are known on the
 * standby's NIC. One that stays unknown was registered past SHIFT: behind a move its requests
 * could not run. A key that is on its way here (a region that is being registered there, or
 * that the peer is about to tell of) is unknown for a moment, and so may be one that comes and
 * goes with each message: one sighting says nothing. Who is suspected is looked at in each
 * round, and acquitted once anybody has told of the key. Requests that lie in the ring of old
 * may be done, and their memory free.
 */
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/key.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/meet/unknown.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/young.h"

#define UNKNOWN_KEYS	  32
#define UNKNOWN_TURNS	  4
#define UNKNOWN_SIGHTINGS 16
#define UNKNOWN_AGAIN	  64 /* suspects of one round */
#define UNKNOWN_AFTER_NS  (2 * SH_NS_PER_S)
#define UNKNOWN_REST_NS	  (3 * SH_NS_PER_S) /* not seen for so long, it is not in use any more */

static const char why_local[] =
	"it has memory that SHIFT does not know: not registered by ibv_reg_mr and its like";
static const char why_remote[] =
	"it names memory that its peer has not told of: not registered by ibv_reg_mr and its like";

/* The worker of the NIC is on it, or will be. */
static bool local_on_its_way(const struct sh_qp *qp, uint8_t path, uint32_t lkey) SH_LOCKED
{
	struct sh_mr *mr;

	list_for_each (&qp->pd->mrs, mr, struct sh_mr, link)
		if (mr->mr->lkey == lkey)
			return sh_young_is(mr) || mr->shadow[path].state == SH_SHADOW_QUEUED;
	return false;
}

static bool key_known(const struct sh_qp *qp, uint8_t path, uint32_t key, bool remote) SH_LOCKED
{
	uint32_t out;

	if (remote)
		return sh_key_told(qp, key);
	return sh_keymap_get(&qp->ctx->lkeys[path], key, &out) || local_on_its_way(qp, path, key);
}

static void unknown_suspect(struct sh_qp *qp, bool on)
{
	if (on)
		list_add_tail(&sh_conns.suspects, &qp->unknown.link);
	else
		list_del(&qp->unknown.link);
	sh_conns.n_suspects += on ? 1 : UINT32_MAX;
}

static void unknown_mark(struct sh_qp *qp) SH_LOCKED
{
	struct sh_qp_unknown *u = &qp->unknown;
	const char *why = u->remote ? why_remote : why_local;

	qp->carriers.refused = why;
	unknown_suspect(qp, false);
	sh_conns.unknown++;
	sh_warn_once("QP 0x%06x is not protected: %s", qp->qp->qp_num, why);
	if (qp->standby)
		sh_conn_about(qp, SC_EV_STANDBY_LOST, SC_REASON_RESOURCE, qp->standby->epoch);
	if (qp->level == SH_DRIVEN)
		sh_level_set(qp, SH_DRIVEN, why);
}

/* Standbys are made again, when they are next asked for. */
static void unknown_clear(struct sh_qp *qp)
{
	if (qp->carriers.refused)
		sh_conns.unknown--;
	else if (qp->unknown.sightings)
		unknown_suspect(qp, false);
	qp->carriers.refused = NULL;
	qp->unknown.sightings = 0;
}

static void unknown_seen(struct sh_qp *qp, const struct sp_key *key, uint64_t now) SH_LOCKED
{
	struct sh_qp_unknown *u = &qp->unknown;

	if (!u->sightings) {
		u->key = key->key;
		u->remote = key->remote;
		u->first_ns = now;
		unknown_suspect(qp, true);
	}
	u->sightings++;
	u->last_ns = now;
	if (!qp->carriers.refused && u->sightings >= UNKNOWN_SIGHTINGS &&
	    now - u->first_ns >= UNKNOWN_AFTER_NS)
		unknown_mark(qp);
}

static bool unknown_is(const struct sh_qp_unknown *u, const struct sp_key *key)
{
	return !u->sightings || (u->key == key->key && u->remote == key->remote);
}

/* Requests were posted since the last look. */
static bool unknown_sends(struct sh_qp *qp)
{
	uint32_t number = qp->unknown.number, before = number;

	sp_qp_sending(qp->sp, &number);
	qp->unknown.number = number;
	return number != before;
}

static void unknown_check(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	struct sh_qp_unknown *u = &qp->unknown;
	struct sp_key keys[UNKNOWN_KEYS];
	uint32_t n, i;

	if (qp->core.move != SC_MOVE_NONE || !qp->peer || !qp->pd ||
	    (!qp->standby && !qp->carriers.refused))
		return;
	if (!qp->carriers.refused)
		u->path = qp->standby->path;
	if (u->sightings &&
	    (now - u->last_ns > UNKNOWN_REST_NS || key_known(qp, u->path, u->key, u->remote)))
		unknown_clear(qp);
	n = sp_qp_keys(qp->sp, unknown_sends(qp), sh_conns.check_pass, keys, UNKNOWN_KEYS);
	for (i = 0; i < n; i++)
		if (unknown_is(u, &keys[i]) && !key_known(qp, u->path, keys[i].key, keys[i].remote))
			break;
	if (i < n)
		unknown_seen(qp, &keys[i], now);
}

static void unknown_acquit(const struct sh_peer *peer, uint32_t key)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.suspects, qp, struct sh_qp, unknown.link)
		if (qp->unknown.key == key &&
		    (peer ? qp->unknown.remote && qp->peer == peer : !qp->unknown.remote))
			unknown_clear(qp);
}

void sh_unknown_told(uint32_t lkey)
{
	unknown_acquit(NULL, lkey);
}

void sh_news_peer_key_told(const struct sh_peer *peer, uint32_t rkey)
{
	unknown_acquit(peer, rkey);
}

static void unknown_look_again(uint64_t now) SH_LOCKED
{
	uint32_t left = sh_conns.n_suspects < UNKNOWN_AGAIN ? sh_conns.n_suspects : UNKNOWN_AGAIN;
	struct sh_qp *qp;

	while (left-- && !list_empty(&sh_conns.suspects)) {
		qp = list_entry(sh_conns.suspects.next, struct sh_qp, unknown.link);
		list_del(&qp->unknown.link);
		list_add_tail(&sh_conns.suspects, &qp->unknown.link);
		unknown_check(qp, now);
	}
}

/* Looks at a connection's keys in one of UNKNOWN_TURNS rounds. */
static void unknown_turn(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if ((sh_conns.check_pass / SH_CONNS_PASSES + qp->conn_id) % UNKNOWN_TURNS)
		return;
	if (qp->counted.guarded || qp->carriers.refused)
		unknown_check(qp, now);
}

const struct sh_conn_part sh_unknown_part = {
	.name = "unknown",
	.life.left = unknown_clear,
	.step = { .look = unknown_turn, .looked = unknown_look_again },
};
