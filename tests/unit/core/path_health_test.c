/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The health of control paths: tables of single rules, then a small world with random faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "shiftlib/core/path_health.h"
#include "tests/lib/random.h"

#define MS 1000000ull
#define S  1000000000ull

static const struct sh_path_config config = {
	.heartbeat = true,
	.beat_ns = 50 * MS,
	.loss_ns = 75 * MS,
	.idle_ns = 10 * S,
	.probe_min_ns = 20 * MS,
	.probe_max_ns = 1 * S,
	.hold_min_ns = 1 * S,
	.hold_max_ns = 120 * S,
	.calm_ns = 60 * S,
};

/* A path that is up since 1 s, idle. */
static struct sh_path_health path_made_up(void)
{
	struct sh_path_health path;
	uint32_t seq;

	sh_path_init(&path, &config, 0xfffffff0);
	sh_path_set_need(&path, SH_PATH_IDLE, 1 * S);
	sh_path_enable(&path, true, 1 * S);
	assert_true(sh_path_ping(&path, 1 * S, &seq));
	assert_true(sh_path_pong(&path, seq, 1 * S));
	return path;
}

/* Pings whenever it is due until `until`; how often. */
static uint32_t path_run(struct sh_path_health *path, uint64_t from, uint64_t until)
{
	uint64_t now, next;
	uint32_t seq, n = 0;

	for (now = from; now && now < until; now = next) {
		n += sh_path_ping(path, now, &seq);
		next = sh_path_next(path, now);
		if (next && next <= now)
			fail_msg("its clock does not advance");
	}
	return n;
}

/* The same, with an answer to each ping at once. */
static void path_live(struct sh_path_health *path, uint64_t from, uint64_t until)
{
	uint64_t now;
	uint32_t seq;

	for (now = from; now < until; now += 10 * MS)
		if (sh_path_ping(path, now, &seq))
			sh_path_pong(path, seq, now);
}

static void test_rises(void **state)
{
	struct sh_path_health path;
	uint32_t seq;

	sh_path_init(&path, &config, 7);
	assert_int_equal(sh_path_next(&path, 0), 0);
	sh_path_enable(&path, true, 5 * MS);
	assert_int_equal(sh_path_next(&path, 5 * MS), 0); /* nobody needs it */
	sh_path_set_need(&path, SH_PATH_IDLE, 6 * MS);
	assert_int_equal(sh_path_next(&path, 6 * MS), 6 * MS);
	assert_true(sh_path_ping(&path, 6 * MS, &seq));
	assert_int_equal(seq, 8);
	assert_false(sh_path_ping(&path, 7 * MS, &seq));
	assert_false(sh_path_pong(&path, 7, 7 * MS)); /* of an earlier life */
	assert_false(sh_path_pong(&path, 9, 7 * MS)); /* never sent */
	assert_false(sh_path_up(&path));
	assert_true(sh_path_pong(&path, 8, 7 * MS));
	assert_true(sh_path_up(&path));
	assert_false(sh_path_pong(&path, 8, 8 * MS)); /* doubled: harmless */
	assert_false(sh_path_steady(&path, 7 * MS + S - 1));
	assert_true(sh_path_steady(&path, 7 * MS + S));
}

/* Often at first, then once a second, for ever. */
static void test_probes_for_ever(void **state)
{
	struct sh_path_health path;

	sh_path_init(&path, &config, 0);
	sh_path_set_need(&path, SH_PATH_IDLE, 1 * S);
	sh_path_enable(&path, true, 1 * S);
	assert_in_range(path_run(&path, 1 * S, 2 * S), 5, 8);
	assert_in_range(path_run(&path, sh_path_next(&path, 2 * S), 3600 * S), 3590, 3600);
}

/* How often it is pinged, with an answer to each. */
static uint32_t path_answered(struct sh_path_health *path, uint64_t from, uint64_t until)
{
	uint32_t before = path->seq;
	uint64_t now, next;

	for (now = from; now && now < until; now = next) {
		path_live(path, now, now + 1);
		assert_false(sh_path_doubted(path, now));
		next = sh_path_next(path, now);
	}
	return path->seq - before;
}

static void test_idle_is_asked_now_and_then(void **state)
{
	struct sh_path_config silent = config;
	struct sh_path_health path = path_made_up();

	path_live(&path, 1 * S, 3 * S); /* until it is steady */
	assert_in_range(path_answered(&path, 3 * S, 3600 * S), 358, 361);
	silent.heartbeat = false;
	path.config = &silent;
	assert_int_equal(sh_path_next(&path, 3600 * S), 0);
	path.config = &config;
	sh_path_set_need(&path, SH_PATH_BUSY, 3600 * S);
	assert_int_equal(path_run(&path, 3600 * S, 3601 * S), 30); /* ten of them faster */
	sh_path_set_need(&path, SH_PATH_UNUSED, 3601 * S);
	assert_int_equal(sh_path_next(&path, 3601 * S), 0);
}

