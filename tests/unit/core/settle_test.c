/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Settle, as a table. */
#include "shiftlib/core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/*
 * One letter per outstanding request: w WRITE, r READ, s two-sided, a atomic, l local; capitals are
 * fenced; a '.' before it: unpublished, a '!': its data had come. Fates: d delivered, a again, n resend (new).
 */
struct row {
	const char *requests;
	uint32_t done, counted; /* counted: how many of the outstanding two-sided the peer has */
	const char *fates;
	enum sc_reason reason;
	uint32_t delivered;
};

static const struct row rows[] = {
	{ "", 0, 0, "", SC_REASON_NONE, 0 },
	{ "w", 0, 0, "n", SC_REASON_NONE, 0 },
	{ "ww", 0, 0, "nn", SC_REASON_NONE, 0 },
	{ "s", 0, 0, "n", SC_REASON_NONE, 0 },
	{ "s", 0, 1, "d", SC_REASON_NONE, 1 },
	{ "s", 5, 1, "d", SC_REASON_NONE, 1 },
	{ "wws", 0, 0, "nnn", SC_REASON_NONE, 0 },
	{ "wws", 0, 1, "ddd", SC_REASON_NONE, 3 },
	{ "wwsww", 0, 1, "dddnn", SC_REASON_NONE, 3 },
	{ "wswsw", 3, 1, "ddnnn", SC_REASON_NONE, 2 },
	{ "wswsw", 3, 2, "ddddn", SC_REASON_NONE, 4 },
	{ "lsls", 0, 1, "ddnn", SC_REASON_NONE, 2 },
	/* counts wrap */
	{ "wsws", UINT32_MAX, 1, "ddnn", SC_REASON_NONE, 2 },
	{ "wsws", UINT32_MAX - 1, 2, "dddd", SC_REASON_NONE, 4 },
	/* counts that cannot be */
	{ "s", 5, (uint32_t)-1, NULL, SC_REASON_MISCOUNT, 0 },
	{ "s", 5, 2, NULL, SC_REASON_MISCOUNT, 0 },
	{ "ww", 5, 1, NULL, SC_REASON_MISCOUNT, 0 },
	{ "", 5, (uint32_t)-5, NULL, SC_REASON_MISCOUNT, 0 },
	{ ".s", 0, 1, NULL, SC_REASON_MISCOUNT, 0 },
	/* READs */
	{ "r", 0, 0, "n", SC_REASON_NONE, 0 },
	{ "rs", 0, 0, "nn", SC_REASON_NONE, 0 },
	{ "rs", 0, 1, "ad", SC_REASON_NONE, 0 },
	{ "wrsw", 0, 1, "dadn", SC_REASON_NONE, 1 },
	{ "srs", 0, 2, "dad", SC_REASON_NONE, 1 },
	{ "rS", 0, 1, "dd", SC_REASON_NONE, 2 },
	{ "rWs", 0, 1, "ddd", SC_REASON_NONE, 3 },
	{ "rRs", 0, 1, "dad", SC_REASON_NONE, 1 },
	{ "rLs", 0, 1, "ddd", SC_REASON_NONE, 3 },
	{ "rSrs", 0, 2, "ddad", SC_REASON_NONE, 2 },
	{ "rSrs", 0, 1, "ddnn", SC_REASON_NONE, 2 },
	{ "rws", 0, 1, "add", SC_REASON_NONE, 0 },
	/* a READ before a fenced request of unknown fate */
	{ "rW", 0, 0, NULL, SC_REASON_FENCED_READ, 0 },
	{ "rwW", 0, 0, NULL, SC_REASON_FENCED_READ, 0 },
	{ "rS", 0, 0, NULL, SC_REASON_FENCED_READ, 0 },
	{ "rsW", 0, 1, NULL, SC_REASON_FENCED_READ, 0 },
	{ "wsrW", 0, 1, NULL, SC_REASON_FENCED_READ, 2 },
	{ "rSW", 0, 1, "ddn", SC_REASON_NONE, 2 },
	{ "Wr", 0, 0, "nn", SC_REASON_NONE, 0 },
	{ "rR", 0, 0, "nn", SC_REASON_NONE, 0 }, /* nothing changes: both are read again */
	{ "rL", 0, 0, "nn", SC_REASON_NONE, 0 },
	{ "rRw", 0, 0, NULL, SC_REASON_FENCED_READ, 0 },
	{ "rLw", 0, 0, NULL, SC_REASON_FENCED_READ, 0 },
	{ "rRsw", 0, 1, "dadn", SC_REASON_NONE, 1 },
	{ "r.W", 0, 0, "nn", SC_REASON_NONE, 0 }, /* never ran */
	/* atomics */
	{ "a", 0, 0, NULL, SC_REASON_ATOMIC, 0 },
	{ "wsa", 0, 1, NULL, SC_REASON_ATOMIC, 2 },
	{ "was", 0, 1, NULL, SC_REASON_ATOMIC, 1 },
	{ "wwaS", 0, 1, NULL, SC_REASON_ATOMIC, 2 },
	{ "ws.a", 0, 0, "nnn", SC_REASON_NONE, 0 },
	{ "raW", 0, 0, NULL, SC_REASON_ATOMIC, 0 },
};

/*
 * The peer's NIC died, and what was not seen complete was recalled: acknowledged is not placed. What was
 * seen last is 's'afe or 'u'nplaced; 'd': unplaced, but the NIC had its way to memory until it had drained.
 */
