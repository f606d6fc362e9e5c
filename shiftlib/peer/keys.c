/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory keys of the replicas: a journal that every peer follows, told ahead of need, and what
 * peers have told of theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/peer.h"

#define KEYS_MIN_NS  (2 * SH_NS_PER_MS) /* news are told again, doubling */
#define KEYS_MAX_NS  SH_NS_PER_S
#define KEYS_GONE_NS SH_NS_PER_MS /* removals are told together, after this time */
#define KEYS_WAIT_S  1 /* a peer that has not answered by then does not use the keys either */
#define KEYS_SLACK   256

/* Returns the payload that passes on each of its paths. */
static size_t keys_payload_max(const struct sh_peer *peer)
{
	size_t max = SH_WIRE_MAX, one;
	uint32_t i;

	for (i = 0; i < peer->n_paths; i++) {
		one = peer->paths[i]->path ? sh_peer_room(peer->paths[i]) : max;
		max = one < max ? one : max;
	}
	return max;
}

/*
 * Returns the last entry that the peer knows: at least the one before the journal's present
 * beginning.
 */
static uint32_t keys_known(const struct sh_peer *peer)
{
	return peer->keys_acked > sh_peers.keys.before ? peer->keys_acked : sh_peers.keys.before;
}

uint32_t sh_keys_last(void)
{
	return sh_peers.keys.before + sh_peers.keys.n;
}

void sh_keys_send(struct sh_peer *peer, uint64_t now)
{
	uint32_t known = keys_known(peer);
	struct sh_wire_writer writer;
	uint8_t buf[SH_WIRE_MAX];
	int n;

	if (known >= sh_keys_last() || !peer->conns) {
		peer->keys_resend_at = 0;
		return;
	}
	sh_wire_begin(&writer, buf, keys_payload_max(peer), sh.instance, peer->instance);
	n = sh_wire_put_keys(&writer, known + 1,
			     sh_peers.keys.entries + (known - sh_peers.keys.before),
			     sh_keys_last() - known);
	if (n > 0)
		sh_peer_send_any(peer, buf, sh_wire_end(&writer));
	peer->keys_interval = peer->keys_interval ? peer->keys_interval * 2 : KEYS_MIN_NS;
	if (peer->keys_interval > KEYS_MAX_NS)
		peer->keys_interval = KEYS_MAX_NS;
	peer->keys_resend_at = now + peer->keys_interval;
}

void sh_keys_acked(struct sh_peer *peer, uint32_t seq)
{
	if (seq <= peer->keys_acked || seq > sh_keys_last())
		return;
	peer->keys_acked = seq;
	peer->keys_interval = 0;
	pthread_cond_broadcast(&sh.idle); /* sh_keys_wait */
	sh_keys_send(peer, sh_now_ns());
	if (peer->keys_waiting)
		sh_news_peer_keys_acked(peer);
}

/* Returns the maps, which readers find without the lock: they stay until the peer is forgotten. */
static struct sh_peer_rkeys *keys_of_nic(struct sh_peer *peer, uint8_t nic)
{
	struct sh_peer_rkeys *rkeys = peer->rkeys[nic];

	if (rkeys)
		return rkeys;
	rkeys = calloc(1, sizeof(*rkeys));
	atomic_store_explicit(&peer->rkeys[nic], rkeys, memory_order_release);
	return rkeys;
}

static struct sh_keymap *keys_map(struct sh_peer *peer, uint8_t nic, uint8_t replica)
{
	struct sh_peer_rkeys *rkeys = keys_of_nic(peer, nic);
	struct sh_keymap *map = rkeys ? rkeys->to[replica] : NULL;

	if (map || !rkeys)
		return map;
	map = malloc(sizeof(*map));
	if (!map)
		return NULL;
	sh_keymap_init(map);
	atomic_store_explicit(&rkeys->to[replica], map, memory_order_release);
	return map;
}

static bool keys_begin_anew(const struct sh_wire_key *key)
{
	return key->op == SH_WIRE_KEY_REMOVE && key->nic == SH_KEY_BEGIN_NIC;
}

