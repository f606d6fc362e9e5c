/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/rel/rel.h"

#include <errno.h>
#include <string.h>

enum { CHUNKS = 96, PARITY = 32, RTT = 100000, REORDER = 2000, INJECT = 1000 };

static struct {
	struct sdr_rx rx;
	_Atomic uint64_t data[2], parity[1];
	uint64_t have[2], have_parity[1], want[2];
	uint32_t asked[CHUNKS];
	struct sdr_sub subs[CHUNKS];
	struct sdr_rel_actions a;
	uint64_t now;
} t;

static struct sdr_plan plan(enum sdr_scheme_kind kind, enum sdr_code_kind code)
{
	struct sdr_plan p = {
		.kind = kind, .code = code, .chunks = CHUNKS, .k = 8, .m = 2, .bytes = 1
	};

	p.inject_ns = INJECT;
	p.rtt_ns = RTT;
	p.reorder_ns = REORDER;
	p.rto_ns = 3 * RTT;
	p.fto_ns = RTT;
	sdr_plan_lay(&p, 0.25);
	return p;
}

static void begin(enum sdr_scheme_kind kind, enum sdr_code_kind code)
{
	const struct sdr_rx_memory m = { t.have, t.have_parity, t.want, t.asked, t.subs };
	struct sdr_plan p = plan(kind, code);

	memset(&t.a, 0, sizeof(t.a));
	for (int i = 0; i < 2; i++)
		atomic_store(&t.data[i], 0);
	atomic_store(&t.parity[0], 0);
	t.now = 1000;
	sdr_rx_init(&t.rx, 9, CHUNKS, PARITY, &m, 100 * RTT);
	sdr_rx_bits(&t.rx, t.data, t.parity);
	assert_int_equal(sdr_rx_offer(&t.rx, &p, t.now), 0);
	sdr_rx_poll(&t.rx, t.now, &t.a); /* says that it knows */
	assert_int_equal(t.a.n, 1);
}

static void data(uint32_t i)
{
	atomic_fetch_or(&t.data[i / 64], 1ull << (i % 64));
}

static void all_but(uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (i < a || i >= b)
			data(i);
}

/* The first action of a kind, after a look; NULL: none. */
static const struct sdr_rel_action *look(uint64_t later, enum sdr_rel_say say)
{
	t.now += later;
	sdr_rx_poll(&t.rx, t.now, &t.a);
	for (uint32_t i = 0; i < t.a.n; i++)
		if (t.a.list[i].say == say)
			return &t.a.list[i];
	return NULL;
}

/* Far ahead of a hole: of a message of more chunks than an ACK has bits for, all that came is named. */
static void test_far(void **state)
{
	enum { MANY = 2 * SDR_WINDOW_BITS + 100, WORDS = (MANY + SDR_WORD - 1) / SDR_WORD };
	static _Atomic uint64_t data_bits[WORDS];
	static uint64_t have[WORDS], want[WORDS], none[1], named[WORDS];
	static uint32_t asked[MANY];
	static struct sdr_sub subs[MANY];
	const struct sdr_rx_memory m = { have, none, want, asked, subs };
	struct sdr_plan p = plan(SDR_SCHEME_SR, SDR_CODE_MDS);
	uint32_t missing = 0;

	p.chunks = p.coded_from = MANY;
	sdr_rx_init(&t.rx, 9, MANY, 1, &m, 100 * RTT);
	sdr_rx_bits(&t.rx, data_bits, t.parity);
	assert_int_equal(sdr_rx_offer(&t.rx, &p, 1000), 0);
	for (uint32_t i = 1; i < MANY; i++)
		atomic_fetch_or(&data_bits[i / SDR_WORD], 1ull << (i % SDR_WORD));
	sdr_rx_poll(&t.rx, 2000, &t.a);
	for (uint32_t i = 0; i < t.a.n; i++) {
		struct sdr_ack ack = sdr_rx_ack(&t.rx, &t.a.list[i]);

		for (uint32_t w = 0; w < sdr_words(ack.nbits); w++)
			named[ack.base / SDR_WORD + w] |= ack.have[w];
	}
	for (uint32_t i = 0; i < MANY; i++)
		missing += !(named[i / SDR_WORD] >> (i % SDR_WORD) & 1);
	assert_int_equal(missing, 1);
}

