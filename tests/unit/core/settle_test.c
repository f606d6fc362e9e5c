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

/*
 * With the expected PSN, given in packets behind the first one. A digit behind a request: it takes so many packets;
 * none: one (a local one: none). +: a log WQE lies behind it; ^ in front: before all of them. seen: of a dead NIC, as above, or 0.
 */
static const struct exact_row {
	struct row row;
	uint32_t taken;
	char seen;
	bool doubted;
} exact_rows[] = {
	/* end <= X: ran; start >= X: never ran; between: cut, again whole */
	{ { "w", 3, 0, "n", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "w", 3, 0, "d", SC_REASON_NONE, 1 }, 1, 0, false },
	{ { "w3w3w3", 3, 0, "nnn", SC_REASON_NONE, 0 }, 2, 0, false },
	{ { "w3w3w3", 3, 0, "dnn", SC_REASON_NONE, 1 }, 3, 0, false },
	{ { "w3w3w3", 3, 0, "dnn", SC_REASON_NONE, 1 }, 5, 0, false },
	{ { "w3w3w3", 3, 0, "ddn", SC_REASON_NONE, 2 }, 6, 0, false },
	{ { "w3w3w3", 3, 0, "ddd", SC_REASON_NONE, 3 }, 9, 0, false },
	{ { "wsw2w", 3, 1, "dddn", SC_REASON_NONE, 3 }, 4, 0, false },
	{ { "wsw2w", 3, 1, "ddnn", SC_REASON_NONE, 2 }, 2, 0, false },
	{ { "ws3w", 3, 0, "dnn", SC_REASON_NONE, 1 }, 3, 0, false }, /* cut, not counted */
	{ { "", 3, 0, "", SC_REASON_NONE, 0 }, 7, 0, false },
	/* local ones take no number: done with what ran behind them */
	{ { "lwlw", 3, 0, "ddnn", SC_REASON_NONE, 2 }, 1, 0, false },
	{ { "lwlw", 3, 0, "nnnn", SC_REASON_NONE, 0 }, 0, 0, false },
	/* a READ that ran has no data yet, unless a fence behind it has started */
	{ { "r2w", 3, 0, "ad", SC_REASON_NONE, 0 }, 3, 0, false },
	{ { "r2w", 3, 0, "an", SC_REASON_NONE, 0 }, 2, 0, false },
	{ { "r2w", 3, 0, "nn", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "wr4W", 3, 0, "ddd", SC_REASON_NONE, 3 }, 6, 0, false },
	/* a fenced request that never ran has changed nothing */
	{ { "r2W", 3, 0, "an", SC_REASON_NONE, 0 }, 2, 0, false },
	{ { "r2W", 3, 0, "nn", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "r2wW", 3, 0, "adn", SC_REASON_NONE, 0 }, 3, 0, false },
	{ { "r2S", 3, 0, "an", SC_REASON_NONE, 0 }, 2, 0, false },
	/* cut, it has started: the READ has its data */
	{ { "r2W2", 3, 0, "dn", SC_REASON_NONE, 1 }, 3, 0, false },
	{ { "r2Lw2", 3, 0, "dnn", SC_REASON_NONE, 1 }, 3, 0, false },
	{ { "r2w2", 3, 0, "an", SC_REASON_NONE, 0 }, 3, 0, false },
	{ { "r2S3s", 3, 0, "dnn", SC_REASON_NONE, 1 }, 4, 0, false },
	/* atomics: ran without an answer, or never */
	{ { "a", 3, 0, NULL, SC_REASON_ATOMIC, 0 }, 1, 0, false },
	{ { "a", 3, 0, "n", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "w2a", 3, 0, "dn", SC_REASON_NONE, 1 }, 2, 0, false },
	{ { "w2a", 3, 0, "nn", SC_REASON_NONE, 0 }, 1, 0, false },
	{ { "w2aw", 3, 0, NULL, SC_REASON_ATOMIC, 1 }, 3, 0, false },
	{ { "wasa", 3, 0, "dnnn", SC_REASON_NONE, 1 }, 1, 0, false },
	{ { "was2a", 3, 0, NULL, SC_REASON_ATOMIC, 1 }, 3, 0, false },
	{ { "ra", 3, 0, "an", SC_REASON_NONE, 0 }, 1, 0, false },
	{ { "raW", 3, 0, "ann", SC_REASON_NONE, 0 }, 1, 0, false },
	/* what contradicts the count is not used */
	{ { "ws", 3, 1, "dd", SC_REASON_NONE, 2 }, 1, 0, true },
	{ { "wsw", 3, 0, "nnn", SC_REASON_NONE, 0 }, 2, 0, true },
	{ { "wsws", 3, 2, "dddd", SC_REASON_NONE, 4 }, 3, 0, true },
	{ { "wsws", 3, 1, "ddnn", SC_REASON_NONE, 2 }, 4, 0, true },
	{ { "ws2", 3, 1, "dd", SC_REASON_NONE, 2 }, 2, 0, true },
	{ { "w", 3, 0, "n", SC_REASON_NONE, 0 }, 2, 0, true },
	{ { "w", 3, 0, "n", SC_REASON_NONE, 0 }, 0xffffff, 0, true }, /* one before it */
	{ { "a", 3, 0, NULL, SC_REASON_ATOMIC, 0 }, 2, 0, true },
	{ { "rW", 3, 0, NULL, SC_REASON_FENCED_READ, 0 }, 3, 0, true },
	{ { "ws", 3, 2, NULL, SC_REASON_MISCOUNT, 0 }, 2, 0, false }, /* nor is that count */
	/* a log WQE's packet is no request's: where it is missing, what it lies behind has run */
	{ { "w+w2+w", 3, 0, "nnn", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "w+w2+w", 3, 0, "dnn", SC_REASON_NONE, 1 }, 1, 0, false },
	{ { "w+w2+w", 3, 0, "dnn", SC_REASON_NONE, 1 }, 2, 0, false },
	{ { "w+w2+w", 3, 0, "dnn", SC_REASON_NONE, 1 }, 3, 0, false },
	{ { "w+w2+w", 3, 0, "ddn", SC_REASON_NONE, 2 }, 4, 0, false },
	{ { "w+w2+w", 3, 0, "ddn", SC_REASON_NONE, 2 }, 5, 0, false },
	{ { "w+w2+w", 3, 0, "ddd", SC_REASON_NONE, 3 }, 6, 0, false },
	{ { "w+w2+w", 3, 0, "nnn", SC_REASON_NONE, 0 }, 7, 0, true },
	{ { "a+", 3, 0, NULL, SC_REASON_ATOMIC, 0 }, 1, 0, false },
	{ { "w+", 3, 0, "d", SC_REASON_NONE, 1 }, 2, 0, false },
	{ { "w+", 3, 0, "n", SC_REASON_NONE, 0 }, 3, 0, true },
	{ { "^w", 3, 0, "n", SC_REASON_NONE, 0 }, 0xffffff, 0, false },
	{ { "^w", 3, 0, "n", SC_REASON_NONE, 0 }, 0, 0, false },
	{ { "^ws", 3, 1, "dd", SC_REASON_NONE, 2 }, 2, 0, false },
	{ { "^a", 3, 0, "n", SC_REASON_NONE, 0 }, 0xffffff, 0, false },
	{ { "^w", 3, 0, "n", SC_REASON_NONE, 0 }, 0xfffffe, 0, true }, /* two before it */
	{ { "^w", 3, 0, "n", SC_REASON_NONE, 0 }, 2, 0, true },
	/* of a dead NIC it says only what never ran: what lies in memory tells the count */
	{ { "ww", 3, 0, "nn", SC_REASON_NONE, 0 }, 2, 's', false },
	{ { "wsw", 3, 1, "ddn", SC_REASON_NONE, 2 }, 3, 's', false },
	{ { "wsw", 3, 0, "nnn", SC_REASON_NONE, 0 }, 3, 's', false }, /* its receive was lost */
	{ { "wsw", 3, 1, "ddn", SC_REASON_NONE, 2 }, 1, 's', true },
	{ { "wa", 3, 0, "nn", SC_REASON_NONE, 0 }, 1, 's', false },
	{ { "wa", 3, 0, NULL, SC_REASON_ATOMIC, 0 }, 2, 's', false },
	{ { "w!aa", 3, 0, "ddn", SC_REASON_NONE, 2 }, 2, 'd', false },
	{ { "rW", 3, 0, "nn", SC_REASON_NONE, 0 }, 1, 's', false },
	{ { "rW", 3, 0, NULL, SC_REASON_FENCED_READ, 0 }, 2, 's', false },
	{ { "rW2", 3, 0, NULL, SC_REASON_FENCED_READ, 0 }, 2, 's', false },
};

