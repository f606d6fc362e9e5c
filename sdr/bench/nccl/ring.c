/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The traffic of NCCL's ring all-reduce over two sites of four ranks, over an NCCL network plugin.
 * A process plays one site: its ranks pass pieces on by memory, as GPUs of a host do, and the last
 * of them sends to the first of the other site. Pieces and their number under way are NCCL's: at
 * most 512 KiB, eight of them, in buffers that are registered once. All sums are checked.
 *
 *   nccl_ring LIBRARY SITE DIR BYTES ROUNDS WARM-UP
 *
 * Prints a line of JSON: the seconds of each all-reduce but those that warm up, as nccl-tests does:
 * a connection learns what its link loses.
 */
#include "sdr/nccl/interface.h"
#include "sdr/tests/e2e/nccl/handle.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SITES = 2, RANKS = 4, ALL = SITES * RANKS, STEPS = 2 * (ALL - 1) };
enum { PIECE = 512 << 10, SLOTS = 8 };

struct rank {
	uint32_t *vector;
	uint32_t got[STEPS];  /* pieces of each step that have come */
	uint32_t step, piece; /* what it sends next */
};

/* A way to the other site, or from it. */
struct edge {
	void *comm, *mhandle, *requests[SLOTS];
	uint8_t *slots;
	uint64_t begun, over; /* pieces */
};

static struct nccl_net_v12 *net;
static void *context;
static struct rank ranks[RANKS];
static struct edge out, in;
static uint32_t site, words, chunk_words, pieces;
static const char *dir;

static void fail(const char *what, long n)
{
	fprintf(stderr, "%s (%ld)\n", what, n);
	exit(1);
}

static void must(enum nccl_result result, const char *call)
{
	if (result)
		fail(call, result);
}

__attribute__((format(printf, 5, 6))) static void logger(enum nccl_log_level level,
							 unsigned long parts, const char *file,
							 int line, const char *format, ...)
{
	va_list args;

	if (level > NCCL_LOG_WARN && !getenv("NCCL_RING_INFO"))
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connect_sites(void)
{
	_Alignas(16) uint8_t own[NCCL_HANDLE_MAX], other[NCCL_HANDLE_MAX];
	void *listener;

	must(net->listen(context, 0, own, &listener), "listen");
	if (!handle_give(dir, site, own) || !handle_take(dir, 1 - site, other))
		fail("cannot write or read a handle", site);
	while (!out.comm || !in.comm) {
		if (!out.comm)
			must(net->connect(context, 0, other, &out.comm, NULL), "connect");
		if (!in.comm)
			must(net->accept(listener, &in.comm, NULL), "accept");
	}
	must(net->close_listen(listener), "close_listen");
}

static void make_slots(struct edge *e)
{
	e->slots = aligned_alloc(4096, (size_t)PIECE * SLOTS);
	if (!e->slots)
		fail("no memory", 0);
	must(net->reg_mr(e->comm, e->slots, (size_t)PIECE * SLOTS, NCCL_PTR_HOST, &e->mhandle),
	     "reg_mr");
}

/* ---- vectors --------------------------------------------------------------------------------- */

static uint32_t value(uint32_t rank, uint32_t round, uint32_t i)
{
	return (rank + 1) * 2654435761u + round * 40503u + i * 97u;
}

static void fill_vectors(uint32_t round)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t i = 0; i < words; i++)
			ranks[r].vector[i] = value(site * RANKS + r, round, i);
		memset(ranks[r].got, 0, sizeof(ranks[r].got));
		ranks[r].step = ranks[r].piece = 0;
	}
}

static void check_vectors(uint32_t round)
{
	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t i = 0; i < words; i++) {
			uint32_t sum = 0;

			for (uint32_t of = 0; of < ALL; of++)
				sum += value(of, round, i);
			if (ranks[r].vector[i] != sum)
				fail("a sum is wrong", i);
		}
}

/* ---- the ring -------------------------------------------------------------------------------- */

static uint32_t piece_words(uint32_t piece)
{
	uint32_t left = chunk_words - piece * (PIECE / 4);

	return left < PIECE / 4 ? left : PIECE / 4;
}

/* The words that a rank sends in a step, which are those that the next rank has received then. */
static uint32_t *place(struct rank *to, uint32_t sender, uint32_t step, uint32_t piece)
{
	uint32_t chunk = (sender + 2 * ALL - step % ALL) % ALL;

	return to->vector + (size_t)chunk * chunk_words + (size_t)piece * (PIECE / 4);
}

static void receive(struct rank *to, uint32_t sender, uint32_t step, uint32_t piece,
		    const uint32_t *data)
{
	uint32_t *at = place(to, sender, step, piece), n = piece_words(piece);

	for (uint32_t i = 0; i < n; i++)
		at[i] = step < ALL - 1 ? at[i] + data[i] : data[i];
	to->got[step]++;
}

static bool is_ready(const struct rank *r)
{
	return r->step < STEPS && (!r->step || r->got[r->step - 1] > r->piece);
}

static void next_piece(struct rank *r)
{
	if (++r->piece < pieces)
		return;
	r->piece = 0;
	r->step++;
}

