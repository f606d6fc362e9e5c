/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The introduction: each end writes what it is under its default attributes into the KV, and reads
 * what the other end wrote. A store that does not answer costs protection, never the job.
 */
#include <errno.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/meet/ahead.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/intro_kv.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/spread.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/address.h"
#include "shiftlib/control/version.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/report/event.h"

/*
 * Time from RTR or RTS to the introduction: connections that come together wake the thread
 * once.
 */
#define INTRO_START_NS SH_NS_PER_MS
#define INTRO_MIN_NS   SH_NS_PER_MS
#define INTRO_FACTOR   4
/* the longest pause after a store that fails, or a wrong record */
#define INTRO_MAX_NS	  SH_NS_PER_S
#define INTRO_PATIENCE_NS (5 * SH_NS_PER_S) /* then it is said that the peer does not show up */
#define INTRO_OPEN_NS                                                                              \
	(2 * SH_NS_PER_S) /* a further backup that takes longer to open is told later */
#define INTRO_AGAIN_NS (5 * SH_NS_PER_S) /* an entry that nobody has answered is written again */
/* a store that lost all has the entries again by then */
#define INTRO_RARE_NS	  (30 * SH_NS_PER_S)
#define INTRO_NEWS_MIN_NS (10 * SH_NS_PER_MS) /* pause between looks at hints; doubles */
#define INTRO_NEWS_MAX_NS SH_NS_PER_S

struct sh_intros sh_intros;

/* ---- what was found ------------------------------------------------------------------------- */

static void intro_learn(struct sh_peer *peer, const struct kv_addr *addr) SH_LOCKED
{
	struct sh_address address = { 0 };

	if (addr->nic >= SH_MAX_NICS || !addr->ctrl_qpn)
		return;
	/*
	 * While it has connections it tells itself where it is: no record of one leads the
	 * others away.
	 */
	if (peer->conns && peer->heard_at && sh_peer_nic(peer, addr->nic)->revision)
		return;
	memcpy(address.gid, addr->gid, sizeof(address.gid));
	address.lid = addr->lid;
	address.link_layer = addr->link_layer;
	address.gid_index = addr->gid_index_hint;
	address.mtu = addr->mtu;
	address.qpn = addr->ctrl_qpn;
	address.qkey = addr->qkey;
	sh_peer_learn(peer, addr->nic, &address, addr->revision);
}

/* Path k leads from the k-th NIC here to the k-th there; both ends have those that both name. */
static void intro_routes(struct sh_qp *qp, struct sh_peer *peer,
			 const struct kv_record *record) SH_LOCKED
{
	uint32_t n = record->n_backup + 1u, k;

	qp->paths.n = n < qp->ctx->n_paths ? n : qp->ctx->n_paths;
	for (k = 0; k < record->n_addr; k++)
		intro_learn(peer, &record->addr[k]);
	for (k = 0; k < qp->paths.n; k++) {
		qp->paths.peer_nics[k] = k ? record->backup[k - 1] : record->default_nic;
		qp->paths.routes[k] = sh_peer_route(peer, qp->ctx->path[k], qp->paths.peer_nics[k]);
	}
}

/* A record that says to be of this process must be of one of its connections. */
static bool intro_not_forged(const struct kv_record *record) SH_LOCKED
{
	const struct sh_qp *own;

	if (record->instance != sh.instance)
		return true;
	own = sh_conns_find(record->conn_id);
	return own && own->nonce == record->nonce && own->qp->qp_num == record->qpn;
}

/* True if both ends mean each other: an entry may be left over from a job that was killed. */
static bool intro_matches(const struct sh_qp *qp, const struct kv_record *record) SH_LOCKED
{
	uint32_t i;

	if (!intro_not_forged(record))
		return false;
	for (i = 0; i < record->n_backup; i++)
		if (record->backup[i] >= SH_MAX_NICS)
			return false;
	return record->qpn == qp->app.attr.dest_qp_num && record->remote_qpn == qp->qp->qp_num &&
	       record->n_backup && record->default_nic < SH_MAX_NICS;
}