/* Two ends, three paths each, made at other times: they wake together, no oftener. */
static void test_pings_without_work_go_together(void **state)
{
	struct sh_path_health path[2][3];
	struct sh_path_health *paths[2][3];
	uint32_t pings = 0, wakes = 0, seq, end, i;
	uint64_t now, hour = 3600 * S;
	bool woke;

	for (end = 0; end < 2; end++)
		for (i = 0; i < 3; i++) {
			path[end][i] = path_made_up();
			path_live(&path[end][i], 1 * S, (3 + 3 * i + 2 * end) * S);
			paths[end][i] = &path[end][i];
		}
	for (now = 15 * S; now < hour; now += 10 * MS)
		for (end = 0; end < 2; end++) {
			sh_paths_join(paths[end], 3, now);
			woke = false;
			for (i = 0; i < 3; i++) {
				if (!sh_path_ping(paths[end][i], now, &seq))
					continue;
				sh_path_join(paths[!end][i], now);
				sh_path_pong(paths[end][i], seq, now);
				woke = true;
				pings++;
			}
			wakes += woke;
		}
	assert_in_range(pings, 6 * 357, 6 * 361);
	assert_in_range(wakes, 2 * 357, 2 * 361);
}

/* In question or at work, a ping keeps its own time; and so does one that was sent just now. */
static void test_only_rest_is_joined(void **state)
{
	struct sh_path_health path = path_made_up();
	uint32_t seq;

	path_live(&path, 1 * S, 3 * S);
	path_live(&path, 3 * S, 12 * S);
	sh_path_join(&path, 13 * S); /* the last was less than half the time ago */
	assert_false(sh_path_ping(&path, 13 * S, &seq));
	sh_path_join(&path, 17 * S);
	assert_true(sh_path_ping(&path, 17 * S, &seq));
	sh_path_join(&path, 23 * S); /* unanswered */
	assert_false(sh_path_ping(&path, 23 * S, &seq));
	assert_false(sh_path_pong(&path, seq, 23 * S));
	sh_path_join(&path, 23 * S);
	assert_true(sh_path_ping(&path, 23 * S, &seq));
	assert_false(sh_path_ping(&path, 23 * S, &seq));
}

/* One ping without an answer is enough to ask more. */
static void test_idle_is_doubted(void **state)
{
	struct sh_path_health path = path_made_up();
	uint64_t asked;
	uint32_t seq;

	path_live(&path, 1 * S, 3 * S);
	asked = sh_path_next(&path, 3 * S);
	assert_in_range(asked, 10 * S, 13 * S);
	assert_true(sh_path_ping(&path, asked, &seq));
	assert_false(sh_path_doubted(&path, asked + 100 * MS - 1));
	assert_in_range(sh_path_next(&path, asked + 80 * MS), asked + 80 * MS, asked + 100 * MS);
	assert_true(sh_path_doubted(&path, asked + 100 * MS));
	assert_true(sh_path_up(&path)); /* and steady: a doubt is no verdict */
	assert_true(sh_path_steady(&path, asked + 100 * MS));
	/* Its owner asks, as if there were work: then there is one. */
	sh_path_set_need(&path, SH_PATH_BUSY, asked + 100 * MS);
	assert_false(sh_path_doubted(&path, asked + 100 * MS));
	path_run(&path, asked + 100 * MS, asked + 300 * MS);
	assert_true(sh_path_silent(&path, asked + 300 * MS));
	/* Nobody answers anywhere, and it is left: no doubt until the next time. */
	sh_path_set_need(&path, SH_PATH_IDLE, asked + 700 * MS);
	assert_false(sh_path_doubted(&path, asked + 700 * MS));
	path_live(&path, asked + 700 * MS, asked + 3 * S); /* the silence broke its hold-down */
	asked = sh_path_next(&path, asked + 3 * S);
	assert_true(sh_path_ping(&path, asked, &seq));
	sh_path_pong(&path, seq, asked + 99 * MS);
	assert_false(sh_path_doubted(&path, asked + 100 * MS));
}

/*
 * A look into a doubt that comes to no verdict, as the other path answers with gaps just then. The
 * pings of that look were no losses of a path that lives: the next look needs no more of them.
 */
static void test_doubt_without_verdict(void **state)
{
	struct sh_path_health a = path_made_up(), b = path_made_up();
	uint64_t now, ask_until = 0, dead = 3 * S;
	uint32_t seq, looks = 0;

	path_live(&a, 1 * S, dead);
	path_live(&b, 1 * S, dead);
	for (now = dead; !sh_path_lost(&a, &b, now); now += MS) {
		enum sh_path_need need = ask_until > now ? SH_PATH_BUSY : SH_PATH_IDLE;

		if (now > 120 * S)
			fail_msg("not found by %u looks", looks);
		sh_path_set_need(&a, need, now);
		sh_path_set_need(&b, need, now);
		(void)sh_path_ping(&a, now, &seq);
		if (sh_path_ping(&b, now, &seq) && (looks != 1 || seq % 4 == 0))
			sh_path_pong(&b, seq, now);
		if (sh_path_doubted(&a, now)) {
			ask_until = now + 600 * MS;
			looks++;
		}
	}
	assert_int_equal(looks, 2);
}

