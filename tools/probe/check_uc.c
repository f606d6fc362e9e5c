/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of SDR's assumptions about UC, between two queue pairs of one NIC: packet numbers and
 * requests stand here for a network that loses, doubles and reorders.
 */
#include <stdio.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/uc.h"

#define BYTES  64u
#define PLACES (64u << 10) /* bytes of the arena below which each packet has a place of its own */

typedef enum pr_verdict run_fn(struct probe *p, struct pr_uc *pair, struct pr_result *r);

static enum pr_verdict with_pair(struct probe *p, struct pr_result *r, run_fn *run)
{
	enum pr_verdict verdict;
	struct pr_uc pair;

	if (pr_uc_open(&pair, &p->dev))
		return PR_CANNOT_TELL;
	memset(p->dev.mem, 0, PLACES);
	verdict = run(p, &pair, r);
	pr_uc_close(&pair);
	return verdict;
}

/* Has memory what a packet brought? */
static bool is_there(const struct probe *p, uint32_t imm, uint32_t at)
{
	return pr_pattern_is(p->dev.mem + at, BYTES, imm);
}

/* ---- uc-order -------------------------------------------------------------------------------- */

/*
 * First numbers of runs: one ahead of B's expected number, as if others had been lost; one behind
 * it, as if these were the others, late.
 */
static const uint32_t runs[] = { UC_PSN, UC_PSN + 100, UC_PSN + 50 };

enum { RUNS = sizeof(runs) / sizeof(runs[0]), RUN = 4 };

struct order {
	unsigned taken[RUNS], no_payload;
};

/* Sends packets singly: when the completion is there, the bytes must be. */
static int order_run(struct probe *p, struct pr_uc *pair, unsigned run, struct order *o)
{
	struct pr_uc_seen seen = { .last = true };

	if (pr_uc_begin(pair, runs[run]))
		return -1;
	for (unsigned i = 0; i < RUN && seen.last; i++) {
		uint32_t imm = run * RUN + i + 1, at = imm * BYTES;
		struct pr_uc_write w = pr_uc_packet(pair, imm, at, BYTES);

		if (pr_uc_write(pair, &w))
			return -1;
		pr_uc_look(pair, imm, &seen);
		o->taken[run] += seen.last;
		o->no_payload += seen.last && !is_there(p, imm, at);
	}
	return 0;
}

static enum pr_verdict order_tried(struct probe *p, struct pr_uc *pair, struct pr_result *r)
{
	struct order o = { .no_payload = 0 };

	if (pr_uc_recv(pair, RUNS * RUN))
		return PR_CANNOT_TELL;
	for (unsigned run = 0; run < RUNS; run++)
		if (order_run(p, pair, run, &o))
			return PR_CANNOT_TELL;
	pr_note(r, "taken", o.taken[0]);
	pr_note(r, "ahead", o.taken[1]);
	pr_note(r, "behind", o.taken[2]);
	pr_note(r, "without_payload", o.no_payload);
	if (o.taken[0] < RUN || o.taken[1] < RUN || o.taken[2] < RUN)
		return pr_fails(r,
				"of %d packets each, %u in order were taken, %u ahead, %u behind",
				RUN, o.taken[0], o.taken[1], o.taken[2]);
	return o.no_payload ? pr_fails(r,
				       "of %u packets the bytes were not there when the completion "
				       "was",
				       o.no_payload)
			    : PR_HOLDS;
}

enum pr_verdict check_uc_order(struct probe *p, struct pr_result *r)
{
	return with_pair(p, r, order_tried);
}

/* ---- uc-dup ---------------------------------------------------------------------------------- */

static enum pr_verdict dup_tried(struct probe *p, struct pr_uc *pair, struct pr_result *r)
{
	struct pr_uc_write twice = pr_uc_packet(pair, 1, BYTES, BYTES);
	struct pr_uc_write mark = pr_uc_packet(pair, UC_MARK, 2 * BYTES, BYTES);
	struct pr_uc_seen first, rest;
	unsigned copies;

