/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of the packet sequence number that a queue pair expects, as ibv_query_qp() tells it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define PSN_MASK 0xffffffu
#define TARGET	 (64u << 10) /* place of WRITEs, behind the memory that other checks touch early */

/* The steps, executed one after the other, and the number of packets of each. */
enum psn_step { STEP_WRITE_1, STEP_WRITE_3, STEP_EMPTY, STEP_READ_2, STEP_ADD, STEPS };
static const char *const step_names[STEPS] = { "a WRITE of 1 packet", "a WRITE of 3 packets",
					       "a WRITE of no bytes", "a READ of 2 packets",
					       "a fetch-and-add" };
static const uint32_t step_packets[STEPS] = { 1, 3, 1, 2, 1 };

/* The smaller MTU of both ends, as pr_end_connect() takes it. */
static uint32_t mtu_of(const struct probe *p, const struct pr_pair *pair)
{
	uint32_t mine = p->dev.port.active_mtu, peers = pair->peer.mtu;

	return 128u << (peers < mine ? peers : mine);
}

/* How many packets the peer's end has taken, as it says; -1. */
static long long peer_packets(struct probe *p, const struct pr_pair *pair)
{
	json_t *answer = pr_ask(&p->peer, "{s:s, s:i}", "op", "psn", "slot", pair->slot);
	long long psn;

	if (!answer)
		return -1;
	psn = pr_int(answer, "psn");
	json_decref(answer);
	return (psn - (long long)pair->mine.psn) & PSN_MASK;
}

/* ---- err-psn --------------------------------------------------------------------------------- */

static struct pr_wr step_request(const struct probe *p, const struct pr_pair *pair,
				 enum psn_step step)
{
	uint32_t mtu = mtu_of(p, pair);

	switch (step) {
	case STEP_WRITE_1: return pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, TARGET, mtu);
	case STEP_WRITE_3:
		return pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, TARGET, 2 * mtu + 1);
	case STEP_READ_2: return pr_request(pair, MLX5_OPCODE_RDMA_READ, PR_OUT, TARGET, mtu + 1);
	case STEP_ADD:
		return pr_request(pair, MLX5_OPCODE_ATOMIC_FA, PR_OUT, TARGET, sizeof(uint64_t));
	case STEP_EMPTY:
	case STEPS: break;
	}
	return pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, TARGET, 0);
}

/* PR_HOLDS: it counted; the queue pair still works. */
static enum pr_verdict step_run(struct probe *p, struct pr_pair *pair, enum psn_step step,
				long long *executed, struct pr_result *r)
{
	struct pr_wr wr = step_request(p, pair, step);
	long long told;

	if (step == STEP_ADD && !p->dev.attr.atomic_cap)
		return PR_HOLDS;
	wr.signaled = true;
	if (pr_await_good(&pair->mine, pr_post(&pair->mine, &wr)))
		return PR_CANNOT_TELL;
	*executed += step_packets[step];
	told = peer_packets(p, pair);
	if (told < 0)
		return PR_CANNOT_TELL;
	return told == *executed
		       ? PR_HOLDS
		       : pr_fails(r, "behind %s %lld packets were executed, and it tells of %lld",
				  step_names[step], *executed, told);
}

static enum pr_verdict err_psn_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	enum pr_verdict verdict = PR_HOLDS;
	long long executed = PR_GOOD, told;

	if (pr_pair_good(pair))
		return PR_CANNOT_TELL;
	for (enum psn_step step = 0; step < STEPS && verdict == PR_HOLDS; step++)
		verdict = step_run(p, pair, step, &executed, r);
	if (verdict != PR_HOLDS)
		return verdict;
	if (pr_peer_stop(p, pair->slot, "err"))
		return PR_CANNOT_TELL;
	told = peer_packets(p, pair);
	if (told < 0)
		return PR_CANNOT_TELL;
	pr_note(r, "beyond_first", told);
	pr_note(r, "executed", executed);
	return told == executed
		       ? PR_HOLDS
		       : pr_fails(r, "%lld packets were executed, and in ERR it tells of %lld",
				  executed, told);
}

enum pr_verdict check_err_psn(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict = PR_HOLDS;
	struct pr_pair pair;

	/* Numbers of queue pairs and of packets differ: twice. */
	for (unsigned i = 0; i < 2 && verdict == PR_HOLDS; i++) {
		if (pr_pair_open(p, &pair, 0, false, NULL))
			return PR_CANNOT_TELL;
		verdict = err_psn_run(p, &pair, r);
		pr_pair_close(p, &pair);
	}
	return verdict;
}

/* ---- cut-psn --------------------------------------------------------------------------------- */

#define CUT_BYTES (64u << 10)
#define CUT_KINDS 16u		/* number of different contents, which fill PR_OUT */
#define CUT_SLOTS 8u		/* slots in the peer's memory */
#define CUT_AT	  (PR_OUT / 2u) /* place where the slots begin */
#define CUT_AHEAD 32u
#define CUT_SEED  2000u

/* A stream of WRITEs that goes on while the link goes down. */
struct stream {
	struct pr_pair *pair;
	_Atomic bool stop;
	_Atomic unsigned acked;
};