/* Forgets all keys: the journal that begins anew does not name those that went away before. */
static void keys_forget(struct sh_peer *peer)
{
	struct sh_keymap *map;
	uint32_t i;

	for (i = 0; i < SH_MAX_NICS * SH_MAX_NICS; i++) {
		map = sh_peer_keys(peer, (uint8_t)(i / SH_MAX_NICS), (uint8_t)(i % SH_MAX_NICS));
		if (map)
			sh_keymap_clear(map);
	}
	sp_keys_changed();
}

static void keys_apply(struct sh_peer *peer, const struct sh_wire_key *key) SH_LOCKED
{
	struct sh_keymap *map;

	if (keys_begin_anew(key))
		keys_forget(peer);
	if (key->nic >= SH_MAX_NICS || key->backup_nic >= SH_MAX_NICS)
		return;
	map = keys_map(peer, key->nic, key->backup_nic);
	if (map && key->op == SH_WIRE_KEY_REMOVE)
		sh_keymap_remove(map, key->rkey);
	else if (!map || sh_keymap_put(map, key->rkey, key->backup_rkey))
		sh_error_once("no memory for a peer's memory keys: requests that need them wait");
	sp_keys_changed(); /* a put may have replaced one */
	sh_news_peer_key_told(peer, key->rkey);
}

static void keys_send_ack(struct sh_peer *peer)
{
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_keys_ack(&writer, peer->keys_heard);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}

/*
 * Applies entries of a peer's journal. One behind a gap is not for us, unless the journal begins
 * anew with it: then all valid keys follow.
 */
void sh_keys_heard(struct sh_peer *peer, const struct sh_wire_record *record)
{
	uint32_t i, seq, gap = 0;

	for (i = 0; i < record->keys.n; i++) {
		struct sh_wire_key key = sh_wire_key(record, i);

		seq = record->keys.first_seq + i;
		if (seq <= peer->keys_heard)
			continue; /* known already */
		if (seq != peer->keys_heard + 1 && !keys_begin_anew(&key)) {
			gap++;
			continue;
		}
		keys_apply(peer, &key);
		peer->keys_heard = seq;
	}
	if (gap) /* the peer takes us for an instance that knows more: before we forgot the peer, we
		  * did */
		sh_keys_ask(peer);
	else
		keys_send_ack(peer);
}

void sh_keys_ask(struct sh_peer *peer)
{
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_key_ask(&writer, peer->keys_heard + 1);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}

void sh_keys_asked(struct sh_peer *peer, uint32_t seq)
{
	if (!seq || seq > sh_keys_last() + 1)
		return;
	if (seq <= peer->keys_acked)
		peer->keys_acked = seq - 1;
	peer->keys_interval = 0;
	sh_keys_send(peer, sh_now_ns());
}

static int keys_reserve(uint32_t n)
{
	uint32_t capacity = sh_peers.keys.capacity ? sh_peers.keys.capacity : 256;
	struct sh_wire_key *grown;

	while (capacity < n)
		capacity *= 2;
	if (capacity == sh_peers.keys.capacity)
		return 0;
	grown = realloc(sh_peers.keys.entries, capacity * sizeof(*grown));
	if (!grown) {
		sh_error_once(
			"no memory for the list of memory keys: requests that use newer memory "
			"cannot be moved");
		return -ENOMEM;
	}
	sh_peers.keys.entries = grown;
	sh_peers.keys.capacity = capacity;
	return 0;
}

/*
 * Compacts the journal, as keys come and go for ever. Once most of it is about keys that are gone,
 * it begins anew, at the next number, with all valid keys; a mark tells peers that nothing before
 * is missing.
 */
static void keys_compact(void) SH_LOCKED
{
	struct sh_wire_key *first;

	if (sh_peers.keys.n <= 4 * sh_peers.keys.live + KEYS_SLACK ||
	    keys_reserve(sh_peers.keys.live + 2))
		return;
	sh_peers.keys.before += sh_peers.keys.n;
	first = sh_peers.keys.entries;
	*first = (struct sh_wire_key){ .op = SH_WIRE_KEY_REMOVE, .nic = SH_KEY_BEGIN_NIC };
	sh_peers.keys.n = 1 + sh_news_keys_live(first + 1, sh_peers.keys.live);
}

