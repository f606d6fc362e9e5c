/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of what is flushed when a queue pair ends, and in which order. */
#include <stdio.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define QUIET_MS 20u
#define FLUSH_MS 2000u

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

/* Posts behind a SEND that waits for a receive, so that none of the requests is acknowledged. */
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

	if (pr_pair_good(pair))
		return PR_CANNOT_TELL;
	last = stuck_post(pair);
	if (pr_waiting(&pair->mine, 1, QUIET_MS))
		return pr_cannot_tell(r, "requests behind a SEND without a receive completed");
	began = pr_now_ns();
	if (pr_end_state(&pair->mine, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	flushes_take(&pair->mine, last, &f);
	flushes_note(r, &f, last - PR_GOOD + 1u);
	pr_note(r, "us", (long long)((pr_now_ns() - began) / 1000));
	return flushes_judge(r, &f, PR_GOOD, last);
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
	if (pr_await_good(&pair->mine, index) || pr_peer_stop(p, 0, "err"))
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

/* Posts a NOP and a receive in ERR. Returns how many of them were flushed, or -1. */
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
	if (!pr_pair_good(&pair))
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

/* ---- error-index ----------------------------------------------------------------------------- */

static enum pr_verdict error_index_run(struct probe *p, struct pr_pair *pair, struct pr_result *r)
{
	struct flushed f;
	uint16_t last;

	if (pr_peer_stop(p, 0, "reset"))
		return PR_CANNOT_TELL;
	last = pr_pair_post_unanswered(pair);
	if (!pr_waiting(&pair->mine, 1, PR_LONG_MS))
		return pr_fails(r, "no error came within %u s", PR_LONG_MS / 1000);
	flushes_take(&pair->mine, last, &f);
	flushes_note(r, &f, last - PR_GOOD + 1u);
	if (f.n && f.syndrome != MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR)
		return pr_fails(
			r,
			"the first error has syndrome 0x%02x, not that of retries exceeded (0x15)",
			f.syndrome);
	return flushes_judge(r, &f, PR_GOOD, last);
}

enum pr_verdict check_error_index(struct probe *p, struct pr_result *r)
{
	const struct pr_end_options quick = { .timeout = 10, .retry = 1 };
	enum pr_verdict verdict;
	struct pr_pair pair;

	if (pr_pair_open_good(p, &pair, 0, &quick))
		return PR_CANNOT_TELL;
	verdict = error_index_run(p, &pair, r);
	pr_pair_close(p, &pair);
	return verdict;
}

/* Milliseconds until the error, 0: none came in a minute, or -1. */
