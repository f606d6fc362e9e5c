/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of what happens when a queue pair ends: flushes, indices, retries, what is late, RESET. */
#include <stdio.h>
#include <string.h>

#include "tools/probe/probe.h"

#define QUIET_MS 20u
#define FLUSH_MS 2000u
#define GOOD	 4u  /* WRITEs that are acknowledged before */
#define PAUSES	 10u /* that these may meet, one after the other */

static int peer_stop(struct probe *p, unsigned slot, const char *how)
{
	return pr_tell(&p->peer, "{s:s, s:i, s:s}", "op", "stop", "slot", slot, "how", how);
}

/* GOOD WRITEs, the last one signaled: all are acknowledged. */
static int acknowledged(struct pr_pair *pair)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 64);
	uint16_t index = 0;

	for (unsigned i = 0; i < GOOD; i++) {
		write.signaled = i == GOOD - 1;
		index = pr_lay(&pair->mine, &write);
	}
	pr_publish(&pair->mine, false);
	return pr_await_good(&pair->mine, index);
}

/*
 * A pair on which they are. Where retries are few, a busy host that pauses for as long ends it: then there is
 * another one.
 */
static int acknowledged_pair(struct probe *p, struct pr_pair *pair, unsigned slot,
			     const struct pr_end_options *few)
{
	bool ended = true;

	for (unsigned i = 0; ended && i < PAUSES; i++) {
		if (pr_pair_open(p, pair, slot, false, few))
			return -1;
		if (!acknowledged(pair))
			return 0;
		ended = pair->mine.ci; /* it has completed, with an error */
		pr_pair_close(p, pair);
	}
	return -1;
}

/* ---- flushes of sends ------------------------------------------------------------------------ */

/* Errors in a row, as they came. */
struct flushed {
	unsigned n, first, last, good;
	uint8_t syndrome; /* of the first */
	bool rising, only_flushes;
};

/* Up to the request @last, or until none comes for a while. */
static void flushes_take(struct pr_end *end, uint16_t last, struct flushed *f)
{
	struct pr_done d;

	*f = (struct flushed){ .rising = true, .only_flushes = true };
	while ((!f->n || f->last != last) && pr_wait(end, &d, FLUSH_MS)) {
		if (pr_is_good(&d)) {
			f->good++;
			continue;
		}
		if (!f->n) {
			f->first = d.index;
			f->syndrome = d.syndrome;
		} else {
			f->rising &= d.index > f->last;
			f->only_flushes &= pr_is_flush(&d);
		}
		f->last = d.index;
		f->n++;
	}
}

static void flushes_note(struct pr_result *r, const struct flushed *f, unsigned outstanding)
{
	pr_note(r, "outstanding", outstanding);
	pr_note(r, "errors", f->n);
	pr_note(r, "first_index", f->n ? (long long)f->first : -1);
	pr_note(r, "last_index", f->n ? (long long)f->last : -1);
	pr_note(r, "first_syndrome", f->syndrome);
}

static enum pr_verdict flushes_judge(struct pr_result *r, const struct flushed *f, unsigned first,
				     unsigned last)
{
	if (!f->n)
		return pr_fails(r, "none of the outstanding requests %u to %u was flushed", first,
				last);
	if (f->first != first)
		return pr_fails(r,
				"the first error names request %u; the first that was not "
				"acknowledged is %u",
				f->first, first);
	if (f->last != last || !f->rising || !f->only_flushes || f->good)
		return pr_fails(
			r, "errors for requests %u to %u of %u to %u, %s, and %u good completions",
			f->first, f->last, first, last, f->rising ? "in order" : "not in order",
			f->good);
	return PR_HOLDS;
}

/* Behind a SEND that waits for a receive, so that nothing of it is acknowledged. */
static uint16_t stuck_post(struct pr_pair *pair)
{
	static const uint8_t opcodes[] = { MLX5_OPCODE_SEND,	   MLX5_OPCODE_RDMA_WRITE,
					   MLX5_OPCODE_RDMA_READ,  MLX5_OPCODE_RDMA_WRITE,
					   MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE };
	uint16_t index = 0;

	for (unsigned i = 0; i < sizeof(opcodes); i++) {
		bool read = opcodes[i] == MLX5_OPCODE_RDMA_READ;
		struct pr_wr wr = pr_request(pair, opcodes[i], read ? 0 : PR_OUT, 0, 64);

		wr.signaled = i == 3;
		index = pr_lay(&pair->mine, &wr);
	}
	pr_publish(&pair->mine, false);
	return index;
}

static enum pr_verdict flush_sends_run(struct pr_pair *pair, struct pr_result *r)
{
	struct flushed f;
	uint64_t began;
	uint16_t last;