/* Tells all peers. One that was told and has not answered is told again by the clock. */
static void keys_tell(void) SH_LOCKED
{
	uint64_t now = sh_now_ns();
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link) {
		if (!peer->keys_resend_at || !peer->keys_interval)
			sh_keys_send(peer, now);
		sh_wake_at(peer->keys_resend_at);
	}
}

/*
 * Tells all peers a little later: nobody waits for that (sh_keys_wait), so no message is sent in
 * the application's thread.
 */
static void keys_tell_later(void) SH_LOCKED
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link) {
		if (!peer->keys_resend_at && peer->conns)
			peer->keys_resend_at = sh_now_ns() + KEYS_GONE_NS;
		sh_wake_at(peer->keys_resend_at);
	}
}

void sh_keys_add(const struct sh_wire_key *key)
{
	sh_peers.keys.live++;
	if (keys_reserve(sh_peers.keys.n + 1))
		return;
	sh_peers.keys.entries[sh_peers.keys.n++] = *key;
	keys_tell();
}

/* Adds a removal, while the region still has its shadow. The next removal may compact it away. */
void sh_keys_remove(const struct sh_wire_key *key)
{
	keys_compact();
	sh_peers.keys.live--;
	if (keys_reserve(sh_peers.keys.n + 1))
		return;
	sh_peers.keys.entries[sh_peers.keys.n++] = *key;
	sh_peers.keys.removed = sh_keys_last();
	keys_tell_later();
}

/* ---- keys that are given out again ----------------------------------------------------------- */

static bool keys_peer_stale(const struct sh_peer *peer, uint32_t rkey)
{
	uint32_t i;

	if (peer->keys_acked >= sh_peers.keys.removed)
		return false; /* keys that the peer has not heard of are new */
	if (peer->keys_acked < sh_peers.keys.before)
		return true;
	for (i = peer->keys_acked - sh_peers.keys.before; i < sh_peers.keys.n; i++)
		if (sh_peers.keys.entries[i].op == SH_WIRE_KEY_REMOVE &&
		    sh_peers.keys.entries[i].rkey == rkey)
			return true;
	return false;
}

static bool keys_stale(uint32_t rkey) SH_LOCKED
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		if (peer->conns && !peer->keys_silent && keys_peer_stale(peer, rkey) &&
		    sh_news_peer_translates(peer))
			return true;
	return false;
}

/*
 * Stops waiting for peers that were not heard since then: they are stopped or gone. One such peer
 * must not hold up each registration, as registrations concern all peers.
 */
static void keys_wait_no_more(uint32_t rkey, uint64_t since)
{
	struct sh_peer *peer;

	list_for_each (&sh_peers.list, peer, struct sh_peer, link)
		if (peer->conns && peer->heard_at < since && keys_peer_stale(peer, rkey))
			peer->keys_silent = true;
}

/* Tells the peer at once what it missed. */
void sh_keys_back(struct sh_peer *peer)
{
	peer->keys_silent = false;
	peer->keys_interval = 0;
	sh_keys_send(peer, sh_now_ns());
}

/*
 * Waits until peers know that the key's last region is gone: the kernel's driver gives the key of a
 * dead region to the next one. A peer that does not know would take the new key for the old one. A
 * request of its application, which has the key from ours, would be refused on the other NIC, or
 * write where it must not.
 */
void sh_keys_wait(uint32_t rkey)
{
	uint64_t since = sh_now_ns();
	struct timespec until;
	int ret = 0;

	if (!keys_stale(rkey))
		return;
	keys_tell();
	until = sh_until(KEYS_WAIT_S * SH_NS_PER_S);
	while (!ret && keys_stale(rkey))
		ret = sh_lock_wait_until(&sh.idle, &until);
	if (ret)
		keys_wait_no_more(rkey, since);
}