/* As another path would be that has answered from `since` to `until`. */
static struct sh_path_health path_answering(uint64_t since, uint64_t until)
{
	struct sh_path_health path = path_made_up();

	path.answering_since = since;
	path.answered = until;
	return path;
}

static bool lost(const struct sh_path_health *path, uint64_t since, uint64_t until, uint64_t now)
{
	struct sh_path_health other = path_answering(since, until);

	return sh_path_lost(path, &other, now);
}

static void test_lost(void **state)
{
	struct sh_path_health path = path_made_up();
	const uint64_t t = 10 * S, found = t + 75 * MS;

	sh_path_set_need(&path, SH_PATH_BUSY, t);
	path_run(&path, t, found);
	assert_true(sh_path_suspect(&path));
	assert_false(sh_path_silent(&path, found - 1));
	assert_false(lost(&path, t, found - 1, found - 1));
	assert_true(sh_path_silent(&path, found));
	assert_true(lost(&path, t, t + 38 * MS, found));
	assert_true(lost(&path, 1 * S, found, found));
	/* The peer was alive, but maybe not since. */
	assert_false(lost(&path, 0, 0, found));
	assert_false(lost(&path, 1 * S, t + 37 * MS, found));
	/* It answers again after a gap: then it has its time here too. */
	assert_false(lost(&path, t + 25 * MS, found, found));
	assert_false(lost(&path, t + 25 * MS, t + 75 * MS, found + 25 * MS - 1));
	assert_true(lost(&path, t + 25 * MS, t + 75 * MS, found + 25 * MS));
	/* Nor is it its silence what the own port does not send; but not for ever. */
	sh_path_held(&path, found);
	/* What was not asked lately is not lost now: the limit of pings may have kept it from that. */
	assert_false(lost(&path, 1 * S, found + 75 * MS, found + 75 * MS));
	path_run(&path, found, found + 75 * MS);
	assert_false(lost(&path, 1 * S, found + 74 * MS, found + 74 * MS));
	assert_true(lost(&path, 1 * S, found + 75 * MS, found + 75 * MS));
	path_run(&path, found + 75 * MS, t + 200 * MS);
	sh_path_held(&path, t + 200 * MS);
	assert_true(lost(&path, 1 * S, t + 200 * MS, t + 200 * MS));
	assert_true(sh_path_up(&path)); /* the judge is somebody else */
	sh_path_fall(&path, found);
	assert_false(sh_path_up(&path));
	assert_false(sh_path_pong(&path, path.seq, found + MS)); /* late: of before */
	assert_false(sh_path_up(&path));
}

/* A row of answers: one ping may be lost. */
static void test_gap(void **state)
{
	struct sh_path_health path = path_made_up();
	uint64_t now;
	uint32_t seq, n = 0;

	sh_path_set_need(&path, SH_PATH_BUSY, 10 * S);
	path.hurried = true; /* as it is while another path is in doubt */
	for (now = 10 * S; now < 10 * S + 125 * MS; now += 12500000) {
		assert_true(sh_path_ping(&path, now, &seq));
		if (n++ % 2 == 0)
			sh_path_pong(&path, seq, now);
	}
	assert_int_equal(path.answering_since, 10 * S);
	assert_int_equal(path.answered, 10 * S + 100 * MS);
	path_run(&path, now, now + 50 * MS);
	now += 50 * MS;
	while (!sh_path_ping(&path, now, &seq))
		now += MS;
	sh_path_pong(&path, seq, now);
	assert_int_equal(path.answering_since, now);
}

static void test_late_answers_are_answers(void **state)
{
	struct sh_path_health path = path_made_up();
	uint64_t now;
	uint32_t seq, first;

	sh_path_set_need(&path, SH_PATH_BUSY, 10 * S);
	first = path.seq + 1;
	for (now = 10 * S; now < 12 * S; now += 50 * MS) {
		assert_true(sh_path_ping(&path, now, &seq));
		assert_false(lost(&path, 1 * S, now, now));
		if (now >= 10 * S + 150 * MS) /* each comes after three more were sent */
			sh_path_pong(&path, first++, now + MS);
	}
}

/* A path of a process that was stopped: one ping of long ago, and one of just now. */
static void test_own_stop(void **state)
{
	struct sh_path_health path = path_made_up();
	uint32_t seq;

	sh_path_set_need(&path, SH_PATH_BUSY, 10 * S);
	assert_true(sh_path_ping(&path, 10 * S, &seq));
	assert_true(sh_path_ping(&path, 20 * S, &seq));
	assert_false(lost(&path, 20 * S, 20 * S, 20 * S + 10 * MS));
}

static void test_without_heartbeat(void **state)
{
	struct sh_path_config quiet = config;
	struct sh_path_health path = path_made_up();

	quiet.heartbeat = false;
	path.config = &quiet;
	path_live(&path, 1 * S, 3 * S);
	sh_path_set_need(&path, SH_PATH_BUSY, 10 * S);
	assert_int_equal(path_run(&path, 10 * S, 20 * S), 0);
	sh_path_enable(&path, false, 20 * S);
	sh_path_enable(&path, true, 21 * S);
	assert_in_range(path_run(&path, 21 * S, 22 * S), 5, 8);
}

