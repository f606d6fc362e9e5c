/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Compare-and-swaps whose answers are lost, decided by the word, as a table. */
#include "shiftlib/core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { FREE = 0, OWN = 7, OTHER = 9, WORD = 4096 };

/*
 * One letter per request: o, x, f a compare-and-swap whose word holds its own value, another one, the one that it
 * compared with; u one of which nothing was told; i one that puts in what it compared with; a another atomic; w a
 * WRITE elsewhere, z one over the word, r READ, s two-sided; capitals are fenced. Fates: d delivered, w won, a READ
 * again, n again. ran: so many ran by the expected PSN; -1: not told.
 */
static const struct row {
	const char *requests;
	int ran;
	uint32_t counted;
	const char *fates;
	enum sc_reason reason;
} rows[] = {
	/* its own value is there: it has swapped; else it has not, whatever there is */
	{ "o", -1, 0, "w", SC_REASON_NONE },
	{ "x", -1, 0, "n", SC_REASON_NONE },
	{ "f", -1, 0, "n", SC_REASON_NONE },
	{ "o", 1, 0, "w", SC_REASON_NONE },
	{ "x", 1, 0, "n", SC_REASON_NONE },
	{ "f", 1, 0, "n", SC_REASON_NONE },
	/* what is known never to have run is not asked for */
	{ "wf", 1, 0, "dn", SC_REASON_NONE },
	{ "u", 0, 0, "n", SC_REASON_NONE },
	/* nothing was told, or nothing can be */
	{ "u", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "u", 1, 0, NULL, SC_REASON_ATOMIC },
	{ "a", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "i", -1, 0, NULL, SC_REASON_ATOMIC },
	/* lock and read; the READ comes behind the lock */
	{ "or", 2, 0, "wa", SC_REASON_NONE },
	{ "xr", 2, 0, "na", SC_REASON_NONE },
	{ "fr", 1, 0, "nn", SC_REASON_NONE },
	{ "wos", -1, 1, "dwd", SC_REASON_NONE },
	{ "wxs", -1, 1, "dnd", SC_REASON_NONE },
	{ "sow", -1, 0, "nwn", SC_REASON_NONE },
	{ "oa", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "oa", 1, 0, "wn", SC_REASON_NONE },
	/* its owner may have changed it already */
	{ "oz", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "fz", 2, 0, NULL, SC_REASON_ATOMIC },
	{ "oz", 1, 0, "wn", SC_REASON_NONE },
	{ "fo", -1, 0, NULL, SC_REASON_ATOMIC },
	/* what comes again would come over it */
	{ "zo", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "zo", 2, 0, "dw", SC_REASON_NONE },
	/* the answer had come, and what may be done with it has begun */
	{ "xW", -1, 0, NULL, SC_REASON_ATOMIC },
	{ "oS", 2, 1, NULL, SC_REASON_ATOMIC },
	{ "xW", 1, 0, "nn", SC_REASON_NONE },
};

static struct sp_request request_of(char letter)
{
	char lower = letter | 0x20;
	struct sp_request r = { .published = 1, .send_fence = letter != lower, .packets = 1 };

	r.kind = lower == 'w' || lower == 'z' ? SP_REQ_WRITE
		 : lower == 'r'		      ? SP_REQ_READ
		 : lower == 's'		      ? SP_REQ_TWO_SIDED
					      : SP_REQ_ATOMIC;
	if (lower == 'z' || r.kind == SP_REQ_ATOMIC) {
		r.addr = lower == 'z' ? WORD + 7 : WORD;
		r.bytes = 8;
	}
	if (lower == 'a')
		r.addr = WORD + 8;
	if (r.kind != SP_REQ_ATOMIC || lower == 'a')
		return r;
	r.cas = 1;
	r.compare = FREE;
	r.swap = lower == 'i' ? FREE : OWN;
	r.told = lower != 'u';
	r.word = lower == 'o' ? OWN : lower == 'x' ? OTHER : FREE;
	return r;
}

static void check(const struct row *row)
{
	uint32_t n = (uint32_t)strlen(row->requests);
	struct sp_request requests[8] = { 0 };
	enum sp_fate fates[8];
	struct sc_verdict verdict;
	struct sc_counts counts = { .peer = row->counted, .exact = row->ran >= 0 };
	enum sc_reason reason;
	char text[9] = "";

	for (uint32_t i = 0; i < n; i++) {
		requests[i] = request_of(row->requests[i]);
		requests[i].numbered = 1;
		requests[i].psn = i;
		counts.posted += requests[i].kind == SP_REQ_TWO_SIDED;
	}
	counts.expected_psn = (uint32_t)(row->ran < 0 ? 0 : row->ran);
	reason = sc_settle(requests, n, &counts, fates, &verdict);
	for (uint32_t i = 0; i < n; i++)
		text[i] = "dwan"[fates[i]];
	if (reason != row->reason || (row->fates && strcmp(text, row->fates)))
		fail_msg("'%s' ran %d counted %u: %s, %s", row->requests, row->ran, row->counted,
			 sc_reason_name(reason), text);
}

static void decided_by_the_word(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i]);
}

static void asked_for_only_where_it_tells(void **state)
{
	struct sp_request unpublished = request_of('u');

	for (const char *c = "oxfu"; *c; c++)
		assert_true(sc_owner_asks(&(struct sp_request[]){ request_of(*c) }[0]));
	for (const char *c = "iawzrs"; *c; c++)
		assert_false(sc_owner_asks(&(struct sp_request[]){ request_of(*c) }[0]));
	unpublished.published = 0;
	assert_false(sc_owner_asks(&unpublished));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decided_by_the_word),
		cmocka_unit_test(asked_for_only_where_it_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
