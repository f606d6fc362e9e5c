/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which NIC runs atomics: some connections to one responder, random faults, drains and moves, messages
 * lost, doubled and overtaken. At no moment may two NICs be able to execute atomics (N1): by an oracle
 * that looks at the carriers themselves. When faults stop, all that wait go on, at home. Each rule broken on purpose is noticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "shiftlib/base/util.h"
#include "shiftlib/core/home.h"
#include "tests/lib/random.h"

enum { MEMBERS = 4, PATHS = 3, EPOCHS = 400, WIRE = 64 };
enum { ROUNDS = 4000, STEPS = 1500, HEAL = 6000, MUTANT_ROUNDS = 40000 };

struct conn {
	struct sc_home_user user;
	struct sc_home_member member;
	bool posts;	 /* its application does atomics */
	bool foreign;	 /* it takes no part: it is where it is, and nobody can tell it anything */
	bool waits;	 /* one waits in the engine */
	bool used;	 /* one was posted */
	bool fenced;	 /* an ordered move is under way: nothing more is shown to the NIC */
	uint32_t active; /* carrier in use at the requester */
	bool gone_from;	 /* ... which has left it */
	uint32_t in_flight[EPOCHS];
	uint8_t path_of[EPOCHS];
};

struct letter {
	uint32_t conn;
	bool to_responder;
	struct sc_msg_home m;
};

static struct world {
	struct conn conn[MEMBERS];
	struct sc_home_member *members[MEMBERS];
	struct sc_home_group group;
	struct letter wire[WIRE];
	uint32_t n, n_letters;
	bool calm, busy;
	uint64_t random;
	uint32_t grants, lifts, ran, homes;
} w;

static bool chance(uint32_t percent)
{
	return random_below(&w.random, 100) < percent;
}

static bool allowed(const struct conn *c)
{
	return sc_home_may(&c->user, c->active, c->path_of[c->active]);
}

/* ---- messages --------------------------------------------------------------------------------- */

static void put(uint32_t conn, bool to_responder, const struct sc_msg_home *m)
{
	uint32_t at = w.n_letters < WIRE ? w.n_letters++ : random_below(&w.random, WIRE);

	w.wire[at] = (struct letter){ conn, to_responder, *m };
}

static void requester_says(uint32_t i)
{
	static const struct sc_home_member nobody;
	struct conn *c = &w.conn[i];
	struct sc_msg_home m;

	sc_home_fill(&c->user, &nobody, &m);
	m.wants = c->waits && !allowed(c) && !c->gone_from;
	m.wants_of = c->active;
	m.ask = m.wants;
	put(i, true, &m);
}

static void responder_says(uint32_t i)
{
	static const struct sc_home_user nobody;
	struct sc_msg_home m;

	sc_home_fill(&nobody, &w.conn[i].member, &m);
	m.ask = sc_home_unheard(&w.conn[i].member);
	put(i, false, &m);
	w.conn[i].member.news = false;
}

static void requester_hears(uint32_t i, const struct sc_msg_home *m)
{
	struct conn *c = &w.conn[i];
	bool bar, word = sc_home_barred(&c->user, m, &bar);

	if (word) {
		sc_home_obey(&c->user, m, c->used);
		if (!bar && !c->gone_from)
			sc_home_takes(&c->user, c->active, c->path_of[c->active]);
	}
	w.grants += sc_home_answered(&c->user, m, c->active);
	w.lifts += word && !bar;
	if (allowed(c))
		c->waits = false;
	if (m->ask)
		requester_says(i);
}

static void deliver(void)
{
	uint32_t at;
	struct letter l;

	if (!w.n_letters)
		return;
	at = random_below(&w.random, w.n_letters);
	l = w.wire[at];
	if (w.calm || !chance(10)) /* else it will come again */
		w.wire[at] = w.wire[--w.n_letters];
	if (!w.calm && chance(20))
		return;
	if (w.conn[l.conn].foreign)
		return;
	if (l.to_responder)
		sc_home_heard(&w.conn[l.conn].member, &l.m);
	else
		requester_hears(l.conn, &l.m);
}

