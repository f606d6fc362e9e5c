/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Orders of paths: what they mean, and that two ends which know one make their standbys on one path. */
#include "tests/lib/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/core/internal.h"
#include "tests/lib/random.h"

#define ROUNDS	100000
#define NO_PATH 0xff

static uint64_t rng;

#define ORDER(a, b, c) ((a) | (b) << SC_ORDER_BITS | (c) << 2 * SC_ORDER_BITS)

static void orders(void **state)
{
	assert_true(sc_order_valid(0));
	assert_true(sc_order_valid(ORDER(3, 1, 2)));
	assert_false(sc_order_valid(ORDER(3, 1, 3)));
	assert_false(sc_order_valid(ORDER(0, 1, 2)));
	assert_false(sc_order_valid(SC_ORDER_WHOLE + 1));
	for (uint8_t k = 0; k < SC_MAX_PATHS; k++)
		assert_int_equal(sc_order_rank(0, k), k);
	assert_int_equal(sc_order_rank(ORDER(3, 1, 0), 0), 0);
	assert_int_equal(sc_order_rank(ORDER(3, 1, 0), 3), 1);
	assert_int_equal(sc_order_rank(ORDER(3, 1, 0), 1), 2);
	assert_true(sc_order_rank(ORDER(3, 1, 0), 2) > 2); /* not named: behind those that are */
	assert_true(sc_order_rank(ORDER(3, 1, 0), 4) > sc_order_rank(ORDER(3, 1, 0), 2));
}

/* ---- two ends ------------------------------------------------------------------------------- */

struct two {
	struct core_fixture end[2]; /* the first leads */
	uint8_t made[2];	    /* the last path that a standby was asked for on */
};

static uint32_t random_order(uint32_t n)
{
	uint32_t order = 0, left = (1u << n) - 2;

	for (uint32_t place = 0; place + 1 < n; place++) {
		uint32_t path = 1 + random_below(&rng, n - 1);

		while (!(left >> path & 1))
			path = path % (n - 1) + 1;
		left &= ~(1u << path);
		order |= path << SC_ORDER_BITS * place;
	}
	return order;
}

static void carry(struct two *t, uint32_t from);

static void give(struct two *t, uint32_t to, const struct sc_event *event)
{
	fixture_give(&t->end[to], event);
	carry(t, to);
}

/* Messages arrive at once, and QPs are made and connected as soon as they are asked for. */
static void carry(struct two *t, uint32_t from)
{
	struct sc_actions out = t->end[from].out;

	for (uint32_t i = 0; i < out.n; i++) {
		const struct sc_action *a = &out.a[i];
		struct sc_event message = { .type = SC_EV_MSG_STANDBY, .standby = a->standby };
		struct sc_event made = { .type = SC_EV_STANDBY_MADE,
					 .epoch = a->epoch,
					 .address = { .qpn = 0x100 + from } };
		struct sc_event connected = { .type = SC_EV_STANDBY_CONNECTED, .epoch = a->epoch };

		if (a->type == SC_ACT_SEND_STANDBY)
			give(t, !from, &message);
		if (a->type == SC_ACT_STANDBY_MAKE) {
			t->made[from] = a->path;
			give(t, from, &made);
		}
		if (a->type == SC_ACT_STANDBY_CONNECT)
			give(t, from, &connected);
	}
}

static void two_make(struct two *t, uint32_t order, bool lazy)
{
	struct sc_event met = { .type = SC_EV_INTRODUCED, .leader = true, .order = order };
	struct sc_config config;

	memset(t, 0, sizeof(*t));
	sc_config_default(&config);
	config.retry_time_ns = FIXTURE_RETRY_TIME_NS;
	config.lazy = lazy;
	for (uint32_t i = 0; i < 2; i++) {
		sc_init(&t->end[i].conn, &config);
		t->end[i].now = 1000 * 1000;
		t->made[i] = NO_PATH;
	}
	met.leader = false;
	give(t, 1, &met);
	met.leader = true;
	give(t, 0, &met);
}

static void paths(struct two *t, uint32_t end, uint8_t up, uint8_t steady, uint8_t drained)
{
	struct sc_event e = { .type = SC_EV_PATHS, .up = up, .steady = steady, .drained = drained };

	give(t, end, &e);
}

