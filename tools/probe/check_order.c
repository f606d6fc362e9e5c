/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of order: of completions, of memory behind them, of what waits for what. */
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define ROUNDS	   5u
#define FENCES	   20u
#define ORDERED	   96u
#define WRITES	   50u
#define READ_BYTES (512u << 10)
#define MEMORY	   (64u << 10)
#define QUIET_MS   100u

static int nop_post(struct pr_end *end)
{
	struct pr_wr nop = { .opcode = MLX5_OPCODE_NOP, .signaled = true };
	uint16_t index = pr_lay(end, &nop);

	pr_publish(end, false);
	return index;
}

/* ---- nop-order ------------------------------------------------------------------------------- */

/*
 * Posts a NOP behind a SEND that waits for a receive at the peer. 1: the NOP completed too soon;
 * 0; -1.
 */
static int nop_behind_send(struct probe *p, struct pr_pair *pair)
{
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, 64);
	uint16_t index;
	json_t *list;
	int early, rc;

	pr_lay(&pair->mine, &send);
	index = (uint16_t)nop_post(&pair->mine);
	early = pr_waiting(&pair->mine, 1, QUIET_MS);
	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", pair->slot, "n", 1,
		    "len", 64) ||
	    pr_await_good(&pair->mine, index))
		return -1;
	rc = pr_peer_poll(p, pair->slot, 1, 0, &list);
	json_decref(list);
	return rc ? rc : early;
}

/* Posts a NOP behind a READ of many packets. 1: the READ's data were not there; 0; -1. */
static int nop_behind_read(struct probe *p, struct pr_pair *pair, uint32_t seed)
{
	struct pr_wr read = pr_request(pair, MLX5_OPCODE_RDMA_READ, 0, PR_OUT, READ_BYTES);

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "fill", "off", PR_OUT, "len",
		    READ_BYTES, "seed", seed))
		return -1;
	memset(p->dev.mem, 0, READ_BYTES);
	pr_lay(&pair->mine, &read);
	if (pr_await_good(&pair->mine, (uint16_t)nop_post(&pair->mine)))
		return -1;
	return !pr_pattern_is(p->dev.mem, READ_BYTES, seed);
}

enum pr_verdict check_nop_order(struct probe *p, struct pr_result *r)
{
	int before_send = 0, before_read = 0, rc = 0;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	for (unsigned i = 0; i < ROUNDS && rc >= 0; i++) {
		rc = nop_behind_send(p, &pair);
		before_send += rc > 0;
		if (rc >= 0)
			rc = nop_behind_read(p, &pair, i + 1);
		before_read += rc > 0;
	}
	pr_pair_close(p, &pair);
	pr_note(r, "rounds", ROUNDS);
	pr_note(r, "ahead_of_send", before_send);
	pr_note(r, "ahead_of_read_data", before_read);
	if (before_send || before_read)
		return pr_fails(r,
				"the NOP completed before a SEND %d times, before the data of a "
				"READ %d times",
				before_send, before_read);
	return rc < 0 ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- fence ----------------------------------------------------------------------------------- */

/*
 * Posts a READ, and a WRITE with the fence flag over its source. 1: the READ got some of the new
 * bytes; 0; -1.
 */
static int fence_round(struct probe *p, struct pr_pair *pair, uint32_t seed)
{
	struct pr_wr read = pr_request(pair, MLX5_OPCODE_RDMA_READ, 0, 0, READ_BYTES);
	struct pr_wr over = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, READ_BYTES);

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "fill", "off", 0, "len", READ_BYTES,
		    "seed", seed))
		return -1;
	memset(p->dev.mem, 0, READ_BYTES);
	over.send_fence = over.signaled = true;
	pr_lay(&pair->mine, &read);
	if (pr_await_good(&pair->mine, pr_post(&pair->mine, &over)))
		return -1;
	return !pr_pattern_is(p->dev.mem, READ_BYTES, seed);
}