static void step(void)
{
	uint8_t home = w.group.home;

	sc_home_step(&w.group);
	w.homes += home != w.group.home;
	w.busy = !sc_home_at_rest(&w.group);
	for (uint32_t i = 0; i < w.n; i++)
		if (w.conn[i].member.news)
			responder_says(i);
}

static void repeat(uint32_t i)
{
	if (w.conn[i].waits)
		requester_says(i);
	if (sc_home_unheard(&w.conn[i].member))
		responder_says(i);
}

/* ---- the data path ---------------------------------------------------------------------------- */

static void post(struct conn *c, uint32_t i)
{
	if (!c->posts || c->member.shut)
		return;
	if (c->gone_from || c->fenced) { /* withheld */
		c->used = true;
		return;
	}
	if (allowed(c)) {
		c->in_flight[c->active]++;
		c->used = true;
	} else if (!c->waits) {
		c->waits = true;
		c->used = true;
		requester_says(i);
	}
}

static void execute(struct conn *c)
{
	for (uint32_t e = c->member.quiesced; e <= c->active; e++)
		if (c->in_flight[e] && chance(50)) {
			c->in_flight[e]--;
			w.ran++;
		}
}

/* ---- moves: the responder leaves and quiesces, then the requester arrives --------------------- */

static int target_of(struct conn *c, uint8_t drained)
{
	uint8_t others = c->member.ok & (uint8_t) ~(1u << c->member.path);
	uint8_t first = others & (uint8_t)~drained;

	if (first)
		return __builtin_ctz(first);
	return others ? __builtin_ctz(others) : -1;
}

static bool ordered(const struct conn *c, uint8_t drained, int to)
{
	uint8_t can = c->member.ok & (uint8_t)~drained;

	if (to < 0 || !(can & 1u << to))
		return false;
	if (drained & 1u << c->member.path)
		return true;
	return to < c->member.path && (c->member.steady & 1u << to);
}

static void leave(struct conn *c, int to)
{
	c->member.epoch++;
	c->member.path = (uint8_t)to;
	c->path_of[c->member.epoch] = (uint8_t)to;
	if (chance(50))
		c->gone_from = true; /* else the word of it is still under way */
}

static void move_on(struct conn *c)
{
	uint8_t drained = sc_home_drained(&w.group, &c->member);
	int to;

	if (c->foreign) { /* it comes, if it has not yet; while others are away, without its right */
		c->member.shut &= w.busy;
		return;
	}
	if (c->member.epoch != c->member.quiesced) {
		if (!chance(30))
			return;
		for (uint32_t e = 0; e < c->member.epoch; e++)
			c->in_flight[e] = 0;
		c->member.quiesced = c->member.epoch;
		return;
	}
	if (c->active != c->member.epoch) {
		c->gone_from = true;
		if (!chance(30))
			return;
		c->active = c->member.epoch;
		c->gone_from = c->fenced = false;
		c->waits = false;
		sc_home_takes(&c->user, c->active, c->path_of[c->active]);
		return;
	}
	to = target_of(c, drained);
	if (c->member.epoch + 1 >= EPOCHS || to < 0)
		return;
	if (!(c->member.ok & 1u << c->member.path)) {
		leave(c, to);
		return;
	}
	c->fenced = ordered(c, drained, to) && (w.calm || chance(80));
	if (c->fenced && !c->in_flight[c->active])
		leave(c, to);
}

static void shake(struct conn *c)
{
	if (chance(50))
		c->member.ok ^= (uint8_t)(1u << random_below(&w.random, PATHS));
	else
		c->member.ok = (1 << PATHS) - 1;
	c->member.steady = c->member.ok & (uint8_t)random_next(&w.random);
}

/* ---- what must hold --------------------------------------------------------------------------- */

/* NICs that can execute an atomic now, by the carriers alone. */
static uint8_t can_execute(const struct conn *c)
{
	uint8_t nics = 0;

	for (uint32_t e = c->member.quiesced; e <= c->active; e++)
		if (c->in_flight[e])
			nics |= (uint8_t)(1u << c->path_of[e]);
	if (c->posts && !c->member.shut && c->active >= c->member.quiesced && !c->gone_from &&
	    allowed(c))
		nics |= (uint8_t)(1u << c->path_of[c->active]);
	return nics;
}