static void *stream_run(void *arg)
{
	struct stream *s = arg;
	unsigned posted = 0, reaped = 0;
	struct pr_done d;

	while (!s->stop) {
		struct pr_wr write = pr_request(s->pair, MLX5_OPCODE_RDMA_WRITE,
						PR_OUT + posted % CUT_KINDS * CUT_BYTES,
						CUT_AT + posted % CUT_SLOTS * CUT_BYTES, CUT_BYTES);

		for (; pr_next(&s->pair->mine, &d); s->acked = ++reaped)
			if (!pr_is_good(&d))
				return NULL;
		if (posted - reaped >= CUT_AHEAD)
			continue;
		write.signaled = true;
		pr_post(&s->pair->mine, &write);
		posted++;
	}
	return NULL;
}

static int cut_by_link(struct probe *p, struct pr_pair *pair, uint32_t *acked)
{
	struct stream s = { .pair = pair };
	pthread_t thread;
	int rc;

	if (pthread_create(&thread, NULL, stream_run, &s))
		return pr_fail("no thread");
	for (unsigned i = 0; s.acked < CUT_AHEAD && i < PR_LONG_MS; i++)
		pr_nap_us(1000);
	rc = s.acked < CUT_AHEAD ? pr_fail("WRITEs do not complete") : pr_link_down(p);
	s.stop = true;
	pthread_join(thread, NULL);
	*acked = s.acked;
	/* Before the link is up: nothing is sent again. What the peer says may need the link. */
	if (!rc)
		rc = pr_end_state(&pair->mine, IBV_QPS_ERR);
	return pr_link_up(p) || rc ? -1 : 0;
}

/* Does the peer's memory have so many packets of WRITE @n, and no more? 1, 0, -1. */
static int cut_matches(struct probe *p, uint32_t n, uint32_t packets, uint32_t mtu)
{
	uint32_t off = CUT_AT + n % CUT_SLOTS * CUT_BYTES, seed = CUT_SEED + n % CUT_KINDS;
	int has = packets ? pr_peer_has(p, off, packets * mtu, seed) : 1;

	if (has <= 0 || packets * mtu >= CUT_BYTES)
		return has;
	has = pr_peer_has(p, off, (packets + 1) * mtu, seed);
	return has < 0 ? -1 : !has;
}

static enum pr_verdict cut_psn_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	uint32_t mtu = mtu_of(p, pair), each = CUT_BYTES / mtu, n, packets, acked = 0;
	long long told;
	int matches;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "fill", "off", CUT_AT, "len",
		    CUT_SLOTS * CUT_BYTES, "seed", 1) ||
	    cut_by_link(p, pair, &acked) || pr_peer_stop(p, pair->slot, "err"))
		return PR_CANNOT_TELL;
	told = peer_packets(p, pair);
	if (told < 0)
		return PR_CANNOT_TELL;
	n = (uint32_t)told / each;
	packets = (uint32_t)told % each;
	pr_note(r, "acknowledged", acked);
	pr_note(r, "writes", n);
	pr_note(r, "packets_of_the_next", packets);
	if (n < acked)
		return pr_fails(r, "%u WRITEs were acknowledged, and it tells of %u", acked, n);
	matches = cut_matches(p, n, packets, mtu);
	if (matches > 0 && n)
		matches = cut_matches(p, n - 1, each, mtu);
	if (matches < 0)
		return PR_CANNOT_TELL;
	return matches ? PR_HOLDS
		       : pr_fails(r,
				  "it tells of %lld packets, %u of WRITE %u; memory says otherwise",
				  told, packets, n);
}

enum pr_verdict check_cut_psn(struct probe *p, struct pr_result *r)
{
	const struct pr_end_options opt = { .timeout = 14, .retry = 7 };
	enum pr_verdict verdict;
	struct pr_pair pair;

	for (unsigned i = 0; i < CUT_KINDS; i++)
		pr_pattern_fill(p->dev.mem + PR_OUT + i * CUT_BYTES, CUT_BYTES, CUT_SEED + i);
	if (pr_pair_open(p, &pair, 0, false, &opt))
		return PR_CANNOT_TELL;
	verdict = cut_psn_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* ---- psn-cost -------------------------------------------------------------------------------- */

#define COST_QUERIES 65u
#define COST_MOST_US 10e3

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

enum pr_verdict check_psn_cost(struct probe *p, struct pr_result *r)
{
	struct ibv_qp_init_attr init;
	double us[COST_QUERIES];
	struct ibv_qp_attr attr;
	struct pr_end end;
	int err = 0;

	if (pr_end_make(&end, &p->dev, &(struct pr_end_options){ 0 }))
		return PR_CANNOT_TELL;
	err = pr_end_connect_self(&end, &(struct pr_end_options){ 0 }) ||
	      pr_end_state(&end, IBV_QPS_ERR);
	for (unsigned i = 0; i < COST_QUERIES && !err; i++) {
		uint64_t began = pr_now_ns();

		err = ibv_query_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN, &init);
		us[i] = (double)(pr_now_ns() - began) / 1e3;
	}
	pr_end_free(&end);
	if (err)
		return pr_cannot_tell(r, "a queue pair in ERR cannot be asked");
	qsort(us, COST_QUERIES, sizeof(us[0]), by_size);
	pr_note_real(r, "query_us", us[COST_QUERIES / 2]);
	pr_note_real(r, "longest_us", us[COST_QUERIES - 1]);
	return us[COST_QUERIES / 2] <= COST_MOST_US
		       ? PR_HOLDS
		       : pr_fails(r, "a query takes %.1f ms, as the median of %u",
				  us[COST_QUERIES / 2] / 1e3, COST_QUERIES);
}
