/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/rel/rel.h"

#include <errno.h>
#include <math.h>

#define TAIL 0.999

static struct sdr_choice choose(double loss, uint64_t bytes, double max_sent)
{
	struct sdr_estimate e = { .srtt_ns = 25000000, .loss = loss };
	struct sdr_choice c;

	assert_int_equal(sdr_choose(&e, 400e9, 4096, bytes, SDR_CODE_MDS, max_sent, TAIL, &c), 0);
	assert_true(c.tail_s > 0 && c.tail_s <= c.runner_up_s * 1.0011);
	assert_non_null(c.reason);
	return c;
}

static void test_choices(void **state)
{
	/* Nothing is lost: whatever is sent besides only costs. */
	assert_int_equal(choose(1e-7, 1 << 16, 2).scheme.kind, SDR_SCHEME_NACK);
	assert_int_equal(choose(1e-2, 128u << 20, 2).scheme.kind, SDR_SCHEME_HYBRID);
	assert_int_equal(choose(1e-2, 128u << 20, 2).scheme.m, 8);
	assert_int_equal(choose(1e-5, 8ull << 30, 2).scheme.m, 2);
	/* Without leave to send more, there is no code. */
	assert_int_equal(choose(1e-2, 128u << 20, 1).scheme.kind, SDR_SCHEME_NACK);
}

/* Where few are lost, parity is for the slowest Writes alone. */
static void test_tail(void **state)
{
	struct sdr_estimate e = { .srtt_ns = 25000000, .loss = 4e-5 };
	struct sdr_choice c;

	assert_int_equal(sdr_choose(&e, 1e9, 4096, 512 << 10, SDR_CODE_MDS, 1.3, TAIL, &c), 0);
	assert_int_equal(c.scheme.kind, SDR_SCHEME_HYBRID);
	assert_int_equal(sdr_choose(&e, 1e9, 4096, 512 << 10, SDR_CODE_MDS, 1.3, 0.99, &c), 0);
	assert_int_equal(c.scheme.kind, SDR_SCHEME_NACK);
}

/* A wide code needs less parity; where it did not suffice too often, losses come in bursts. */
static void test_wide(void **state)
{
	struct sdr_estimate e = { .srtt_ns = 25000000, .loss = 1e-2 };
	struct sdr_choice c;

	assert_int_equal(sdr_choose(&e, 1e9, 4096, 512 << 10, SDR_CODE_MDS, 1.3, 0.99, &c), 0);
	assert_int_equal(c.scheme.k, 128);
	assert_in_range(c.scheme.m, 4, 8);
	for (int i = 0; i < 3; i++)
		sdr_estimate_coded(&e, true);
	assert_int_equal(sdr_choose(&e, 1e9, 4096, 512 << 10, SDR_CODE_MDS, 1.3, 0.99, &c), 0);
	assert_int_equal(c.scheme.k, 32);
	assert_int_equal(c.scheme.m, 4);
	for (int i = 0; i < 100; i++)
		sdr_estimate_coded(&e, false);
	assert_int_equal(sdr_choose(&e, 1e9, 4096, 512 << 10, SDR_CODE_MDS, 1.3, 0.99, &c), 0);
	assert_int_equal(c.scheme.k, 128);
	/* Of a Write that takes longer than an answer only the end is coded. */
	assert_int_equal(sdr_choose(&e, 1e9, 4096, 8 << 20, SDR_CODE_MDS, 1.3, 0.99, &c), 0);
	assert_int_equal(c.scheme.k, 32);
}

/* By an exhaustive look at the model: none of those that may be taken is better. */
static void test_best(void **state)
{
	for (double loss = 1e-6; loss < 0.03; loss *= 7)
		for (uint64_t bytes = 1 << 16; bytes <= 1ull << 33; bytes *= 8) {
			struct sdr_choice c = choose(loss, bytes, 1.5);
			struct sdr_link link = { 400e9, 25e-3, loss, 4096 };

			for (uint32_t m = 2; m <= 8; m *= 2) {
				struct sdr_scheme s =
					sdr_scheme_make(SDR_SCHEME_HYBRID, 4096, 32, m);

				assert_true(c.tail_s <=
					    sdr_model_quantile(&link, &s, bytes, 0.999) * 1.0011);
			}
		}
}

/* An XOR of so many losses decodes too seldom: what is chosen is the best of what is played, by that code. */
static void test_code(void **state)
{
	struct sdr_estimate e = { .srtt_ns = 25000000, .loss = 1e-2 };
	struct sdr_choice mds, xor;

	assert_int_equal(sdr_choose(&e, 1e9, 4096, 8 << 20, SDR_CODE_MDS, 1.3, TAIL, &mds), 0);
	assert_int_equal(sdr_choose(&e, 1e9, 4096, 8 << 20, SDR_CODE_XOR, 1.3, TAIL, &xor), 0);
	assert_int_equal(mds.scheme.kind, SDR_SCHEME_EC);
	assert_int_not_equal(xor.scheme.kind, SDR_SCHEME_EC);
	assert_int_equal(xor.scheme.code, SDR_CODE_XOR);
	assert_true(xor.tail_s > mds.tail_s);
}