	if (acknowledged(pair))
		return PR_CANNOT_TELL;
	last = stuck_post(pair);
	if (pr_waiting(&pair->mine, 1, QUIET_MS))
		return pr_cannot_tell(r, "requests behind a SEND without a receive completed");
	began = pr_now_ns();
	if (pr_end_state(&pair->mine, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	flushes_take(&pair->mine, last, &f);
	flushes_note(r, &f, last - GOOD + 1u);
	pr_note(r, "us", (long long)((pr_now_ns() - began) / 1000));
	return flushes_judge(r, &f, GOOD, last);
}

enum pr_verdict check_flush_sends(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	verdict = flush_sends_run(&pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* ---- flush-recvs ----------------------------------------------------------------------------- */

static enum pr_verdict flushed_receives(struct pr_result *r, const json_t *list, unsigned good)
{
	unsigned flushes = 0;
	size_t i;
	json_t *d;

	json_array_foreach(list, i, d)
	{
		bool flush = pr_int(d, "syndrome") == MLX5_CQE_SYNDROME_WR_FLUSH_ERR;

		flushes += flush;
		if (pr_int(d, "index") != (long long)i || flush != (i >= good))
			return pr_fails(
				r, "completion %zu is of receive %lld, with syndrome 0x%02llx", i,
				pr_int(d, "index"), (unsigned long long)pr_int(d, "syndrome"));
	}
	pr_note(r, "good", good);
	pr_note(r, "flushed", flushes);
	return PR_HOLDS;
}

static enum pr_verdict flush_recvs_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, 64);
	enum pr_verdict verdict = PR_CANNOT_TELL;
	json_t *list;
	uint16_t index;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", 0, "n", 8, "len", 64))
		return PR_CANNOT_TELL;
	pr_lay(&pair->mine, &send);
	pr_lay(&pair->mine, &send);
	send.signaled = true;
	index = pr_post(&pair->mine, &send);
	if (pr_await_good(&pair->mine, index) || peer_stop(p, 0, "err"))
		return PR_CANNOT_TELL;
	if (!pr_peer_poll(p, 0, 8, FLUSH_MS, &list))
		verdict = flushed_receives(r, list, 3);
	else if (list)
		verdict = pr_fails(r, "%s", pr_why());
	json_decref(list);
	return verdict;
}

enum pr_verdict check_flush_recvs(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	verdict = flush_recvs_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* ---- flush-late ------------------------------------------------------------------------------ */

/* Of a NOP and a receive that are posted in ERR: how many were flushed, or -1. */
static int late_flushes(struct pr_end *end)
{
	struct pr_wr nop = { .opcode = MLX5_OPCODE_NOP, .signaled = true };
	struct pr_done d;
	int n = 0;

	if (pr_end_state(end, IBV_QPS_ERR))
		return -1;
	pr_nap_us(QUIET_MS * 1000);
	while (pr_next(end, &d))
		;
	pr_post(end, &nop);
	if (pr_end_recv(end, 1, 0, 64))
		return -1;
	while (n < 2 && pr_wait(end, &d, FLUSH_MS))
		n += pr_is_flush(&d);
	return n;
}

enum pr_verdict check_flush_late(struct probe *p, struct pr_result *r)
{
	struct pr_end never = { .qp = NULL };
	int after_rts = -1, after_rtr = -1;
	struct pr_pair pair;
	struct pr_addr self;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	if (!acknowledged(&pair))
		after_rts = late_flushes(&pair.mine);
	pr_pair_close(p, &pair);
	if (after_rts >= 0 && !pr_end_make(&never, &p->dev, &pair.opt)) {
		pr_end_addr(&never, &self);
		if (!pr_end_connect(&never, &self, NULL))
			after_rtr = late_flushes(&never);
		pr_end_free(&never);
	}
	pr_note(r, "flushed_after_rts", after_rts);
	pr_note(r, "flushed_after_rtr", after_rtr);
	if (after_rts < 0 || after_rtr < 0)
		return PR_CANNOT_TELL;
	return after_rts == 2 && after_rtr == 2
		       ? PR_HOLDS
		       : pr_fails(
				 r,
				 "of a NOP and a receive %d were flushed behind RTS, %d behind RTR",
				 after_rts, after_rtr);
}

/* ---- error-index, retry-time ----------------------------------------------------------------- */

/* Five WRITEs to a peer that does not answer any more. */
static uint16_t unanswered_post(struct pr_pair *pair)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 64);
	uint16_t index = 0;

	for (unsigned i = 0; i < 5; i++) {
		write.signaled = i == 4;
		index = pr_lay(&pair->mine, &write);
	}
	pr_publish(&pair->mine, false);
	return index;
}

static enum pr_verdict error_index_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct flushed f;
	uint16_t last;