static void both_paths(struct two *t, uint8_t up)
{
	paths(t, 1, up, up, 0);
	paths(t, 0, up, up, 0);
}

static void the_first_choice_and_then_the_next(void **state)
{
	struct two t;

	two_make(&t, ORDER(3, 1, 2), false);
	both_paths(&t, 0x0f);
	assert_int_equal(t.made[0], 3);
	assert_int_equal(t.made[1], 3);
	assert_true(sc_protected(&t.end[0].conn) && sc_protected(&t.end[1].conn));
	both_paths(&t, 0x07);
	assert_int_equal(t.made[0], 1);
	assert_int_equal(t.made[1], 1);
	both_paths(&t, 0x0f); /* the first choice is back: what stands by goes there again */
	assert_int_equal(t.made[0], 3);
	assert_int_equal(t.made[1], 3);
}

/* Another end's faults do not make one move that is on its best path: only path 0 comes before it. */
static void better_is_by_the_order(void **state)
{
	struct two t;

	two_make(&t, ORDER(3, 1, 2), true);
	both_paths(&t, 0x0f);
	for (uint32_t i = 0; i < 2; i++) {
		struct sc_conn *c = &t.end[i].conn;

		assert_int_equal(c->standby.order, ORDER(3, 1, 2));
		c->path = 3;
		assert_true(sc_paths_better(c)); /* path 0 */
		c->paths.up &= (uint8_t)~1;
		assert_false(sc_paths_better(c));
		c->path = 2;
		assert_true(sc_paths_better(c));
		c->paths.up &= (uint8_t) ~(1u << 3 | 1u << 1);
		assert_false(sc_paths_better(c));
	}
}

/* Whoever is drained goes to the next that is not, and a drained one is the last resort only. */
static void drained(void **state)
{
	struct two t;

	two_make(&t, ORDER(2, 1, 0), false);
	paths(&t, 1, 0x07, 0x07, 1 << 2);
	paths(&t, 0, 0x07, 0x07, 0);
	assert_int_equal(t.made[0], 1);
	assert_int_equal(t.made[1], 1);
}

/* Any order, any masks, any news of them: there is one path, or none, and both ends say the same. */
static void two_ends_agree(void **state)
{
	struct two t;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t n = 2 + random_below(&rng, SC_MAX_PATHS - 1);
		uint8_t all = (uint8_t)((1u << n) - 1);

		two_make(&t, random_order(n), random_below(&rng, 2));
		for (uint32_t news = 0; news < 4; news++) {
			uint8_t up = (uint8_t)random_next(&rng) & all;

			paths(&t, random_below(&rng, 2), up, up & (uint8_t)random_next(&rng),
			      random_below(&rng, 4) ? 0 : (uint8_t)random_next(&rng) & all);
		}
		assert_int_equal(t.end[0].conn.standby.order, t.end[1].conn.standby.order);
		assert_int_equal(t.made[0], t.made[1]);
		assert_int_equal(sc_paths_choose(&t.end[0].conn), sc_paths_choose(&t.end[1].conn));
		assert_int_equal(sc_rests(&t.end[0].conn), sc_rests(&t.end[1].conn));
	}
}

/* A leader without an order tells none: it chooses by number, and is obeyed. */
static void who_leads_decides(void **state)
{
	struct sc_event e = { .type = SC_EV_MSG_STANDBY };
	struct two t;

	two_make(&t, ORDER(3, 2, 1), false);
	both_paths(&t, 0x0f);
	e.standby = (struct sc_msg_standby){ .epoch = t.end[1].conn.standby.epoch + 1,
					     .phase = SC_STANDBY_MAKING,
					     .path = 1,
					     .up = 0x0f,
					     .steady = 0x0f,
					     .masks_no = t.end[0].conn.paths.no + 1 };
	fixture_give(&t.end[1], &e);
	assert_int_equal(fixture_find(&t.end[1], SC_ACT_STANDBY_MAKE)->path, 1);
	assert_int_equal(t.end[1].conn.standby.order, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders),
		cmocka_unit_test(the_first_choice_and_then_the_next),
		cmocka_unit_test(better_is_by_the_order),
		cmocka_unit_test(drained),
		cmocka_unit_test(two_ends_agree),
		cmocka_unit_test(who_leads_decides),
	};

	rng = random_seed("order_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