static void path_fall_and_rise(struct sh_path_health *path, uint64_t fall, uint64_t rise)
{
	uint32_t seq;

	sh_path_enable(path, false, fall);
	assert_false(sh_path_up(path));
	sh_path_enable(path, true, rise);
	assert_true(sh_path_ping(path, rise, &seq));
	assert_true(sh_path_pong(path, seq, rise));
}

static void test_hold_doubles(void **state)
{
	struct sh_path_health path = path_made_up();
	const uint64_t holds[] = { 1, 2, 4, 8, 16, 32, 64, 120, 120, 120 };
	uint64_t now = 10 * S;
	unsigned int i;

	for (i = 0; i < sizeof(holds) / sizeof(holds[0]); i++, now += 10 * S) {
		path_fall_and_rise(&path, now, now + S);
		assert_int_equal(sh_path_hold_ns(&path), holds[i] * S);
		assert_false(sh_path_steady(&path, now + S + holds[i] * S - 1));
		assert_true(sh_path_steady(&path, now + S + holds[i] * S));
	}
	assert_int_equal(path.falls, 10);
	path_fall_and_rise(&path, now + 240 * S, now + 250 * S); /* four times calm */
	assert_int_equal(path.falls, 7);
	assert_int_equal(sh_path_hold_ns(&path), 64 * S);
	path_fall_and_rise(&path, now + 10000 * S, now + 10001 * S);
	assert_int_equal(sh_path_hold_ns(&path), 1 * S);
	for (i = 0; i < 1000; i++)
		path_fall_and_rise(&path, now + 20000 * S + i * S, now + 20000 * S + i * S + 1);
	assert_int_equal(sh_path_hold_ns(&path), 120 * S);
}

/* The other end is not there yet: silence in the hold-down begins it anew, and is no fall. */
/* Answered, but not to be trusted; many connections tell of one fault. */
static void test_blame(void **state)
{
	struct sh_path_health path = path_made_up();

	path_live(&path, 1 * S, 3 * S);
	assert_true(sh_path_steady(&path, 3 * S));
	sh_path_blame(&path, 3 * S);
	sh_path_blame(&path, 3 * S);
	sh_path_blame(&path, 3 * S + MS);
	assert_true(sh_path_up(&path));
	assert_false(sh_path_steady(&path, 3 * S + MS));
	assert_int_equal(path.falls, 1);
	assert_true(sh_path_steady(&path, 4 * S));
	sh_path_blame(&path, 4 * S);
	assert_int_equal(path.falls, 2);
	assert_false(sh_path_steady(&path, 5 * S));
	assert_true(sh_path_steady(&path, 6 * S));
}

static void test_hold_is_broken_by_silence(void **state)
{
	struct sh_path_health path = path_made_up();
	uint32_t seq;

	path_run(&path, 1 * S + MS, 4 * S);
	assert_false(sh_path_steady(&path, 4 * S));
	/* Work or none: it is asked until it is steady, however late the answer comes. */
	assert_in_range(sh_path_next(&path, 4 * S), 4 * S, 4 * S + 200 * MS);
	assert_true(sh_path_up(&path));
	seq = path.seq;
	sh_path_pong(&path, seq, 4 * S);
	assert_int_equal(path.falls, 0);
	assert_false(sh_path_steady(&path, 5 * S - 1));
	path_live(&path, 4 * S, 5 * S);
	assert_true(sh_path_steady(&path, 5 * S));
	/* Later silence is for the judge: it may be the peer that is slow. */
	sh_path_set_need(&path, SH_PATH_BUSY, 6 * S);
	path_run(&path, 6 * S, 9 * S);
	assert_true(sh_path_silent(&path, 9 * S));
	assert_true(sh_path_steady(&path, 9 * S));
}

/* A ping that found no room was none: neither missed nor lost. */
static void test_unsent(void **state)
{
	struct sh_path_health path = path_made_up();
	uint64_t now = 10 * S;
	uint32_t seq, i, before = path.seq;

	sh_path_set_need(&path, SH_PATH_BUSY, now);
	for (i = 0; i < 1000; i++, now = sh_path_next(&path, now)) {
		assert_true(sh_path_ping(&path, now, &seq));
		sh_path_unsent(&path, now);
		assert_false(sh_path_ping(&path, now, &seq));
		assert_in_range(sh_path_next(&path, now), now + 1, now + SH_PATH_RETRY_NS);
	}
	assert_false(sh_path_suspect(&path));
	assert_int_equal(sh_path_unanswered_since(&path, now), 0);
	assert_true(sh_path_ping(&path, now, &seq));
	assert_int_equal(seq, before + 1);
	assert_int_equal(sh_path_unanswered_since(&path, now), now);
	sh_path_pong(&path, seq, now + MS);
	assert_int_equal(path.answered, now + MS);
	/* One that is unanswered stays so. */
	path_run(&path, now + MS, now + 60 * MS);
	now = sh_path_next(&path, now + 60 * MS);
	assert_true(sh_path_ping(&path, now, &seq));
	sh_path_unsent(&path, now);
	assert_int_equal(path.missed, 1);
	/* Nor do probes get rare by it. */
	sh_path_fall(&path, now);
	for (i = 0; i < 100; i++, now = sh_path_next(&path, now)) {
		assert_true(sh_path_ping(&path, sh_path_next(&path, now), &seq));
		sh_path_unsent(&path, now);
	}
	assert_in_range(path_run(&path, now, now + S), 5, 8);
}