	if (peer_stop(p, 0, "reset"))
		return PR_CANNOT_TELL;
	last = unanswered_post(pair);
	if (!pr_waiting(&pair->mine, 1, PR_LONG_MS))
		return pr_fails(r, "no error came within %u s", PR_LONG_MS / 1000);
	flushes_take(&pair->mine, last, &f);
	flushes_note(r, &f, last - GOOD + 1u);
	if (f.n && f.syndrome != MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR)
		return pr_fails(
			r,
			"the first error has syndrome 0x%02x, not that of retries exceeded (0x15)",
			f.syndrome);
	return flushes_judge(r, &f, GOOD, last);
}

enum pr_verdict check_error_index(struct probe *p, struct pr_result *r)
{
	const struct pr_end_options quick = { .timeout = 10, .retry = 1 };
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (acknowledged_pair(p, &pair, 0, &quick))
		return PR_CANNOT_TELL;
	verdict = error_index_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* Milliseconds until the error, 0: none came in a minute, or -1. */
static double retry_ms(struct probe *p, const struct pr_end_options *opt)
{
	struct pr_pair pair;
	double ms = -1;
	uint64_t began;

	if (acknowledged_pair(p, &pair, 0, opt))
		return -1;
	if (!peer_stop(p, 0, "reset")) {
		began = pr_now_ns();
		unanswered_post(&pair);
		ms = pr_waiting(&pair.mine, 1, 60000) ? (double)(pr_now_ns() - began) / 1e6 : 0;
	}
	pr_pair_close(p, &pair);
	return ms;
}

static double nominal_ms(const struct pr_end_options *opt)
{
	return 4.096e-3 * (double)(1u << opt->timeout) * (opt->retry + 1);
}

enum pr_verdict check_retry_time(struct probe *p, struct pr_result *r)
{
	static const struct pr_end_options timings[] = { { .timeout = 14, .retry = 1 },
							 { .timeout = 14, .retry = 7 } };

	for (size_t i = 0; i < 2; i++) {
		double ms = retry_ms(p, &timings[i]), nominal = nominal_ms(&timings[i]);

		if (ms < 0)
			return PR_CANNOT_TELL;
		if (ms == 0)
			return pr_fails(r, "no error came within a minute; %.0f ms was due",
					nominal);
		pr_note_real(r, i ? "ms_14_7" : "ms_14_1", ms);
		pr_note_real(r, i ? "ratio_14_7" : "ratio_14_1", ms / nominal);
		if (ms < 0.9 * nominal || ms > 8 * nominal + 5000)
			return pr_fails(r,
					"timeout 14, retries %u: the error came after %.0f ms; "
					"%.0f was due",
					timings[i].retry, ms, nominal);
	}
	return PR_HOLDS;
}

/* ---- late-write ------------------------------------------------------------------------------ */

#define LATE_ROUNDS 9u
#define LATE_BYTES  (64u << 10) /* of memory, a round */
#define LATE_WRITE  (32u << 10)
#define LATE_KINDS  16u /* of contents */
#define LATE_AHEAD  64u
#define LATE_LEAST  128u  /* some of which come when the queue pair has ended */
#define LATE_MS	    1500u /* packets are dead by then */
#define LATE_SEED   1000u /* of what the peer puts there when the command has come back */

/* Behind what other WRITEs of these checks touch. */
static uint32_t late_offset(unsigned round)
{
	return (round + 1) * LATE_BYTES;
}

/* Fills the line with WRITEs until the peer has answered, and longer. True: some did not end well. */
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
	/* What was under way is tried again until it fails. */
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

	if (acknowledged_pair(p, &pair, round % PR_SLOTS, &quick))
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

/* ---- err-psn --------------------------------------------------------------------------------- */

/* Each of the WRITEs is one packet. */
static enum pr_verdict err_psn_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	long long expected = (pair->mine.psn + GOOD) & 0xffffff, psn;
	json_t *answer;

	if (acknowledged(pair) || peer_stop(p, 0, "err"))
		return PR_CANNOT_TELL;
	answer = pr_ask(&p->peer, "{s:s, s:i}", "op", "psn", "slot", 0);
	if (!answer)
		return PR_CANNOT_TELL;
	psn = pr_int(answer, "psn");
	pr_note(r, "state", pr_int(answer, "state"));
	pr_note(r, "beyond_first", (psn - (long long)pair->mine.psn) & 0xffffff);
	pr_note(r, "executed", GOOD);
	json_decref(answer);
	return psn == expected ? PR_HOLDS
			       : pr_fails(r, "%u packets were executed, and it tells of %lld", GOOD,
					  (psn - (long long)pair->mine.psn) & 0xffffff);
}

enum pr_verdict check_err_psn(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	verdict = err_psn_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
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
