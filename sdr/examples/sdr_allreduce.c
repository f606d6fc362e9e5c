/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sums a vector over a ring of hosts (reduce-scatter, then all-gather), by reliable Writes over
 * SDR, and checks every sum. Each rank writes to its right neighbour and receives from its left
 * one; they find each other by a key-value store, under sdr/JOB/RANK.right and .left.
 *
 * usage: sdr_allreduce DEV RANK RANKS STORE JOB
 *                      [SIZE [TIMES [SCHEME [RATE_MBPS [RTT_MS [BURST]]]]]]
 *
 * Before each sum all ranks meet, and begin the sum at the same time, as exactly as half a round
 * trip tells: what a rank does between two sums is not taken for the time of a sum.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "sdr/include/sdr/rel.h"
#include "kvclient/kv.h"

enum { RANKS_MAX = 8, PAGE = 4096, LEASE_MS = 600000, WAIT_S = 30 };

/*
 * A connection to a neighbour. Each end says who it is, by a number that nobody has used, and whom
 * it sees; both connect when each is seen by the other. So the records that a crashed run left are
 * nobody's.
 */
struct side {
	struct sdr_qp *qp;
	struct sdr_rel *rel;
	const char *name, *their_name;
	uint32_t their_rank;
	uint64_t id, seen;
	bool met;
};

/* A record of the store, as it lies in memory: all ranks are one machine type. */
struct record {
	uint64_t id, seen;
	uint8_t info[SDR_QP_INFO_MAX];
};

/*
 * A rank and its sum. vec: the vector, in as many segments as there are ranks; in: segments that
 * come, of two steps.
 */
static struct {
	uint32_t rank, ranks, steps;
	const char *job;
	struct kv *kv;
	struct sdr_context *ctx;
	struct side right, left;
	struct sdr_mr *vec_mr, *in_mr;
	double rtt_s;
	uint32_t *vec, *in;
	uint64_t size, segment; /* bytes */
	struct sdr_req *recvs[2];
} r;