/* The peer's ping says that the way may be open now. */
static void test_heard(void **state)
{
	struct sh_path_health path;
	uint64_t now = 1 * S;
	uint32_t seq;

	sh_path_init(&path, &config, 0);
	sh_path_set_need(&path, SH_PATH_IDLE, now);
	sh_path_enable(&path, true, now);
	path_run(&path, now, 100 * S);
	now = 100 * S;
	assert_true(sh_path_next(&path, now) > now);
	sh_path_heard(&path, now + 500 * MS);
	assert_true(sh_path_ping(&path, now + 500 * MS, &seq));
	assert_true(sh_path_next(&path, now + 500 * MS) <= now + 520 * MS);
}

/* ---- work ----------------------------------------------------------------------------------- */

/* Two paths to a peer: work on the first, for which the second one stands by. */
struct pair {
	struct sh_path_health path[2];
	uint64_t look_at;
	uint32_t pings[2];
};

static struct pair pair_made_up(uint64_t now)
{
	struct pair pair = { .path = { path_made_up(), path_made_up() }, .look_at = now };

	sh_path_set_need(&pair.path[0], SH_PATH_BUSY, now);
	sh_path_set_need(&pair.path[1], SH_PATH_BUSY, now);
	return pair;
}

static void pair_look(struct pair *pair, enum sh_path_work work, uint64_t now)
{
	struct sh_path_health *const paths[] = { &pair->path[0], &pair->path[1] };

	if (now < pair->look_at)
		return;
	pair->look_at = now + config.beat_ns / SH_PATH_LOOKS;
	sh_path_set_work(paths[0], work, now);
	sh_paths_spare(paths, 2, now);
}

/* Answers take a millisecond. */
static void pair_ping(struct pair *pair, uint32_t i, bool answered, uint64_t now)
{
	uint32_t seq;

	if (!sh_path_ping(&pair->path[i], now, &seq))
		return;
	pair->pings[i]++;
	if (answered)
		sh_path_pong(&pair->path[i], seq, now + MS);
}

static void pair_run(struct pair *pair, enum sh_path_work work, uint64_t from, uint64_t until)
{
	uint64_t now;

	for (now = from; now < until; now += MS) {
		pair_look(pair, work, now);
		pair_ping(pair, 0, true, now);
		pair_ping(pair, 1, true, now);
	}
}

static void test_work_spares_pings(void **state)
{
	struct pair pair = pair_made_up(10 * S);

	pair_run(&pair, SH_PATH_COMPLETES, 10 * S, 110 * S);
	assert_in_range(pair.pings[0], 90, 200);
	assert_in_range(pair.pings[1], 90, 200);
	memset(pair.pings, 0, sizeof(pair.pings));
	pair_run(&pair, SH_PATH_WORKS, 110 * S, 120 * S);
	assert_int_equal(pair.pings[0], 200);
	assert_int_equal(pair.pings[1], 200);
	memset(pair.pings, 0, sizeof(pair.pings));
	pair_run(&pair, SH_PATH_NO_WORK, 120 * S, 130 * S);
	assert_int_equal(pair.pings[0], 200);
}

/* The peer's process is stopped, and its NIC acknowledges: no path is lost. */
static void test_work_is_no_answer(void **state)
{
	struct pair pair = pair_made_up(10 * S);
	uint64_t now;

	pair_run(&pair, SH_PATH_COMPLETES, 10 * S, 20 * S);
	for (now = 20 * S; now < 40 * S; now += MS) {
		pair_look(&pair, SH_PATH_COMPLETES, now);
		pair_ping(&pair, 0, false, now);
		pair_ping(&pair, 1, false, now);
		assert_false(sh_path_lost(&pair.path[1], &pair.path[0], now));
		assert_false(sh_path_lost(&pair.path[0], &pair.path[1], now));
	}
	assert_true(sh_path_silent(&pair.path[1], now));
	assert_int_equal(sh_path_dark_since(&pair.path[0]), 0);
}

/* ---- a world -------------------------------------------------------------------------------- */

#define WORLD_PATHS   3
#define WORLD_FLIGHT  4096
#define WORLD_STEP_NS (2 * MS)
#define WORLD_LATE_MS 22 /* the longest round trip */

#define HELD UINT64_MAX

struct flight {
	uint64_t at; /* the answer arrives; HELD: when the peer goes on */
	uint32_t path, seq;
};

