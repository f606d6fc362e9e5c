/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages without reliability: what a receive has when it is given up, and how fast they go. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sdr/tools/perf.h"

/* Time for packets under way, after the sender's end and the last chunk that came. */
#define PATIENCE_NS 500000000ull

struct message {
	struct sdr_send_req *send;
	struct sdr_recv_req *recv;
	uint64_t began, have, last_new;
};

struct run {
	const struct options *o;
	struct pair pair;
	struct tally tally;
	struct message *messages;
	uint64_t posted, ended;
};

static int post(struct run *r)
{
	const struct options *o = r->o;
	struct message *m = &r->messages[r->posted % o->inflight];
	uint8_t *at = pair_buffer(&r->pair, r->posted, o);
	struct sdr_send_wr send = { r->pair.mr, at, o->size, (uint32_t)r->posted };
	struct sdr_recv_wr recv = { r->pair.mr, at, o->size };
	int err;

	if (m->send || m->recv)
		return -EAGAIN;
	if (o->client && o->verify)
		pattern_fill(at, o->size, r->posted);
	m->have = 0;
	m->began = m->last_new = now_ns();
	err = o->client ? sdr_send_post(r->pair.qp, &send, &m->send)
			: sdr_recv_post(r->pair.qp, &recv, &m->recv);
	if (err)
		m->send = NULL, m->recv = NULL;
	else
		r->posted++;
	return err;
}

static uint64_t count(const sdr_word *bits, size_t chunks)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < (chunks + 63) / 64; i++)
		sum += (uint64_t)__builtin_popcountll(
			atomic_load_explicit(&bits[i], memory_order_acquire));
	return sum;
}

static int close_receive(struct run *r, struct message *m, bool whole)
{
	const struct options *o = r->o;
	uint32_t imm = 0;
	bool has_imm = !sdr_recv_imm_get(m->recv, &imm);
	int err = sdr_recv_complete(m->recv);
	uint8_t *at = pair_buffer(&r->pair, r->ended, o);

	m->recv = NULL;
	if (err || !whole || !o->verify)
		return err;
	if (pattern_check(at, o->size, r->ended) == o->size &&
	    (!has_imm || imm == (uint32_t)r->ended))
		return 0;
	r->tally.wrong++;
	return -EILSEQ;
}

/* 1: over; 0: not yet; -errno. */
static int look(struct run *r, struct message *m)
{
	const sdr_word *bits;
	uint64_t now = now_ns(), have;
	size_t chunks;
	int err = sdr_recv_bitmap_get(m->recv, &bits, &chunks);

	if (err)
		return err;
	have = count(bits, chunks);
	/* A sender that waits for a processor has lost nothing. */
	if (have > m->have || !sdr_recv_ended(m->recv)) {
		m->have = have;
		m->last_new = now;
	}
	if (have && !r->tally.begin)
		r->tally.begin = now;
	if (have < chunks && now < m->last_new + PATIENCE_NS)
		return 0;
	r->tally.missing += chunks - have;
	r->tally.chunks += chunks;
	err = close_receive(r, m, have == chunks);
	return err ? err : 1;
}

static int end(struct run *r)
{
	struct message *m = &r->messages[r->ended % r->o->inflight];
	int got;

	if (!m->send && !m->recv)
		return 0;
	got = m->send ? sdr_send_poll(m->send) : look(r, m);
	if (got)
		m->send = NULL;
	if (got <= 0)
		return got;
	r->tally.ns[r->tally.n++] = now_ns() - m->began;
	r->ended++;
	return 1;
}

static int loop(struct run *r)
{
	int err = 0, got;

	if (r->o->client)
		r->tally.begin = now_ns();
	for (uint32_t i = 0; r->ended < r->o->n; i++) {
		for (err = 0; r->posted < r->o->n && !err;)
			err = post(r);
		if (err && err != -EAGAIN)
			break;
		sdr_poll(r->pair.ctx);
		while ((got = end(r)) > 0)
			;
		err = got;
		if (err)
			break;
		if (i % 256 == 0 && r->ended < r->o->n && oob_gone())
			return -ECONNRESET;
	}
	r->tally.end = now_ns();
	if (r->ended == r->o->n)
		return 0;
	complain("message %llu: %s", (unsigned long long)r->ended,
		 err == -EILSEQ ? "its bytes are wrong" : why(err));
	return err;
}

int run_sdk(const struct options *o)
{
	struct run r = { .o = o };
	int status = 1;

	r.messages = calloc(o->inflight, sizeof(*r.messages));
	r.tally.ns = calloc(o->n, sizeof(*r.tally.ns));
	if (r.messages && r.tally.ns && pair_open(&r.pair, o)) {
		status = loop(&r);
		if (!pair_finish(&r.pair, o, &r.tally, !status))
			status = 1;
	}
	pair_close(&r.pair);
	free(r.messages);
	free(r.tally.ns);
	return status;
}