/* Of a Write that is shorter than a chunk only its own bytes take time, and can be lost. */
static void test_short(void **state)
{
	struct sdr_scheme s = sdr_scheme_make(SDR_SCHEME_SR, 256 << 10, 0, 0);
	struct sdr_link slow = { 1e6, 25e-3, 0, 4096 }, lossy = { 1e9, 1e-3, 1e-2, 4096 };

	assert_true(fabs(sdr_model_mean(&slow, &s, 100) - (0.025 + 100 * 8 / 1e6)) < 1e-9);
	assert_true(fabs(sdr_model_mean(&lossy, &s, 1 << 10) / 1.04e-3 - 1) < 0.01);
}

/* Where groups of an XOR are lost for certain, as far as numbers tell that. */
static void test_hopeless(void **state)
{
	struct sdr_link link = { 1e9, 25e-3, 0.4, 4096 };
	struct sdr_scheme s = sdr_scheme_make(SDR_SCHEME_HYBRID, 4096, 128, 1);

	s.code = SDR_CODE_XOR;
	assert_true(fabs(sdr_model_mean(&link, &s, 8 << 20) / 0.4333 - 1) < 0.001);
	assert_true(fabs(sdr_model_fallback(&link, &s, 8 << 20) - 1) < 1e-9);
	link.loss = 0; /* never -0 */
	assert_false(signbit(sdr_model_fallback(&link, &s, 8 << 20)));
}

static void test_nonsense(void **state)
{
	struct sdr_estimate e = { 0 };
	struct sdr_choice c;
	struct sdr_link link = { 1e9, 25e-3, 1e-3, 4096 };
	struct sdr_scheme s = sdr_scheme_make(SDR_SCHEME_EC, 4096, 0, 8);

	assert_int_equal(sdr_choose(&e, 1e9, 4096, 1 << 20, SDR_CODE_MDS, 2, TAIL, &c),
			 -EINVAL); /* no round trip is known */
	errno = 0;
	assert_true(isnan(sdr_model_mean(&link, &s, 1 << 20)));
	assert_int_equal(errno, EINVAL);
	s.k = 32;
	assert_false(isnan(sdr_model_mean(&link, &s, 1 << 20)));
	assert_true(isnan(sdr_model_mean(&link, &s, 0)));
	assert_true(isnan(sdr_model_quantile(&link, &s, 1, 1.0)));
	link.loss = 1;
	assert_true(isnan(sdr_model_mean(&link, &s, 1)));
	link.loss = 0.95; /* no Write ends in reasonable time */
	assert_true(isnan(sdr_model_mean(&link, &s, 1)));
	link.loss = -1e-3;
	assert_true(isnan(sdr_model_mean(&link, &s, 1)));
	link = (struct sdr_link){ 0, 25e-3, 1e-3, 4096 };
	assert_true(isnan(sdr_model_mean(&link, &s, 1)));
}

/* Extremes give an answer, and in no time. */
static void test_extremes(void **state)
{
	for (int kind = SDR_SCHEME_SR; kind <= SDR_SCHEME_HYBRID; kind++)
		for (double loss = 0; loss < 0.9; loss = loss ? loss * 1e3 : 1e-300) {
			struct sdr_scheme s =
				sdr_scheme_make((enum sdr_scheme_kind)kind, 4096, 32, 8);
			struct sdr_link link = { 400e9, 1e-3, loss, 4096 };

			assert_true(isfinite(sdr_model_mean(&link, &s, 1)));
			assert_true(isfinite(sdr_model_mean(&link, &s, 1ull << 40)));
			assert_true(isfinite(sdr_model_quantile(&link, &s, 1ull << 40, 0.999)));
		}
}

static void test_estimates(void **state)
{
	struct sdr_estimate e = { 0 };

	sdr_estimate_rtt(&e, 0);
	assert_int_equal(e.srtt_ns, 0);
	for (int i = 0; i < 100; i++)
		sdr_estimate_rtt(&e, 25000000 + (uint64_t)(i % 2) * 1000000);
	assert_in_range(e.srtt_ns, 25000000, 26000000);
	assert_int_equal(e.min_ns, 25000000);
	sdr_estimate_loss(&e, 0, 0);
	for (int i = 0; i < 1000; i++)
		sdr_estimate_loss(&e, 10000, 10);
	assert_true(fabs(e.loss / 1e-3 - 1) < 0.01);
	for (int i = 0; i < 1000; i++)
		sdr_estimate_loss(&e, 1000000, 0);
	assert_true(e.loss >= 1e-7 && e.loss < 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices),	  cmocka_unit_test(test_tail),
		cmocka_unit_test(test_best),	  cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_extremes),  cmocka_unit_test(test_code),
		cmocka_unit_test(test_short),	  cmocka_unit_test(test_hopeless),
		cmocka_unit_test(test_estimates), cmocka_unit_test(test_wide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
