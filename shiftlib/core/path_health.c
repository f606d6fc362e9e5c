/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <string.h>
#include "shiftlib/core/path_health.h"

#define SECOND_NS 1000000000ull
/* intervals in heartbeats: of pings to a path without work that is not steady yet; of a doubt */
#define CALM_BEATS  4
#define DOUBT_BEATS 2
/* parts of a heartbeat: until the second of a row of pings without an answer, and until the next */
#define SECOND_PART   4
#define HURRIED_PART  16
#define HURRIED_PINGS 12 /* so many pings of such a row are faster */
#define FALLS_MAX     63
#define SPARE_BEATS   20 /* longest time between two pings of a path that needs none */
#define HISTORY	      64 /* pings whose answers are remembered */
#define RECENT_BEATS  16 /* so long a fall says something of the present */

_Static_assert(SH_PATH_PER_S < SH_PATH_PINGS, "the limit is read out of the remembered times");
_Static_assert(SH_PATH_LOST_PINGS + (SH_PATH_MORE_PINGS + 1) * SH_PATH_BEFORE <= 64,
	       "as many are remembered as a verdict may need");
_Static_assert((SH_PATH_PINGS & (SH_PATH_PINGS - 1)) == 0, "sequence numbers wrap");

void sh_path_init(struct sh_path_health *path, const struct sh_path_config *config, uint32_t seq)
{
	memset(path, 0, sizeof(*path));
	path->config = config;
	path->seq = path->valid_seq = seq;
}

/* ---- hold-down ------------------------------------------------------------------------------ */

uint64_t sh_path_hold_ns(const struct sh_path_health *path)
{
	uint64_t hold = path->config->hold_min_ns, max = path->config->hold_max_ns;
	uint32_t i;

	for (i = 1; i < path->falls && hold < max; i++)
		hold = hold > max / 2 ? max : hold * 2;
	return hold;
}

static uint64_t path_steady_at(const struct sh_path_health *path)
{
	return path->up_at + sh_path_hold_ns(path);
}

bool sh_path_up(const struct sh_path_health *path)
{
	return path->state == SH_PATH_UP;
}

static bool path_unanswered(const struct sh_path_health *path, uint64_t now)
{
	return path->missed >= SH_PATH_FEW_PINGS &&
	       now - path->silent_since >= path->config->loss_ns;
}

/*
 * True if up for the whole hold-down. A silence within the hold-down breaks it; a later one counts
 * only once it is a fall.
 */
bool sh_path_steady(const struct sh_path_health *path, uint64_t now)
{
	return path->state == SH_PATH_UP && now >= path_steady_at(path) &&
	       !(path_unanswered(path, now) && path->silent_since < path_steady_at(path));
}

uint64_t sh_path_held_ns(const struct sh_path_health *path, uint64_t now)
{
	uint64_t at = path_steady_at(path);

	return path->state == SH_PATH_UP && at > now ? at - now : 0;
}

/* ---- states --------------------------------------------------------------------------------- */

static void path_forget_silence(struct sh_path_health *path)
{
	path->missed = 0;
	path->silent_since = 0;
}

/* Starts probing. Answers to earlier pings would tell of the path as it was. */
static void path_probe_anew(struct sh_path_health *path, uint64_t now)
{
	path->valid_seq = path->seq;
	path->answered = path->answering_since = 0;
	path->spared_at = path->completed_at = 0;
	path->probe_interval = path->config->probe_min_ns;
	path->probe_at = now;
	path_forget_silence(path);
}

static void path_count_fall(struct sh_path_health *path, uint64_t now)
{
	uint64_t calm = path->config->calm_ns ? (now - path->rose_at) / path->config->calm_ns : 0;

	path->falls -= calm < path->falls ? (uint32_t)calm : path->falls;
	if (path->falls < FALLS_MAX)
		path->falls++;
}

static void transition_off_to_probing(struct sh_path_health *path, uint64_t now)
{
	assert(path->state == SH_PATH_OFF);
	path->state = SH_PATH_PROBING;
	path_probe_anew(path, now);
}

static void transition_probing_to_off(struct sh_path_health *path)
{
	assert(path->state == SH_PATH_PROBING);
	path->state = SH_PATH_OFF;
}

