/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Several threads, each with a context of its own on one device and several connections in it, that write both ways at once: lengths,
 * rooms, schemes and backends are drawn. Each byte is right, and none behind a Write's length is touched.
 *
 * usage: sdr_many DEV SEED THREADS WRITES
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sdr/include/sdr/rel.h"

enum { PAIRS = 3, WAYS = 2 * PAIRS, OPEN = 4, GUARD = 0xa7, WAIT_S = 100 };

#define LONGEST (300u << 10)

/* A Write and its receive. */
struct one {
	struct sdr_req *w, *r;
	uint64_t n, length, room;
	uint8_t *from, *to;
};

/* From one connection to another; the way back is another one of these. */
struct way {
	struct sdr_rel *from, *to;
	uint64_t begun, ended;
	struct one open[OPEN];
	bool staged;
};

struct thread {
	pthread_t id;
	const char *dev;
	uint64_t random, writes;
	struct sdr_context *ctx;
	struct sdr_mr *mr;
	uint8_t *mem;
	struct sdr_qp *qps[2 * PAIRS];
	struct sdr_rel *rels[2 * PAIRS];
	struct way ways[WAYS];
	bool right;
};

/* splitmix64 */
static uint64_t draw(struct thread *t, uint64_t below)
{
	uint64_t z = t->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % below;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "many: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void fine(int ret, const char *what)
{
	errno = -ret;
	must(!ret, what);
}

static time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* ---- what is made ---------------------------------------------------------------------------- */

static void make_pair(struct thread *t, uint32_t i)
{
	static const uint32_t packets[] = { 0, 1, 2, 8 };
	struct sdr_qp_attr attr = { .max_msg_size = LONGEST,
				    .chunk_size = 4096 * packets[draw(t, 4)],
				    .max_msgs = 8 << draw(t, 3),
				    .channels = 1 + (uint32_t)draw(t, 3) };
	struct sdr_rel_attr rel = { .code = draw(t, 2) ? SDR_CODE_XOR : SDR_CODE_MDS,
				    .k = 4 + (uint32_t)draw(t, 40),
				    .writes = OPEN };
	uint8_t info[2][SDR_QP_INFO_MAX];
	size_t len[2] = { SDR_QP_INFO_MAX, SDR_QP_INFO_MAX };

	rel.m = 1 + (uint32_t)draw(t, rel.k);
	for (uint32_t e = 0; e < 2; e++) {
		attr.backend = draw(t, 2) ? SDR_BACKEND_STAGE : SDR_BACKEND_WINDOW;
		rel.scheme = (int)draw(t, 5) - 1; /* of what this end sends */
		t->ways[2 * i + !e].staged = attr.backend == SDR_BACKEND_STAGE;
		t->qps[2 * i + e] = sdr_qp_create(t->ctx, &attr);
		must(t->qps[2 * i + e], "connection");
		t->rels[2 * i + e] = sdr_rel_create(t->qps[2 * i + e], &rel);
		must(t->rels[2 * i + e], "Writes");
		fine(sdr_qp_info_get(t->qps[2 * i + e], info[e], &len[e]), "info");
	}
	for (uint32_t e = 0; e < 2; e++) {
		fine(sdr_qp_connect(t->qps[2 * i + e], info[!e], len[!e]), "connecting");
		t->ways[2 * i + e].from = t->rels[2 * i + e];
		t->ways[2 * i + e].to = t->rels[2 * i + !e];
	}
}

static void make_all(struct thread *t)
{
	size_t size = 2 * (size_t)WAYS * OPEN * LONGEST;

	t->ctx = sdr_context_create(t->dev, NULL);
	must(t->ctx, t->dev);
	t->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(t->mem != MAP_FAILED, "memory");
	t->mr = sdr_mr_reg(t->ctx, t->mem, size);
	must(t->mr, "region");
	for (uint32_t i = 0; i < PAIRS; i++)
		make_pair(t, i);
	for (uint32_t i = 0; i < WAYS * OPEN; i++) {
		t->ways[i / OPEN].open[i % OPEN].from = t->mem + 2 * (size_t)i * LONGEST;
		t->ways[i / OPEN].open[i % OPEN].to = t->mem + (2 * (size_t)i + 1) * LONGEST;
	}
}

static void end_all(struct thread *t)
{
	for (uint32_t i = 0; i < 2 * PAIRS; i++)
		fine(sdr_rel_destroy(t->rels[i]), "the end of Writes");
	for (uint32_t i = 0; i < 2 * PAIRS; i++)
		fine(sdr_qp_destroy(t->qps[i]), "the end of a connection");
	fine(sdr_mr_dereg(t->mr), "the end of a region");
	fine(sdr_context_destroy(t->ctx), "the end of a context");
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static uint8_t byte_of(const struct one *o, uint64_t i)
{
	return (uint8_t)(o->n * 31 + i * 7 + (i >> 8) * 13);
}

static void begin(struct thread *t, struct way *w)
{
	struct one *o = &w->open[w->begun % OPEN];
	int first = (int)draw(t, 2), err;

	if (o->w || o->r || w->begun == t->writes)
		return;
	o->n = w->begun;
	o->length = 1 + draw(t, draw(t, 3) ? LONGEST : 9000);
	o->room = o->length + draw(t, LONGEST - o->length + 1);
	memset(o->to, GUARD, LONGEST);
	for (uint64_t i = 0; i < o->length; i++)
		o->from[i] = byte_of(o, i);
	for (int i = 0; i < 2; i++) {
		err = i == first ? sdr_rel_write(w->from, t->mr, o->from, o->length, (uint32_t)o->n,
						 &o->w)
				 : sdr_rel_recv(w->to, t->mr, o->to, o->room, &o->r);
		fine(err, "beginning a Write");
	}
	w->begun++;
}

/* Of a stage, what is behind the Write in its last chunk is anything. */
static bool is_right(const struct way *w, const struct one *o)
{
	for (uint64_t i = 0; i < o->length; i++)
		if (o->to[i] != byte_of(o, i))
			return false;
	for (uint64_t i = w->staged ? o->room : o->length; i < LONGEST; i++)
		if (o->to[i] != GUARD)
			return false;
	return true;
}

static bool step(struct way *w)
{
	struct one *o = &w->open[w->ended % OPEN];
	struct sdr_result result;

	if (o->w && sdr_req_test(o->w, &result)) {
		fine(result.status, "a Write");
		o->w = NULL;
	}
	if (o->r && sdr_req_test(o->r, &result)) {
		fine(result.status, "a receive");
		o->r = NULL;
		if (result.imm != (uint32_t)o->n || result.bytes != o->length || !is_right(w, o))
			return false;
	}
	w->ended += w->ended < w->begun && !o->w && !o->r;
	return true;
}

static bool run(struct thread *t)
{
	time_t end = now_s() + WAIT_S;
	uint64_t sum = 0;

	while (sum < WAYS * t->writes) {
		sum = 0;
		for (uint32_t i = 0; i < WAYS; i++) {
			begin(t, &t->ways[i]);
			if (!step(&t->ways[i]))
				return false;
			sum += t->ways[i].ended;
		}
		sdr_poll(t->ctx);
		if (now_s() > end)
			return false;
	}
	return true;
}

static void *thread(void *arg)
{
	struct thread *t = arg;

	make_all(t);
	t->right = run(t);
	end_all(t);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[8];
	int n = argc == 5 ? atoi(argv[3]) : 0, right = 0;

	if (n < 1 || n > 8)
		return 2;
	for (int i = 0; i < n; i++) {
		threads[i].dev = argv[1];
		threads[i].random = strtoull(argv[2], NULL, 10) + ((uint64_t)i << 32);
		threads[i].writes = strtoull(argv[4], NULL, 10);
		must(!pthread_create(&threads[i].id, NULL, thread, &threads[i]), "thread");
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		right += threads[i].right;
	}
	printf("%d of %d threads are right\n", right, n);
	return right == n ? 0 : 1;
}
