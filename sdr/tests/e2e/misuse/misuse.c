/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a stranger may do wrong with libsdr: each call says so by its errno, and what is made by right calls works
 * beside it and after it. Two connections of one process, which are each other's peer, on one device.
 *
 * usage: sdr_misuse DEV window|stage|root
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "sdr/include/sdr/rel.h"

enum { SIZE = 256 << 10, HALF = SIZE / 2, CHUNK = 8 << 10, WAIT_S = 20 };

static struct sdr_context *ctx;
static struct sdr_mr *mr;
static uint8_t *mem;
static struct sdr_qp_attr good = {
	.max_msg_size = HALF, .chunk_size = CHUNK, .channels = 2, .max_msgs = 8
};
static int failures;

static void is(long got, long wanted, const char *what)
{
	if (got == wanted)
		return;
	fprintf(stderr, "misuse: %s gives %ld (%s), not %ld (%s)\n", what, got,
		strerror((int)labs(got)), wanted, strerror((int)labs(wanted)));
	failures++;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "misuse: %s: %s\n", what, strerror(errno));
	exit(1);
}

static time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* ---- what is made ---------------------------------------------------------------------------- */

static void no_context(const char *names, int wanted)
{
	struct sdr_context *c = sdr_context_create(names, NULL);

	is(c ? 0 : errno, wanted, names);
	if (c)
		sdr_context_destroy(c);
}

static void no_qp(struct sdr_qp_attr attr, int wanted, const char *what)
{
	struct sdr_qp *qp = sdr_qp_create(ctx, &attr);

	is(qp ? 0 : errno, wanted, what);
	if (qp)
		sdr_qp_destroy(qp);
}

#define WITH(field, value)                                                                         \
	({                                                                                         \
		struct sdr_qp_attr a_ = good;                                                      \
		a_.field = (value);                                                                \
		a_;                                                                                \
	})

static void contexts_and_connections(const char *dev)
{
	char twice[200];

	snprintf(twice, sizeof(twice), "%s,%s", dev, dev);
	no_context("no_such_device", ENODEV);
	no_context("", ENODEV);
	no_context(twice, EINVAL);
	no_qp(WITH(chunk_size, 3000), EINVAL, "a chunk that is no packet");
	no_qp(WITH(chunk_size, 1 << 30), EINVAL, "a chunk of too many packets");
	no_qp(WITH(max_msgs, 3), EINVAL, "three messages");
	no_qp(WITH(channels, 9), EINVAL, "nine channels");
	no_qp(WITH(max_msg_size, 1ull << 40), EMSGSIZE, "a message of 1 TiB");
	no_qp(WITH(max_msg_size, UINT64_MAX), EMSGSIZE, "a message of all memory");
	no_qp(WITH(packet_lifetime_ns, UINT64_MAX), EINVAL, "a lifetime of centuries");
	no_qp(WITH(offset_bits, 40), EINVAL, "40 bits of an offset");
	no_qp(WITH(id_bits, 31), EINVAL, "an immediate of more than 32 bits");
	no_qp(WITH(backend, (enum sdr_backend)9), EINVAL, "a backend that there is not");
}

static void writes_that_make_no_sense(void)
{
	const struct sdr_rel_attr bad[] = { { .scheme = 9 },	  { .k = 8, .m = 9 },
					    { .k = 250, .m = 8 }, { .k = UINT32_MAX, .m = 2 },
					    { .max_sent = .5 },	  { .writes = 1u << 31 },
					    { .writes = 3 },	  { .writes = 64 },
					    { .writes = 2048 } };
	struct sdr_qp *qp = sdr_qp_create(ctx, &good);

	must(qp, "connection");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		is(sdr_rel_create(qp, &bad[i]) ? 0 : errno, EINVAL, "attributes of Writes");
	}
	is(sdr_qp_destroy(qp), 0, "destroying what was not connected");
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* A peer that was made with other attributes: which is told. */
static void other_attributes(struct sdr_qp *qp, const uint8_t *info, size_t len)
{
	static const struct {
		size_t at; /* of a word's lowest byte */
		const char *name;
	} words[] = { { 16, "max_msgs" }, { 20, "chunk_size" }, { 40, "id_bits" } };
	uint8_t other[SDR_QP_INFO_MAX];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		memcpy(other, info, len);
		other[words[i].at] ^= 1;
		is(sdr_qp_connect(qp, other, len), -EPROTO, words[i].name);
		is(strncmp(sdr_qp_why(qp), words[i].name, strlen(words[i].name)), 0,
		   "what is told of it");
	}
}