	if (pr_uc_recv(pair, 3) || pr_uc_write(pair, &twice))
		return PR_CANNOT_TELL;
	pr_uc_look(pair, 1, &first);
	if (!first.last)
		return pr_cannot_tell(r, "a packet of UC does not arrive");
	if (pr_uc_begin(pair, UC_PSN) || pr_uc_write(pair, &twice) || pr_uc_write(pair, &mark))
		return PR_CANNOT_TELL;
	pr_uc_look(pair, UC_MARK, &rest);
	copies = 1 + rest.n - rest.last;
	pr_note(r, "taken_of_two", copies);
	if (rest.last && !rest.failed && pr_uc_is_well(pair) && is_there(p, 1, BYTES))
		return PR_HOLDS;
	return pr_fails(r,
			"behind a packet that came twice the next is not taken, or B has failed");
}

enum pr_verdict check_uc_dup(struct probe *p, struct pr_result *r)
{
	return with_pair(p, r, dup_tried);
}

/* ---- uc-dry ---------------------------------------------------------------------------------- */

/* Linux' count of packets that found no receive; -1: no count. */
static long long out_of_buffer(const struct probe *p)
{
	long long value = -1;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/out_of_buffer",
		 p->dev.name);
	f = fopen(path, "re");
	if (f && fscanf(f, "%lld", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

/* A WRITE takes no receive, and comes behind all that was sent before it. */
static int await_behind(struct probe *p, struct pr_uc *pair)
{
	struct pr_uc_write w = pr_uc_packet(pair, 3, 3 * BYTES, BYTES);
	uint64_t end_ns = pr_now_ns() + UC_LONG_MS * 1000000ull;

	w.has_imm = false;
	if (pr_uc_write(pair, &w))
		return -1;
	while (!is_there(p, 3, 3 * BYTES)) {
		if (pr_now_ns() > end_ns)
			return 1;
		pr_nap_us(100);
	}
	return 0;
}

static enum pr_verdict dry_tried(struct probe *p, struct pr_uc *pair, struct pr_result *r)
{
	struct pr_uc_write dry = pr_uc_packet(pair, 1, BYTES, BYTES);
	struct pr_uc_write mark = pr_uc_packet(pair, UC_MARK, 2 * BYTES, BYTES);
	long long counted = out_of_buffer(p);
	struct pr_uc_seen seen;
	int behind;

	if (pr_uc_write(pair, &dry))
		return PR_CANNOT_TELL;
	behind = await_behind(p, pair);
	if (behind < 0)
		return PR_CANNOT_TELL;
	if (behind)
		return pr_fails(r, "behind a packet that found no receive, nothing arrives");
	pr_note(r, "payload_written", is_there(p, 1, BYTES));
	if (counted >= 0) /* a hint: a kernel may show what it read some milliseconds ago */
		pr_note(r, "out_of_buffer", out_of_buffer(p) - counted);
	if (pr_uc_recv(pair, 2) || pr_uc_write(pair, &mark))
		return PR_CANNOT_TELL;
	pr_uc_look(pair, UC_MARK, &seen);
	if (seen.last && seen.n == 1 && !seen.failed && pr_uc_is_well(pair))
		return PR_HOLDS;
	return seen.last && seen.n > 1
		       ? pr_fails(r, "a packet that found no receive was taken when one came")
		       : pr_fails(r, "behind a packet that found no receive the next is not taken");
}

enum pr_verdict check_uc_dry(struct probe *p, struct pr_result *r)
{
	return with_pair(p, r, dry_tried);
}

/* ---- uc-key ---------------------------------------------------------------------------------- */

/* The key of a region that is gone. */
static int dead_key(struct probe *p, uint32_t *key)
{
	struct ibv_mr *mr = ibv_reg_mr(p->dev.pd, p->dev.mem, PLACES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (!mr)
		return pr_fail("cannot register memory");
	*key = mr->rkey;
	return ibv_dereg_mr(mr) ? pr_fail("cannot deregister memory") : 0;
}

/* A packet, and a message of three, by a dead key; there is one receive, for what comes behind. */
static enum pr_verdict key_tried(struct probe *p, struct pr_uc *pair, struct pr_result *r)
{
	uint32_t mtu = 128u << p->dev.port.active_mtu;
	struct pr_uc_write one = pr_uc_packet(pair, 1, BYTES, BYTES);
	struct pr_uc_write three = pr_uc_packet(pair, 2, 4096, 2 * mtu + BYTES);
	struct pr_uc_write mark = pr_uc_packet(pair, UC_MARK, 2 * BYTES, BYTES);
	struct pr_uc_seen seen;
	bool written;

	if (dead_key(p, &one.rkey))
		return PR_CANNOT_TELL;
	three.rkey = one.rkey;
	if (pr_uc_recv(pair, 1) || pr_uc_write(pair, &one) || pr_uc_write(pair, &three) ||
	    pr_uc_write(pair, &mark))
		return PR_CANNOT_TELL;
	pr_uc_look(pair, UC_MARK, &seen);
	written = is_there(p, 1, BYTES) || pr_pattern_is(p->dev.mem + 4096, BYTES, 2);
	pr_note(r, "completed", seen.n - seen.last);
	pr_note(r, "written", written);
	pr_note(r, "next_taken", seen.last);
	if (written || seen.n > seen.last)
		return pr_fails(r, "what is sent by a dead key is written, or completes a receive");
	return seen.last && !seen.failed && pr_uc_is_well(pair)
		       ? PR_HOLDS
		       : pr_fails(r,
				  "a packet by a dead key ends the queue pair, or takes a receive");
}

enum pr_verdict check_uc_key(struct probe *p, struct pr_result *r)
{
	return with_pair(p, r, key_tried);
}

/* ---- uc-rate --------------------------------------------------------------------------------- */

#define RATE_PACKETS 1000u
#define RATE_AHEAD   32u
#define RATE_BURST   16
#define RATE_LEAST   200u
#define RATE_NS	     (RATE_PACKETS / RATE_LEAST * 1000000000ull)

struct rate {
	struct pr_uc_write packet;
	unsigned posted, left, came;
};

/* Works like a program: sends, completions of both kinds, receives anew. */
static int rate_step(struct pr_uc *pair, struct rate *x)
{
	struct ibv_wc wc[RATE_BURST];
	int n;

	while (x->posted < RATE_PACKETS && x->posted - x->came < RATE_AHEAD &&
	       x->posted - x->left < RATE_AHEAD) {
		if (pr_uc_post(pair, &x->packet))
			return -1;
		x->posted++;
	}
	n = ibv_poll_cq(pair->scq, RATE_BURST, wc);
	x->left += n > 0 ? (unsigned)n : 0;
	n = ibv_poll_cq(pair->rcq, RATE_BURST, wc);
	x->came += n > 0 ? (unsigned)n : 0;
	return pr_uc_recv(pair, n > 0 ? (unsigned)n : 0);
}

static enum pr_verdict rate_tried(struct probe *p, struct pr_uc *pair, struct pr_result *r)
{
	uint32_t mtu = 128u << p->dev.port.active_mtu;
	struct rate x = { .packet = pr_uc_packet(pair, 1, 0, mtu) };
	uint64_t began = pr_now_ns(), took = 0;
	double rate;

	if (pr_uc_recv(pair, UC_WR))
		return PR_CANNOT_TELL;
	while (x.came < RATE_PACKETS && took < RATE_NS) {
		if (rate_step(pair, &x))
			return PR_CANNOT_TELL;
		took = pr_now_ns() - began;
	}
	rate = x.came / ((double)took / 1e9);
	pr_note(r, "packets", x.came);
	pr_note(r, "packet_bytes", mtu);
	pr_note_real(r, "packets_per_s", rate);
	return x.came == RATE_PACKETS
		       ? PR_HOLDS
		       : pr_fails(r, "a process takes %.0f packets a second, fewer than %u", rate,
				  RATE_LEAST);
}

enum pr_verdict check_uc_rate(struct probe *p, struct pr_result *r)
{
	return with_pair(p, r, rate_tried);
}
