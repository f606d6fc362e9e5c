/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two-stage compare-and-swap (uid/protocol.c), simulated: clients with words in common, of which one at a time takes a step, as
 * the seed says. Faults come between any two requests. Those that had run are run again, or not, the answer of the one that
 * decides is lost; or the queue pair ends, and another one goes on; or the client dies, and another one takes its instance.
 *
 * The memory looks at every change. U1: a UID that comes into a word has its record; it is taken out when that is committed, for
 * its own value; until then its slot is not used again. And no UID comes twice; an operation swaps once if it says so, and
 * else never.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#include "tests/lib/random.h"
#include "uid/protocol.h"

enum { CLIENTS = 3, WORDS = 2, OPS = 8, STILL = 100, UIDS = 4096, STEPS = 6000 };
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 200 }; /* it makes a fiber in a millisecond */
#else
enum { ROUNDS = 4000 };
#endif
enum { MUTANT_ROUNDS = 40000, STACK = 1 << 18 };

struct client {
	struct uid_line line; /* first */
	struct uid_machine machine;
	uint32_t me;
	uint32_t swapped;     /* by the operation under way */
	uint64_t expected;    /* what the word was when it did */
	bool died;	      /* in the last run of requests */
	uint32_t still_until; /* what it had read grows old */
};

/* A thread of control; the last one is the test's own. */
static struct fiber {
	ucontext_t context;
	void *tsan;
} fibers[CLIENTS + 1];
static char stacks[CLIENTS][STACK];

static struct world {
	uint64_t words[WORDS];
	_Alignas(32) struct uid_record records[UID_INSTANCES * UID_SLOTS];
	struct client client[CLIENTS];
	struct {
		uint64_t uid, swap, before;
		struct client *owner;
	} uids[UIDS]; /* that came into words */
	uint32_t n_uids, steps, running, turn;
	uint32_t faults, deaths, lost, won;
	uint64_t sum[WORDS]; /* that has been added */
	uint64_t random;
	const char *wrong;
	bool ended[CLIENTS];
} w;

static void wrong(const char *what)
{
	if (!w.wrong)
		w.wrong = what;
}

static bool chance(uint32_t percent)
{
	return random_below(&w.random, 100) < percent;
}

/* ---- one at a time ----------------------------------------------------------------------------- */

static bool stands_still(uint32_t i)
{
	return w.client[i].still_until > w.steps;
}

static void next_turn(void)
{
	uint32_t tries = 0;

	do
		w.turn = random_below(&w.random, CLIENTS);
	while (w.running && (w.ended[w.turn] || (stands_still(w.turn) && tries++ < 4 * CLIENTS)));
}

static void switch_fiber(uint32_t from, uint32_t to)
{
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(fibers[to].tsan, 0);
#endif
	swapcontext(&fibers[from].context, &fibers[to].context);
}

static void let_others(uint32_t me)
{
	if (++w.steps > STEPS)
		wrong("it does not end");
	next_turn();
	if (w.turn != me)
		switch_fiber(me, w.turn);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static bool is_word(uint64_t addr)
{
	return addr - (uintptr_t)w.words < sizeof(w.words);
}

static struct uid_record *record_of(uint64_t uid)
{
	return &w.records[uid_place(uid)];
}

static int find_uid(uint64_t uid)
{
	for (uint32_t i = w.n_uids; i-- > 0;)
		if (w.uids[i].uid == uid)
			return (int)i;
	return -1;
}

static void comes(struct client *c, uint64_t before, uint64_t uid)
{
	const struct uid_record *record = record_of(uid);

	if (find_uid(uid) >= 0)
		wrong("a UID comes twice");
	if (record->state != uid || record->swap != c->machine.op.swap)
		wrong("a UID comes without its record");
	if (w.n_uids < UIDS) {
		w.uids[w.n_uids].uid = uid;
		w.uids[w.n_uids].before = before;
		w.uids[w.n_uids].owner = c;
		w.uids[w.n_uids++].swap = c->machine.op.swap;
	}
	c->swapped++;
	c->expected = before;
}

static void goes(uint64_t uid, uint64_t value)
{
	int i = find_uid(uid);

	if (record_of(uid)->state != (uid | 1ull << 56))
		wrong("a UID goes before its record is committed");
	if (i < 0 || w.uids[i].swap != value)
		wrong("a UID goes for another's value");
}

static void change_word(struct client *c, uint64_t *word, uint64_t value)
{
	if (uid_is_uid(*word))
		goes(*word, value);
	if (uid_is_uid(value))
		comes(c, *word, value);
	*word = value;
}

/* Of the record of a UID that is in a word only the state may change, and only so. */
static void change_record(uint64_t *at, uint64_t value)
{
	size_t field = ((uintptr_t)at - (uintptr_t)w.records) % sizeof(struct uid_record);
	const struct uid_record *record = (const void *)((char *)at - field);

	for (uint32_t i = 0; i < WORDS; i++)
		if (uid_is_uid(w.words[i]) && record_of(w.words[i]) == record && *at != value &&
		    (field || value != (w.words[i] | 1ull << 56)))
			wrong("a slot is used while its UID is in a word");
	*at = value;
}

static void change(struct client *c, uint64_t *at, uint64_t value)
{
	if (is_word((uintptr_t)at))
		change_word(c, at, value);
	else
		change_record(at, value);
}

static void execute(struct client *c, struct uid_request *r, bool answered)
{
	uint64_t *at = (uint64_t *)(uintptr_t)r->addr, *data = NULL, before = *at;

	if (r->verb != UID_CAS)
		data = (uint64_t *)((char *)r->data + r->from);
	switch (r->verb) {
	case UID_CAS:
		if (before == r->compare)
			change(c, at, r->swap);
		if (answered)
			r->old = before;
		break;
	case UID_READ: memcpy(data, at, r->bytes); break;
	case UID_WRITE:
		for (uint32_t i = 0; i < r->bytes / sizeof(*at); i++)
			change(c, at + i, data[i]);
		break;
	}
}

/* ---- the queue pair, and SHIFT under it -------------------------------------------------------- */

/* As SHIFT_ATOMICS=uid tells them apart. */
static bool decides(const struct uid_request *r)
{
	return r->verb == UID_CAS && uid_is_uid(r->swap) && uid_is_value(r->compare);
}

static void run_all(struct client *c, struct uid_request *r, uint32_t n, uint32_t ran)
{
	for (uint32_t i = 0; i < n; i++) {
		if (i < ran)
			execute(c, &r[i], false);
		let_others(c->me);
	}
}

/* What decides completes without an answer, whether it ran or not; the rest runs, or runs again. */
static void move(struct client *c, struct uid_request *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!decides(&r[i]))
			execute(c, &r[i], true);
		let_others(c->me);
	}
}