static void transition_probing_to_up(struct sh_path_health *path, uint64_t now)
{
	assert(path->state == SH_PATH_PROBING);
	path->state = SH_PATH_UP;
	path->unanswered = 0;
	path->up_at = path->rose_at = now;
}

static void transition_up_to_probing(struct sh_path_health *path, uint64_t now)
{
	assert(path->state == SH_PATH_UP);
	path->state = SH_PATH_PROBING;
	path->fell_at = now;
	path->fell_since = path->missed ? path->silent_since : 0;
	path_count_fall(path, now);
	path_probe_anew(path, now);
}

/* A fall of long ago has nothing to do with the present. */
uint64_t sh_path_unanswered_since(const struct sh_path_health *path, uint64_t now)
{
	if (path->state == SH_PATH_UP)
		return path->missed ? path->silent_since : 0;
	return path->fell_at && now - path->fell_at < RECENT_BEATS * path->config->beat_ns
		       ? path->fell_since
		       : 0;
}

uint64_t sh_path_dark_since(const struct sh_path_health *path)
{
	uint64_t fell = path->fell_since ? path->fell_since : path->fell_at;

	if (path->state != SH_PATH_UP)
		return fell ? fell : 1;
	return path->missed >= SH_PATH_LOST_PINGS && path->config->heartbeat ? path->silent_since
									     : 0;
}

void sh_path_enable(struct sh_path_health *path, bool on, uint64_t now)
{
	if (on) {
		if (path->state == SH_PATH_OFF)
			transition_off_to_probing(path, now);
		return;
	}
	if (path->state == SH_PATH_UP)
		transition_up_to_probing(path, now);
	if (path->state == SH_PATH_PROBING)
		transition_probing_to_off(path);
}

void sh_path_fall(struct sh_path_health *path, uint64_t now)
{
	if (path->state == SH_PATH_UP)
		transition_up_to_probing(path, now);
}

void sh_path_blame(struct sh_path_health *path, uint64_t now)
{
	if (!sh_path_steady(path, now))
		return;
	path_count_fall(path, now);
	path->up_at = path->rose_at = now;
}

/*
 * Forgets the pings of a silence that came to no verdict: as losses of a path that lives, they
 * would make each later silence need more pings than there is time for.
 */
static void path_forget_pings(struct sh_path_health *path)
{
	if (path->missed < HISTORY)
		path->unanswered &= ~((1ull << path->missed) - 1);
	else
		path->unanswered = 0;
}

void sh_path_set_need(struct sh_path_health *path, enum sh_path_need need, uint64_t now)
{
	if (path->need == need)
		return;
	if (path->need == SH_PATH_UNUSED && path->state == SH_PATH_PROBING)
		path_probe_anew(path, now);
	path->need = need;
	if (path->state != SH_PATH_UP)
		return;
	/* no pings, no silence; an earlier one broke the hold-down */
	if (path_unanswered(path, now) && path->silent_since < path_steady_at(path))
		path->up_at = now;
	path_forget_pings(path);
	path_forget_silence(path);
}

/* ---- pings ---------------------------------------------------------------------------------- */

static uint64_t path_sent(const struct sh_path_health *path, uint32_t ago)
{
	return path->sent_at[(path->seq - ago) % SH_PATH_PINGS];
}

/*
 * Returns the earliest time of the next ping, whatever asks for it. Times of pings that never were
 * are 0.
 */
static uint64_t path_limit(const struct sh_path_health *path)
{
	uint64_t oldest = path_sent(path, SH_PATH_PER_S - 1);

	return oldest ? oldest + SECOND_NS : 0;
}

/*
 * Returns the time until the next ping of a path with work. The paths that may tell of a path in
 * doubt (hurried) keep pace with it.
 */
static uint64_t path_beat(const struct sh_path_health *path)
{
	uint64_t beat = path->config->beat_ns;

	if (path->missed >= HURRIED_PINGS)
		return beat;
	if (path->missed >= 2)
		return beat / HURRIED_PART;
	return path->missed || path->hurried ? beat / SECOND_PART : beat;
}

/*
 * Returns the time from a look that spared a ping to the next ping. Work that stops is followed at
 * once.
 */