/* What is refused has failed, and whoever asks hears of it. */
static void test_refused(void **state)
{
	begin(SDR_SCHEME_EC, SDR_CODE_MDS);
	sdr_rx_refuse(&t.rx, -EPROTO);
	assert_int_equal(t.rx.state, SDR_RX_FAILED);
	assert_non_null(look(1, SDR_SAY_DONE));
	assert_int_equal(t.a.list[0].status, -EPROTO);
	sdr_rx_refuse(&t.rx, -EINVAL); /* as an OFFER that is said again */
	assert_non_null(look(1, SDR_SAY_DONE));
	assert_int_equal(t.a.list[0].status, -EPROTO);
}

static uint64_t wanted(uint64_t later)
{
	const struct sdr_rel_action *a = look(later, SDR_SAY_ACK);

	return a && a->want ? sdr_rx_ack(&t.rx, a).wanted[0] : 0;
}

static void test_done(void **state)
{
	begin(SDR_SCHEME_EC, SDR_CODE_MDS);
	all_but(0, 1);
	assert_null(look(1, SDR_SAY_DONE));
	data(0);
	assert_non_null(look(1, SDR_SAY_DONE)); /* no parity is waited for */
	assert_int_equal(t.rx.state, SDR_RX_DONE);
	assert_null(look(1, SDR_SAY_DONE));
	sdr_rx_probe(&t.rx, t.now);
	assert_non_null(look(1, SDR_SAY_DONE));
}

/* A hole is named when the network has no more excuse, once a round trip. */
static void test_holes(void **state)
{
	begin(SDR_SCHEME_NACK, SDR_CODE_MDS);
	for (uint32_t i = 0; i < 20; i++)
		if (i != 3 && i != 7)
			data(i);
	assert_true(wanted(1) == 0);
	assert_true(wanted(REORDER) == 0);
	assert_true(wanted(REORDER) == (1ull << 3 | 1ull << 7));
	data(7);
	assert_true(wanted(RTT / 2) == 0);
	/* By now the end is over, too. */
	assert_true(wanted(RTT / 2 + 2 * REORDER) == (1ull << 3 | ~0ull << 20));
}

/* What is lost at the end is found when the end is over. */
static void test_tail(void **state)
{
	begin(SDR_SCHEME_NACK, SDR_CODE_MDS);
	for (uint32_t i = 0; i < 60; i++)
		data(i);
	assert_true(wanted(1) == 0);
	assert_true(wanted(90 * INJECT) == 0);
	assert_true(wanted(10 * INJECT) == 0xfull << 60);
}

/* A sender that came to a stand is not at its end by its plan: what it has not sent yet is not named. */
static void test_slow_sender(void **state)
{
	begin(SDR_SCHEME_NACK, SDR_CODE_MDS);
	for (uint32_t i = 0; i < 60; i++)
		data(i);
	assert_true(wanted(1) == 0);
	assert_true(wanted(CHUNKS * INJECT - 1000) == 0);
	data(60);
	assert_true(wanted(1) == 0);
	/* 35 are left, each as far from the last as the 61 before were */
	assert_true(wanted(50 * INJECT) == 0);
	assert_true(wanted(9 * INJECT) == 7ull << 61);
}

static void test_sr_names_nothing(void **state)
{
	begin(SDR_SCHEME_SR, SDR_CODE_MDS);
	all_but(10, 20);
	assert_true(wanted(1) == 0);
	assert_true(wanted(10 * RTT) == 0);
	sdr_rx_probe(&t.rx, t.now);
	assert_true(wanted(1) == 0x3ffull << 10);
}