static void intro_ready(struct sh_qp *qp) SH_LOCKED;

static void intro_found(struct sh_qp *qp, const struct kv_record *record) SH_LOCKED
{
	struct sh_peer *peer;

	if (qp->peer && qp->peer->instance == record->instance &&
	    qp->other.conn == record->conn_id && qp->other.nonce == record->nonce)
		return;
	peer = sh_peer_get(record->instance);
	if (!peer)
		return;
	peer->caps = record->caps;
	sh_peer_serve(peer, &qp->app.attr.ah_attr);
	intro_routes(qp, peer, record);
	qp->other.conn = record->conn_id;
	qp->other.nonce = record->nonce;
	sh_paths_use_peer(qp, peer);
	sh_paths_changed(qp);
	intro_ready(qp);
}

static bool intro_any_route(const struct sh_qp *qp)
{
	uint32_t k;

	for (k = 1; k < qp->paths.n; k++)
		if (qp->paths.routes[k] && qp->paths.routes[k]->path)
			return true;
	return false;
}

/*
 * True if this end leads. The higher instance leads, and within a process the higher conn_id. A
 * connection that is its own peer leads itself: what it says comes back as the other end's
 * word.
 */
static bool intro_leads(const struct sh_qp *qp)
{
	if (qp->peer->instance != sh.instance)
		return sh.instance > qp->peer->instance;
	return qp->conn_id >= qp->other.conn;
}

/*
 * An entry that was left over may have named another instance, by whose number this end led, or
 * did not.
 */
static bool intro_core_knows(const struct sh_qp *qp)
{
	return qp->core.peer.introduced && qp->intro.introduced_to == qp->peer->instance;
}

/*
 * The core is told once both ends know each other and there is a way for a standby. That its peer
 * is another one than an old entry named, it is told before it hears a word of that peer: behind
 * that it would not change its leader any more.
 */
static void intro_ready(struct sh_qp *qp) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_INTRODUCED };

	if (sh_conn_hands_off(qp) || !qp->peer || intro_core_knows(qp) ||
	    (!qp->core.peer.introduced && !intro_any_route(qp)))
		return;
	qp->intro.introduced_to = qp->peer->instance;
	event.leader = intro_leads(qp);
	event.order = event.leader ? sh_spread_draw(qp) : 0;
	sh_conn_event(qp, &event);
}

static void intro_say_absent(struct sh_qp *qp) SH_LOCKED
{
	if (qp->intro.told || sh_now_ns() - qp->intro.since < INTRO_PATIENCE_NS)
		return;
	qp->intro.told = true;
	sh_level_set(qp, SH_DRIVEN, "its peer does not run SHIFT, or has not said so");
	sh_warn_once(
		"the peer of QP 0x%06x does not run SHIFT, or has not said so in this SHIFT_KV and "
		"SHIFT_JOB; not protected until it does",
		qp->qp->qp_num);
}

static void intro_say_kv(const char *error, int ret) SH_LOCKED
{
	if (ret && !sh_intros.said) {
		sh_intros.said = true;
		sh_event_kv(true);
		sh_log(SH_LOG_WARN,
		       "the KV cannot be used: %s; connections that are protected stay so, "
		       "new ones are not until it can",
		       *error ? error : strerror(-ret));
	} else if (!ret && sh_intros.said) {
		sh_intros.said = false;
		sh_event_kv(false);
		sh_log(SH_LOG_WARN, "the KV answers again");
	}
}

/* How often the entry must be renewed. */
static uint64_t intro_third_ns(void)
{
	return sh.config.lease_ms * SH_NS_PER_MS / 3;
}

static uint64_t intro_renew_ns(void)
{
	return sh_min_ns(intro_third_ns(), INTRO_AGAIN_NS);
}