static uint64_t path_after_work(const struct sh_path_health *path)
{
	bool soon = path->work == SH_PATH_WORKS || path->hurried;

	return soon ? path->config->beat_ns / SH_PATH_LOOKS : path->config->beat_ns;
}

/*
 * Returns the time when a ping is wanted; 0: none. The time of the last ping may be 0: none was
 * sent yet.
 */
static uint64_t path_wanted_at(const struct sh_path_health *path, uint64_t now)
{
	uint64_t last = path_sent(path, 0), beat = path->config->beat_ns;

	if (path->state == SH_PATH_OFF || path->need == SH_PATH_UNUSED)
		return 0;
	if (path->state == SH_PATH_PROBING)
		return path->probe_at;
	if (path->need == SH_PATH_BUSY && path->config->heartbeat)
		return path->spared_at > last ? path->spared_at + path_after_work(path)
					      : last + path_beat(path);
	if (!sh_path_steady(path, now))
		return last + CALM_BEATS * beat;
	if (!path->config->heartbeat)
		return 0;
	return path->joined_at > last ? path->joined_at : last + path->config->idle_ns;
}

static uint64_t path_ping_at(const struct sh_path_health *path, uint64_t now)
{
	uint64_t at = path_wanted_at(path, now), limit = path_limit(path);

	limit = limit < path->retry_at ? path->retry_at : limit;
	return at && at < limit ? limit : at;
}

/* True if the path is pinged only now and then, and nothing is in question. */
static bool path_at_rest(const struct sh_path_health *path, uint64_t now)
{
	return path->config->heartbeat && path->need == SH_PATH_IDLE && !path->missed &&
	       sh_path_steady(path, now);
}

void sh_path_join(struct sh_path_health *path, uint64_t now)
{
	if (path_at_rest(path, now) && now >= path_sent(path, 0) + path->config->idle_ns / 2)
		path->joined_at = now;
}

void sh_paths_join(struct sh_path_health *const *paths, uint32_t n, uint64_t now)
{
	bool due = false;
	uint32_t i;

	for (i = 0; i < n; i++)
		due |= path_at_rest(paths[i], now) && path_ping_at(paths[i], now) <= now;
	for (i = 0; due && i < n; i++)
		sh_path_join(paths[i], now);
}

/* True if work was under way at the look that spared a ping: the work stands for that ping. */
static bool path_spared_for_work(const struct sh_path_health *path, uint64_t now)
{
	return path->spared_at > path_sent(path, 1) && path->spared_at == path->completed_at &&
	       now - path->spared_at < 2 * path->config->beat_ns;
}

static void path_count_ping(struct sh_path_health *path, uint64_t now)
{
	if (!path->missed && path->work == SH_PATH_WORKS && path_spared_for_work(path, now)) {
		path->missed = 1;
		path->silent_since = path->spared_at;
	}
	if (!path->missed++ && !path->silent_since)
		path->silent_since = now;
}

static void path_next_probe(struct sh_path_health *path, uint64_t now)
{
	uint64_t max = path->config->probe_max_ns;

	path->probe_at = now + path->probe_interval;
	path->probe_interval = path->probe_interval > max / 2 ? max : path->probe_interval * 2;
}

bool sh_path_ping(struct sh_path_health *path, uint64_t now, uint32_t *seq)
{
	uint64_t at = path_ping_at(path, now);

	if (!at || now < at)
		return false;
	*seq = ++path->seq;
	path->unanswered = path->unanswered << 1 | 1;
	path->sent_at[path->seq % SH_PATH_PINGS] = now;
	if (path->state == SH_PATH_PROBING)
		path_next_probe(path, now);
	else
		path_count_ping(path, now);
	return true;
}

void sh_path_unsent(struct sh_path_health *path, uint64_t now)
{
	path->seq--;
	path->unanswered >>= 1;
	path->retry_at = now + SH_PATH_RETRY_NS;
	if (path->state == SH_PATH_PROBING) {
		path->probe_at = now;
		path->probe_interval = path->config->probe_min_ns;
	} else if (!--path->missed && path->silent_since == now) {
		path->silent_since = 0;
	}
}

