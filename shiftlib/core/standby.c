/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The standby: the next carrier, made ahead of need. The leader chooses a path and a number; both
 * sides make a QP, tell its address, connect it and say READY. A side that is READY and has heard
 * READY is protected. A standby that fails or is lost is dropped at both ends, and the leader
 * chooses again with a higher number. One idempotent message carries all of this: the own phase,
 * the other side's phase as seen, and the paths of this side.
 */
#include "shiftlib/core/internal.h"

/* True if there is a standby, in whatever phase. */
static bool standby_is_here(const struct sc_conn *c)
{
	return c->standby.phase != SC_STANDBY_NONE && c->standby.phase != SC_STANDBY_FAILED;
}

/* ---- transitions ---------------------------------------------------------------------------- */

static void transition_any_to_making(struct sc_conn *c)
{
	SC_ASSERT(!standby_is_here(c));
	c->standby.phase = SC_STANDBY_MAKING;
}

static void transition_making_to_made(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase == SC_STANDBY_MAKING);
	c->standby.phase = SC_STANDBY_MADE;
}

static void transition_made_to_connecting(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase == SC_STANDBY_MADE);
	c->standby.phase = SC_STANDBY_CONNECTING;
}

static void transition_connecting_to_ready(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase == SC_STANDBY_CONNECTING);
	c->standby.phase = SC_STANDBY_READY;
}

static void transition_ready_to_none(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase == SC_STANDBY_READY);
	c->standby.phase = SC_STANDBY_NONE;
}

static void transition_any_to_failed(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase != SC_STANDBY_FAILED);
	c->standby.phase = SC_STANDBY_FAILED;
}

static void transition_any_to_none(struct sc_conn *c)
{
	SC_ASSERT(c->standby.phase != SC_STANDBY_NONE);
	c->standby.phase = SC_STANDBY_NONE;
}

/* ---- what there is -------------------------------------------------------------------------- */

bool sc_standby_ready(const struct sc_conn *c)
{
	return c->standby.phase == SC_STANDBY_READY && c->standby.peer == SC_STANDBY_READY;
}

bool sc_standby_ready_for(const struct sc_conn *c, uint32_t epoch)
{
	return c->standby.phase == SC_STANDBY_READY && c->standby.epoch == epoch;
}

/* True if a standby may be made: before a move, or for one that waits for it. */
static bool standby_may_make(const struct sc_conn *c)
{
	return c->peer.introduced && (c->move == SC_MOVE_NONE || c->move == SC_MOVE_STRANDED);
}

/* ---- the message ---------------------------------------------------------------------------- */

/* Returns the phase that the peer must have seen. CONNECTING is no news: the address was MADE's. */
static uint8_t standby_announced(const struct sc_conn *c)
{
	switch (c->standby.phase) {
	case SC_STANDBY_NONE: return SC_STANDBY_NONE;
	case SC_STANDBY_MAKING: return c->leader ? SC_STANDBY_MAKING : SC_STANDBY_NONE;
	case SC_STANDBY_MADE: return SC_STANDBY_MADE;
	case SC_STANDBY_CONNECTING: return SC_STANDBY_MADE;
	case SC_STANDBY_READY: return SC_STANDBY_READY;
	case SC_STANDBY_FAILED: return SC_STANDBY_FAILED;
	}
	return SC_STANDBY_NONE;
}

static bool standby_is_unseen(const struct sc_conn *c)
{
	return c->peer.introduced &&
	       (c->standby.seen < standby_announced(c) || c->standby.masks_seen != c->paths.no);
}

/*
 * True if the message goes over its own path only, to show that it works. Other news must arrive.
 */
static bool standby_own_path_only(const struct sc_conn *c)
{
	return c->standby.phase >= SC_STANDBY_MADE && c->standby.phase <= SC_STANDBY_READY &&
	       c->standby.masks_seen == c->paths.no;
}

