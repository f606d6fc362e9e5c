/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of what an error does: retries, what is late, RESET. */
#include <stdio.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define QUIET_MS 20u

/* ---- retry-time ------------------------------------------------------------------------------ */

#define RETRY_STRETCH  4.0 /* IBA 9.7.6.1.3 */
#define RETRY_SLACK_MS 250.0
#define RETRY_TRIES    4

static double retry_ms(struct probe *p, const struct pr_end_options *opt)
{
	struct pr_pair pair;
	double ms = -1;
	uint64_t began;

	if (pr_pair_open_good(p, &pair, 0, opt))
		return -1;
	if (!pr_peer_stop(p, 0, "reset")) {
		began = pr_now_ns();
		pr_pair_post_unanswered(&pair);
		ms = pr_waiting(&pair.mine, 1, 60000) ? (double)(pr_now_ns() - began) / 1e6 : 0;
	}
	pr_pair_close(p, &pair);
	return ms;
}

static double nominal_ms(const struct pr_end_options *opt)
{
	return 4.096e-3 * (double)(1u << opt->timeout) * (opt->retry + 1);
}

static double longest_ms(const struct pr_end_options *opt)
{
	return RETRY_STRETCH * nominal_ms(opt) + RETRY_SLACK_MS;
}

/*
 * The least time of some tries, as a busy host sees an error late. Less than 0: it cannot be told;
 * 0: no error came.
 */
static double retry_least_ms(struct probe *p, const struct pr_end_options *opt)
{
	double least = retry_ms(p, opt), ms;

	for (int i = 1; i < RETRY_TRIES && least > longest_ms(opt); i++) {
		ms = retry_ms(p, opt);
		if (ms <= 0)
			return ms;
		least = ms < least ? ms : least;
	}
	return least;
}

enum pr_verdict check_retry_time(struct probe *p, struct pr_result *r)
{
	static const struct pr_end_options timings[] = { { .timeout = 14, .retry = 1 },
							 { .timeout = 14, .retry = 7 } };

	for (size_t i = 0; i < 2; i++) {
		double ms = retry_least_ms(p, &timings[i]), nominal = nominal_ms(&timings[i]);

		if (ms < 0)
			return PR_CANNOT_TELL;
		if (ms == 0)
			return pr_fails(r, "no error came within a minute; %.0f ms was due",
					nominal);
		pr_note_real(r, i ? "ms_14_7" : "ms_14_1", ms);
		pr_note_real(r, i ? "ratio_14_7" : "ratio_14_1", ms / nominal);
		if (ms < 0.9 * nominal || ms > longest_ms(&timings[i]))
			return pr_fails(r,
					"timeout 14, retries %u: the error came after %.0f ms; "
					"%.0f to %.0f was due",
					timings[i].retry, ms, nominal, RETRY_STRETCH * nominal);
	}
	return PR_HOLDS;
}

/* ---- late-write ------------------------------------------------------------------------------ */

#define LATE_ROUNDS 9u
#define LATE_BYTES  (64u << 10) /* bytes of memory for a round */
#define LATE_WRITE  (32u << 10)
#define LATE_KINDS  16u /* number of different contents */
#define LATE_AHEAD  64u
#define LATE_LEAST  128u  /* some of them come when the queue pair has ended */
#define LATE_MS	    1500u /* packets are dead by then */
#define LATE_SEED   1000u /* the pattern that the peer puts there when the command has come back */

/* Place of a round, behind the memory of these checks' other WRITEs. */
static uint32_t late_offset(unsigned round)
{
	return (round + 1) * LATE_BYTES;
}

/* Fills the line with WRITEs until the peer has answered, and longer. True: some failed. */
static bool late_stream(struct probe *p, struct pr_pair *pair, uint32_t roff)
{
	uint64_t end_ns = pr_now_ns() + PR_LONG_MS * 1000000ull;
	unsigned posted = 0, reaped = 0;
	struct pr_done d;

	while (pr_now_ns() < end_ns && (posted < LATE_LEAST || !pr_answer_waits(&p->peer))) {
		struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE,
						PR_OUT + posted % LATE_KINDS * LATE_WRITE,
						roff + (posted & 1) * LATE_WRITE, LATE_WRITE);

		for (; pr_next(&pair->mine, &d); reaped++)
			if (!pr_is_good(&d))
				return true;
		if (posted - reaped >= LATE_AHEAD)
			continue;
		write.signaled = true;
		pr_post(&pair->mine, &write);
		posted++;
	}
	/* Requests under way are tried again until they fail. */
	for (; reaped < posted && pr_wait(&pair->mine, &d, PR_LONG_MS); reaped++)
		if (!pr_is_good(&d))
			return true;
	return false;
}

