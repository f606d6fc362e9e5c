/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/rel/rel.h"

#include <errno.h>
#include <string.h>

enum { CHUNKS = 100, RTT = 100000 };

static struct sdr_tx tx;
static uint64_t acked[2], wanted[2], now;
static uint32_t left_at[CHUNKS];
static struct sdr_rel_actions actions;
static struct sdr_range range;

static void begin(enum sdr_scheme_kind kind)
{
	struct sdr_plan p = { .kind = kind, .chunks = CHUNKS, .k = 32, .m = 8, .bytes = 1 };

	p.inject_ns = 1000;
	p.rtt_ns = RTT;
	p.rto_ns = 3 * RTT;
	sdr_plan_lay(&p, 1.25);
	now = 0;
	assert_int_equal(sdr_tx_init(&tx, 5, &p, acked, wanted, left_at, 1000 * RTT), 0);
	assert_false(sdr_tx_next(&tx, 10, now, &range)); /* no CTS */
	sdr_tx_allow(&tx, now);
}

static void expect(uint32_t first, uint32_t count, bool parity)
{
	assert_true(sdr_tx_next(&tx, 64, now, &range));
	assert_int_equal(range.first, first);
	assert_int_equal(range.count, count);
	assert_int_equal(range.parity, parity);
}

static void ack(uint32_t cumulative, uint32_t base, uint64_t have, uint64_t want)
{
	struct sdr_ack a = { .write = 5, .cumulative = cumulative, .base = base, .nbits = 36 };

	a.have = &have;
	a.wanted = &want;
	a.want = want != 0;
	assert_int_equal(sdr_tx_ack(&tx, &a, now), 0);
}

static void test_order(void **state)
{
	begin(SDR_SCHEME_EC);
	expect(0, 64, false);
	expect(64, 36, false);
	expect(0, 25, true);
	assert_false(sdr_tx_next(&tx, 64, now, &range));
}

/* What is wanted goes before what is new; what is acknowledged, or was not sent yet, not at all. */
static void test_wanted(void **state)
{
	begin(SDR_SCHEME_NACK);
	expect(0, 64, false);
	ack(0, 0, 0xf, 0xff0);
	ack(0, 0, 0x10, 0);
	ack(0, 64, 0, 1); /* chunk 64: still to come */
	expect(5, 7, false);
	expect(64, 36, false);
	assert_int_equal(tx.n_acked, 5);
	assert_int_equal(tx.resent, 7);
	assert_false(sdr_tx_next(&tx, 64, now, &range));
}

/* A chunk that left less than a round trip ago was under way when the receiver missed it. */
static void test_wanted_too_soon(void **state)
{
	begin(SDR_SCHEME_NACK);
	expect(0, 64, false);
	now += 2 * RTT;
	expect(64, 36, false);
	tx.least_rtt_ns = RTT;
	ack(0, 50, 0, 0xfffffffff); /* 50 to 85 */
	expect(50, 14, false);
	assert_false(sdr_tx_next(&tx, 64, now, &range));
	now += 2 * RTT;
	ack(0, 64, 0, 1);
	expect(64, 1, false);
}

static void test_timers(void **state)
{
	begin(SDR_SCHEME_SR);
	expect(0, 64, false);
	now += 20 * RTT / 100;
	expect(64, 36, false);
	ack(10, 0, 0, 0);
	now = 3 * RTT;
	sdr_tx_tick(&tx, now, &actions);
	assert_false(sdr_tx_next(&tx, 64, now, &range)); /* not yet */
	now += 3 * RTT / 32;
	sdr_tx_tick(&tx, now, &actions);
	expect(10, 54, false);
	assert_false(sdr_tx_next(&tx, 64, now, &range)); /* the others are younger */
}

/* Ranges of all Writes are bounded; when there is no room for one more, nothing is sent until one expires. */
static void test_many_flights(void **state)
{
	uint32_t n = 0;

	begin(SDR_SCHEME_SR);
	while (sdr_tx_next(&tx, 1, now, &range) && n < 5000) {
		n++;
		now += RTT / 50;
		ack(0, 0, 0, 1ull << (7 * n % 30)); /* wanted again and again */
	}
	assert_in_range(n, SDR_FLIGHTS, 5000);
	assert_int_equal(tx.flights_n, SDR_FLIGHTS);
	now += 4 * RTT;
	sdr_tx_tick(&tx, now, &actions);
	assert_true(sdr_tx_next(&tx, 1, now, &range));
}

static bool says(enum sdr_rel_say say)
{
	sdr_tx_tick(&tx, now, &actions);
	for (uint32_t i = 0; i < actions.n; i++)
		if (actions.list[i].say == say)
			return true;
	return false;
}

static void test_offer_and_probe(void **state)
{
	begin(SDR_SCHEME_NACK);
	assert_true(says(SDR_SAY_OFFER));
	assert_false(says(SDR_SAY_OFFER));
	now += RTT / 2;
	assert_true(says(SDR_SAY_OFFER));
	expect(0, 64, false);
	now = 3 * RTT;
	assert_true(says(SDR_SAY_PROBE)); /* though it sends: nothing is heard */
	ack(1, 0, 0, 0);
	assert_false(says(SDR_SAY_OFFER));
	assert_false(says(SDR_SAY_PROBE));
	now += 3 * RTT;
	assert_true(says(SDR_SAY_PROBE));
}

static void test_ends(void **state)
{
	begin(SDR_SCHEME_NACK);
	assert_int_equal(sdr_tx_done(&tx, 4, 0), 0); /* another Write */
	assert_int_equal(tx.state, SDR_TX_SENDING);
	assert_int_equal(sdr_tx_done(&tx, 5, 0), 1);
	assert_int_equal(tx.state, SDR_TX_DONE);
	assert_false(sdr_tx_next(&tx, 64, now, &range));
	begin(SDR_SCHEME_NACK);
	assert_int_equal(sdr_tx_done(&tx, 5, -EPROTO), 1);
	assert_int_equal(tx.status, -EPROTO);
	begin(SDR_SCHEME_NACK);
	now = 1000 * RTT;
	sdr_tx_tick(&tx, now, &actions);
	assert_int_equal(tx.status, -ETIMEDOUT);
	assert_string_equal(sdr_tx_state_name(tx.state), "FAILED");
}

static void test_hostile_ack(void **state)
{
	uint64_t all[SDR_WINDOW_BITS / 64 + 1];
	struct sdr_ack a = {
		.write = 5, .nbits = SDR_WINDOW_BITS, .have = all, .wanted = all, .want = true
	};

	memset(all, 0xff, sizeof(all));
	begin(SDR_SCHEME_NACK);
	assert_int_equal(sdr_tx_ack(&tx, &a, now), -EINVAL); /* more than there is */
	a.nbits = 64;
	a.base = 64;
	assert_int_equal(sdr_tx_ack(&tx, &a, now), -EINVAL);
	a.base = 0;
	a.cumulative = CHUNKS + 1;
	assert_int_equal(sdr_tx_ack(&tx, &a, now), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),		cmocka_unit_test(test_wanted),
		cmocka_unit_test(test_timers),		cmocka_unit_test(test_many_flights),
		cmocka_unit_test(test_offer_and_probe), cmocka_unit_test(test_ends),
		cmocka_unit_test(test_hostile_ack),	cmocka_unit_test(test_wanted_too_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
