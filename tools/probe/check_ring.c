/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of what the NIC reads from rings, and writes into completions. */
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define ROUNDS	  40u
#define RECORDS	  5u
#define BLUE	  200u
#define BURST	  100u
#define BURSTS	  12u /* more than a turn of the completion queue */
#define ADDS	  100u
#define QUIET_US  2000u
#define RECORD_US 20000u

static uint64_t *word_at(struct probe *p, uint32_t off)
{
	return (uint64_t *)(p->dev.mem + off);
}

static int peer_word(struct probe *p, uint32_t off, uint64_t *value)
{
	json_t *answer = pr_ask(&p->peer, "{s:s, s:i}", "op", "word", "off", off);

	*value = (uint64_t)pr_int(answer, "value");
	json_decref(answer);
	return answer ? 0 : -1;
}

static int peer_word_set(struct probe *p, uint32_t off, uint64_t value)
{
	return pr_tell(&p->peer, "{s:s, s:i, s:I}", "op", "word", "off", off, "value",
		       (json_int_t)value);
}

/* ---- withheld -------------------------------------------------------------------------------- */

struct withheld {
	struct pr_pair pair, other; /* the other's doorbells are of the same context */
	int early, stale, record_ran;
};

/* The first word is what would be written, the second what is written after all. */
static int withheld_round(struct probe *p, struct withheld *w, uint64_t n, bool record)
{
	struct pr_wr write = pr_request(&w->pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 8);
	struct pr_wr before = pr_request(&w->pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 64, 8);
	struct pr_wr beside = pr_request(&w->other, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 128, 8);
	uint16_t index;
	uint64_t seen;

	*word_at(p, PR_OUT) = 2 * n;
	*word_at(p, PR_OUT + 8) = 2 * n + 1;
	before.signaled = beside.signaled = write.signaled = true;
	if (peer_word_set(p, 0, 0))
		return -1;
	index = pr_post(&w->pair.mine, &before);
	pr_lay(&w->pair.mine, &write);
	if (record)
		pr_publish_record(&w->pair.mine);
	if (pr_await_good(&w->pair.mine, index) ||
	    pr_await_good(&w->other.mine, pr_post(&w->other.mine, &beside)))
		return -1;
	pr_nap_us(record ? RECORD_US : QUIET_US);
	if (peer_word(p, 0, &seen))
		return -1;
	w->record_ran += record && seen;
	w->early += !record && seen;
	pr_patch_source(&w->pair.mine, (uint16_t)(index + 1), PR_OUT + 8);
	pr_publish(&w->pair.mine, false);
	if (pr_await_good(&w->pair.mine, (uint16_t)(index + 1)) || peer_word(p, 0, &seen))
		return -1;
	w->stale += !record && seen != 2 * n + 1;
	return 0;
}

enum pr_verdict check_withheld(struct probe *p, struct pr_result *r)
{
	struct withheld w = { .early = 0 };
	int rc = 0;