static void connect_both(struct sdr_qp *a, struct sdr_qp *b)
{
	uint8_t info[2][SDR_QP_INFO_MAX], bad[SDR_QP_INFO_MAX];
	size_t len[2] = { SDR_QP_INFO_MAX, SDR_QP_INFO_MAX }, little = 10;

	is(sdr_qp_info_get(a, info[0], &little), -ENOSPC, "an info of ten bytes");
	must(!sdr_qp_info_get(a, info[0], &len[0]) && !sdr_qp_info_get(b, info[1], &len[1]),
	     "info");
	is(sdr_qp_connect(a, "nonsense", 8), -EBADMSG, "a peer that is nonsense");
	is(sdr_qp_connect(a, info[1], len[1] - 1), -EBADMSG, "a peer that is cut");
	memcpy(bad, info[1], len[1]);
	bad[4]++;
	is(sdr_qp_connect(a, bad, len[1]), -EPROTONOSUPPORT, "a peer of another version");
	other_attributes(a, info[1], len[1]);
	is(sdr_qp_connect(a, info[1], len[1]), 0, "connecting");
	is(sdr_qp_connect(a, info[1], len[1]), -EISCONN, "connecting twice");
	is(sdr_qp_connect(b, info[0], len[0]), 0, "connecting");
}

/* ---- messages -------------------------------------------------------------------------------- */

static void bad_messages(struct sdr_qp *qp, bool connected)
{
	const struct {
		uint8_t *addr;
		uint64_t length;
		int wanted;
	} each[] = { { mem, HALF, -ENOTCONN },
		     { mem, 0, -EINVAL },
		     { mem, SIZE, -EMSGSIZE },
		     { mem - 1, CHUNK, -EINVAL },
		     { mem + SIZE - CHUNK + 1, CHUNK, -EINVAL },
		     { NULL, 1, -EINVAL },
		     { mem + SIZE, 1, -EINVAL } };

	for (size_t i = connected; i < (connected ? sizeof(each) / sizeof(each[0]) : 1); i++) {
		struct sdr_send_wr send = { mr, each[i].addr, each[i].length, 0 };
		struct sdr_recv_wr recv = { mr, each[i].addr, each[i].length };
		struct sdr_send_req *s;
		struct sdr_recv_req *r;

		is(sdr_send_post(qp, &send, &s), each[i].wanted, "a send");
		is(sdr_recv_post(qp, &recv, &r), each[i].wanted, "a receive");
	}
}