/* Some paths to one peer. What is true of them, and what the module makes of it. */
struct world {
	uint64_t random, now;
	struct sh_path_health path[WORLD_PATHS];
	bool cut[WORLD_PATHS], off[WORLD_PATHS];
	uint64_t cut_at[WORLD_PATHS]; /* cut or mended */
	uint64_t pings[WORLD_PATHS][SH_PATH_PER_S];
	uint32_t n_pings[WORLD_PATHS], falls[WORLD_PATHS];
	uint64_t dropped[WORLD_PATHS]; /* the latest ping that was lost by chance */
	bool stopped;		       /* the peer's process */
	uint64_t stopped_at;
	uint64_t short_stop; /* when the latest ended that was shorter than loss_ns */
	bool calm;	     /* nothing is lost any more */
	bool acks;	     /* work completes though the peer is stopped */
	uint64_t look_at, looked_at;
	uint32_t flying;
	struct flight flight[WORLD_FLIGHT];
};

/* How many pings ever left in one second. */
static void world_check_rate(struct world *w, uint32_t i)
{
	uint64_t *slot = &w->pings[i][w->n_pings[i]++ % SH_PATH_PER_S];

	if (*slot && w->now - *slot < S)
		fail_msg("path %u: more than %d pings a second", i, SH_PATH_PER_S);
	*slot = w->now;
}

static uint64_t world_arrival(struct world *w)
{
	return w->now + 1 + random_below(&w->random, WORLD_LATE_MS) * MS;
}

/* What came while the peer was stopped lies in its queues. */
static void world_continue(struct world *w)
{
	uint32_t f;

	if (w->now - w->stopped_at < config.loss_ns)
		w->short_stop = w->now;
	w->stopped = false;
	for (f = 0; f < w->flying; f++)
		if (w->flight[f].at == HELD)
			w->flight[f].at = world_arrival(w);
}

static void world_send(struct world *w, uint32_t i, uint32_t seq)
{
	if (w->path[i].state == SH_PATH_OFF || w->path[i].need == SH_PATH_UNUSED)
		fail_msg("path %u: a ping though nobody needs it", i);
	world_check_rate(w, i);
	if (w->cut[i])
		return;
	if (!w->calm && !random_below(&w->random, 20)) {
		w->dropped[i] = w->now;
		return;
	}
	if (w->flying < WORLD_FLIGHT)
		w->flight[w->flying++] =
			(struct flight){ w->stopped ? HELD : world_arrival(w), i, seq };
}

static void world_deliver(struct world *w)
{
	struct flight one;
	uint32_t f = 0;

	while (f < w->flying) {
		one = w->flight[f];
		if (one.at > w->now) {
			f++;
			continue;
		}
		w->flight[f] = w->flight[--w->flying];
		if (!w->cut[one.path] && sh_path_pong(&w->path[one.path], one.seq, w->now))
			assert_true(sh_path_up(&w->path[one.path]));
	}
}

/* More is mended than broken, or there is nothing to find. */
static bool world_flip(struct world *w, bool broken)
{
	return broken ? random_below(&w->random, 4) : !random_below(&w->random, 3);
}

static void world_fault(struct world *w)
{
	uint32_t i = random_below(&w->random, WORLD_PATHS);

	switch (random_below(&w->random, 500)) {
	case 0:
		if (world_flip(w, w->cut[i])) {
			w->cut[i] = !w->cut[i];
			w->cut_at[i] = w->now;
		}
		break;
	case 1:
		w->off[i] ^= world_flip(w, w->off[i]);
		sh_path_enable(&w->path[i], !w->off[i], w->now);
		break;
	case 2:
		if (!w->stopped) {
			w->stopped = world_flip(w, false);
			w->stopped_at = w->now;
		} else if (world_flip(w, true)) {
			world_continue(w);
		}
		break;
	case 3:
		sh_path_set_need(&w->path[i], world_flip(w, true) ? SH_PATH_BUSY : SH_PATH_IDLE,
				 w->now);
		break;
	}
}

/* Work on the first path, for which the others stand by. */
static void world_look(struct world *w)
{
	struct sh_path_health *paths[WORLD_PATHS];
	bool completes = !w->cut[0] && w->cut_at[0] < w->looked_at && (w->acks || !w->stopped) &&
			 random_below(&w->random, 20);
	uint32_t i;

	if (w->now < w->look_at)
		return;
	w->looked_at = w->now;
	w->look_at = w->now + config.beat_ns;
	for (i = 0; i < WORLD_PATHS; i++)
		paths[i] = &w->path[i];
	sh_path_set_work(paths[0], completes ? SH_PATH_COMPLETES : SH_PATH_WORKS, w->now);
	sh_paths_spare(paths, i, w->now);
}

static bool world_lost(const struct world *w, uint32_t i)
{
	uint32_t j;

	for (j = 0; j < WORLD_PATHS; j++)
		if (j != i && sh_path_lost(&w->path[i], &w->path[j], w->now))
			return true;
	return false;
}