	if (pr_pair_open(p, &w.pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	if (pr_pair_open(p, &w.other, 1, false, NULL)) {
		pr_pair_close(p, &w.pair);
		return PR_CANNOT_TELL;
	}
	for (unsigned i = 0; i < ROUNDS + RECORDS && !rc; i++)
		rc = withheld_round(p, &w, i + 1, i >= ROUNDS);
	pr_pair_close(p, &w.other);
	pr_pair_close(p, &w.pair);
	pr_note(r, "rounds", ROUNDS);
	pr_note(r, "ran_early", w.early);
	pr_note(r, "ran_unchanged", w.stale);
	/* SHIFT never writes the record alone; what happens then is good to know. */
	pr_note(r, "ran_by_record_alone", w.record_ran);
	if (w.early || w.stale)
		return pr_fails(r,
				"of %u withheld requests %d ran early and %d with bytes that had "
				"been changed",
				ROUNDS, w.early, w.stale);
	return rc ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- blueflame ------------------------------------------------------------------------------- */

/* Request i writes word i; every other one is copied into the register. */
static int blueflame_post(struct pr_pair *pair)
{
	for (uint16_t i = 0; i < BLUE; i++) {
		struct pr_wr wr =
			pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT + 8u * i, 8u * i, 8);

		wr.signaled = true;
		pr_lay(&pair->mine, &wr);
		pr_publish(&pair->mine, i & 1);
		if (i >= 16 && pr_await_good(&pair->mine, (uint16_t)(i - 16)))
			return -1;
	}
	for (uint16_t i = BLUE - 16; i < BLUE; i++)
		if (pr_await_good(&pair->mine, i))
			return -1;
	return 0;
}

enum pr_verdict check_blueflame(struct probe *p, struct pr_result *r)
{
	struct pr_pair pair;
	int rc, has = 0;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	if (!pair.mine.dvq.bf.size) {
		pr_pair_close(p, &pair);
		return pr_cannot_tell(r, "this queue pair has no BlueFlame register");
	}
	pr_note(r, "requests", BLUE);
	pr_note(r, "register_bytes", pair.mine.dvq.bf.size);
	pr_pattern_fill(p->dev.mem + PR_OUT, 8 * BLUE, 7);
	rc = blueflame_post(&pair);
	if (!rc)
		has = pr_peer_has(p, 0, 8 * BLUE, 7);
	pr_pair_close(p, &pair);
	if (rc && !p->peer.gone)
		return pr_fails(r, "%s", pr_why());
	if (!rc && !has)
		return pr_fails(r, "what was written is not what was asked for");
	return rc || has < 0 ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- cqe-format ------------------------------------------------------------------------------ */

static int burst_check(const json_t *list, unsigned burst)
{
	size_t i;
	json_t *d;

	json_array_foreach(list, i, d)
	{
		if (pr_int(d, "format") == (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64))
			return pr_fail("a compressed completion, for receive %zu of a burst", i);
		if (pr_int(d, "index") != (long long)((burst * BURST + i) & 0xffff) ||
		    pr_int(d, "bytes") != 8)
			return pr_fail("receive %zu of burst %u has index %lld and %lld bytes", i,
				       burst, pr_int(d, "index"), pr_int(d, "bytes"));
	}
	return 0;
}

/* The peer looks when all have completed: what a NIC would compress. 1: not as it must be. */
static int burst_run(struct probe *p, struct pr_pair *pair, unsigned burst)
{
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, 8);
	uint16_t last = 0;
	json_t *list;
	int rc;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", 0, "n", BURST, "len",
		    64))
		return -1;
	for (unsigned i = 0; i < BURST; i++) {
		send.signaled = i == BURST - 1;
		last = pr_lay(&pair->mine, &send);
	}
	pr_publish(&pair->mine, false);
	if (pr_await_good(&pair->mine, last))
		return -1;
	rc = pr_peer_poll(p, 0, BURST, 0, &list);
	if (!rc && burst_check(list, burst))
		rc = 1;
	json_decref(list);
	return rc;
}

enum pr_verdict check_cqe_format(struct probe *p, struct pr_result *r)
{
	struct pr_pair pair;
	int rc = 0;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	pr_note(r, "cqe_bytes", pair.mine.dvc.cqe_size);
	pr_note(r, "receives", BURST * BURSTS);
	/* libmlx5 does not see these completions, and lets no more than a ring be posted. */
	for (unsigned i = 0; i < BURSTS && !rc; i++) {
		if (i && i % (PR_RECVS / BURST) == 0)
			rc = pr_pair_reconnect(p, &pair);
		if (!rc)
			rc = burst_run(p, &pair, i % (PR_RECVS / BURST));
	}
	pr_pair_close(p, &pair);
	if (rc > 0)
		return pr_fails(r, "%s", pr_why());
	return rc ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* 1: the bytes are not where the completion says; 0; -1. */
static int scatter_receive(struct probe *p, struct pr_pair *pair, uint32_t len, struct pr_result *r,
			   const char *note)
{
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, len);
	json_t *answer;
	int wrong;

