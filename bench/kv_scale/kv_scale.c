/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * kv_scale: many instances against one store. Each has a handle (so a connection) and records of
 * its own, as a rank has, and does the introduction's work: batches of put and get, the missing
 * ones asked again after a pause that doubles; then renewals. Threads carry the instances; no NIC
 * is involved.
 *
 * usage: kv_scale URL INSTANCES QPS RENEWALS THREADS [SECRET_FILE] Prints one line of JSON.
 * RENEWALS: how often each record is put again.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/kv.h"

#define BATCH	   64u /* queue pairs in one, as shiftlib/conn/meet/intro_kv.c has */
#define LEASE_MS   600000u
#define TIMEOUT_MS 60000u
#define WAIT_MIN   1000000ull /* ns; as shiftlib/conn/meet/intro.c has */
#define WAIT_MAX   1000000000ull
#define QPN_FIRST  0x100u

struct instance {
	struct kv *kv;
	uint32_t number;
	uint32_t n_missing;
	bool *found;
	bool published;
	uint64_t wait, next_at;
};

struct share {
	pthread_t thread;
	uint32_t from, to;
	uint64_t puts, gets, missed, setup_done, renew_done, errors;
};

static struct {
	const char *url;
	const char *secret;
	uint32_t instances, qps, renewals, threads;
	struct instance *all;
	pthread_barrier_t start, renew;
	uint64_t began, renewing;
} bench;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void key_of(char key[KV_KEY_MAX + 1], uint32_t instance, uint32_t qp)
{
	uint8_t gid[16] = { [10] = 0xff, 0xff, 10 };

	gid[13] = (uint8_t)(instance >> 16);
	gid[14] = (uint8_t)(instance >> 8);
	gid[15] = (uint8_t)instance;
	if (kv_key_gid(key, KV_KEY_MAX + 1, "slurm-1234567", gid, QPN_FIRST + qp))
		abort();
}

/* Queue pairs 2d and 2d + 1 lead to the neighbours at distance d + 1, one each way. */
static uint32_t peer_of(uint32_t instance, uint32_t qp)
{
	uint32_t n = bench.instances, distance = (qp / 2 + 1) % n;

	return (instance + (qp % 2 ? n - distance : distance)) % n;
}

/* A rank with two NICs, the usual case. */
static size_t record_of(uint8_t *buf, size_t cap, uint32_t instance, uint32_t qp)
{
	struct kv_record rec = { .instance = 1 + instance,
				 .conn_id = qp,
				 .nonce = qp,
				 .qpn = QPN_FIRST + qp,
				 .remote_qpn = QPN_FIRST + (qp ^ 1),
				 .n_addr = 2,
				 .n_backup = 1,
				 .backup = { 1 } };
	size_t len;

	for (uint8_t i = 0; i < 2; i++)
		rec.addr[i] = (struct kv_addr){ .nic = i,
						.link_layer = KV_LINK_ETHERNET,
						.mtu = 5,
						.gid = { [10] = 0xff, 0xff, 10, i, 0, 1 },
						.ctrl_qpn = 0x80 };
	if (kv_record_encode(&rec, buf, cap, &len))
		abort();
	return len;
}

struct batch {
	struct kv_op ops[2 * BATCH];
	char keys[2 * BATCH][KV_KEY_MAX + 1];
	uint8_t values[2 * BATCH][KV_RECORD_MAX_LEN];
	uint32_t qp[2 * BATCH];
	uint32_t n;
};

static void batch_put(struct batch *b, uint32_t instance, uint32_t qp)
{
	uint32_t i = b->n++;

	key_of(b->keys[i], instance, qp);
	b->ops[i] = (struct kv_op){
		.type = KV_OP_PUT, .key = b->keys[i], .val = b->values[i], .lease_ms = LEASE_MS
	};
	b->ops[i].len = record_of(b->values[i], sizeof(b->values[i]), instance, qp);
}

static void batch_get(struct batch *b, uint32_t instance, uint32_t qp)
{
	uint32_t i = b->n++;

	key_of(b->keys[i], peer_of(instance, qp), qp ^ 1);
	b->qp[i] = qp;
	b->ops[i] = (struct kv_op){ .type = KV_OP_GET,
				    .key = b->keys[i],
				    .buf = b->values[i],
				    .cap = sizeof(b->values[i]) };
}

static void batch_answers(struct share *s, struct instance *in, struct batch *b)
{
	struct kv_record rec;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct kv_op *op = &b->ops[i];

		s->puts += op->type == KV_OP_PUT;
		s->gets += op->type == KV_OP_GET;
		s->missed += op->ret == -ENOENT;
		s->errors += op->ret && op->ret != -ENOENT;
		if (op->type != KV_OP_GET || op->ret)
			continue;
		if (kv_record_decode(&rec, op->buf, op->got)) {
			s->errors++;
			continue;
		}
		in->found[b->qp[i]] = true;
		in->n_missing--;
	}
}

static void batch_run(struct share *s, struct instance *in, struct batch *b)
{
	if (b->n && kv_run(in->kv, b->ops, b->n) && s->errors < 3)
		fprintf(stderr, "%s\n", kv_last_error(in->kv));
	batch_answers(s, in, b);
	b->n = 0;
}