/* True if an answer to the ping counts: sent since the path fell, and remembered. */
static bool path_knows(const struct sh_path_health *path, uint32_t seq)
{
	uint32_t ago = path->seq - seq;

	return ago < SH_PATH_PINGS && ago < path->seq - path->valid_seq;
}

uint64_t sh_path_trip_ns(const struct sh_path_health *path, uint32_t seq, uint64_t now)
{
	if (path->state == SH_PATH_OFF || !path_knows(path, seq))
		return 0;
	return now - path->sent_at[seq % SH_PATH_PINGS];
}

/* Ends the silence. Newer pings may be under way: the next silence, if any, begins now. */
static void path_end_silence(struct sh_path_health *path, uint32_t seq, uint64_t now)
{
	if (path_unanswered(path, now) && path->silent_since < path_steady_at(path))
		path->up_at = now;
	path_forget_silence(path);
	if (seq != path->seq)
		path->silent_since = now;
}

/*
 * Counts an answer. One answer may be lost; after a longer gap, the peer may just have been woken.
 * The time of the answer counts: pings may have lain in the queues of a stopped peer. A path that
 * needed no ping did not fail to answer.
 */
static void path_count_answer(struct sh_path_health *path, uint64_t now)
{
	uint64_t gap = (path->config->loss_ns + path->config->beat_ns) / 2;
	uint64_t last = path->answered > path->spared_at ? path->answered : path->spared_at;

	if (!path->answered || now - last > gap)
		path->answering_since = now;
	path->answered = now;
}

bool sh_path_pong(struct sh_path_health *path, uint32_t seq, uint64_t now)
{
	if (path->state == SH_PATH_OFF || !path_knows(path, seq))
		return false;
	path->unanswered &= ~(1ull << (path->seq - seq));
	path_count_answer(path, now);
	if (path->state == SH_PATH_UP) {
		path_end_silence(path, seq, now);
		return false;
	}
	transition_probing_to_up(path, now);
	return true;
}

void sh_path_heard(struct sh_path_health *path, uint64_t now)
{
	if (path->state != SH_PATH_PROBING)
		return;
	path->probe_interval = path->config->probe_min_ns;
	if (path->probe_at > path_sent(path, 0) + path->probe_interval)
		path->probe_at = path_sent(path, 0) + path->probe_interval;
	if (path->probe_at < now)
		path->probe_at = now;
}

void sh_path_held(struct sh_path_health *path, uint64_t now)
{
	if (path->missed && now - path->silent_since < SH_PATH_BEATS * path->config->beat_ns)
		path->held_at = now;
}

void sh_paths_hurry(struct sh_path_health *const *paths, uint32_t n)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < n; i++)
		any |= sh_path_suspect(paths[i]) && paths[i]->missed < HURRIED_PINGS;
	for (i = 0; i < n; i++)
		paths[i]->hurried = any;
}

/* ---- work ----------------------------------------------------------------------------------- */

void sh_path_set_work(struct sh_path_health *path, enum sh_path_work work, uint64_t now)
{
	path->work = work;
	if (work != SH_PATH_COMPLETES || path->state != SH_PATH_UP)
		return;
	path_end_silence(path, path->seq, now);
	path->completed_at = now;
}

/*
 * True if the path is in question, by a ping or by work that does not complete. Then all paths are
 * pinged, as they tell of each other.
 */
static bool path_in_question(const struct sh_path_health *path)
{
	if (path->state != SH_PATH_UP)
		return path->work != SH_PATH_NO_WORK;
	return path->silent_since || path->work == SH_PATH_WORKS;
}

/* Returns the time without a ping, not the same for all paths. */
static uint64_t path_spare_ns(const struct sh_path_health *path)
{
	return (SPARE_BEATS - path->seq % (SPARE_BEATS / 2)) * path->config->beat_ns;
}

static void path_spare(struct sh_path_health *path, uint64_t now)
{
	if (sh_path_steady(path, now) && now - path_sent(path, 0) < path_spare_ns(path))
		path->spared_at = now;
}

void sh_paths_spare(struct sh_path_health *const *paths, uint32_t n, uint64_t now)
{
	bool completes = false;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (path_in_question(paths[i]))
			return;
		completes |= paths[i]->work == SH_PATH_COMPLETES;
	}
	for (i = 0; i < n && completes; i++)
		path_spare(paths[i], now);
}

