/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * settle_asked N [MUTANT]: sc_settle()'s answers for all lists of up to N requests, a line each. Questions
 * and words are those of walk.ml, which asks the proven function. MUTANT: a number of enum sc_mutant;
 * --rules lists those that break a rule of settle.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/core/internal.h"
#include "shiftlib/core/settle.h"

enum { MAX_REQUESTS = 4, MAX_SYMBOLS = 40, WRAPS_SOON = 0xfffffe };

static struct sp_request symbols[MAX_SYMBOLS];
static uint32_t n_symbols;

static const struct {
	enum sc_mutant mutant;
	const char *name;
} rules[] = {
	{ SC_MUTANT_NO_ANSWER, "resubmit-before-answer" },
	{ SC_MUTANT_READ_NOP, "delivered-read-nop" },
	{ SC_MUTANT_WRITE_AGAIN, "delivered-write-again" },
	{ SC_MUTANT_ATOMIC_AGAIN, "atomic-again" },
	{ SC_MUTANT_FENCED_READ, "fenced-read-again" },
	{ SC_MUTANT_COUNT_UNCHECKED, "count-unchecked" },
	{ SC_MUTANT_CUT_IS_DELIVERED, "x-as-delivered-when-cut" },
	{ SC_MUTANT_WRAP_24, "wrap-24" },
	{ SC_MUTANT_TRUST_UNCHECKED, "trust-unchecked" },
	{ SC_MUTANT_ATOMIC_RAN_AGAIN, "atomic-ran-again" },
	{ SC_MUTANT_ATOMIC_RAN_DROPPED, "atomic-ran-dropped" },
};

/* Only a READ or an atomic has an answer. */
static void list_symbols(void)
{
	static const enum sp_request_kind kinds[] = { SP_REQ_WRITE, SP_REQ_READ, SP_REQ_TWO_SIDED,
						      SP_REQ_ATOMIC, SP_REQ_LOCAL };

	for (uint32_t k = 0; k < 5; k++)
		for (uint32_t bits = 0; bits < 8; bits++) {
			struct sp_request r = { .kind = (uint8_t)kinds[k],
						.signaled = 1,
						.published = bits & 1,
						.send_fence = bits >> 1 & 1,
						.answered = bits >> 2 & 1 };

			if (!r.answered || k == 1 || k == 3)
				symbols[n_symbols++] = r;
		}
}

static void answer(const struct sp_request *r, uint32_t n, const struct sc_counts *counts)
{
	enum sp_fate fates[MAX_REQUESTS] = { 0 };
	struct sc_verdict verdict;
	enum sc_reason why = sc_settle(r, n, counts, fates, &verdict);

	putchar(why == SC_REASON_NONE	    ? '0'
		: why == SC_REASON_MISCOUNT ? '1'
		: why == SC_REASON_ATOMIC   ? '2'
					    : '3');
	if (why == SC_REASON_MISCOUNT && !verdict.unplaced)
		return;
	for (uint32_t i = 0; i < n; i++)
		putchar("DWAR"[fates[i]]);
	putchar((int)('0' + verdict.delivered));
	putchar(verdict.unplaced ? 'u' : ' ');
	if (verdict.doubted)
		putchar('?');
}

static void ask(const struct sp_request *r, uint32_t n, uint32_t done)
{
	struct sc_counts c = { .done = done, .posted = done };

	for (uint32_t i = 0; i < n; i++)
		c.posted += r[i].kind == SP_REQ_TWO_SIDED && r[i].published;
	for (int k = -1; k <= (int)n + 1; k++)
		for (uint32_t flags = 0; flags < 8; flags++) {
			c.peer = done + (uint32_t)k;
			c.recalled = flags & 1;
			c.cut = flags >> 1 & 1;
			c.seen = flags & 4 ? SP_SEEN_UNPLACED : SP_SEEN_SAFE;
			if (n < MAX_REQUESTS || flags == 0 || flags == 2 || flags == 7)
				answer(r, n, &c);
		}
}

/*
 * The same with an expected PSN, of each packet and of one too many. Bit i of pack: request i has two packets, not one;
 * local ones have none. Numbers wrap.
 */
static void ask_of_packets(struct sp_request *r, uint32_t n, uint32_t done, uint32_t pack)
{
	struct sc_counts c = { .done = done, .posted = done, .exact = true };
	uint32_t base = 0, total = 0;

	for (uint32_t i = 0; i < n; i++) {
		c.posted += r[i].kind == SP_REQ_TWO_SIDED && r[i].published;
		if (r[i].published)
			base = WRAPS_SOON;
	}
	for (uint32_t i = 0; i < n; i++) {
		r[i].numbered = 1;
		r[i].packets = r[i].kind == SP_REQ_LOCAL ? 0 : 1 + (pack >> i & 1);
		r[i].psn = (base + total) & SC_PSN_MASK;
		total += r[i].published ? r[i].packets : 0;
	}
	for (int k = -1; k <= (int)n + 1; k++)
		for (uint32_t flags = 0; flags < 3; flags++)
			for (uint32_t taken = 0; taken <= total + 1; taken++) {
				c.peer = done + (uint32_t)k;
				c.recalled = flags;
				c.cut = flags == 2;
				c.seen = flags == 2 ? SP_SEEN_UNPLACED : SP_SEEN_SAFE;
				c.expected_psn = (base + taken) & SC_PSN_MASK;
				answer(r, n, &c);
			}
}

static void ask_exact(const struct sp_request *requests, uint32_t n, uint32_t done)
{
	struct sp_request r[MAX_REQUESTS];

	if (n >= MAX_REQUESTS)
		return;
	memcpy(r, requests, n * sizeof(*r));
	for (uint32_t pack = 0; pack < (n < 3 ? 1U << n : 2U); pack++)
		ask_of_packets(r, n, done, n < 3 ? pack : 2 * pack);
}

static int list_rules(void)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		printf("%d %s\n", (int)rules[i].mutant, rules[i].name);
	return 0;
}

static void walk(uint32_t n, uint64_t total)
{
	struct sp_request r[MAX_REQUESTS];

	for (uint64_t code = 0; code < total; code++) {
		uint64_t rest = code;

		for (uint32_t i = 0; i < n; i++, rest /= n_symbols)
			r[i] = symbols[rest % n_symbols];
		if (n < MAX_REQUESTS) {
			ask(r, n, 0);
			ask_exact(r, n, 0);
		}
		ask(r, n, UINT32_MAX - 1);
		ask_exact(r, n, UINT32_MAX - 1);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	uint64_t total = 1;

	if (argc == 2 && !strcmp(argv[1], "--rules"))
		return list_rules();
	if (argc < 2 || atoi(argv[1]) > MAX_REQUESTS) {
		fprintf(stderr, "usage: settle_asked N [MUTANT] | --rules\n");
		return 2;
	}
	if (argc > 2)
		sc_mutant = (enum sc_mutant)atoi(argv[2]);
	list_symbols();
	for (uint32_t n = 0; n <= (uint32_t)atoi(argv[1]); n++, total *= n_symbols)
		walk(n, total);
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