/* The peer stands, or stood, for a time so short that late answers on another path bridge it. */
static bool world_stop_unclear(const struct world *w)
{
	return (w->stopped && w->now - w->stopped_at <= config.loss_ns) ||
	       w->now - w->short_stop <= config.loss_ns;
}

/* A path that is well may be found to be lost only if pings were, when the peer answers late. */
static void world_judge(struct world *w, uint32_t i, uint32_t *mistakes)
{
	if (!world_lost(w, i))
		return;
	if (!w->cut[i] && w->now - w->cut_at[i] > config.loss_ns + WORLD_LATE_MS * MS) {
		++*mistakes;
		if (w->now - w->dropped[i] > 2 * config.loss_ns && !world_stop_unclear(w))
			fail_msg("path %u: well, and found to be lost", i);
	}
	sh_path_fall(&w->path[i], w->now);
	w->falls[i]++;
}

static void world_path(struct world *w, uint32_t i, uint32_t *mistakes)
{
	struct sh_path_health *path = &w->path[i];
	uint64_t next;
	uint32_t seq;

	if (sh_path_ping(path, w->now, &seq)) {
		if (random_below(&w->random, 20))
			world_send(w, i, seq);
		else
			sh_path_unsent(path, w->now);
	}
	next = sh_path_next(path, w->now);
	if (next && next <= w->now && next + S < w->now)
		fail_msg("path %u: it does not do what is due", i);
	world_judge(w, i, mistakes);
	if (sh_path_steady(path, w->now) && !sh_path_up(path))
		fail_msg("path %u: steady, though not up", i);
	if (sh_path_hold_ns(path) < config.hold_min_ns ||
	    sh_path_hold_ns(path) > config.hold_max_ns)
		fail_msg("path %u: a hold-down out of bounds", i);
}

/* Faults have stopped: every path that works is up and steady in time, the others are not. */
static void world_converges(struct world *w, uint32_t *mistakes)
{
	uint32_t i, t;

	world_continue(w);
	w->calm = true;
	for (i = 0; i < WORLD_PATHS; i++) {
		w->cut[i] = i && w->cut[i]; /* one is well, or nobody can tell */
		w->cut_at[i] = w->now;
		sh_path_set_need(&w->path[i], SH_PATH_BUSY, w->now);
		sh_path_enable(&w->path[i], true, w->now);
	}
	for (t = 0; t < 125 * S / WORLD_STEP_NS; t++) {
		w->now += WORLD_STEP_NS;
		world_deliver(w);
		world_look(w);
		for (i = 0; i < WORLD_PATHS; i++)
			world_path(w, i, mistakes);
	}
	for (i = 0; i < WORLD_PATHS; i++)
		if (sh_path_up(&w->path[i]) == w->cut[i])
			fail_msg("path %u: state %d, though it is %s", i, w->path[i].state,
				 w->cut[i] ? "cut" : "well");
	if (!sh_path_steady(&w->path[0], w->now) && w->falls[0] < 8)
		fail_msg("path 0: well for long, and not steady");
}

static void world_run(uint64_t seed, uint32_t *falls, uint32_t *mistakes)
{
	struct world w = { .random = seed, .now = 1 * S, .acks = seed & 1 };
	uint32_t i, t;

	for (i = 0; i < WORLD_PATHS; i++) {
		sh_path_init(&w.path[i], &config, (uint32_t)random_next(&w.random));
		sh_path_set_need(&w.path[i], SH_PATH_BUSY, w.now);
		sh_path_enable(&w.path[i], true, w.now);
	}
	for (t = 0; t < 15000; t++) {
		w.now += 1 + random_below(&w.random, 2 * WORLD_STEP_NS);
		world_deliver(&w);
		world_fault(&w);
		world_look(&w);
		for (i = 0; i < WORLD_PATHS; i++)
			world_path(&w, i, mistakes);
	}
	world_converges(&w, mistakes);
	for (i = 0; i < WORLD_PATHS; i++)
		*falls += w.falls[i];
}

static void test_random(void **state)
{
	uint64_t seed = random_seed("path_test");
	uint32_t i, falls = 0, mistakes = 0;

	for (i = 0; i < 200; i++)
		world_run(random_next(&seed), &falls, &mistakes);
	fprintf(stderr, "path_test: %u paths were found to be lost, %u by lost pings alone\n",
		falls, mistakes);
	assert_true(falls > 250); /* 550 in the mean, give or take 20 */
	assert_true(mistakes < falls / 4);
}

/* A cut path of a busy connection is found in time, whenever it is cut. */
static void test_found_in_time(void **state)
{
	uint64_t cut, now;
	uint32_t seq;

	for (cut = 10 * S; cut < 10 * S + 50 * MS; cut += MS) {
		struct sh_path_health a = path_made_up(), b = path_made_up();

		sh_path_set_need(&a, SH_PATH_BUSY, 9 * S);
		sh_path_set_need(&b, SH_PATH_BUSY, 9 * S);
		for (now = 9 * S; !sh_path_lost(&a, &b, now); now += MS) {
			if (sh_path_ping(&a, now, &seq) && now < cut)
				sh_path_pong(&a, seq, now);
			if (sh_path_ping(&b, now, &seq))
				sh_path_pong(&b, seq, now);
		}
		assert_in_range(now - cut, 65 * MS, 130 * MS);
	}
}