/* The last rank's pieces go to the other site. False: not now. */
static bool send_piece(struct rank *r)
{
	uint64_t slot = out.begun % SLOTS;
	uint8_t *buffer = out.slots + slot * PIECE;
	uint32_t n = piece_words(r->piece);

	if (out.begun - out.over == SLOTS)
		return false;
	memcpy(buffer, place(r, site * RANKS + RANKS - 1, r->step, r->piece), (size_t)n * 4);
	must(net->isend(out.comm, buffer, (size_t)n * 4, 0, out.mhandle, NULL, &out.requests[slot]),
	     "isend");
	out.begun += out.requests[slot] != NULL;
	return out.requests[slot] != NULL;
}

static void send_pieces(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		struct rank *r = &ranks[i];

		while (is_ready(r)) {
			if (i == RANKS - 1 && !send_piece(r))
				break;
			if (i < RANKS - 1)
				receive(&ranks[i + 1], site * RANKS + i, r->step, r->piece,
					place(r, site * RANKS + i, r->step, r->piece));
			next_piece(r);
		}
	}
}

/* Tests an edge's oldest request. True: it is over. */
static bool is_over(struct edge *e)
{
	int done = 0, size;

	if (e->over == e->begun)
		return false;
	must(net->test(e->requests[e->over % SLOTS], &done, &size), "test");
	e->over += done != 0;
	return done;
}

/* Receives are posted ahead, of this all-reduce alone. */
static void post_receives(uint64_t end)
{
	while (in.begun < end && in.begun - in.over < SLOTS) {
		uint64_t slot = in.begun % SLOTS;
		void *data = in.slots + slot * PIECE, *request = NULL;
		size_t size = PIECE;
		int tag = 0;

		must(net->irecv(in.comm, 1, &data, &size, &tag, &in.mhandle, NULL, &request),
		     "irecv");
		if (!request)
			return;
		in.requests[slot] = request;
		in.begun++;
	}
}

static bool is_done(void)
{
	for (uint32_t i = 0; i < RANKS; i++)
		if (ranks[i].step < STEPS || ranks[i].got[STEPS - 1] < pieces)
			return false;
	return out.over == out.begun;
}

static void all_reduce(void)
{
	uint64_t first = in.over, end = in.over + (uint64_t)STEPS * pieces;
	uint32_t sender = (1 - site) * RANKS + RANKS - 1;

	while (!is_done()) {
		post_receives(end);
		send_pieces();
		while (is_over(&out))
			;
		while (is_over(&in)) {
			uint64_t n = in.over - 1;

			receive(&ranks[0], sender, (uint32_t)((n - first) / pieces),
				(uint32_t)((n - first) % pieces),
				(uint32_t *)(in.slots + n % SLOTS * PIECE));
		}
	}
}

/* Both sites begin together: each has heard from the other. */
static void meet(void)
{
	uint64_t slot = out.begun % SLOTS;
	bool sent = false, heard = false;

	post_receives(in.begun + 1);
	while (!sent || !heard) {
		if (out.begun == out.over && !sent) {
			must(net->isend(out.comm, out.slots + slot * PIECE, 8, 0, out.mhandle, NULL,
					&out.requests[slot]),
			     "isend");
			out.begun += out.requests[slot] != NULL;
		}
		sent |= is_over(&out);
		heard |= is_over(&in);
	}
}

static void load(const char *name)
{
	struct nccl_config config = { NCCL_UNDEFINED };
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	net = library ? dlsym(library, NCCL_NET_SYMBOL_V12) : NULL;
	if (!net)
		fail(dlerror(), 0);
	must(net->init(&context, 1, &config, logger, NULL), "init");
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc == 7 ? (uint32_t)atoi(argv[5]) : 0;
	uint32_t warm_up = argc == 7 ? (uint32_t)atoi(argv[6]) : 0;
	double began;

	if (!rounds)
		return 2;
	site = (uint32_t)atoi(argv[2]);
	dir = argv[3];
	words = (uint32_t)(strtoull(argv[4], NULL, 0) / 4);
	chunk_words = words / ALL;
	pieces = (chunk_words + PIECE / 4 - 1) / (PIECE / 4);
	for (uint32_t r = 0; r < RANKS; r++)
		ranks[r].vector = malloc((size_t)words * 4);
	load(argv[1]);
	connect_sites();
	make_slots(&out);
	make_slots(&in);
	printf("{\"seconds\": [");
	for (uint32_t round = 0; round < warm_up + rounds; round++) {
		fill_vectors(round);
		meet();
		began = now_s();
		all_reduce();
		if (round >= warm_up)
			printf("%s%.6f", round > warm_up ? ", " : "", now_s() - began);
		check_vectors(round);
	}
	meet();
	printf("]}\n");
	must(net->dereg_mr(out.comm, out.mhandle), "dereg_mr");
	must(net->dereg_mr(in.comm, in.mhandle), "dereg_mr");
	must(net->close_send(out.comm), "close_send");
	must(net->close_recv(in.comm), "close_recv");
	must(net->finalize(context), "finalize");
	return 0;
}