static void bad_parts(struct sdr_send_req *s)
{
	const struct sdr_part parts[] = {
		{ 1, CHUNK },	 { 0, 0 },	   { 0, HALF + 1 },
		{ HALF, CHUNK }, { 0, CHUNK - 1 }, { CHUNK, UINT64_MAX }
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		is(sdr_send_stream_continue(s, &parts[i], 1), -EINVAL, "a part");
}

static bool is_here(struct sdr_recv_req *r)
{
	const sdr_word *bits;
	size_t chunks, here = 0;

	must(!sdr_recv_bitmap_get(r, &bits, &chunks), "bitmap");
	for (size_t i = 0; i < chunks; i++)
		here += bits[i / 64] >> (i % 64) & 1;
	return here == chunks;
}

/* The upper half of memory goes to the lower one. */
static void a_message(struct sdr_qp *from, struct sdr_qp *to)
{
	struct sdr_send_wr send = { mr, mem + HALF, HALF, 7 };
	struct sdr_recv_wr recv = { mr, mem, HALF };
	struct sdr_part all = { 0, HALF };
	struct sdr_send_req *s;
	struct sdr_recv_req *r;
	time_t end = now_s() + WAIT_S;
	int sent = 0;

	for (size_t i = 0; i < HALF; i++)
		mem[HALF + i] = (uint8_t)(i * 7 + (i >> 8));
	is(sdr_recv_post(to, &recv, &r), 0, "a receive");
	is(sdr_send_stream_start(from, &send, &s), 0, "a send");
	bad_parts(s);
	is(sdr_send_stream_continue(s, &all, 1), 0, "all of it");
	is(sdr_send_stream_end(s), 0, "its end");
	is(sdr_send_stream_end(s), -EINVAL, "its second end");
	while ((!sent || !is_here(r)) && now_s() < end) {
		sdr_poll(ctx);
		sent = sent ? sent : sdr_send_poll(s);
	}
	is(sent, 1, "the send");
	is(sdr_recv_complete(r), 0, "the receive");
	is(memcmp(mem, mem + HALF, HALF), 0, "the bytes");
	is(sdr_context_destroy(ctx), -EBUSY, "a context that is in use");
}

static void messages(void)
{
	struct sdr_qp *a = sdr_qp_create(ctx, &good), *b = sdr_qp_create(ctx, &good);

	must(a && b, "connection");
	bad_messages(a, false);
	connect_both(a, b);
	bad_messages(a, true);
	for (int i = 0; i < 20; i++)
		a_message(a, b);
	is(sdr_qp_destroy(a) | sdr_qp_destroy(b), 0, "destroying");
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static int wait_for(struct sdr_req *req, struct sdr_result *result)
{
	time_t end = now_s() + WAIT_S;
	int got;

	while (!(got = sdr_req_test(req, result)) && now_s() < end)
		sdr_poll(ctx);
	return got;
}

static void writes(void)
{
	struct sdr_qp *a = sdr_qp_create(ctx, &good), *b = sdr_qp_create(ctx, &good);
	struct sdr_rel_attr attr = { .scheme = SDR_SCHEME_AUTO, .timeout_ns = 2000000000 };
	struct sdr_rel *from, *to;
	struct sdr_result result;
	struct sdr_req *w, *r;

	must(a && b, "connection");
	from = sdr_rel_create(a, &attr);
	to = sdr_rel_create(b, &attr);
	must(from && to, "Writes");
	is(sdr_rel_write(from, mr, mem, 1, 0, &w), -ENOTCONN, "a Write before it is connected");
	connect_both(a, b);
	is(sdr_rel_write(from, mr, mem, HALF + 1, 0, &w), -EMSGSIZE, "a Write that is too long");
	is(sdr_rel_write(from, mr, mem + SIZE, 1, 0, &w), -EINVAL, "a Write of other memory");
	is(sdr_rel_recv(to, mr, mem + SIZE - 1, 2, &r), -EINVAL, "a receive to other memory");
	is(sdr_rel_recv(to, mr, mem, HALF, &r), 0, "a receive");
	is(sdr_rel_write(from, mr, mem + HALF, HALF, 5, &w), 0, "a Write");
	is(wait_for(w, &result), 1, "the Write's end");
	is(result.status, 0, "the Write");
	is(wait_for(r, &result), 1, "the receive's end");
	is(result.imm, 5, "its immediate");
	is(memcmp(mem, mem + HALF, HALF), 0, "the bytes");
	is(sdr_rel_write(from, mr, mem + HALF, HALF, 6, &w), 0, "a Write that nobody receives");
	is(wait_for(w, &result), 1, "its end");
	is(result.status, -ETIMEDOUT, "its status");
	is(sdr_qp_destroy(a), -EBUSY, "a connection whose Writes there are");
	is(sdr_rel_destroy(from) | sdr_rel_destroy(to), 0, "destroying Writes");
	is(sdr_qp_destroy(a) | sdr_qp_destroy(b), 0, "destroying");
}

/* ---- what is over before it began, too long, or still in use ---------------------------------- */

enum { GIVEN_UP = 6, ROOM = 5000, GUARD = 0x5a };

struct ends {
	struct sdr_qp *a, *b;
	struct sdr_rel *from, *to;
};

static void join(struct sdr_qp *a, struct sdr_qp *b)
{
	uint8_t info[2][SDR_QP_INFO_MAX];
	size_t len[2] = { SDR_QP_INFO_MAX, SDR_QP_INFO_MAX };

	must(!sdr_qp_info_get(a, info[0], &len[0]) && !sdr_qp_info_get(b, info[1], &len[1]),
	     "info");
	must(!sdr_qp_connect(a, info[1], len[1]) && !sdr_qp_connect(b, info[0], len[0]), "connect");
}

static struct ends make_ends(struct sdr_qp_attr qp_attr, struct sdr_rel_attr attr)
{
	struct ends x = { sdr_qp_create(ctx, &qp_attr), sdr_qp_create(ctx, &qp_attr), NULL, NULL };

	must(x.a && x.b, "connection");
	x.from = sdr_rel_create(x.a, &attr);
	x.to = sdr_rel_create(x.b, &attr);
	must(x.from && x.to, "Writes");
	join(x.a, x.b);
	return x;
}

static void end_ends(struct ends *x)
{
	is(sdr_rel_destroy(x->from) | sdr_rel_destroy(x->to), 0, "destroying Writes");
	is(sdr_qp_destroy(x->a) | sdr_qp_destroy(x->b), 0, "destroying");
}

static struct sdr_req *receive(struct ends *x, uint64_t room)
{
	struct sdr_req *r = NULL;

	is(sdr_rel_recv(x->to, mr, mem, room, &r), 0, "a receive");
	must(r, "receive");
	return r;
}

static struct sdr_req *write_to(struct ends *x, uint64_t length)
{
	struct sdr_req *w = NULL;

	is(sdr_rel_write(x->from, mr, mem + HALF, length, 3, &w), 0, "a Write");
	must(w, "Write");
	return w;
}

static void ends_with(struct sdr_req *req, int status, const char *what)
{
	struct sdr_result result = { .status = 1 };

	is(wait_for(req, &result), 1, "an end");
	is(result.status, status, what);
}

/* Its receive is: whether it hears that or what became of it hangs on what it knew by then. */
static void is_over(struct sdr_req *req)
{
	struct sdr_result result = { .status = 1 };

	is(wait_for(req, &result), 1, "an end");
	if (result.status != -ECANCELED)
		is(result.status, -ETIMEDOUT, "a Write whose receive is over");
}

static void a_pair(struct ends *x, uint64_t length)
{
	struct sdr_req *r = receive(x, length), *w = write_to(x, length);

	for (uint64_t i = 0; i < length; i++)
		mem[HALF + i] = (uint8_t)(i * 13 + 5);
	ends_with(w, 0, "a Write that is received");
	ends_with(r, 0, "its receive");
	is(memcmp(mem, mem + HALF, length), 0, "its bytes");
}

/* More of them than there are slots, so that the last have never got one: each ends in its time, and the n-th stays the n-th's. */
static void given_up(void)
{
	const struct sdr_rel_attr attr = { .scheme = SDR_SCHEME_AUTO, .timeout_ns = 500000000 };
	struct ends x = make_ends(WITH(packet_lifetime_ns, 20000000), attr);

	for (int i = 0; i < GIVEN_UP; i++)
		ends_with(receive(&x, HALF), -ETIMEDOUT, "a receive that nobody writes to");
	for (int i = 0; i < GIVEN_UP; i++)
		is_over(write_to(&x, HALF));
	for (int i = 0; i < GIVEN_UP; i++)
		ends_with(write_to(&x, HALF), -ETIMEDOUT, "a Write that nobody receives");
	for (int i = 0; i < GIVEN_UP; i++)
		ends_with(receive(&x, HALF), -ETIMEDOUT, "a receive whose Write is over");
	a_pair(&x, HALF);
	end_ends(&x);
}

/* By less than a chunk, so that it has no more of them than its receive; what restores it must not write behind the receive's end. */
static void too_long(void)
{
	const int schemes[] = { SDR_SCHEME_EC, SDR_SCHEME_NACK, SDR_SCHEME_AUTO };
	struct sdr_req *r, *w;
	size_t at;

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		struct ends x = make_ends(good, (struct sdr_rel_attr){ .scheme = schemes[i],
								       .timeout_ns = 3000000000 });

		memset(mem, GUARD, HALF);
		r = receive(&x, ROOM);
		w = write_to(&x, ROOM + 1000);
		ends_with(w, -EPROTO, "a Write that is longer than its receive");
		ends_with(r, -EPROTO, "a receive that is shorter than its Write");
		for (at = ROOM; at < HALF && mem[at] == GUARD;)
			at++;
		is((long)at, HALF, "the first byte behind the receive that has changed");
		a_pair(&x, ROOM);
		end_ends(&x);
	}
}

/* Shorter than a chunk; a timeout that is none. */
static void tiny(void)
{
	struct sdr_qp_attr attr = { .max_msg_size = 100, .max_msgs = 8, .backend = good.backend };
	struct ends x = make_ends(
		attr, (struct sdr_rel_attr){ .scheme = SDR_SCHEME_AUTO, .timeout_ns = UINT64_MAX });
	struct sdr_req *req;

	is(sdr_rel_write(x.from, mr, mem, 101, 0, &req), -EMSGSIZE, "a byte too many");
	a_pair(&x, 100);
	a_pair(&x, 1);
	end_ends(&x);
}

/* Little parity was agreed upon: what the model would like better is not taken. */
static void little_parity(void)
{
	struct ends x = make_ends(
		good, (struct sdr_rel_attr){ .scheme = SDR_SCHEME_AUTO, .k = 32, .m = 1 });

	for (int i = 0; i < 5; i++)
		a_pair(&x, HALF);
	end_ends(&x);
}

/* What the sender takes is its own matter: its receiver, whose own scheme sends none, has room for parity. */
static void other_scheme(void)
{
	struct sdr_qp *a = sdr_qp_create(ctx, &good), *b = sdr_qp_create(ctx, &good);
	struct sdr_rel_attr coded = { .scheme = SDR_SCHEME_EC },
			    plain = { .scheme = SDR_SCHEME_NACK };
	struct ends x = { a, b, a ? sdr_rel_create(a, &coded) : NULL,
			  b ? sdr_rel_create(b, &plain) : NULL };

	must(x.from && x.to, "Writes");
	join(a, b);
	a_pair(&x, HALF);
	end_ends(&x);
}

/* A program that computes for a while, and polls nothing meanwhile: its peer's word waits, and says nothing of the link. */
static void pauses(const char *dev)
{
	struct sdr_context *there = sdr_context_create(dev, NULL);
	struct sdr_mr *theirs = there ? sdr_mr_reg(there, mem, HALF) : NULL;
	struct sdr_qp *a = sdr_qp_create(ctx, &good),
		      *b = there ? sdr_qp_create(there, &good) : NULL;
	struct sdr_rel_attr attr = { .scheme = SDR_SCHEME_AUTO };
	struct sdr_rel *from = a ? sdr_rel_create(a, &attr) : NULL;
	struct sdr_rel *to = b ? sdr_rel_create(b, &attr) : NULL;
	struct sdr_stats here, far;
	struct sdr_result result;
	struct sdr_req *w, *r;

	must(theirs && from && to, "two contexts");
	join(a, b);
	for (int i = 0; i < 6; i++) {
		time_t end = now_s() + WAIT_S, paused = now_s() + 2;

		is(sdr_rel_recv(to, theirs, mem, HALF, &r), 0, "a receive");
		while (i == 3 && now_s() < paused)
			sdr_poll(there);
		is(sdr_rel_write(from, mr, mem + HALF, HALF, 0, &w), 0, "a Write");
		for (bool sent = false, came = false; (!sent || !came) && now_s() < end;) {
			sdr_poll(ctx);
			sdr_poll(there);
			sent = sent || sdr_req_test(w, &result);
			came = came || sdr_req_test(r, &result);
		}
		is(result.status, 0, "a Write behind a pause");
	}
	is(sdr_qp_stats(a, &here) | sdr_qp_stats(b, &far), 0, "counters");
	/* Of a pause of a second at least, smoothed. */
	is(here.rtt_ns < 100000000, true, "the sender's round trip, less than 100 ms");
	is(far.rtt_ns < 100000000, true, "the receiver's round trip, less than 100 ms");
	is(sdr_rel_destroy(from) | sdr_rel_destroy(to), 0, "destroying Writes");
	is(sdr_qp_destroy(a) | sdr_qp_destroy(b), 0, "destroying");
	is(sdr_mr_dereg(theirs), 0, "the other region's end");
	is(sdr_context_destroy(there), 0, "the other context's end");
}

enum { CROWD = 2048 };

/* More receives than a queue of requests usually holds, before the first poll. */
static void crowd(void)
{
	struct sdr_qp_attr attr = {
		.max_msg_size = 100, .max_msgs = CROWD, .id_bits = 12, .backend = good.backend
	};
	struct sdr_qp *a = sdr_qp_create(ctx, &attr), *b = sdr_qp_create(ctx, &attr);
	struct sdr_recv_wr recv = { mr, mem, 100 };
	struct sdr_send_wr send = { mr, mem + HALF, 100, 0 };
	struct sdr_recv_req *r[CROWD];
	struct sdr_send_req *s;
	time_t end = now_s() + WAIT_S;
	int sent = 0;

	must(a && b, "connection for a crowd");
	join(a, b);
	for (int i = 0; i < CROWD; i++)
		is(sdr_recv_post(b, &recv, &r[i]), 0, "a receive of a crowd");
	is(sdr_send_post(a, &send, &s), 0, "a send to a crowd");
	while (!sent && now_s() < end) {
		sdr_poll(ctx);
		sent = sdr_send_poll(s);
	}
	is(sent, 1, "the send");
	for (int i = 0; i < CROWD; i++)
		is(sdr_recv_complete(r[i]), 0, "a receive of a crowd that is over");
	is(sdr_qp_destroy(a) | sdr_qp_destroy(b), 0, "destroying");
}

enum { ROOMY = 64 << 20 };

/* No memory for the Writes' parity: it is said, and with memory all is well, and nothing was left over of the first try. */
static void no_memory(void)
{
	struct sdr_qp_attr attr = { .max_msg_size = ROOMY, .max_msgs = 8, .backend = good.backend };
	struct ends x = make_ends(attr, (struct sdr_rel_attr){ .scheme = SDR_SCHEME_AUTO });
	struct rlimit all = { 0 }, little;
	struct sdr_req *r;
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	must(f && fscanf(f, "%lu", &pages) == 1 && !getrlimit(RLIMIT_AS, &all), "limits");
	fclose(f);
	little = all;
	/* Of 16 MiB of parity for each of eight ends of Writes. */
	little.rlim_cur = pages * 4096 + 3 * (rlim_t)(16 << 20);
	must(!setrlimit(RLIMIT_AS, &little), "a limit of memory");
	for (int i = 0; i < 3; i++)
		is(sdr_rel_recv(x.to, mr, mem, HALF, &r), -ENOMEM, "a receive without memory");
	must(!setrlimit(RLIMIT_AS, &all), "no limit of memory");
	a_pair(&x, HALF);
	end_ends(&x);
}

/* A Write of no bytes tells its immediate, whatever the scheme, and changes nothing. */
static void empty(void)
{
	struct sdr_result result;
	struct sdr_req *r, *w;

	for (int scheme = SDR_SCHEME_AUTO; scheme <= SDR_SCHEME_HYBRID; scheme++) {
		struct ends x = make_ends(good, (struct sdr_rel_attr){ .scheme = scheme });

		memset(mem, GUARD, HALF);
		for (int i = 0; i < 20; i++) {
			r = receive(&x, i % 2 ? ROOM : 1);
			w = write_to(&x, 0);
			ends_with(w, 0, "a Write of nothing");
			is(wait_for(r, &result), 1, "the end of its receive");
			is(result.status, 0, "its receive");
			is((long)result.bytes, 0, "its bytes");
			is(result.imm, 3, "its immediate");
		}
		is(mem[0] == GUARD && !memcmp(mem, mem + 1, HALF - 1), 1, "memory as before");
		a_pair(&x, ROOM);
		end_ends(&x);
	}
}

static int wait_for_word(struct ends *x, uint64_t ahead, struct sdr_rel_posted *posted)
{
	time_t end = now_s() + WAIT_S;
	int got;

	while ((got = sdr_rel_posted(x->from, ahead, posted)) == -EAGAIN && now_s() < end)
		sdr_poll(ctx);
	return got;
}

/* A receive's word and length are known before its Write is posted, and only if it is posted. */
static void words(void)
{
	struct ends x = make_ends(good, (struct sdr_rel_attr){ .writes = 1, .receives = 4 });
	struct sdr_req *r[4], *none, *w;
	struct sdr_rel_posted posted;
	struct sdr_result result;

	is(sdr_rel_posted(x.from, 0, &posted), -EAGAIN, "the word of a receive that is not posted");
	for (uint64_t i = 0; i < 4; i++)
		is(sdr_rel_recv_word(x.to, mr, mem + i * ROOM, ROOM + i, ~i, &r[i]), 0,
		   "a receive with a word");
	is(sdr_rel_recv_word(x.to, mr, mem, 1, 0, &none), -EAGAIN, "a fifth receive");
	for (uint64_t i = 0; i < 4; i++) {
		is(wait_for_word(&x, i, &posted), 0, "the word");
		is(posted.word == ~i, 1, "which word it is");
		is((long)posted.length, (long)(ROOM + i), "the receive's length");
	}
	is(sdr_rel_posted(x.from, 4, &posted), -EAGAIN, "the word of the fifth");
	for (uint64_t i = 0; i < 4; i++) {
		w = write_to(&x, ROOM);
		is(sdr_rel_write(x.from, mr, mem, 1, 0, &none), -EAGAIN, "a second Write");
		ends_with(w, 0, "a Write");
		ends_with(r[i], 0, "its receive");
		is(sdr_rel_posted(x.from, 3 - i, &posted), -EAGAIN, "the word of none");
	}
	r[0] = receive(&x, ROOM);
	is(wait_for_word(&x, 0, &posted), 0, "no word");
	is(posted.word == 0, 1, "that it is none");
	w = write_to(&x, 0);
	ends_with(w, 0, "a Write");
	is(wait_for(r[0], &result), 1, "its receive's end");
	end_ends(&x);
}

/* A receive that waits for longer than Writes may take. */
static void patient(void)
{
	struct ends x = make_ends(good, (struct sdr_rel_attr){ .scheme = SDR_SCHEME_AUTO,
							       .timeout_ns = 300000000,
							       .receive_timeout_ns = UINT64_MAX });
	struct sdr_req *r = receive(&x, ROOM), *w;
	struct sdr_req *late = write_to(&x, ROOM), *alone;

	ends_with(late, 0, "a Write in its time");
	ends_with(r, 0, "its receive");
	r = receive(&x, ROOM);
	alone = receive(&x, ROOM);
	for (time_t end = now_s() + 2; now_s() < end;)
		sdr_poll(ctx);
	w = write_to(&x, ROOM);
	ends_with(w, 0, "a Write to a receive that has waited");
	ends_with(r, 0, "the receive that has waited");
	w = write_to(&x, ROOM);
	ends_with(w, 0, "a second Write");
	ends_with(alone, 0, "the second receive");
	end_ends(&x);
}

/* Parity has a bound, which the schemes keep. */
static void bounded_parity(void)
{
	for (int scheme = SDR_SCHEME_AUTO; scheme <= SDR_SCHEME_HYBRID; scheme++) {
		struct ends x = make_ends(
			good, (struct sdr_rel_attr){ .scheme = scheme, .max_parity = 4096 });

		for (int i = 0; i < 3; i++)
			a_pair(&x, HALF);
		end_ends(&x);
	}
}

static void memory_in_use(void)
{
	struct sdr_mr *other = sdr_mr_reg(ctx, mem, HALF);
	struct sdr_qp *a = sdr_qp_create(ctx, &good), *b = sdr_qp_create(ctx, &good);
	struct sdr_send_wr send = { other, mem, HALF, 0 };
	struct sdr_recv_wr recv = { other, mem, HALF };
	struct sdr_send_req *s;
	struct sdr_recv_req *r;

	must(other && a && b, "connection");
	connect_both(a, b);
	is(sdr_send_post(a, &send, &s), 0, "a send");
	is(sdr_mr_dereg(other), -EBUSY, "the end of a region that is sent from");
	is(sdr_recv_post(a, &recv, &r), 0, "a receive");
	is(sdr_qp_destroy(b), 0, "destroying");
	is(sdr_recv_complete(r), 0, "the receive's end");
	is(sdr_mr_dereg(other), -EBUSY, "the end of a region that is sent from");
	is(sdr_qp_destroy(a), 0, "destroying");
	is(sdr_mr_dereg(other), 0, "the end of a region that nobody uses");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	good.backend = SDR_BACKEND_WINDOW;
	while (strcmp(sdr_backend_name(good.backend), argv[2]) && good.backend < SDR_BACKEND_ROOT)
		good.backend++;
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED, "memory");
	ctx = sdr_context_create(argv[1], NULL);
	must(ctx, argv[1]);
	mr = sdr_mr_reg(ctx, mem, SIZE);
	must(mr, "region");
	contexts_and_connections(argv[1]);
	writes_that_make_no_sense();
	messages();
	writes();
	given_up();
	too_long();
	tiny();
	little_parity();
	empty();
	words();
	patient();
	bounded_parity();
	memory_in_use();
	other_scheme();
	pauses(argv[1]);
	crowd();
	no_memory();
	is(sdr_mr_dereg(mr), 0, "the region's end");
	is(sdr_context_destroy(ctx), 0, "the context's end");
	if (!failures)
		puts("all is said");
	return failures ? 1 : 0;
}