enum pr_verdict check_fence(struct probe *p, struct pr_result *r)
{
	int mixed = 0, rc = 0;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	memset(p->dev.mem + PR_OUT, 0xee, READ_BYTES);
	for (unsigned i = 0; i < FENCES && rc >= 0; i++) {
		rc = fence_round(p, &pair, i + 100);
		mixed += rc > 0;
	}
	pr_pair_close(p, &pair);
	pr_note(r, "rounds", FENCES);
	pr_note(r, "overtaken", mixed);
	if (mixed)
		return pr_fails(
			r, "in %d of %u rounds the WRITE with the fence flag overtook the READ",
			mixed, FENCES);
	return rc < 0 ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- cqe-order ------------------------------------------------------------------------------- */

/* A long READ, a short WRITE, a SEND, and so on. */
static void ordered_post(struct pr_pair *pair)
{
	static const uint8_t opcodes[] = { MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_WRITE,
					   MLX5_OPCODE_SEND };
	static const uint32_t lengths[] = { MEMORY, 8, 64 };

	for (unsigned i = 0; i < ORDERED; i++) {
		struct pr_wr wr = pr_request(pair, opcodes[i % 3], i % 3 ? PR_OUT : 0,
					     i % 3 ? MEMORY : PR_OUT, lengths[i % 3]);

		wr.signaled = true;
		pr_lay(&pair->mine, &wr);
	}
	pr_publish(&pair->mine, false);
}

static int receives_in_order(const json_t *list)
{
	size_t i;
	json_t *d;

	json_array_foreach(list, i, d) if (pr_int(d, "index") != (long long)i ||
					   pr_int(d, "bytes") !=
						   64) return pr_fail("receive %zu completed with "
								      "index %lld and %lld bytes",
								      i, pr_int(d, "index"),
								      pr_int(d, "bytes"));
	return 0;
}

static enum pr_verdict cqe_order_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	json_t *list;
	int rc;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", 0, "n", ORDERED / 3,
		    "len", 64))
		return PR_CANNOT_TELL;
	ordered_post(pair);
	for (uint16_t i = 0; i < ORDERED; i++)
		if (pr_await_good(&pair->mine, i))
			return p->peer.gone ? PR_CANNOT_TELL : pr_fails(r, "%s", pr_why());
	if (pr_peer_poll(p, 0, ORDERED / 3, 0, &list)) {
		json_decref(list);
		return PR_CANNOT_TELL;
	}
	rc = receives_in_order(list);
	json_decref(list);
	pr_note(r, "requests", ORDERED);
	pr_note(r, "receives", ORDERED / 3);
	return rc ? pr_fails(r, "%s", pr_why()) : PR_HOLDS;
}

enum pr_verdict check_cqe_order(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	verdict = cqe_order_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* ---- write-send, self-read ------------------------------------------------------------------- */

/* 1: the peer saw the receive, and not yet what was written before it; 0; -1. */
static int seen_round(struct probe *p, struct pr_pair *pair, bool loopback, uint32_t seed)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, MEMORY);
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, 4);
	uint16_t index;
	json_t *answer;
	int missing;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i, s:i}", "op", "recv", "slot", 0, "n", 1, "off",
		    2 * MEMORY, "len", 64) ||
	    pr_tell(&p->peer, "{s:s, s:i, s:i, s:i, s:i, s:b}", "op", "expect", "slot", 0, "off", 0,
		    "len", MEMORY, "seed", seed, "flush", loopback))
		return -1;
	pr_pattern_fill(p->dev.mem + PR_OUT, MEMORY, seed);
	send.signaled = true;
	pr_lay(&pair->mine, &write);
	index = pr_post(&pair->mine, &send);
	answer = pr_receive(&p->peer);
	missing =
		json_object_get(answer, "has") ? json_is_false(json_object_get(answer, "has")) : -1;
	if (json_object_get(answer, "error"))
		pr_fail("at the peer: %.200s", json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
	return missing < 0 || pr_await_good(&pair->mine, index) ? -1 : missing;
}

static enum pr_verdict seen_rounds(struct probe *p, struct pr_result *r, bool loopback)
{
	int missing = 0, rc = 0;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	for (unsigned i = 0; i < WRITES && rc >= 0; i++) {
		rc = seen_round(p, &pair, loopback, i + 1);
		missing += rc > 0;
	}
	pr_pair_close(p, &pair);
	pr_note(r, "rounds", WRITES);
	pr_note(r, "not_in_memory", missing);
	if (missing)
		return pr_fails(r, "in %d of %u rounds what was written was not in memory", missing,
				WRITES);
	return rc < 0 ? PR_CANNOT_TELL : PR_HOLDS;
}

enum pr_verdict check_write_send(struct probe *p, struct pr_result *r)
{
	return seen_rounds(p, r, false);
}

/* A loopback that does not deliver is an answer, too. */
enum pr_verdict check_self_read(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict = seen_rounds(p, r, true);

	if (verdict == PR_CANNOT_TELL && strstr(pr_why(), "loopback QP"))
		return pr_fails(r, "%s", pr_why());
	return verdict;
}
