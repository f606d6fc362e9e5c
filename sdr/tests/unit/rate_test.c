/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The rules of a sender's own rate, one by one; sdr_rate_sim plays them over a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sdr/rel/rate.h"

#define MS 1000000ull

enum { PACKET = 4096, RTT_MS = 20, NEAR_WRAP = 0xfffffff0 };

static struct sdr_rate r;
static uint64_t now, bps;

static void setup(void)
{
	now = 1;
	sdr_rate_init(&r, PACKET, RTT_MS * MS, now);
}

/* A round with so much in the queue, of a sender that uses its rate. */
static void round_of(uint32_t queue_ms, uint32_t lost)
{
	uint64_t length = (RTT_MS + queue_ms) * MS;

	bps = sdr_rate_bps(&r);
	sdr_rate_sent(&r, (uint32_t)((double)bps * (double)length / 8e9 / PACKET) + 1);
	sdr_rate_lost(&r, lost);
	for (int i = 0; i < 4; i++) {
		now += length / 4;
		sdr_rate_heard(&r, length, NEAR_WRAP + queue_ms * 1000, now);
	}
	sdr_rate_tick(&r, now);
}

/* A sender that has grown until a queue stood, which is gone again. */
static void grown(void)
{
	setup();
	for (int i = 0; i < 5; i++)
		round_of(0, 0);
	round_of(20, 0);
	round_of(0, 0);
	round_of(0, 0);
}

static void test_doubles_until_a_queue_stands(void **state)
{
	uint64_t before;

	setup();
	for (int i = 0; i < 4; i++) {
		round_of(0, 0);
		assert_in_range(sdr_rate_bps(&r), bps * 2 - bps / 10, bps * 2 + bps / 10);
	}
	before = sdr_rate_bps(&r);
	round_of(5, 0);
	round_of(0, 0);
	assert_true(sdr_rate_bps(&r) < before * 6 / 10);
}

static void test_loss_without_a_queue_is_not_congestion(void **state)
{
	grown();
	for (int i = 0; i < 50; i++) {
		round_of(0, 1);
		assert_true(sdr_rate_bps(&r) >= bps);
	}
}

static void test_many_losses_are_congestion_without_a_queue(void **state)
{
	grown();
	round_of(0, 100000);
	assert_true(sdr_rate_bps(&r) <= bps * 81 / 100);
}

static void test_loss_behind_a_queue_shrinks_once_a_round_trip(void **state)
{
	uint64_t before;

	grown();
	before = sdr_rate_bps(&r);
	round_of(20, 1);
	round_of(20, 1); /* its effect is not seen yet */
	round_of(0, 0);
	assert_in_range(sdr_rate_bps(&r), before / 2 - before / 10, before * 6 / 10);
}

static void test_a_queue_ends_the_fast_growth(void **state)
{
	double fast;

	grown();
	for (int i = 0; i < 20; i++)
		round_of(0, 0);
	fast = r.fast;
	assert_true(fast > 20 * PACKET);
	for (int i = 0; i < 20; i++)
		round_of(10, 0);
	assert_true(r.fast < fast / 4);
	assert_true(r.slow > 0);
}

/* Rounds of small messages, of which some packets are lost, leave the rate as it is. */
static void small_messages(uint32_t packets, uint32_t lost)
{
	grown();
	bps = sdr_rate_bps(&r);
	for (int i = 0; i < 50; i++) {
		sdr_rate_sent(&r, packets);
		sdr_rate_lost(&r, lost);
		now += RTT_MS * MS;
		sdr_rate_heard(&r, RTT_MS * MS, NEAR_WRAP, now);
		sdr_rate_tick(&r, now);
	}
	assert_int_equal(sdr_rate_bps(&r), bps);
}

static void test_who_sends_little_does_not_grow(void **state)
{
	small_messages(1, 0);
}

static void test_few_losses_of_few_packets(void **state)
{
	small_messages(3, 1);
}

/* Somebody else's packet found no room. */
static void test_a_long_queue_that_falls_is_a_loss(void **state)
{
	uint64_t before;

	grown();
	for (int i = 0; i < 8; i++)
		round_of(20, 0);
	before = sdr_rate_bps(&r);
	round_of(19, 0);
	assert_true(sdr_rate_bps(&r) > before * 9 / 10);
	round_of(9, 0);
	round_of(9, 0);
	round_of(9, 0);
	assert_true(sdr_rate_bps(&r) < before * 9 / 10);
}

/* A queue that has fallen by little, maybe by this sender's own doing, costs as little. */
static void test_a_small_fall_costs_as_little(void **state)
{
	double before;

	grown();
	r.most_queue = 6e6;
	for (int i = 0; i < 4; i++)
		round_of(6, 0);
	before = r.slow + r.fast;
	round_of(4, 0);
	round_of(4, 0);
	assert_true(r.slow + r.fast < before * 0.96);
	assert_true(r.slow + r.fast > before * 0.88);
}

static void test_silence_halves(void **state)
{
	grown();
	bps = sdr_rate_bps(&r);
	for (int i = 0; i < 60; i++) {
		sdr_rate_sent(&r, 10);
		now += RTT_MS * MS;
		sdr_rate_tick(&r, now);
	}
	assert_true(sdr_rate_bps(&r) < bps / 8);
	assert_true(sdr_rate_bps(&r) > 0);
}

/* Rounds whose questions were read late tell nothing, but that the other end lives. */
static void test_rounds_without_a_time(void **state)
{
	grown();
	bps = sdr_rate_bps(&r);
	for (int i = 0; i < 60; i++) {
		sdr_rate_sent(&r, 10);
		sdr_rate_alive(&r);
		now += RTT_MS * MS;
		sdr_rate_tick(&r, now);
	}
	assert_true(sdr_rate_bps(&r) == bps);
}

/* A Write tells of all that was restored at its end: few of many are no full link. */
static void test_restored_over_many_rounds(void **state)
{
	uint64_t before;

	grown();
	round_of(0, 0);
	before = sdr_rate_bps(&r);
	sdr_rate_restored(&r, 300, 30000);
	round_of(0, 0);
	assert_true(sdr_rate_bps(&r) > before);
	before = sdr_rate_bps(&r);
	sdr_rate_restored(&r, 300, 3000);
	round_of(0, 0);
	assert_true(sdr_rate_bps(&r) < before);
}

/* A route that has become longer is no queue for ever. */
static void test_old_delays_are_forgotten(void **state)
{
	grown();
	for (int i = 0; i < 1000; i++)
		round_of(10, 0);
	assert_int_equal(r.queue_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_doubles_until_a_queue_stands),
		cmocka_unit_test(test_loss_without_a_queue_is_not_congestion),
		cmocka_unit_test(test_many_losses_are_congestion_without_a_queue),
		cmocka_unit_test(test_loss_behind_a_queue_shrinks_once_a_round_trip),
		cmocka_unit_test(test_a_queue_ends_the_fast_growth),
		cmocka_unit_test(test_who_sends_little_does_not_grow),
		cmocka_unit_test(test_few_losses_of_few_packets),
		cmocka_unit_test(test_a_long_queue_that_falls_is_a_loss),
		cmocka_unit_test(test_a_small_fall_costs_as_little),
		cmocka_unit_test(test_silence_halves),
		cmocka_unit_test(test_rounds_without_a_time),
		cmocka_unit_test(test_restored_over_many_rounds),
		cmocka_unit_test(test_old_delays_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