static const struct dead_row {
	struct row row;
	char seen;
	bool unplaced;
} dead_rows[] = {
	{ { "w", 4, 0, "n", SC_REASON_NONE, 0 }, 's', false },
	{ { "wsw", 4, 1, "ddn", SC_REASON_NONE, 2 }, 's', false },
	{ { "s", 4, (uint32_t)-1, NULL, SC_REASON_MISCOUNT, 0 }, 's', false },
	{ { "", 4, (uint32_t)-1, NULL, SC_REASON_MISCOUNT, 0 }, 's', false },
	{ { "", 4, 0, "", SC_REASON_NONE, 0 }, 'u', true },
	{ { "ww", 4, 0, "nn", SC_REASON_NONE, 0 }, 'u', true },
	{ { "ws", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, 'u', true },
	{ { "r", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, 'u', true },
	{ { "wa", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, 'u', true },
	{ { "lw", 4, 0, "nn", SC_REASON_NONE, 0 }, 'u', true },
	{ { "wsws", 4, 1, "ddnn", SC_REASON_NONE, 2 },
	  'u',
	  false }, /* counted behind what was seen */
	/* what was read proves what was written before it, and needs not be read again */
	{ { "w!rws", 4, 0, "ddnn", SC_REASON_NONE, 2 }, 'u', false },
	{ { "wsw!r", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, 'u', true }, /* the receive may be lost */
	{ { "wsw!rw", 4, 1, "ddddn", SC_REASON_NONE, 4 }, 's', false },
	{ { "!rs", 4, 1, "dd", SC_REASON_NONE, 2 }, 's', false },
	{ { "!aw!r", 4, 0, "ddd", SC_REASON_NONE, 3 }, 's', false },
	{ { "w!aw", 4, 0, NULL, SC_REASON_ATOMIC, 0 }, 's', false },
	{ { "was", 4, 1, NULL, SC_REASON_ATOMIC, 1 }, 's', false },
	{ { "w!as", 4, 1, "ddd", SC_REASON_NONE, 3 }, 's', false },
	/* an atomic that was answered is in memory too, with all before it */
	{ { "w!aw", 4, 0, "ddn", SC_REASON_NONE, 2 }, 'd', false },
	{ { "w!aa", 4, 0, NULL, SC_REASON_ATOMIC, 2 }, 'd', false },
	{ { "s!a", 4, 0, NULL, SC_REASON_ATOMIC, 0 }, 'd', false }, /* the receive may be lost */
	{ { "ws", 4, 0, "nn", SC_REASON_NONE, 0 }, 'd', false },
};

static struct sp_request request_of(char letter)
{
	static const char kinds[] = "wrsal";
	char lower = letter | 0x20;

	return (struct sp_request){
		.kind = (uint8_t)(strchr(kinds, lower) - kinds),
		.send_fence = letter != lower,
		.published = 1,
	};
}

static uint32_t parse(const char *text, struct sp_request *out)
{
	uint32_t n = 0;

	for (; *text; text++) {
		bool published = *text != '.', answered = *text == '!';

		text += !published || answered;
		out[n] = request_of(*text);
		out[n].answered = answered;
		out[n++].published = published;
	}
	return n;
}

static void check(const struct row *row, char seen, bool unplaced)
{
	struct sp_request requests[16];
	uint32_t n = parse(row->requests, requests), posted = row->done;
	struct sc_verdict verdict;
	struct sc_counts counts;
	enum sp_fate fates[16];
	enum sc_reason reason;
	char text[17] = "";

	for (uint32_t i = 0; i < n; i++)
		posted += requests[i].kind == SP_REQ_TWO_SIDED && requests[i].published;
	counts = (struct sc_counts){ .done = row->done,
				     .posted = posted,
				     .peer = row->done + row->counted,
				     .recalled = seen,
				     .cut = seen && seen != 'd',
				     .seen = seen == 's' ? SP_SEEN_SAFE : SP_SEEN_UNPLACED };
	reason = sc_settle(requests, n, &counts, fates, &verdict);
	if (reason != row->reason || verdict.delivered != row->delivered ||
	    verdict.unplaced != unplaced)
		fail_msg("'%s' counted %d seen '%c': %s, %u delivered, unplaced %d", row->requests,
			 (int)row->counted, seen ? seen : '-', sc_reason_name(reason),
			 verdict.delivered, verdict.unplaced);
	for (uint32_t i = 0; row->fates && i < n; i++)
		text[i] = "dan"[fates[i]];
	if (row->fates && strcmp(text, row->fates))
		fail_msg("'%s' counted %d: fates %s, expected %s", row->requests, (int)row->counted,
			 text, row->fates);
}

static void settle_table(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i], 0, false);
}

static void settle_of_a_dead_nic(void **state)
{
	for (size_t i = 0; i < sizeof(dead_rows) / sizeof(*dead_rows); i++)
		check(&dead_rows[i].row, dead_rows[i].seen, dead_rows[i].unplaced);
}

static void a_count_beyond_what_was_posted_is_refused(void **state)
{
	struct sp_request r[2] = { request_of('s'), request_of('s') };
	const struct sc_counts counts = { .done = 0, .posted = 1, .peer = 2 };
	struct sc_verdict verdict;
	enum sp_fate fates[2];

	assert_int_equal(sc_settle(r, 2, &counts, fates, &verdict), SC_REASON_MISCOUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settle_table),
		cmocka_unit_test(settle_of_a_dead_nic),
		cmocka_unit_test(a_count_beyond_what_was_posted_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