static void introduce(struct share *s, struct instance *in, struct batch *b)
{
	uint64_t errors = s->errors;

	for (uint32_t qp = 0; qp < bench.qps; qp++) {
		if (!in->published)
			batch_put(b, in->number, qp);
		if (!in->found[qp])
			batch_get(b, in->number, qp);
		if (b->n > 2 * BATCH - 2)
			batch_run(s, in, b);
	}
	batch_run(s, in, b);
	in->published = errors == s->errors;
	in->wait = in->wait ? in->wait * 2 : WAIT_MIN;
	if (in->wait > WAIT_MAX)
		in->wait = WAIT_MAX;
	in->next_at = now_ns() + in->wait;
}

static void storm(struct share *s, struct batch *b)
{
	uint32_t left = s->to - s->from;

	while (left) {
		left = 0;
		for (uint32_t i = s->from; i < s->to; i++) {
			struct instance *in = &bench.all[i];

			if (in->n_missing && now_ns() >= in->next_at)
				introduce(s, in, b);
			left += in->n_missing > 0;
		}
	}
	s->setup_done = now_ns();
}

static void renew(struct share *s, struct batch *b)
{
	for (uint32_t round = 0; round < bench.renewals; round++)
		for (uint32_t i = s->from; i < s->to; i++)
			for (uint32_t qp = 0; qp < bench.qps; qp++) {
				batch_put(b, i, qp);
				if (b->n == BATCH || qp + 1 == bench.qps)
					batch_run(s, &bench.all[i], b);
			}
	s->renew_done = now_ns();
}

static void *share_run(void *arg)
{
	struct batch *b = calloc(1, sizeof(*b));
	struct share *s = arg;

	if (!b)
		abort();
	pthread_barrier_wait(&bench.start);
	storm(s, b);
	pthread_barrier_wait(&bench.renew);
	pthread_barrier_wait(
		&bench.renew); /* main looks at the server's counters between the two */
	renew(s, b);
	free(b);
	return NULL;
}

static void open_all(void)
{
	const struct kv_options options = { .timeout_ms = TIMEOUT_MS, .secret_file = bench.secret };
	char err[KV_ERR_MAX];

	bench.all = calloc(bench.instances, sizeof(*bench.all));
	for (uint32_t i = 0; bench.all && i < bench.instances; i++) {
		struct instance *in = &bench.all[i];

		in->number = i;
		in->n_missing = bench.qps;
		in->found = calloc(bench.qps, sizeof(*in->found));
		if (!in->found || kv_open_with(bench.url, &options, &in->kv, err, sizeof(err))) {
			fprintf(stderr, "%s\n", err);
			exit(1);
		}
	}
	if (!bench.all)
		abort();
}

/* "phase" lines go out at once and wait for a line, so that the caller can read the server. */
static void phase(const char *name)
{
	printf("%s\n", name);
	fflush(stdout);
	if (getchar() == EOF)
		exit(1);
}

static void more_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void report(const struct share *shares)
{
	struct share sum = { 0 };

	for (uint32_t i = 0; i < bench.threads; i++) {
		sum.puts += shares[i].puts;
		sum.gets += shares[i].gets;
		sum.missed += shares[i].missed;
		sum.errors += shares[i].errors;
		if (shares[i].setup_done > sum.setup_done)
			sum.setup_done = shares[i].setup_done;
		if (shares[i].renew_done > sum.renew_done)
			sum.renew_done = shares[i].renew_done;
	}
	printf("{\"instances\": %u, \"qps\": %u, \"setup_s\": %.3f, \"renew_s\": %.3f, "
	       "\"puts\": %" PRIu64 ", \"gets\": %" PRIu64 ", \"missed\": %" PRIu64
	       ", \"errors\": %" PRIu64 "}\n",
	       bench.instances, bench.qps, (double)(sum.setup_done - bench.began) / 1e9,
	       (double)(sum.renew_done - bench.renewing) / 1e9, sum.puts, sum.gets, sum.missed,
	       sum.errors);
}

int main(int argc, char **argv)
{
	struct share *shares;
	uint32_t i;

	if (argc < 6)
		return 2;
	bench.url = argv[1];
	bench.instances = (uint32_t)atoi(argv[2]);
	bench.qps = (uint32_t)atoi(argv[3]);
	bench.renewals = (uint32_t)atoi(argv[4]);
	bench.threads = (uint32_t)atoi(argv[5]);
	bench.secret = argc > 6 ? argv[6] : NULL;
	if (!bench.instances || !bench.qps || bench.qps % 2 || !bench.threads)
		return 2;
	more_descriptors();
	open_all();
	shares = calloc(bench.threads, sizeof(*shares));
	if (!shares)
		abort();
	pthread_barrier_init(&bench.start, NULL, bench.threads + 1);
	pthread_barrier_init(&bench.renew, NULL, bench.threads + 1);
	for (i = 0; i < bench.threads; i++) {
		shares[i].from = (uint32_t)((uint64_t)bench.instances * i / bench.threads);
		shares[i].to = (uint32_t)((uint64_t)bench.instances * (i + 1) / bench.threads);
		if (pthread_create(&shares[i].thread, NULL, share_run, &shares[i]))
			abort();
	}
	phase("storm");
	bench.began = now_ns();
	pthread_barrier_wait(&bench.start);
	pthread_barrier_wait(&bench.renew);
	phase("renew");
	bench.renewing = now_ns();
	pthread_barrier_wait(&bench.renew);
	for (i = 0; i < bench.threads; i++)
		pthread_join(shares[i].thread, NULL);
	phase("end");
	report(shares);
	return 0;
}