static void standby_send(struct sc_frame *x, bool ask)
{
	const struct sc_conn *c = x->c;
	struct sc_action *a = sc_emit(x, SC_ACT_SEND_STANDBY);

	a->epoch = c->standby.epoch;
	a->path = c->standby.path;
	a->on = !standby_own_path_only(c);
	a->standby = (struct sc_msg_standby){
		.epoch = c->standby.epoch,
		.phase = c->standby.phase,
		.seen = c->standby.peer,
		.ask = ask,
		.lazy = c->config.lazy && !c->suspicious &&
			(!c->suspect || SC_MUTANT(DOUBT_UNTOLD)),
		.path = c->standby.path,
		.up = c->paths.up,
		.steady = c->paths.steady,
		.drained = c->paths.drained,
		.homed = c->paths.homed,
		.cannot = c->paths.cannot,
		.masks_no = c->paths.no,
		.masks_seen = c->peer.paths.no,
		.beyond = c->beyond,
		.stays = sc_stay_told(c),
		.order = c->leader ? c->standby.order : 0,
		.address = c->standby.local,
	};
}

void sc_standby_tell(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	standby_send(x, false);
	sc_backoff_start(&c->standby.resend_at, &c->standby.resend_interval, x->now,
			 sc_resend_first_ns(c));
}

static void standby_resend(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	/* a moving connection may wait for just this news, that there is another path */
	uint64_t times = sc_moving(c) ? 1 : SC_STANDBY_PATIENCE;

	if (!sc_due(c->standby.resend_at, x->now))
		return;
	c->standby.resend_at = 0;
	/* nobody listens with no path up: PATH_UP or PATHS sends it again */
	if (!standby_is_unseen(c) || !c->paths.up)
		return;
	standby_send(x, true);
	sc_backoff_next(&c->standby.resend_at, &c->standby.resend_interval, x->now,
			c->config.resend_max_ns * times);
}

void sc_standby_send_again(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!standby_is_unseen(c))
		return;
	standby_send(x, true);
	sc_backoff_start(&c->standby.resend_at, &c->standby.resend_interval, x->now,
			 sc_resend_first_ns(c));
}

/* ---- making --------------------------------------------------------------------------------- */

/*
 * Returns the limit for making a standby. Thousands of connections may stand in line for the same
 * NIC, and the mask tells of a path that dies. Only a connection that waits for its standby has no
 * time, except where the others wait as well.
 */
static uint64_t standby_making_ns(const struct sc_conn *c)
{
	if (!sc_moving(c))
		return c->config.standby_ns * SC_STANDBY_PATIENCE;
	return c->config.lazy ? c->config.deadline_ns : c->config.standby_ns;
}

static void standby_start(struct sc_frame *x, uint32_t epoch, uint8_t path)
{
	struct sc_conn *c = x->c;
	struct sc_action *a;

	transition_any_to_making(c);
	c->standby.epoch = epoch;
	c->standby.path = path;
	c->standby.peer = SC_STANDBY_NONE;
	c->standby.seen = SC_STANDBY_NONE;
	c->standby.both = false;
	c->standby.choose_at = 0;
	c->standby.deadline_at = c->leader ? x->now + standby_making_ns(c) : 0;
	a = sc_emit(x, SC_ACT_STANDBY_MAKE);
	a->epoch = epoch;
	a->path = path;
}

static void standby_try_connect(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	struct sc_action *a;

	if (c->standby.phase != SC_STANDBY_MADE || c->standby.peer < SC_STANDBY_MADE ||
	    c->standby.peer == SC_STANDBY_FAILED)
		return;
	transition_made_to_connecting(c);
	a = sc_emit(x, SC_ACT_STANDBY_CONNECT);
	a->epoch = c->standby.epoch;
	a->path = c->standby.path;
	a->address = c->standby.remote;
}

static void standby_try_protect(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!sc_standby_ready(c) || c->standby.both)
		return;
	c->standby.both = true;
	c->standby.deadline_at = 0;
	c->standby.choose_interval = 0;
	c->standby.avoid = 0;
	if (c->move == SC_MOVE_NONE)
		c->reason = SC_REASON_NONE;
	sc_guard(x, true);
	sc_report(x);
}