static int run(struct uid_line *line, struct uid_request *r, uint32_t n)
{
	struct client *c = (struct client *)line;
	uint32_t ran = random_below(&w.random, n + 1);

	if (chance(5))
		c->still_until = w.steps + STILL;
	let_others(c->me);
	if (w.wrong)
		return ECONNRESET;
	if (!chance(15)) {
		for (uint32_t i = 0; i < n; i++) {
			execute(c, &r[i], true);
			let_others(c->me);
		}
		return 0;
	}
	w.faults++;
	run_all(c, r, n, ran);
	if (chance(60)) {
		move(c, r, n);
		return 0;
	}
	c->died = chance(25);
	return ECONNRESET;
}

/* ---- clients ----------------------------------------------------------------------------------- */

static void take_over(struct client *c)
{
	do {
		c->died = false;
		c->machine = (struct uid_machine){ .line = &c->line,
						   .region = (uintptr_t)w.records,
						   .instance = (uint8_t)c->me };
	} while (uid_open(&c->machine) == ECONNRESET && !w.wrong);
}

static void check(struct client *c, uint32_t word, uint64_t expect, uint64_t add, uint64_t old)
{
	bool won = add || old == expect;

	if (c->swapped != won)
		wrong(won ? "it says that it swapped, and it did not, or twice"
			  : "it says that it did not swap, and it did");
	if (won && c->expected != old)
		wrong("it says another value than there was");
	if (!uid_is_value(old))
		wrong("it says a value that is none");
	w.won += won;
	w.lost += !won;
	w.sum[word] += add;
}

/* add 0: a compare-and-swap; of each two clients one compares with what it has just seen. */
static void operate(struct client *c)
{
	uint32_t word = random_below(&w.random, WORDS);
	uint64_t addr = (uintptr_t)&w.words[word], old = 0, seen = 0, add = chance(50) ? 1 : 0;
	int ret;

	while (uid_read(&c->machine, addr, 0, &seen) && !w.wrong)
		;
	c->swapped = 0;
	c->died = false;
	ret = add ? uid_begin_faa(&c->machine, addr, 0, add)
		  : uid_begin_cas(&c->machine, addr, 0, seen, seen + (1ull << 32));
	if (ret)
		wrong("it does not begin");
	while (uid_finish(&c->machine, &old) && !w.wrong)
		if (c->died) {
			w.deaths++;
			w.sum[word] += add && c->swapped;
			take_over(c);
			return;
		}
	if (!w.wrong)
		check(c, word, seen, add, old);
}

static void client_main(int me)
{
	struct client *c = &w.client[me];

	take_over(c);
	for (uint32_t i = 0; i < OPS && !w.wrong; i++)
		operate(c);
	w.ended[c->me] = true;
	w.running--;
	if (w.running)
		next_turn();
	switch_fiber(c->me, w.running ? w.turn : CLIENTS);
}

/* ---- rounds ------------------------------------------------------------------------------------ */