/*
 * With the log's word: so many of the requests it counts. taken: the expected PSN too, as above; -1: not told.
 */
static const struct log_row {
	struct row row;
	int32_t ran;
	char seen;
	int32_t taken;
	bool unplaced, log_doubted, doubted;
} log_rows[] = {
	/* up to there all ran, and nothing is said of what is behind it */
	{ { "ww", 3, 0, "nn", SC_REASON_NONE, 0 }, 0, 's', -1, false, false, false },
	{ { "ww", 3, 0, "dn", SC_REASON_NONE, 1 }, 1, 's', -1, false, false, false },
	{ { "ww", 3, 0, "dd", SC_REASON_NONE, 2 }, 2, 's', -1, false, false, false },
	{ { "www", 3, 0, "dnn", SC_REASON_NONE, 1 }, 1, 0, -1, false, false, false },
	{ { "lwlw", 3, 0, "ddnn", SC_REASON_NONE, 2 }, 2, 's', -1, false, false, false },
	/* the count may know more, and the word more than the count */
	{ { "wsw", 3, 1, "ddn", SC_REASON_NONE, 2 }, 1, 's', -1, false, false, false },
	{ { "wsw", 3, 1, "ddd", SC_REASON_NONE, 3 }, 3, 's', -1, false, false, false },
	{ { "wsw", 3, 1, "ddd", SC_REASON_NONE, 3 }, 3, 0, -1, false, false, false },
	/* a receive whose completion died with its NIC is laid again, and waits for its message */
	{ { "wsw", 3, 0, "dnn", SC_REASON_NONE, 1 }, 3, 's', -1, false, false, false },
	{ { "wsws", 3, 1, "dddn", SC_REASON_NONE, 3 }, 4, 's', -1, false, false, false },
	/* a NIC that lives has completed them all: such a word is not its */
	{ { "wsw", 3, 0, "nnn", SC_REASON_NONE, 0 }, 3, 0, -1, false, true, false },
	{ { "wsws", 3, 1, "ddnn", SC_REASON_NONE, 2 }, 4, 0, -1, false, true, false },
	/* nor one that counts more than there is, or what the NIC was not given */
	{ { "ww", 3, 0, "nn", SC_REASON_NONE, 0 }, 3, 's', -1, false, true, false },
	{ { "w.w", 3, 0, "nn", SC_REASON_NONE, 0 }, 2, 's', -1, false, true, false },
	{ { "ww", 3, 0, "nn", SC_REASON_NONE, 0 }, INT32_MAX, 's', -1, false, true, false },
	/* READs and fences, as behind the count's line */
	{ { "rw", 3, 0, "ad", SC_REASON_NONE, 0 }, 2, 's', -1, false, false, false },
	{ { "rW", 3, 0, "dd", SC_REASON_NONE, 2 }, 2, 's', -1, false, false, false },
	{ { "rW", 3, 0, NULL, SC_REASON_FENCED_READ, 0 }, 1, 's', -1, false, false, false },
	{ { "rwW", 3, 0, NULL, SC_REASON_FENCED_READ, 0 }, 2, 's', -1, false, false, false },
	/* atomics: one that ran has lost its value, one behind the word may have run */
	{ { "wa", 3, 0, NULL, SC_REASON_ATOMIC, 1 }, 2, 's', -1, false, false, false },
	{ { "wa", 3, 0, NULL, SC_REASON_ATOMIC, 1 }, 1, 's', -1, false, false, false },
	{ { "!aw", 3, 0, "dn", SC_REASON_NONE, 1 }, 1, 's', -1, false, false, false },
	{ { "!aw", 3, 0, NULL, SC_REASON_ATOMIC, 0 }, 0, 's', -1, false, false, false },
	/* what the application saw complete is in memory, if the word counts it; else as without */
	{ { "ww", 4, 0, "nn", SC_REASON_NONE, 0 }, 0, 'u', -1, false, false, false },
	{ { "ws", 4, 0, "nn", SC_REASON_NONE, 0 }, 0, 'u', -1, false, false, false },
	{ { "wr", 4, 0, "dn", SC_REASON_NONE, 1 }, 1, 'u', -1, false, false, false },
	{ { "", 4, 0, "", SC_REASON_NONE, 0 }, 0, 'u', -1, false, false, false },
	{ { "ww", 4, 0, "nn", SC_REASON_NONE, 0 }, -1, 'u', -1, true, false, false },
	{ { "ws", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, -1, 'u', -1, true, false, false },
	{ { "wsw", 4, 1, "ddn", SC_REASON_NONE, 2 }, -9, 'u', -1, false, false, false },
	{ { "ws", 4, 0, NULL, SC_REASON_MISCOUNT, 0 }, 3, 'u', -1, true, true, false },
	{ { "ww", 4, 0, "nn", SC_REASON_NONE, 0 }, INT32_MIN, 'u', -1, true, false, false },
	/* a PSN that is known is exact, and the word not needed */
	{ { "www", 3, 0, "ddn", SC_REASON_NONE, 2 }, 1, 0, 2, false, false, false },
	{ { "wa", 3, 0, "dn", SC_REASON_NONE, 1 }, 1, 0, 1, false, false, false },
	/* of a dead NIC it says what never ran, the word what is in memory; they agree, or the PSN lies */
	{ { "wwa", 3, 0, "dnn", SC_REASON_NONE, 1 }, 1, 's', 2, false, false, false },
	{ { "wwa", 3, 0, NULL, SC_REASON_ATOMIC, 1 }, 1, 's', 3, false, false, false },
	{ { "www", 3, 0, "ddn", SC_REASON_NONE, 2 }, 2, 's', 1, false, false, true },
	{ { "wwa", 3, 0, NULL, SC_REASON_ATOMIC, 2 }, 2, 's', 1, false, false, true },
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
	uint8_t before = *text == '^';
	uint32_t n = 0;

	for (text += before; *text; text++) {
		bool published = *text != '.', answered = *text == '!';

		text += !published || answered;
		out[n] = request_of(*text);
		out[n].packets = out[n].kind != SP_REQ_LOCAL;
		if (text[1] >= '0' && text[1] <= '9')
			out[n].packets = (uint32_t)(*++text - '0');
		out[n].behind = text[1] == '+';
		text += out[n].behind;
		out[n].before = n ? 0 : before;
		out[n].answered = answered;
		out[n++].published = published;
	}
	return n;
}

struct question {
	struct sp_request requests[16];
	uint32_t n;
	struct sc_counts counts;
};

static void ask(const struct row *row, char seen, struct question *q)
{
	uint32_t n = parse(row->requests, q->requests), posted = row->done;

	for (uint32_t i = 0; i < n; i++)
		posted += q->requests[i].kind == SP_REQ_TWO_SIDED && q->requests[i].published;
	q->n = n;
	q->counts = (struct sc_counts){ .done = row->done,
					.posted = posted,
					.peer = row->done + row->counted,
					.recalled = seen,
					.cut = seen && seen != 'd',
					.seen = seen == 's' ? SP_SEEN_SAFE : SP_SEEN_UNPLACED };
}

/* Numbers from there on. */
static void number(struct question *q, uint32_t psn)
{
	for (uint32_t i = 0; i < q->n; i++) {
		q->requests[i].numbered = 1;
		q->requests[i].psn = psn & SC_PSN_MASK;
		psn += q->requests[i].packets + q->requests[i].behind;
	}
}

static void check(const struct row *row, const struct question *q, bool unplaced, bool doubted)
{
	struct sc_verdict verdict;
	enum sp_fate fates[16];
	enum sc_reason reason;
	char text[17] = "";
	uint32_t n = q->n;

	reason = sc_settle(q->requests, n, &q->counts, fates, &verdict);
	if (reason != row->reason || verdict.delivered != row->delivered ||
	    verdict.unplaced != unplaced || verdict.doubted != doubted)
		fail_msg("'%s' counted %d recalled %d, PSN %06x from %06x: %s, %u delivered, "
			 "unplaced %d, doubted %d",
			 row->requests, (int)row->counted, q->counts.recalled,
			 q->counts.expected_psn, q->requests[0].psn, sc_reason_name(reason),
			 verdict.delivered, verdict.unplaced, verdict.doubted);
	for (uint32_t i = 0; row->fates && i < n; i++)
		text[i] = "dwan"[fates[i]];
	if (row->fates && strcmp(text, row->fates))
		fail_msg("'%s' counted %d: fates %s, expected %s", row->requests, (int)row->counted,
			 text, row->fates);
}

static void settle_table(void **state)
{
	struct question q;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ask(&rows[i], 0, &q);
		check(&rows[i], &q, false, false);
	}
}