static void standby_drop(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->standby.deadline_at = 0;
	if (!standby_is_here(c))
		return;
	sc_emit(x, SC_ACT_STANDBY_DROP)->epoch = c->standby.epoch;
	if (sc_epoch_cmp(c->standby.epoch, c->lost) > 0)
		c->lost = c->standby.epoch;
	transition_any_to_failed(c);
	sc_switch_standby_gone(x);
}

static void standby_choose_later(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint64_t max = sc_moving(c) ? c->config.resend_max_ns : c->config.choose_max_ns;

	if (c->standby.choose_interval)
		sc_backoff_next(&c->standby.choose_at, &c->standby.choose_interval, x->now, max);
	else
		sc_backoff_start(&c->standby.choose_at, &c->standby.choose_interval, x->now,
				 c->config.choose_min_ns);
}

/* Gives up the standby. The peer is told, and the leader chooses another after a while. */
static void standby_give_up(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	if (reason != SC_REASON_PEER)
		c->standby.avoid |= (uint8_t)(1u << c->standby.path);
	standby_drop(x);
	if (!sc_moving(c))
		c->reason = reason;
	if (c->leader)
		standby_choose_later(x);
	sc_report(x);
	sc_standby_tell(x);
}

/* Asks the leader, which may have proposed a standby while this side was busy, or not yet there. */
void sc_standby_ask(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->leader || !c->peer.introduced)
		return;
	standby_send(x, true);
	sc_backoff_start(&c->standby.resend_at, &c->standby.resend_interval, x->now,
			 sc_resend_first_ns(c));
}

/*
 * Introduces the peer. Both ends speak at once: the other may wait for that to look for this end's
 * entry, and a leader that may rest has no standby to speak of. The peer changes where a leftover
 * entry had named an ended process, which said nothing; the leader may change with it.
 */
void sc_standby_introduced(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if ((c->peer.introduced && (c->peer.known || SC_MUTANT(LEFT_OVER_LEADS))) ||
	    c->move != SC_MOVE_NONE)
		return;
	standby_drop(x);
	c->standby.choose_at = 0;
	c->peer.introduced = true;
	c->leader = x->ev->leader;
	if (c->leader)
		c->standby.order = x->ev->order;
	sc_standby_ask(x);
	if (c->leader)
		sc_standby_tell(x);
	if (c->config.lazy)
		c->standby.rest_until = x->now + standby_making_ns(c);
}

static bool standby_is_about(const struct sc_frame *x)
{
	return standby_is_here(x->c) && x->ev->epoch == x->c->standby.epoch;
}

void sc_standby_made(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!standby_is_about(x) || c->standby.phase != SC_STANDBY_MAKING) {
		/* given up while being made, maybe long ago */
		if (!standby_is_about(x) && x->ev->epoch != c->epoch)
			sc_emit(x, SC_ACT_STANDBY_DROP)->epoch = x->ev->epoch;
		return;
	}
	transition_making_to_made(c);
	c->standby.local = x->ev->address;
	sc_standby_tell(x);
	standby_try_connect(x);
}

void sc_standby_connected(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (!standby_is_about(x) || c->standby.phase != SC_STANDBY_CONNECTING)
		return;
	transition_connecting_to_ready(c);
	sc_standby_tell(x);
	standby_try_protect(x);
}

void sc_standby_failed(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (standby_is_about(x) &&
	    (c->standby.phase == SC_STANDBY_MAKING || c->standby.phase == SC_STANDBY_CONNECTING))
		standby_give_up(x, x->ev->reason);
}

void sc_standby_lost(struct sc_frame *x)
{
	if (standby_is_about(x))
		standby_give_up(x, x->ev->reason ? x->ev->reason : SC_REASON_PORT);
}