/* 1: WRITEs were under way; 0; -1. */
static int late_stop(struct probe *p, struct pr_pair *pair, unsigned round)
{
	static const char *const hows[] = { "err", "reset", "destroy" };
	json_t *answer;
	bool cut;

	if (pr_send(&p->peer,
		    json_pack("{s:s, s:i, s:s, s:i, s:i, s:i}", "op", "stop", "slot", pair->slot,
			      "how", hows[round % 3], "off", late_offset(round), "len", LATE_BYTES,
			      "seed", LATE_SEED + round)))
		return -1;
	cut = late_stream(p, pair, late_offset(round));
	answer = pr_receive(&p->peer);
	json_decref(answer);
	return answer ? cut : -1;
}

static int late_round(struct probe *p, unsigned round)
{
	const struct pr_end_options quick = { .timeout = 14, .retry = 1 };
	struct pr_pair pair;
	int rc;

	if (pr_pair_open_good(p, &pair, round % PR_SLOTS, &quick))
		return -1;
	rc = late_stop(p, &pair, round);
	pr_pair_close(p, &pair);
	return rc;
}

/* Rounds in which something landed since; -1. */
static int late_changes(struct probe *p)
{
	int changed = 0, has;

	for (unsigned i = 0; i < LATE_ROUNDS; i++) {
		has = pr_peer_has(p, late_offset(i), LATE_BYTES, LATE_SEED + i);
		if (has < 0)
			return -1;
		changed += !has;
	}
	return changed;
}

enum pr_verdict check_late_write(struct probe *p, struct pr_result *r)
{
	int changed, cut = 0, rc;

	for (unsigned i = 0; i < LATE_KINDS; i++)
		pr_pattern_fill(p->dev.mem + PR_OUT + i * LATE_WRITE, LATE_WRITE, i + 1);
	for (unsigned i = 0; i < LATE_ROUNDS; i++) {
		rc = late_round(p, i);
		if (rc < 0)
			return PR_CANNOT_TELL;
		cut += rc;
	}
	pr_nap_us(LATE_MS * 1000);
	changed = late_changes(p);
	pr_note(r, "rounds", LATE_ROUNDS);
	pr_note(r, "under_way", cut);
	pr_note(r, "changed", changed);
	if (changed > 0)
		return pr_fails(r,
				"memory changed in %d of %u rounds after the command had come back",
				changed, LATE_ROUNDS);
	if (!changed && !cut)
		return pr_cannot_tell(r, "nothing was under way in any round");
	return changed < 0 ? PR_CANNOT_TELL : PR_HOLDS;
}

/* ---- reset-reuse ----------------------------------------------------------------------------- */

/* The completions that nobody had taken when the queue pair was reset. */
static enum pr_verdict old_completions(struct pr_pair *pair, struct pr_result *r)
{
	struct pr_done d;

	for (unsigned i = 0; i < 3; i++)
		if (!pr_next(&pair->mine, &d) || !pr_is_good(&d) || d.index != i)
			return pr_fails(r, "unread completion %u was gone behind RESET", i);
	if (pair->mine.dvq.dbrec[MLX5_SND_DBR] || pair->mine.dvq.dbrec[MLX5_RCV_DBR])
		return pr_fails(r, "RESET left the doorbell record as it was");
	return PR_HOLDS;
}

static enum pr_verdict new_life(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 128, 64);
	struct pr_done d;
	int has;

	pr_pattern_fill(p->dev.mem + PR_OUT, 64, 77);
	write.signaled = true;
	pr_post(&pair->mine, &write);
	if (!pr_wait(&pair->mine, &d, PR_LONG_MS))
		return pr_fails(r, "nothing completes behind RESET");
	if (!pr_is_good(&d) || d.index)
		return pr_fails(r, "the first request behind RESET ends with %s", pr_done_text(&d));
	if (pr_wait(&pair->mine, &d, QUIET_MS))
		return pr_fails(r, "a completion of the former life: %s", pr_done_text(&d));
	has = pr_peer_has(p, 128, 64, 77);
	return has > 0 ? PR_HOLDS : has ? PR_CANNOT_TELL : pr_fails(r, "its data did not arrive");
}

static enum pr_verdict reset_reuse_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 64);
	enum pr_verdict verdict;

	write.signaled = true;
	for (unsigned i = 0; i < 3; i++)
		pr_lay(&pair->mine, &write);
	pr_publish(&pair->mine, false);
	if (!pr_waiting(&pair->mine, 3, PR_LONG_MS))
		return pr_cannot_tell(r, "WRITEs do not complete");
	if (pr_pair_reconnect(p, pair))
		return PR_CANNOT_TELL;
	verdict = old_completions(pair, r);
	return verdict == PR_HOLDS ? new_life(p, pair, r) : verdict;
}

enum pr_verdict check_reset_reuse(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict = PR_HOLDS;
	struct pr_pair pair;

	for (unsigned i = 0; i < 5 && verdict == PR_HOLDS; i++) {
		if (pr_pair_open(p, &pair, 0, false, NULL))
			return PR_CANNOT_TELL;
		verdict = reset_reuse_run(p, &pair, r);
		pr_pair_close(p, &pair);
	}
	pr_note(r, "rounds", 5);
	return verdict;
}