static void set_up(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.random = seed;
	w.running = CLIENTS;
	for (uint32_t i = 0; i < UID_INSTANCES * UID_SLOTS; i++)
		w.records[i].state = uid_first_state((uint8_t)(i / UID_SLOTS));
	for (uint32_t i = 0; i < CLIENTS; i++) {
		w.client[i].me = i;
		w.client[i].line.run = run;
	}
}

/* A word that nobody has met since its owner died still has a UID: whose value is that of its record. */
static void check_sums(void)
{
	for (uint32_t i = 0; i < WORDS && !w.wrong; i++) {
		uint64_t word = w.words[i];

		if (uid_is_uid(word))
			word = record_of(word)->swap;
		if ((uint32_t)word != w.sum[i])
			wrong("additions are lost or doubled");
	}
}

static void fiber_make(uint32_t i)
{
	struct fiber *f = &fibers[i];

	assert_int_equal(getcontext(&f->context), 0);
	f->context.uc_stack.ss_sp = stacks[i];
	f->context.uc_stack.ss_size = STACK;
	makecontext(&f->context, (void (*)(void))client_main, 1, (int)i);
#ifdef __SANITIZE_THREAD__
	f->tsan = __tsan_create_fiber(0);
	fibers[CLIENTS].tsan = __tsan_get_current_fiber();
#endif
}

static void fiber_end(uint32_t i)
{
#ifdef __SANITIZE_THREAD__
	__tsan_destroy_fiber(fibers[i].tsan);
#endif
}

static const char *round_of(uint64_t seed)
{
	set_up(seed);
	for (uint32_t i = 0; i < CLIENTS; i++)
		fiber_make(i);
	next_turn();
	switch_fiber(CLIENTS, w.turn);
	for (uint32_t i = 0; i < CLIENTS; i++)
		fiber_end(i);
	check_sums();
	return w.wrong;
}

static void results_survive(void **state)
{
	uint64_t seed = random_seed("uid");
	uint32_t faults = 0, deaths = 0, lost = 0, won = 0;

	for (uint32_t r = 0; r < ROUNDS; r++) {
		const char *what = round_of(seed + r);

		if (what)
			fail_msg("round %u (SHIFT_TEST_SEED=%llu): %s", r,
				 (unsigned long long)(seed + r), what);
		faults += w.faults;
		deaths += w.deaths;
		lost += w.lost;
		won += w.won;
	}
	printf("%u operations swapped, %u did not; %u faults, %u clients died, in %u rounds\n", won,
	       lost, faults, deaths, ROUNDS);
	assert_true(faults > ROUNDS && deaths > ROUNDS / 10 && lost > ROUNDS / 10 && won > ROUNDS);
}

static void each_broken_rule_is_noticed(void **state)
{
	uint64_t seed = random_seed("uid mutants");
	uint32_t r;

	for (int m = UID_MUTANT_NONE + 1; m < UID_MUTANTS; m++) {
		const char *what = NULL;

		uid_mutant = (enum uid_mutant)m;
		for (r = 0; r < MUTANT_ROUNDS && !what; r++)
			what = round_of(seed + r);
		uid_mutant = UID_MUTANT_NONE;
		if (!what)
			fail_msg("nothing notices mutant %d", m);
		printf("mutant %d: round %u, %s\n", m, r, what);
	}
}

/* ---- what is refused --------------------------------------------------------------------------- */

static int no_request(struct uid_line *line, struct uid_request *r, uint32_t n)
{
	fail_msg("nothing is to be sent");
	return 0;
}

static void what_is_refused(void **state)
{
	struct uid_line line = { no_request };
	struct uid_machine m = { .line = &line, .region = 8 };

	assert_int_equal(uid_open(&m), EINVAL);
	assert_int_equal(uid_begin_cas(&m, 4, 0, 1, 2), EINVAL);
	assert_int_equal(uid_begin_cas(&m, 8, 0, UID_MARK << 56, 2), EINVAL);
	assert_int_equal(uid_begin_cas(&m, 8, 0, 1, UID_COMMITTED << 56 | 5), EINVAL);
	assert_int_equal(uid_begin_faa(&m, 1, 0, 1), EINVAL);
	assert_int_equal(uid_begin_cas(&m, 8, 0, 1, 2), 0);
	assert_int_equal(uid_begin_faa(&m, 8, 0, 1), EBUSY);
}

static void a_sum_that_is_none(void **state)
{
	uint64_t old = 9;

	set_up(1);
	w.running = 1;
	w.ended[1] = w.ended[2] = true;
	w.words[0] = (UID_MARK << 56) - 1;
	take_over(&w.client[0]);
	do
		if (w.client[0].machine.op.stage == UID_IDLE)
			assert_int_equal(
				uid_begin_faa(&w.client[0].machine, (uintptr_t)w.words, 0, 1), 0);
	while (uid_finish(&w.client[0].machine, &old) == ECONNRESET);
	assert_int_equal(old, 9);
	assert_int_equal(w.words[0], (UID_MARK << 56) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_survive),
		cmocka_unit_test(each_broken_rule_is_noticed),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(a_sum_that_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