	pr_pattern_fill(p->dev.mem + PR_OUT, len, len);
	send.signaled = true;
	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "fill", "off", 0, "len", 256, "seed",
		    99) ||
	    pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", 0, "n", 1, "len",
		    256) ||
	    pr_await_good(&pair->mine, pr_post(&pair->mine, &send)))
		return -1;
	answer = pr_ask(&p->peer, "{s:s, s:i, s:i, s:i, s:i}", "op", "scatter", "slot", 0, "off", 0,
			"len", len, "seed", len);
	pr_note(r, note, pr_int(answer, "format"));
	wrong = !json_is_true(
		json_object_get(answer, pr_int(answer, "format") ? "in_cqe" : "in_buffer"));
	json_decref(answer);
	return answer ? wrong : -1;
}

/* A small READ on a queue pair where each request has a completion. */
static int scatter_read(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct pr_wr read = pr_request(pair, MLX5_OPCODE_RDMA_READ, 0, PR_OUT, 16);
	struct pr_done d;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "fill", "off", PR_OUT, "len", 16,
		    "seed", 5))
		return -1;
	memset(p->dev.mem, 0, 64);
	read.signaled = true;
	pr_post(&pair->mine, &read);
	if (!pr_wait(&pair->mine, &d, PR_LONG_MS) || !pr_is_good(&d))
		return pr_fail("a READ of 16 bytes fails");
	pr_note(r, "read_16_format", d.format);
	return !pr_pattern_is(d.format ? d.data : p->dev.mem, 16, 5);
}

enum pr_verdict check_scatter(struct probe *p, struct pr_result *r)
{
	const struct pr_end_options all = { .sig_all = true };
	struct pr_pair pair;
	int rc;

	if (pr_pair_open(p, &pair, 0, false, &all))
		return PR_CANNOT_TELL;
	rc = scatter_receive(p, &pair, 16, r, "receive_16_format");
	if (!rc)
		rc = scatter_receive(p, &pair, 200, r, "receive_200_format");
	if (!rc)
		rc = scatter_read(p, &pair, r);
	pr_pair_close(p, &pair);
	if (rc > 0)
		return pr_fails(r, "data is not where the completion's flags say");
	return rc ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- atomics --------------------------------------------------------------------------------- */

/* Runs an atomic on a word. 1: the old value that comes back is wrong; 0; -1. */
static int atomic_run(struct probe *p, struct pr_pair *pair, uint8_t opcode, uint64_t add,
		      uint64_t compare, uint64_t expected)
{
	struct pr_wr wr = pr_request(pair, opcode, 0, 0, 8);

	wr.signaled = true;
	wr.add = add;
	wr.compare = compare;
	*word_at(p, 0) = 0;
	if (pr_await_good(&pair->mine, pr_post(&pair->mine, &wr)))
		return -1;
	return __atomic_load_n(word_at(p, 0), __ATOMIC_SEQ_CST) != expected;
}

static int atomics_run(struct probe *p, struct pr_pair *pair)
{
	const uint64_t first = 0x0102030405060708u, swapped = 0x1112131415161718u;
	uint64_t seen;
	int rc;

	if (peer_word_set(p, 0, first))
		return -1;
	for (unsigned i = 0; i < ADDS; i++) {
		rc = atomic_run(p, pair, MLX5_OPCODE_ATOMIC_FA, 0x100, 0, first + i * 0x100u);
		if (rc)
			return rc;
	}
	rc = atomic_run(p, pair, MLX5_OPCODE_ATOMIC_CS, swapped, first, first + ADDS * 0x100u);
	if (!rc)
		rc = atomic_run(p, pair, MLX5_OPCODE_ATOMIC_CS, swapped, first + ADDS * 0x100u,
				first + ADDS * 0x100u);
	if (!rc)
		rc = peer_word(p, 0, &seen) ? -1 : seen != swapped;
	return rc;
}

enum pr_verdict check_atomics(struct probe *p, struct pr_result *r)
{
	struct pr_pair pair;
	int rc;

	if (!p->dev.attr.atomic_cap)
		return pr_cannot_tell(r, "this NIC says that it has no atomics");
	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	rc = atomics_run(p, &pair);
	pr_pair_close(p, &pair);
	pr_note(r, "adds", ADDS);
	if (rc > 0)
		return pr_fails(
			r, "a value came back, or stayed in memory, that is not the right one");
	return rc ? PR_CANNOT_TELL : PR_HOLDS;
}