/* 12 submessages of 8 + 2, interleaved: chunk i is of submessage i mod 12. */
static void test_mds(void **state)
{
	const struct sdr_rel_action *a;

	begin(SDR_SCHEME_EC, SDR_CODE_MDS);
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (i != 5 && i != 17 && i != 6)
			data(i);
	assert_null(look(1, SDR_SAY_DECODE));
	atomic_store(&t.parity[0], 1ull << 5);
	assert_null(look(1, SDR_SAY_DECODE)); /* of submessage 5 two are missing */
	atomic_store(&t.parity[0], 1ull << 5 | 1ull << 17);
	a = look(1, SDR_SAY_DECODE);
	assert_non_null(a);
	assert_int_equal(a->n, 5);
	assert_true(!(sdr_rx_ack(&t.rx, a).have[0] >> 5 & 1)); /* not before it is decoded */
	assert_int_equal(sdr_rx_decoded(&t.rx, 6, t.now), -EINVAL);
	assert_int_equal(sdr_rx_decoded(&t.rx, 5, t.now), 0);
	assert_int_equal(sdr_rx_decoded(&t.rx, 5, t.now), -EINVAL);
	assert_int_equal(t.rx.n_have, CHUNKS - 1);
	/* Chunk 6 has no parity: the fallback, after the end of all and the timeout. */
	assert_true(wanted((CHUNKS + 24) * INJECT) == 0);
	assert_true(wanted(RTT + REORDER) == 1ull << 6);
}

static void test_xor(void **state)
{
	begin(SDR_SCHEME_EC, SDR_CODE_XOR);
	/* Of submessage 0: places 0 (chunk 0) and 2 (chunk 24) are of one group, 1 (chunk 12) of the other. */
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (i != 0 && i != 24)
			data(i);
	atomic_store(&t.parity[0], 1ull | 1ull << 12);
	assert_null(look(1, SDR_SAY_DECODE));
	data(24);
	assert_non_null(look(1, SDR_SAY_DECODE));
	begin(SDR_SCHEME_EC, SDR_CODE_XOR);
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (i != 0 && i != 12)
			data(i);
	atomic_store(&t.parity[0], 1ull);
	assert_null(look(1, SDR_SAY_DECODE));
	atomic_store(&t.parity[0], 1ull | 1ull << 12);
	assert_non_null(look(1, SDR_SAY_DECODE));
}

static void test_hybrid(void **state)
{
	begin(SDR_SCHEME_HYBRID, SDR_CODE_MDS);
	assert_int_equal(t.rx.plan.coded_from, CHUNKS - 26);
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (i != 10 && i != 80)
			data(i);
	assert_true(wanted(1) == 0);
	wanted(REORDER);
	assert_true(wanted(REORDER) == 1ull << 10); /* the head alone */
	assert_true(!(t.want[1] >> 16 & 1));
}

static void test_bad_offers(void **state)
{
	struct sdr_plan p = plan(SDR_SCHEME_EC, SDR_CODE_MDS), q;

	for (int i = 0; i < 3; i++) {
		begin(SDR_SCHEME_EC, SDR_CODE_MDS);
		t.rx.offered = false;
		q = p;
		if (i == 0)
			q.chunks = CHUNKS + 1;
		if (i == 1)
			q.k = 0;
		if (i == 2)
			q.parity = PARITY + 1;
		assert_int_equal(sdr_rx_offer(&t.rx, &q, t.now), -EINVAL);
		assert_int_equal(t.rx.state, SDR_RX_FAILED);
		assert_int_equal(look(1, SDR_SAY_DONE)->status, -EPROTO);
	}
}

static void test_deadline(void **state)
{
	begin(SDR_SCHEME_NACK, SDR_CODE_MDS);
	all_but(0, 1);
	t.now = 100 * RTT;
	sdr_rx_poll(&t.rx, t.now, &t.a);
	assert_int_equal(t.rx.state, SDR_RX_FAILED);
	assert_int_equal(t.rx.status, -ETIMEDOUT);
	assert_string_equal(sdr_rx_state_name(t.rx.state), "FAILED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_done),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_slow_sender),
		cmocka_unit_test(test_sr_names_nothing),
		cmocka_unit_test(test_mds),
		cmocka_unit_test(test_xor),
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_bad_offers),
		cmocka_unit_test(test_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