/* How many pings in a row it takes, behind a second in which so many of each 16 had no answer. */
static uint32_t pings_until_lost(uint32_t lost_of_16)
{
	struct sh_path_health a = path_made_up(), b = path_made_up();
	uint64_t now, end = 10 * S;
	uint32_t seq, n = 0, missed = 0;

	sh_path_set_need(&a, SH_PATH_BUSY, 9 * S);
	sh_path_set_need(&b, SH_PATH_BUSY, 9 * S);
	for (now = 9 * S; !sh_path_lost(&a, &b, now); now += MS) {
		if (now > 20 * S)
			fail_msg("%u of 16 lost: never found", lost_of_16);
		if (sh_path_ping(&b, now, &seq))
			sh_path_pong(&b, seq, now);
		if (!sh_path_ping(&a, now, &seq))
			continue;
		if (now >= end)
			missed++;
		else if ((n + 1) * lost_of_16 / 16 == n * lost_of_16 / 16)
			sh_path_pong(&a, seq, now);
		n++;
	}
	return missed;
}

/* A queue that overflows loses pings, three in a row too; and a path that then dies is found all the same. */
static void test_silence_of_a_lossy_path(void **state)
{
	assert_in_range(pings_until_lost(0), 8, 13); /* in the time that makes a silence */
	assert_in_range(pings_until_lost(2), 12, 14);
	assert_in_range(pings_until_lost(4), 15, 18);
	assert_in_range(pings_until_lost(8), 23, 27);
}

/* A stream of pings of which half are lost, by dice: nearly never lost in a minute; ten times a minute if none counts. */
static void test_chance_is_no_death(void **state)
{
	uint64_t seed = random_seed("path_test"), now;
	uint32_t seq, i, lost = 0;

	for (i = 0; i < 100; i++) {
		struct sh_path_health a = path_made_up(), b = path_made_up();

		sh_path_set_need(&a, SH_PATH_BUSY, 9 * S);
		sh_path_set_need(&b, SH_PATH_BUSY, 9 * S);
		for (now = 9 * S; now < 69 * S && !sh_path_lost(&a, &b, now); now += MS) {
			if (sh_path_ping(&b, now, &seq))
				sh_path_pong(&b, seq, now);
			/* it does not begin with a storm */
			if (sh_path_ping(&a, now, &seq) &&
			    random_below(&seed, now < 10 * S ? 5 : 2))
				sh_path_pong(&a, seq, now);
		}
		lost += now < 69 * S;
	}
	fprintf(stderr, "path_test: %u of 100 lossy paths were found to be lost in a minute\n",
		lost);
	assert_true(lost < 30); /* 100 where three pings are always enough */
}

/* Nor is it later where work completes until then; its standby has some beats more. */
static void test_found_in_time_with_work(void **state)
{
	struct pair pair;
	uint64_t cut, now;
	uint32_t which;

	for (cut = 20 * S; cut < 20 * S + 2 * S; cut += MS)
		for (which = 0; which < 2; which++) {
			pair = pair_made_up(10 * S);
			pair_run(&pair, SH_PATH_COMPLETES, 10 * S, cut);
			for (now = cut; !sh_path_lost(&pair.path[which], &pair.path[!which], now);
			     now += MS) {
				pair_look(&pair,
					  which || now - cut < config.beat_ns / SH_PATH_LOOKS
						  ? SH_PATH_COMPLETES
						  : SH_PATH_WORKS,
					  now);
				pair_ping(&pair, which, false, now);
				pair_ping(&pair, !which, true, now);
			}
			assert_in_range(now - cut, 65 * MS, which ? 1150 * MS : 130 * MS);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rises),
		cmocka_unit_test(test_probes_for_ever),
		cmocka_unit_test(test_idle_is_asked_now_and_then),
		cmocka_unit_test(test_pings_without_work_go_together),
		cmocka_unit_test(test_only_rest_is_joined),
		cmocka_unit_test(test_idle_is_doubted),
		cmocka_unit_test(test_doubt_without_verdict),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_late_answers_are_answers),
		cmocka_unit_test(test_own_stop),
		cmocka_unit_test(test_unsent),
		cmocka_unit_test(test_work_spares_pings),
		cmocka_unit_test(test_work_is_no_answer),
		cmocka_unit_test(test_found_in_time_with_work),
		cmocka_unit_test(test_without_heartbeat),
		cmocka_unit_test(test_hold_doubles),
		cmocka_unit_test(test_hold_is_broken_by_silence),
		cmocka_unit_test(test_blame),
		cmocka_unit_test(test_heard),
		cmocka_unit_test(test_found_in_time),
		cmocka_unit_test(test_silence_of_a_lossy_path),
		cmocka_unit_test(test_chance_is_no_death),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