static void settle_of_a_dead_nic(void **state)
{
	struct question q;

	for (size_t i = 0; i < sizeof(dead_rows) / sizeof(*dead_rows); i++) {
		ask(&dead_rows[i].row, dead_rows[i].seen, &q);
		check(&dead_rows[i].row, &q, dead_rows[i].unplaced, false);
	}
}

/* Wherever the numbers begin, also at their wrap. */
static void settle_by_the_expected_psn(void **state)
{
	static const uint32_t bases[] = { 0, 1, 4711, 0x7fffff, 0x800000 };
	struct question q;

	for (size_t i = 0; i < sizeof(exact_rows) / sizeof(*exact_rows); i++)
		for (uint32_t b = 0; b < 16; b++) {
			uint32_t base = b < 5 ? bases[b] : 0x1000000 - (b - 4);
			const struct exact_row *row = &exact_rows[i];

			ask(&row->row, row->seen, &q);
			number(&q, base);
			q.counts.exact = true;
			q.counts.expected_psn = (base + row->taken) & SC_PSN_MASK;
			check(&row->row, &q, false, row->doubted);
		}
}

static void settle_by_the_log(void **state)
{
	struct sc_verdict verdict;
	enum sp_fate fates[16];
	struct question q;

	for (size_t i = 0; i < sizeof(log_rows) / sizeof(*log_rows); i++) {
		const struct log_row *row = &log_rows[i];

		ask(&row->row, row->seen, &q);
		number(&q, 0xfffffe);
		q.counts.exact = row->taken >= 0;
		q.counts.expected_psn = (0xfffffeu + (uint32_t)row->taken) & SC_PSN_MASK;
		q.counts.logged = true;
		q.counts.log_ran = row->ran;
		check(&row->row, &q, row->unplaced, row->doubted);
		sc_settle(q.requests, q.n, &q.counts, fates, &verdict);
		if (verdict.log_doubted != row->log_doubted)
			fail_msg("row %zu: the word is %sdoubted", i,
				 row->log_doubted ? "not " : "");
	}
}