void sc_standby_gone_at_peer(struct sc_frame *x, uint32_t epoch)
{
	if (standby_is_here(x->c) && sc_epoch_cmp(x->c->standby.epoch, epoch) <= 0)
		standby_give_up(x, SC_REASON_PEER);
}

/* Notes a doubt, told with the masks: a leader that may rest has to hear of it. */
void sc_standby_suspect(struct sc_frame *x, bool on)
{
	struct sc_conn *c = x->c;

	if (c->suspect == on)
		return;
	c->suspect = on;
	if (!c->config.lazy || !c->peer.introduced)
		return;
	c->paths.no++;
	sc_standby_tell(x);
}

/* ---- the leader's choice -------------------------------------------------------------------- */

static uint32_t standby_next_number(const struct sc_conn *c)
{
	uint32_t n = c->epoch;

	if (SC_MUTANT(EPOCH_AGAIN))
		return n + 1;
	if (sc_epoch_cmp(c->standby.epoch, n) > 0)
		n = c->standby.epoch;
	if (sc_epoch_cmp(c->lost, n) > 0)
		n = c->lost;
	if (sc_epoch_cmp(c->peer.lost, n) > 0)
		n = c->peer.lost;
	return n + 1;
}

/* True if another standby should replace the present one. */
static bool standby_replaces(const struct sc_conn *c, uint8_t path)
{
	if (path == c->standby.path)
		return false;
	if (!sc_paths_both_up(c, c->standby.path) || sc_paths_drained(c, c->standby.path))
		return true;
	return sc_paths_before(c, path, c->standby.path) && sc_paths_both_steady(c, path) &&
	       !sc_switching(c);
}

void sc_standby_choose(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	int path;

	if (!c->leader || !standby_may_make(c) || c->standby.choose_at)
		return;
	if (!standby_is_here(c) && (c->standby.rests || sc_rest_awaited(c)))
		return;
	path = sc_paths_choose(c);
	if (path < 0 && standby_is_here(c) && !sc_paths_both_up(c, c->standby.path))
		standby_give_up(x, SC_REASON_PORT);
	if (path < 0 || (standby_is_here(c) && !standby_replaces(c, (uint8_t)path)))
		return;
	standby_drop(x);
	standby_start(x, standby_next_number(c), (uint8_t)path);
	sc_standby_tell(x);
}

void sc_standby_timer(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (sc_due(c->standby.deadline_at, x->now)) {
		c->standby.deadline_at = 0;
		if (standby_is_here(c) && !sc_standby_ready(c))
			standby_give_up(x, SC_REASON_DEADLINE);
	}
	if (sc_due(c->standby.choose_at, x->now))
		c->standby.choose_at = 0;
	if (sc_due(c->standby.rest_until, x->now))
		c->standby.rest_until = 0;
	standby_resend(x);
}

/* ---- the peer's message --------------------------------------------------------------------- */

static bool standby_proposes(const struct sc_msg_standby *m)
{
	return m->phase != SC_STANDBY_NONE && m->phase != SC_STANDBY_FAILED;
}

/* Returns the leader's choice: this side may know less of the paths, or know it later. */
static uint8_t standby_adopted_path(const struct sc_conn *c, const struct sc_msg_standby *m)
{
	int own = SC_MUTANT(OTHER_PATH) ? sc_paths_choose(c) : -1;

	return own < 0 ? m->path : (uint8_t)own;
}

/* Adopts the leader's proposal: the leader has given up any earlier standby for it. */
static void standby_adopt(struct sc_frame *x)
{
	const struct sc_msg_standby *m = &x->ev->standby;
	struct sc_conn *c = x->c;

	standby_drop(x);
	if (standby_proposes(m)) {
		standby_start(x, m->epoch, standby_adopted_path(c, m));
		return;
	}
	if (c->standby.phase != SC_STANDBY_FAILED)
		transition_any_to_failed(c);
	c->standby.epoch = m->epoch;
	c->standby.seen = c->standby.peer = SC_STANDBY_NONE;
}