/* The outcome of a look at the store. */
enum intro_found {
	INTRO_ABSENT,	/* the peer has no record */
	INTRO_UNCLEAR,	/* the peer has a record; the right one may follow it */
	INTRO_NO_STORE, /* the store did not answer */
};

/*
 * Put and look go to the store in order: whoever of two peers comes later finds the record of
 * the first, and speaks to it, with a number that only the record has (intro_news). So a few
 * looks are enough, ever further apart: at once and 1, 5, 21, 85, 341 ms, 1.4, 5.5, 21.8 s
 * after, nine times in 30 s; then only along with renewals (every 20 s), each time after four
 * times as long, five times more in a day. Most peers that are absent run without SHIFT. The
 * looks never end altogether, as records may be taken away by others.
 */
static uint64_t intro_interval_ns(const struct sh_qp *qp, enum intro_found found)
{
	uint64_t next = qp->intro.interval ? qp->intro.interval * INTRO_FACTOR : INTRO_MIN_NS;
	bool late = sh_now_ns() - qp->intro.since >= INTRO_RARE_NS;

	switch (found) {
	case INTRO_ABSENT: return next;
	case INTRO_UNCLEAR:
		return sh_min_ns(next, late ? intro_third_ns()
					    : sh_min_ns(intro_third_ns(), INTRO_MAX_NS));
	case INTRO_NO_STORE: return sh_min_ns(next, sh_min_ns(intro_third_ns(), INTRO_MAX_NS));
	}
	return next;
}

/* A look that is rare goes along with a renewal. */
static void intro_await(struct sh_qp *qp)
{
	uint64_t now = sh_now_ns(), look_at = qp->intro.look_at;

	if (now - qp->intro.since >= INTRO_RARE_NS)
		qp->intro.next_at = now + intro_third_ns();
	else
		qp->intro.next_at =
			sh_min_ns(look_at > now ? look_at : now, now + intro_renew_ns());
}

/* Begins again with short pauses. */
static void intro_anew(struct sh_qp *qp)
{
	qp->intro.since = sh_now_ns();
	qp->intro.interval = 0;
}

static void intro_next(struct sh_qp *qp, enum intro_found found)
{
	uint64_t now = sh_now_ns();

	if (qp->other.heard && qp->core.peer.introduced) {
		qp->intro.next_at = now + intro_third_ns();
		return;
	}
	qp->intro.interval = intro_interval_ns(qp, found);
	qp->intro.asked_at = now;
	qp->intro.next_at = qp->intro.look_at = now + qp->intro.interval;
	if (found == INTRO_ABSENT)
		intro_await(qp);
}

/* The store was not asked for the peer's record. */
static void intro_renewed(struct sh_qp *qp)
{
	if (qp->other.heard)
		intro_next(qp, INTRO_UNCLEAR);
	else
		intro_await(qp);
}

static void intro_check_at(struct sh_qp *qp, uint64_t at) SH_LOCKED
{
	sh_clock_touch(qp);
	qp->intro.look_at = at;
	qp->intro.next_at = sh_earlier_ns(qp->intro.next_at, at);
}

/* A hint: somebody has read this connection's entry, so its own entry is there by now. */
static void intro_news(struct sh_qp *qp) SH_LOCKED
{
	uint64_t now = sh_now_ns(), at = qp->intro.asked_at + qp->intro.news_interval;

	if (qp->other.heard || qp->intro.queued || qp->intro.waits ||
	    (qp->intro.look_at && qp->intro.look_at <= at))
		return;
	intro_check_at(qp, at > now ? at : now);
	qp->intro.news_interval =
		qp->intro.news_interval ? qp->intro.news_interval * 2 : INTRO_NEWS_MIN_NS;
	qp->intro.news_interval = sh_min_ns(qp->intro.news_interval, INTRO_NEWS_MAX_NS);
}