static bool on_one_nic(void)
{
	uint8_t nics = 0;

	for (uint32_t i = 0; i < w.n; i++)
		nics |= can_execute(&w.conn[i]);
	return !(nics & (nics - 1));
}

/* The module's own belief is never less than what is. */
static bool believed(void)
{
	for (uint32_t i = 0; i < w.n; i++)
		if (can_execute(&w.conn[i]) & ~sc_home_may_run(&w.conn[i].member))
			return false;
	return true;
}

static bool all_well(void)
{
	for (uint32_t i = 0; i < w.n; i++)
		if (w.conn[i].waits || w.conn[i].member.path ||
		    w.conn[i].active != w.conn[i].member.epoch)
			return false;
	return sc_home_at_rest(&w.group) && !w.group.home;
}

static void act(void)
{
	uint32_t i = random_below(&w.random, w.n);
	struct conn *c = &w.conn[i];

	switch (random_below(&w.random, 8)) {
	case 0: post(c, i); break;
	case 1: execute(c); break;
	case 2: move_on(c); break;
	case 3: repeat(i); break;
	case 4:
		if (!w.calm && chance(8))
			shake(c);
		break;
	case 5: step(); break;
	default: deliver(); break;
	}
}

/* NULL, or what does not hold. safety: whether it comes home is not looked at. */
static const char *round_of(uint64_t seed, bool safety)
{
	bool well = false;

	memset(&w, 0, sizeof(w));
	w.random = seed;
	w.n = 2 + random_below(&w.random, MEMBERS - 1);
	w.group = (struct sc_home_group){ .members = w.members, .n = w.n };
	for (uint32_t i = 0; i < w.n; i++) {
		w.members[i] = &w.conn[i].member;
		w.conn[i].posts = chance(75);
		w.conn[i].foreign = w.conn[i].member.silent = w.conn[i].member.shut = chance(8);
		w.conn[i].member.ok = w.conn[i].member.steady = (1 << PATHS) - 1;
	}
	for (uint32_t s = 0; s < STEPS + HEAL && !well; s++) {
		if (s == STEPS) {
			w.calm = true;
			for (uint32_t i = 0; i < w.n; i++)
				w.conn[i].member.ok = w.conn[i].member.steady = (1 << PATHS) - 1;
		}
		act();
		if (!on_one_nic())
			return "two NICs can execute atomics";
		if (!believed())
			return "what can execute is not known";
		well = w.calm && s > STEPS + 200 && all_well();
	}
	return well || safety ? NULL : "it did not come home";
}

static void one_nic_at_a_time(void **state)
{
	uint64_t seed = random_seed("home");
	uint32_t grants = 0, lifts = 0, homes = 0;
	const char *wrong;

	for (uint32_t r = 0; r < ROUNDS; r++) {
		wrong = round_of(seed + r, false);
		if (wrong)
			fail_msg("round %u (SHIFT_TEST_SEED=%llu): %s", r,
				 (unsigned long long)(seed + r), wrong);
		grants += w.grants;
		lifts += w.lifts;
		homes += w.homes;
	}
	printf("%u grants, %u lifted bars, %u changes of home in %u rounds\n", grants, lifts, homes,
	       ROUNDS);
	assert_true(grants > ROUNDS && lifts > ROUNDS && homes > ROUNDS);
}

static void each_broken_rule_is_noticed(void **state)
{
	uint64_t seed = random_seed("home mutants");
	uint32_t r;

	for (int m = SC_HOME_MUTANT_NONE + 1; m < SC_HOME_MUTANTS; m++) {
		const char *wrong = NULL;

		sc_home_mutant = (enum sc_home_mutant)m;
		for (r = 0; r < MUTANT_ROUNDS && !wrong; r++)
			wrong = round_of(seed + r, true);
		sc_home_mutant = SC_HOME_MUTANT_NONE;
		if (!wrong)
			fail_msg("nothing notices mutant %d", m);
		printf("mutant %d: round %u, %s\n", m, r, wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_nic_at_a_time),
		cmocka_unit_test(each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