/* Records the peer's phase, which only rises in an epoch (FAILED is the highest). */
static void standby_record(struct sc_frame *x)
{
	const struct sc_msg_standby *m = &x->ev->standby;
	struct sc_conn *c = x->c;

	if (m->phase > c->standby.peer && m->phase <= SC_STANDBY_FAILED)
		c->standby.peer = (enum sc_standby_phase)m->phase;
	if (m->phase >= SC_STANDBY_MADE && m->phase <= SC_STANDBY_READY)
		c->standby.remote = m->address;
	if (m->seen > c->standby.seen)
		c->standby.seen = m->seen;
}

static void standby_take_phase(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	standby_record(x);
	if (c->standby.peer == SC_STANDBY_FAILED && standby_is_here(c)) {
		c->standby.avoid |= (uint8_t)(1u << c->standby.path);
		standby_give_up(x, SC_REASON_PEER);
		return;
	}
	standby_try_connect(x);
	standby_try_protect(x);
}

static bool standby_is_newer(const struct sc_conn *c, const struct sc_msg_standby *m)
{
	return m->phase != SC_STANDBY_NONE &&
	       (sc_epoch_cmp(m->epoch, c->standby.epoch) > 0 || SC_MUTANT(LOWER_STANDBY)) &&
	       sc_epoch_cmp(m->epoch, c->epoch) > 0;
}

/*
 * Answers the peer. STATE tells more if we have reached its epoch, left for it, or are busy with
 * it.
 */
static void standby_answer(struct sc_frame *x, bool news)
{
	const struct sc_msg_standby *m = &x->ev->standby;
	struct sc_conn *c = x->c;
	bool behind = standby_may_make(c) && m->epoch == c->standby.epoch &&
		      m->seen < standby_announced(c);

	if (!m->ask && !news && !behind)
		return;
	if (c->peer.introduced)
		standby_send(x, false);
	if (standby_proposes(m) && (!standby_may_make(c) || sc_epoch_cmp(m->epoch, c->epoch) <= 0))
		sc_state_send(x, false);
}

void sc_standby_message(struct sc_frame *x)
{
	const struct sc_msg_standby *m = &x->ev->standby;
	struct sc_conn *c = x->c;
	bool news;

	c->peer.known = true;
	c->peer.heard_at = x->now;
	c->peer.stays = (enum sc_stays)m->stays;
	news = sc_paths_heard(x, m);
	if (m->masks_seen == c->paths.no)
		c->standby.masks_seen = m->masks_seen;
	if (standby_may_make(c)) {
		if (standby_is_newer(c, m) && !c->leader)
			standby_adopt(x);
		if (m->epoch == c->standby.epoch && m->epoch != c->epoch)
			standby_take_phase(x);
	}
	if (!standby_is_unseen(c))
		c->standby.resend_at = 0;
	standby_answer(x, news);
	sc_state_hurry(x);
}

/* ---- for the move --------------------------------------------------------------------------- */

/* Hurries the standby: one begun before the fault gets no more time than one begun now. */
void sc_standby_hurry(struct sc_frame *x)
{
	struct sc_conn *c = x->c;
	uint64_t latest = x->now + standby_making_ns(c);

	c->standby.choose_at = c->standby.choose_interval = 0;
	c->standby.avoid = 0;
	if (c->standby.deadline_at > latest)
		c->standby.deadline_at = latest;
}

void sc_standby_use(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	transition_ready_to_none(c);
	c->standby.peer = SC_STANDBY_NONE;
	c->standby.seen = SC_STANDBY_NONE;
	c->standby.deadline_at = c->standby.choose_at = c->standby.choose_interval = 0;
}

void sc_standby_end(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	c->standby.resend_at = c->standby.deadline_at = c->standby.choose_at = 0;
	if (c->standby.phase == SC_STANDBY_NONE)
		return;
	if (c->standby.phase != SC_STANDBY_FAILED)
		sc_emit(x, SC_ACT_STANDBY_DROP)->epoch = c->standby.epoch;
	transition_any_to_none(c);
}