/* The word of this carrier, under its own tag, and no other. */
static void a_word_is_of_one_carrier(void **state)
{
	static const uint32_t numbers[] = { 0, 1, INT32_MAX, UINT32_MAX };
	struct sc_counts counts = { 0 };
	uint32_t number;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		assert_true(sc_log_read(sp_log_word(5, numbers[i]), 5, &number));
		assert_int_equal(number, numbers[i]);
		assert_false(sc_log_read(sp_log_word(5, numbers[i]), 6, &number));
	}
	assert_false(sc_log_read(0, 5, &number)); /* nothing was written yet */
	sc_settle_log(&counts, 7, 3, 7);
	assert_true(counts.logged && counts.log_ran == 3);
	sc_settle_log(&counts, 6, 3, 7);
	assert_false(counts.logged);
}

/* Requests without numbers, and so many packets that a number is of two of them: the count decides alone. */
static void numbers_that_do_not_tell(void **state)
{
	static const struct row ran = { "ww", 3, 0, "dn", SC_REASON_NONE, 1 },
				unknown = { "ww", 3, 0, "nn", SC_REASON_NONE, 0 };
	struct question q;

	ask(&ran, 0, &q);
	number(&q, 0xfffff0);
	q.counts.exact = true;
	q.counts.expected_psn = 0xfffff1;
	check(&ran, &q, false, false);
	q.requests[1].numbered = 0;
	check(&unknown, &q, false, false);
	q.requests[1].packets = 0xfffffe;
	number(&q, 0xfffff0);
	check(&ran, &q, false, false);
	q.requests[1].packets++;
	check(&unknown, &q, false, false);
	q.requests[0].packets = q.requests[1].packets = UINT32_MAX;
	check(&unknown, &q, false, false);
}

