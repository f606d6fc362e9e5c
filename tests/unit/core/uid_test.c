/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Compare-and-swaps of shift/shift_uid.h whose answers are lost: which run again, and which complete without. */
#include "shiftlib/core/core.h"
#include "shiftlib/core/internal.h"
#include "shiftlib/core/settle.h"
#include "uid/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NUMBER (UID_MARK << 56 | 3ull << 48 | 77)
#define STATE  (UID_COMMITTED << 56 | 3ull << 48 | 13)

enum { FREE = 0, VALUE = 7 };

/* A call of shift_uid_cas(): record, its state, the word; and another's compare-and-swap. */
static void requests_of_call(struct sp_request requests[3])
{
	memset(requests, 0, 3 * sizeof(*requests));
	for (uint32_t i = 0; i < 3; i++)
		requests[i] = (struct sp_request){ .kind = i ? SP_REQ_ATOMIC : SP_REQ_WRITE,
						   .published = 1,
						   .numbered = 1,
						   .psn = i,
						   .packets = 1,
						   .cas = i > 0,
						   .uid = 1 };
	requests[1].compare = STATE;
	requests[1].swap = NUMBER;
	requests[2].compare = FREE;
	requests[2].swap = NUMBER;
}

/* ran: so many, by the expected PSN; -1: not told. */
static enum sc_reason settle(const struct sp_request *requests, uint32_t n, int ran,
			     enum sp_fate *fates)
{
	struct sc_counts counts = { .exact = ran >= 0,
				    .expected_psn = ran < 0 ? 0 : (uint32_t)ran };
	struct sc_verdict verdict;

	return sc_settle(requests, n, &counts, fates, &verdict);
}

static void what_decides_completes_without_an_answer(void **state)
{
	struct sp_request requests[3];
	enum sp_fate fates[3];

	requests_of_call(requests);
	assert_int_equal(settle(requests, 3, -1, fates), SC_REASON_NONE);
	assert_int_equal(fates[0], SP_FATE_RESEND);
	assert_int_equal(fates[1], SP_FATE_RESEND);
	assert_int_equal(fates[2], SP_FATE_DELIVERED);
	assert_int_equal(settle(requests, 3, 3, fates), SC_REASON_NONE);
	assert_int_equal(fates[2], SP_FATE_DELIVERED);
	/* it never ran: now it does, and is answered */
	assert_int_equal(settle(requests, 3, 2, fates), SC_REASON_NONE);
	assert_int_equal(fates[2], SP_FATE_RESEND);
}

static void the_second_stage_runs_again(void **state)
{
	struct sp_request requests[3];
	enum sp_fate fates[3];

	requests_of_call(requests);
	requests[1].compare = NUMBER;
	requests[1].swap = NUMBER | 1ull << 56;
	requests[2].compare = NUMBER;
	requests[2].swap = VALUE;
	assert_int_equal(settle(&requests[1], 2, -1, fates), SC_REASON_NONE);
	assert_int_equal(fates[0], SP_FATE_RESEND);
	assert_int_equal(fates[1], SP_FATE_RESEND);
}

/* Without the process' word, of other atomics, and where an answer had come whose effect may be lost. */
static void others_end(void **state)
{
	struct sp_request r[3];
	enum sp_fate fates[3];

	requests_of_call(r);
	r[2].uid = 0;
	assert_int_equal(settle(r, 3, -1, fates), SC_REASON_ATOMIC);
	requests_of_call(r);
	r[2].cas = 0;
	assert_int_equal(settle(r, 3, -1, fates), SC_REASON_ATOMIC);
	requests_of_call(r);
	r[2].swap = VALUE;
	assert_int_equal(settle(r, 3, -1, fates), SC_REASON_ATOMIC);
	requests_of_call(r);
	r[2].swap = NUMBER | 1ull << 56;
	assert_int_equal(settle(r, 3, -1, fates), SC_REASON_ATOMIC);
	requests_of_call(r);
	r[2].answered = 1;
	assert_false(sc_uid_decides(&r[2], fates));
}

static void each_broken_rule_is_noticed(void **state)
{
	struct sp_request requests[3];
	enum sp_fate fates[3];

	requests_of_call(requests);
	sc_mutant = SC_MUTANT_UID_AGAIN;
	assert_int_equal(settle(requests, 3, -1, fates), SC_REASON_NONE);
	assert_int_not_equal(fates[2], SP_FATE_DELIVERED);
	sc_mutant = SC_MUTANT_UID_STEP_DROPPED;
	assert_int_equal(settle(requests, 3, -1, fates), SC_REASON_NONE);
	assert_int_not_equal(fates[1], SP_FATE_RESEND);
	sc_mutant = SC_MUTANT_NONE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_decides_completes_without_an_answer),
		cmocka_unit_test(the_second_stage_runs_again),
		cmocka_unit_test(others_end),
		cmocka_unit_test(each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