static void must(bool ok, const char *what, const char *why)
{
	if (ok)
		return;
	fprintf(stderr, "sdr_allreduce: rank %u: %s: %s\n", r.rank, what, why);
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static int store(struct kv_op *op, uint32_t rank, const char *side)
{
	char key[KV_KEY_MAX];
	int err;

	snprintf(key, sizeof(key), "sdr/%s/%u.%s", r.job, rank, side);
	op->key = key;
	err = kv_run(r.kv, op, 1);
	return err ? err : op->ret;
}

static void tell(const struct side *s)
{
	struct record mine = { .id = s->id, .seen = s->seen };
	size_t info = sizeof(mine.info);
	struct kv_op op = { .type = KV_OP_PUT, .val = &mine, .lease_ms = LEASE_MS };

	must(!sdr_qp_info_get(s->qp, mine.info, &info), "info", "too long");
	op.len = offsetof(struct record, info) + info;
	must(!store(&op, r.rank, s->name), "store", kv_last_error(r.kv));
}

/* Looks for a neighbour once. */
static void look(struct side *s)
{
	struct record theirs;
	struct kv_op op = { .type = KV_OP_GET, .buf = &theirs, .cap = sizeof(theirs) };
	int err = store(&op, s->their_rank, s->their_name);

	if (err == -ENOENT)
		return;
	must(!err && op.got > offsetof(struct record, info), "neighbour",
	     err ? kv_last_error(r.kv) : "it is of another kind");
	if (theirs.id != s->seen) {
		s->seen = theirs.id;
		tell(s);
	}
	if (theirs.seen != s->id)
		return;
	must(!sdr_qp_connect(s->qp, theirs.info, op.got - offsetof(struct record, info)),
	     "neighbour", "it is of another kind");
	s->met = true;
}

static void forget(const char *name)
{
	struct kv_op op = { .type = KV_OP_DEL };

	(void)store(&op, r.rank, name); /* its lease ends */
}

static void open_side(struct side *s, const struct sdr_qp_attr *attr,
		      const struct sdr_rel_attr *rel)
{
	s->qp = sdr_qp_create(r.ctx, attr);
	must(s->qp, "connection", strerror(errno));
	s->rel = sdr_rel_create(s->qp, rel);
	must(s->rel, "connection", strerror(errno));
	must(getrandom(&s->id, sizeof(s->id), 0) == sizeof(s->id), "number", strerror(errno));
}

static void meet(void)
{
	double end = now_s() + WAIT_S;

	r.right.name = r.left.their_name = "right";
	r.left.name = r.right.their_name = "left";
	r.right.their_rank = (r.rank + 1) % r.ranks;
	r.left.their_rank = (r.rank + r.ranks - 1) % r.ranks;
	tell(&r.right);
	tell(&r.left);
	while (!r.right.met || !r.left.met) {
		must(now_s() < end, "neighbour", "it did not come");
		if (!r.right.met)
			look(&r.right);
		if (!r.left.met)
			look(&r.left);
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

/* ---- the ring -------------------------------------------------------------------------------- */

static uint32_t *segment_at(int64_t n)
{
	uint32_t i = (uint32_t)((n % r.ranks + r.ranks) % r.ranks);

	return r.vec + i * r.segment / sizeof(*r.vec);
}

static bool scatters(uint32_t step)
{
	return step < r.ranks - 1;
}

/*
 * The place of a step's segment: partial sums go to a place of their own, whole ones to their place
 * in the vector.
 */
static uint32_t *place_of(uint32_t step)
{
	if (scatters(step))
		return r.in + step % 2 * r.segment / sizeof(*r.in);
	return segment_at((int64_t)r.rank - (step - (r.ranks - 1)));
}

static void post_recv(uint32_t step)
{
	int err;

	if (step >= r.steps)
		return;
	err = sdr_rel_recv(r.left.rel, scatters(step) ? r.in_mr : r.vec_mr, place_of(step),
			   r.segment, &r.recvs[step % 2]);
	must(!err, "receive", strerror(-err));
}

static void await(struct sdr_req **req, const char *what)
{
	struct sdr_result result;

	while (!sdr_req_test(*req, &result))
		sdr_poll(r.ctx);
	*req = NULL;
	must(!result.status, what, strerror(-result.status));
}

static void add(uint32_t step)
{
	uint32_t *sum = segment_at((int64_t)r.rank - step - 1);
	const uint32_t *in = place_of(step);

	for (uint64_t i = 0; i < r.segment / sizeof(*sum); i++)
		sum[i] += in[i];
}

static void pass_on(bool first)
{
	struct sdr_req *send;
	int err;

	err = sdr_rel_write(r.right.rel, r.in_mr, r.in, PAGE, 0, &send);
	must(!err, "Write", strerror(-err));
	if (first)
		await(&r.recvs[0], "receive");
	await(&send, "Write");
}

/*
 * Sends a page round twice: when it is back all are there; when it has come again all may begin.
 * The last rank is told last, and sends the page to nobody; the others wait for it.
 */
static void meet_again(void)
{
	bool first = !r.rank, last = r.rank == r.ranks - 1;
	double begin;
	int err;

	for (int round = 0; round < 2; round++) {
		if (!first || !round) {
			err = sdr_rel_recv(r.left.rel, r.in_mr, r.in + PAGE / sizeof(*r.in), PAGE,
					   &r.recvs[0]);
			must(!err, "receive", strerror(-err));
		}
		if (!first)
			await(&r.recvs[0], "receive");
		if (!last || !round)
			pass_on(first && !round);
	}
	begin = now_s() + (last ? 1 : r.ranks - 2 - r.rank) * r.rtt_s / 2;
	while (now_s() < begin)
		sdr_poll(r.ctx);
}

/* The receive of a step is there one step before it: nobody waits for its leave to write. */
static void all_reduce(void)
{
	struct sdr_req *send;
	int64_t from;
	int err;

	post_recv(0);
	for (uint32_t step = 0; step < r.steps; step++) {
		post_recv(step + 1);
		from = scatters(step) ? (int64_t)r.rank - step
				      : (int64_t)r.rank + 1 - (step - (r.ranks - 1));
		err = sdr_rel_write(r.right.rel, r.vec_mr, segment_at(from), r.segment, step,
				    &send);
		must(!err, "Write", strerror(-err));
		await(&r.recvs[step % 2], "receive");
		if (scatters(step))
			add(step);
		await(&send, "Write");
	}
}

/* ---- the vector ------------------------------------------------------------------------------ */

static uint32_t value(uint32_t rank, uint32_t times, uint64_t i)
{
	return (uint32_t)(i * (2 * rank + 1)) * 2654435761u + times * 7 + rank;
}

static void fill(uint32_t times)
{
	for (uint64_t i = 0; i < r.size / sizeof(*r.vec); i++)
		r.vec[i] = value(r.rank, times, i);
}

static bool is_sum(uint32_t times)
{
	uint32_t sum;

	for (uint64_t i = 0; i < r.size / sizeof(*r.vec); i++) {
		sum = 0;
		for (uint32_t rank = 0; rank < r.ranks; rank++)
			sum += value(rank, times, i);
		if (r.vec[i] != sum)
			return false;
	}
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(uint32_t times)
{
	double *took = calloc(times, sizeof(*took)), mean = 0;

	must(took, "memory", strerror(errno));
	for (uint32_t i = 0; i < times; i++) {
		fill(i);
		meet_again();
		took[i] = -now_s();
		all_reduce();
		took[i] += now_s();
		mean += took[i] / times;
		must(is_sum(i), "sum", "it is wrong");
	}
	printf("each:");
	for (uint32_t i = 0; i < times; i++)
		printf(" %.3f", took[i] * 1e3);
	putchar('\n');
	qsort(took, times, sizeof(*took), by_value);
	printf("sum of %u ranks right %u times; ms: mean %.3f p50 %.3f p99 %.3f\n", r.ranks, times,
	       mean * 1e3, took[times / 2] * 1e3,
	       took[((uint64_t)times * 99 + 99) / 100 - 1] * 1e3);
	free(took);
}

/* The last answer may be lost: whoever has received answers for a while. */
static void part(void)
{
	double end = now_s() + 1;

	while (now_s() < end)
		sdr_poll(r.ctx);
	forget("right");
	forget("left");
	sdr_rel_destroy(r.right.rel);
	sdr_rel_destroy(r.left.rel);
	sdr_qp_destroy(r.right.qp);
	sdr_qp_destroy(r.left.qp);
	sdr_mr_dereg(r.vec_mr);
	sdr_mr_dereg(r.in_mr);
	sdr_context_destroy(r.ctx);
	kv_close(r.kv);
}

static int scheme_of(const char *name)
{
	for (int s = SDR_SCHEME_AUTO; s <= SDR_SCHEME_HYBRID; s++)
		if (!strcmp(name, sdr_scheme_name(s)))
			return s;
	must(false, name, "no such scheme");
	return 0;
}

/* K, M and G: of 1,024 each. */
static uint64_t number(int argc, char **argv, int i, uint64_t fallback)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	uint64_t value;
	char *end;

	if (argc <= i)
		return fallback;
	errno = 0;
	value = strtoull(argv[i], &end, 10);
	suffix = *end ? strchr(suffixes, *end) : NULL;
	must(argv[i][0] >= '0' && argv[i][0] <= '9' && !errno && (!*end || (suffix && !end[1])),
	     argv[i], "it is no number");
	return suffix ? value << 10 * (suffix - suffixes + 1) : value;
}

static void *memory(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "memory", strerror(errno));
	return p;
}

static void open_all(int argc, char **argv)
{
	struct sdr_qp_attr attr = { .max_msgs = 32 };
	struct sdr_rel_attr rel = { .scheme = argc > 8 ? scheme_of(argv[8]) : SDR_SCHEME_AUTO };
	char err[KV_ERR_MAX] = "";

	attr.rate_bps = number(argc, argv, 9, 0) * 1000000;
	rel.rtt_ns = number(argc, argv, 10, 10) * 1000000;
	r.rtt_s = (double)rel.rtt_ns / 1e9;
	attr.burst = number(argc, argv, 11, 0);
	attr.max_msg_size = r.segment > 1 << 20 ? r.segment : 1 << 20;
	r.vec = memory(r.size);
	r.in = memory(2 * r.segment);
	must(!kv_open(argv[4], 5000, &r.kv, err, sizeof(err)), "store", err);
	r.ctx = sdr_context_create(argv[1], NULL);
	must(r.ctx, argv[1], strerror(errno));
	r.vec_mr = sdr_mr_reg(r.ctx, r.vec, r.size);
	r.in_mr = sdr_mr_reg(r.ctx, r.in, 2 * r.segment);
	must(r.vec_mr && r.in_mr, "memory", strerror(errno));
	open_side(&r.right, &attr, &rel);
	open_side(&r.left, &attr, &rel);
}

int main(int argc, char **argv)
{
	must(argc >= 6 && argc <= 12, "usage",
	     "sdr_allreduce DEV RANK RANKS STORE JOB [SIZE [TIMES [SCHEME [RATE_MBPS [RTT_MS "
	     "[BURST]]]]]]");
	r.rank = (uint32_t)number(argc, argv, 2, 0);
	r.ranks = (uint32_t)number(argc, argv, 3, 0);
	must(r.ranks >= 2 && r.ranks <= RANKS_MAX && r.rank < r.ranks, "RANK, RANKS",
	     "2 to 8 ranks, numbered from 0");
	r.steps = 2 * (r.ranks - 1);
	r.job = argv[5];
	r.segment = number(argc, argv, 6, 64 << 20) / r.ranks / PAGE * PAGE;
	must(number(argc, argv, 7, 1), "TIMES", "once at least");
	must(r.segment, "SIZE", "a page for each rank at least");
	r.size = r.segment * r.ranks;
	open_all(argc, argv);
	meet();
	run((uint32_t)number(argc, argv, 7, 10));
	part();
	return 0;
}