/* ---- silence -------------------------------------------------------------------------------- */

bool sh_path_suspect(const struct sh_path_health *path)
{
	return path->state == SH_PATH_UP && path->missed >= 2;
}

static uint64_t path_doubted_at(const struct sh_path_health *path)
{
	if (path->state != SH_PATH_UP || path->need != SH_PATH_IDLE || !path->missed ||
	    !path->config->heartbeat)
		return 0;
	return path->silent_since + DOUBT_BEATS * path->config->beat_ns;
}

bool sh_path_doubted(const struct sh_path_health *path, uint64_t now)
{
	uint64_t at = path_doubted_at(path);

	return at && now >= at;
}

bool sh_path_silent(const struct sh_path_health *path, uint64_t now)
{
	return path->state == SH_PATH_UP && path_unanswered(path, now);
}

/*
 * Returns the pings that this silence must have, to differ from the silences of a path that loses
 * packets. After a long silence some earlier pings are forgotten, and count as lost.
 */
static uint32_t path_lost_pings(const struct sh_path_health *path)
{
	uint32_t missed = path->missed < HISTORY ? path->missed : HISTORY;
	uint32_t known = HISTORY - missed < SH_PATH_BEFORE ? HISTORY - missed : SH_PATH_BEFORE;
	uint64_t before = known ? path->unanswered >> missed & ((1ull << known) - 1) : 0;
	uint32_t lost = (uint32_t)__builtin_popcountll(before) + SH_PATH_BEFORE - known;

	return SH_PATH_LOST_PINGS + SH_PATH_MORE_PINGS * lost;
}

/* Returns the pings of this silence sent before `then` or soon after, of those remembered. */
static uint32_t path_missed_by(const struct sh_path_health *path, uint64_t then)
{
	uint32_t most = path->missed < SH_PATH_PINGS ? path->missed : SH_PATH_PINGS, ago;

	for (ago = 0; ago < most; ago++)
		if (path_sent(path, ago) <= then + path->config->beat_ns)
			return path->missed - ago;
	return 0;
}

/* The limit of pings may have kept a path from being asked: its silence says nothing of now. */
static bool path_asked_lately(const struct sh_path_health *path, uint64_t loss, uint64_t now)
{
	uint32_t ago = 0;

	while (ago < SH_PATH_PINGS && path_sent(path, ago) + loss / 2 > now)
		ago++;
	return ago < SH_PATH_PINGS && path_sent(path, ago) + loss >= now;
}

/*
 * True if the path is lost. The silence counts from where the peer answers elsewhere without a gap:
 * a peer that was stopped, or could not be asked as this process was, gets the whole time to answer
 * here too. While the peer answers nowhere, a missing answer here says nothing. Without work, pings
 * are too rare for a verdict.
 */
bool sh_path_lost(const struct sh_path_health *path, const struct sh_path_health *other,
		  uint64_t now)
{
	uint64_t loss = path->config->loss_ns;
	uint64_t since = path->held_at > path->silent_since ? path->held_at : path->silent_since;

	if (!path->config->heartbeat || path->need != SH_PATH_BUSY || !sh_path_silent(path, now) ||
	    path_missed_by(path, other->answered) < path_lost_pings(path))
		return false;
	if (since < other->answering_since)
		since = other->answering_since;
	return now >= since + loss && other->answered >= since + loss / 2 &&
	       now <= other->answered + loss && path_asked_lately(path, loss, now);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t path_earlier(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

uint64_t sh_path_next(const struct sh_path_health *path, uint64_t now)
{
	uint64_t at = path_ping_at(path, now);

	if (path->state != SH_PATH_UP)
		return at;
	if (path_steady_at(path) > now)
		at = path_earlier(at, path_steady_at(path));
	if (path->missed && path->silent_since + path->config->loss_ns > now)
		at = path_earlier(at, path->silent_since + path->config->loss_ns);
	if (path->missed && path->held_at + path->config->loss_ns > now)
		at = path_earlier(at, path->held_at + path->config->loss_ns);
	if (path_doubted_at(path) > now)
		at = path_earlier(at, path_doubted_at(path));
	return at;
}