/* Connections whose peer is not there yet write and look anew. */
void sh_intro_contact(uint32_t contacts)
{
	bool anew = contacts && sh_intros.contacts && contacts != sh_intros.contacts;
	struct sh_qp *qp;

	sh_intros.contacts = contacts ? contacts : sh_intros.contacts;
	if (!anew)
		return;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || !qp->intro.published || qp->other.heard)
			continue;
		intro_anew(qp);
		qp->intro.put_again_at = 0;
		intro_check_at(qp, sh_now_ns());
	}
}

static const char *intro_refusal(const struct sh_intro_item *item) SH_LOCKED
{
	if (item->get_ret == -EPROTONOSUPPORT && item->peer.protocol)
		return sh_version_refusal(item->peer.protocol);
	return kv_refusal(item->get_ret);
}

/* A record that nobody should have written, or that we cannot read, protects nothing. */
static void intro_refuse(struct sh_qp *qp, const char *key, const char *why) SH_LOCKED
{
	if (!qp->peer)
		sh_level_set(qp, SH_DRIVEN, why);
	if (qp->intro.refused)
		return;
	qp->intro.refused = true;
	sh_log(SH_LOG_WARN, "the peer of QP 0x%06x is not believed: %s (key %s); %s",
	       qp->qp->qp_num, why, key,
	       qp->peer ? "its earlier record stays in use"
			: "not protected until the record is right");
}

void sh_intro_answer(struct sh_qp *qp, const struct sh_intro_item *item, const char *error)
{
	/* "not there" is an answer to a get; to a put it means a path that does not exist */
	const char *refusal = item->put_ret || !item->get ? NULL : intro_refusal(item);
	bool absent = !item->put_ret && item->get_ret == -ENOENT;
	int ret = item->put_ret ? item->put_ret : item->get_ret;
	int kv = absent || refusal ? 0 : ret;

	sh_clock_touch(qp);
	if (item->peer.protocol)
		qp->intro.peer_protocol = item->peer.protocol;
	sh_log(SH_LOG_DEBUG, "QP 0x%06x: KV: put %d, %s of %s: %d", qp->qp->qp_num, item->put_ret,
	       item->get ? "get" : "no get", item->peer_key, item->get_ret);
	intro_say_kv(error, kv);
	if (qp->intro.no_store && !kv)
		intro_anew(qp); /* nobody could know anything of it */
	qp->intro.no_store = kv;
	if (item->put && !item->put_ret) {
		qp->intro.published = true;
		qp->intro.put_again_at = sh_now_ns() + intro_renew_ns();
	}
	if (refusal)
		intro_refuse(qp, item->peer_key, refusal);
	else if (item->get && !ret && intro_matches(qp, &item->peer))
		intro_found(qp, &item->peer);
	else if (!qp->peer && !kv)
		intro_say_absent(qp);
	if (item->get || kv)
		intro_next(qp, kv ? INTRO_NO_STORE : absent ? INTRO_ABSENT : INTRO_UNCLEAR);
	else
		intro_renewed(qp);
}

/* ---- when ----------------------------------------------------------------------------------- */

bool sh_intro_fill(struct sh_qp *qp, struct sh_intro_item *item)
{
	*item = (struct sh_intro_item){ .conn_id = qp->conn_id, .nonce = qp->nonce };
	item->get = !qp->other.heard && sh_now_ns() >= qp->intro.look_at;
	/*
	 * The store may have lost it, or its lease ended: renewed, also before the peer shows
	 * up.
	 */
	item->put = !qp->intro.published || sh_now_ns() >= qp->intro.put_again_at;
	sh_intro_record(qp, &item->own);
	if (sh_intro_keys(qp, item) || !item->n_own) {
		sh_level_set(qp, SH_DRIVEN, "its address cannot be written as a key");
		return false;
	}
	if (item->put || item->get)
		return true;
	sh_clock_touch(qp);
	intro_renewed(qp);
	return false;
}

static void intro_ask(struct sh_qp *qp) SH_LOCKED
{
	if (sh_intro_gid_known(qp) &&
	    (sh_nics_on_vlan(qp->gid.vlan) || sh_now_ns() - qp->intro.since >= INTRO_OPEN_NS))
		sh_intro_line_up(qp);
	else if (!qp->intro.queued)
		intro_next(qp, INTRO_UNCLEAR);
}