static void it_is_asked_for_only_where_it_helps(void **state)
{
	static const char *const wanted[] = { "w", "sw", "a", "rS", "rlS", "rR", "rL", ".sw" };
	static const char *const not [] = { "",	  "s", "ss", "r",  "rr",  "sr",
					    "Sr", "l", ".w", ".a", "r.S", "Lr" };
	struct sp_request r[16];

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		assert_true(sc_exact_wanted(r, parse(wanted[i], r)));
	for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++)
		assert_false(sc_exact_wanted(r, parse(not [i], r)));
}

static void it_is_of_one_carrier(void **state)
{
	const struct sc_action settle = { .exact = true, .exact_of = 7, .exact_psn = 0xabcdef };
	struct sc_counts counts = { 0 };

	sc_settle_exact(&counts, &settle, 7);
	assert_true(counts.exact);
	assert_int_equal(counts.expected_psn, 0xabcdef);
	sc_settle_exact(&counts, &settle, 6);
	assert_false(counts.exact);
	sc_settle_exact(&counts, &(struct sc_action){ .exact_of = 7 }, 7);
	assert_false(counts.exact);
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
		cmocka_unit_test(settle_by_the_expected_psn),
		cmocka_unit_test(settle_by_the_log),
		cmocka_unit_test(a_word_is_of_one_carrier),
		cmocka_unit_test(numbers_that_do_not_tell),
		cmocka_unit_test(it_is_asked_for_only_where_it_helps),
		cmocka_unit_test(it_is_of_one_carrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
