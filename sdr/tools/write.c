/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reliable Writes from the client to the server. */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "sdr/tools/perf.h"

enum { LOOK_EVERY = 256 }; /* rounds between two looks at the TCP connection */

struct run {
	const struct options *o;
	struct pair pair;
	struct tally tally, rc_tally;
	struct rc *rc; /* NULL: SDR alone */
	struct sdr_req **reqs;
	uint64_t *began;
	uint64_t posted, ended;
};

static int post(struct run *r)
{
	const struct options *o = r->o;
	uint64_t n = r->posted;
	uint8_t *at = pair_buffer(&r->pair, n, o);
	int err;

	if (r->reqs[n % o->inflight])
		return -EAGAIN;
	if (o->client && o->verify)
		pattern_fill(at, o->size, n);
	else if (o->verify)
		memset(at, 0xee, o->size);
	r->began[n % o->inflight] = now_ns();
	err = o->client ? sdr_rel_write(r->pair.rel, r->pair.mr, at, o->size, (uint32_t)n,
					&r->reqs[n % o->inflight])
			: sdr_rel_recv(r->pair.rel, r->pair.mr, at, o->size,
				       &r->reqs[n % o->inflight]);
	if (err) {
		r->reqs[n % o->inflight] = NULL;
		return err;
	}
	r->posted++;
	return 0;
}

static bool check_bytes(struct run *r, const struct sdr_result *result)
{
	const struct options *o = r->o;
	uint64_t at;

	if (o->client || !o->verify)
		return true;
	at = pattern_check(pair_buffer(&r->pair, r->ended, o), o->size, r->ended);
	if (at == o->size && result->imm == (uint32_t)r->ended && result->bytes == o->size)
		return true;
	complain("Write %llu is wrong: byte %llu, immediate %u, %llu bytes",
		 (unsigned long long)r->ended, (unsigned long long)at, result->imm,
		 (unsigned long long)result->bytes);
	r->tally.wrong++;
	return false;
}

/* The same bytes over RC: in turns, so that both meet the same link. */
static int against(struct run *r)
{
	if (!r->rc || !r->o->client)
		return 0;
	return rc_write(r->rc, &r->pair, pair_buffer(&r->pair, r->ended, r->o), &r->rc_tally);
}

/*
 * Takes the end of the oldest Write: Writes end in the order of their posts. 0: nothing has ended;
 * -errno: it failed.
 */
static int end(struct run *r)
{
	struct sdr_req **req = &r->reqs[r->ended % r->o->inflight];
	struct sdr_result result;
	int err;

	if (!*req || !sdr_req_test(*req, &result))
		return 0;
	*req = NULL;
	if (result.status)
		return result.status;
	if (!check_bytes(r, &result))
		return -EILSEQ;
	r->tally.ns[r->tally.n++] = now_ns() - r->began[r->ended % r->o->inflight];
	r->tally.chunks += result.chunks;
	r->tally.sent += result.sent;
	r->tally.resent += result.resent;
	r->tally.decoded += result.decoded;
	r->tally.fallbacks += result.resent > 0;
	r->tally.of_scheme[result.scheme & 3]++;
	err = against(r);
	if (err)
		return err;
	r->ended++;
	return 1;
}

static int step(struct run *r)
{
	int err = 0, got;

	while (r->posted < r->o->n && !err)
		err = post(r);
	if (err && err != -EAGAIN)
		return err;
	sdr_poll(r->pair.ctx);
	while ((got = end(r)) > 0)
		;
	return got;
}

/* The server may have said that it is done already; that is no end. */
static int loop(struct run *r)
{
	int err = 0;

	r->tally.begin = now_ns();
	for (uint32_t i = 0; !err && r->ended < r->o->n; i++) {
		err = step(r);
		if (i % LOOK_EVERY == 0 && r->ended < r->o->n && oob_gone())
			return -ECONNRESET;
	}
	r->tally.end = now_ns();
	if (err && r->rc_tally.n < r->tally.n && r->rc && r->o->client && err == -EIO)
		return err; /* the reliable connection has complained already */
	if (err)
		complain("%s %llu: %s", r->o->client ? "Write" : "receive",
			 (unsigned long long)r->ended,
			 err == -EILSEQ ? "its bytes are wrong" : why(err));
	return err;
}

static bool make_tables(struct run *r)
{
	r->reqs = calloc(r->o->inflight, sizeof(*r->reqs));
	r->began = calloc(r->o->inflight, sizeof(*r->began));
	r->tally.ns = calloc(r->o->n, sizeof(*r->tally.ns));
	r->rc_tally.ns = calloc(r->o->n, sizeof(*r->rc_tally.ns));
	return r->reqs && r->began && r->tally.ns && r->rc_tally.ns;
}

static bool meet_rc(struct run *r)
{
	if (r->o->against_rc)
		r->rc = rc_open(&r->pair, r->o);
	return r->rc || !r->o->against_rc;
}

static bool finish_rc(struct run *r)
{
	if (r->o->client)
		report_against(r->o, &r->tally, &r->rc_tally);
	return r->o->client || !r->o->verify || rc_check(r->rc);
}

int run_writes(const struct options *o)
{
	struct run r = { .o = o };
	int status = 1;

	if (make_tables(&r) && pair_open(&r.pair, o) && meet_rc(&r)) {
		status = loop(&r);
		if (!pair_finish(&r.pair, o, &r.tally, !status))
			status = 1;
		else if (r.rc && !finish_rc(&r))
			status = 1;
	}
	rc_close(r.rc);
	pair_close(&r.pair);
	free(r.reqs);
	free(r.began);
	free(r.tally.ns);
	free(r.rc_tally.ns);
	return status;
}