/*
 * True if the NICs are open whose control addresses are introduced. NICs that open later are
 * told later.
 */
static bool intro_nics_open(struct sh_qp *qp) SH_LOCKED
{
	bool patient = sh_now_ns() - qp->intro.since < INTRO_OPEN_NS;
	const struct sh_ctx *ctx = qp->ctx;
	uint32_t k, n_open = 0, n_opening = 0;

	for (k = 1; k < ctx->n_paths; k++) {
		n_open += ctx->path[k]->state == SH_NIC_OPEN;
		n_opening += ctx->path[k]->state == SH_NIC_OPENING ||
			     (ctx->opens_more && ctx->path[k]->state == SH_NIC_CLOSED);
	}
	if (ctx->nic->state == SH_NIC_FAILED)
		sh_level_set(qp, SH_DRIVEN, ctx->nic->why);
	else if (!n_open && !n_opening)
		sh_level_set(qp, SH_DRIVEN, ctx->path[1]->why);
	if (n_opening && n_open)
		qp->intro.next_at = qp->intro.since + INTRO_OPEN_NS;
	return ctx->nic->state == SH_NIC_OPEN && n_open && !(n_opening && patient);
}

void sh_intro_start(struct sh_qp *qp)
{
	sh_clock_touch(qp);
	qp->intro.start_at = 0;
	if (!qp->intro.since)
		qp->intro.since = sh_now_ns();
	if (!intro_nics_open(qp))
		return; /* called again when one is, or by the timer */
	if (qp->peer)
		intro_ready(qp);
	else if (!qp->intro.queued)
		intro_ask(qp);
}

static void intro_timer(struct sh_qp *qp) SH_LOCKED
{
	qp->intro.next_at = 0;
	if (qp->intro.queued || !intro_nics_open(qp))
		return;
	intro_ready(qp);
	intro_ask(qp);
}

/* The entry ends with its lease in any case; this spares the next job a look at it. */
static void intro_withdraw(struct sh_qp *qp) SH_LOCKED
{
	char keys[2][KV_KEY_MAX + 1];
	int n = 0;

	sh_intro_line_remove(qp);
	if (qp->intro.published && !sh_intro_own_keys(qp, keys, &n))
		sh_intro_line_withdraw(qp->nonce, keys, n);
}

/* ---- the part -------------------------------------------------------------------------------- */

void sh_news_nic_opened(struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint8_t k;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (k = 0; qp->conn_id && k < qp->ctx->n_paths; k++)
			if (qp->ctx->path[k] == nic && !qp->intro.waits)
				sh_intro_start(qp);
	sh_kick();
}

static uint64_t intro_next_timer(const struct sh_qp *qp)
{
	return sh_earlier_ns(qp->intro.next_at, qp->intro.start_at);
}

static void intro_run(struct sh_qp *qp, uint64_t now) SH_LOCKED
{
	if (qp->intro.start_at && qp->intro.start_at <= now)
		sh_intro_start(qp);
	if (qp->intro.next_at && qp->intro.next_at <= now)
		intro_timer(qp);
}

static void intro_reset(struct sh_qp *qp)
{
	memset(&qp->intro, 0, sizeof(qp->intro));
	list_init(&qp->intro.line);
}

static void intro_connected(struct sh_qp *qp) SH_LOCKED
{
	if (sh_setup_on() && !qp->intro.since)
		sh_ahead_wait(qp);
	else
		qp->intro.start_at = sh_now_ns() + INTRO_START_NS;
}

const struct sh_conn_part sh_intro_part = {
	.name = "introduction",
	.life = { .reset = intro_reset, .connected = intro_connected, .leaves = intro_withdraw },
	.standby.path_opened = intro_ready,
	.news.hinted = intro_news,
	.clock = { .next_timer = intro_next_timer, .run = intro_run },
};
