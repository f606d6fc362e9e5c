/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of provider behavior that SHIFT's ledger engine must know. Plain verbs between two queue
 * pairs of one NIC, so that any vendor's NIC can be asked. The findings are evidence; the verdict
 * says whether SHIFT does best there.
 */
#include <errno.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/plain.h"

#define BYTES	64u
#define LONG_MS 3000u /* wait for completions that must come */
#define CALM_MS 200u  /* wait for completions that may come */
#define MARKER	1000u
#define ASKED	8u

static const struct pr_plain_options as_usual;

static void note_seen(struct pr_result *r, const struct pr_seen *seen, unsigned outstanding)
{
	pr_note(r, "outstanding", outstanding);
	pr_note(r, "flushed", seen->flushed);
	pr_note(r, "other", seen->good + seen->other);
}

/* Opened, and B in RESET: it drops all that A sends. */
static int open_unanswered(struct pr_plain *pair, struct probe *p, unsigned n)
{
	int err = 0;

	if (pr_plain_open(pair, &p->dev, &as_usual))
		return -1;
	if (pr_plain_state(&pair->b, IBV_QPS_RESET))
		goto close;
	for (unsigned i = 0; i < n && !err; i++)
		err = pr_plain_post(pair, i, IBV_WR_RDMA_WRITE, BYTES, i == 3 || i == 5);
	if (!err)
		return 0;
	pr_fail("cannot post a WRITE: %s", strerror(err));
close:
	pr_plain_close(pair);
	return -1;
}

/* ---- verbs-flush ----------------------------------------------------------------------------- */

static enum pr_verdict flush_run(struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen seen;

	if (pr_plain_state(&pair->a, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	pr_plain_look(pair->a.scq, ASKED - 1, LONG_MS, &seen);
	note_seen(r, &seen, ASKED);
	pr_note(r, "in_order", pr_seen_rises(&seen));
	if (seen.n != ASKED || seen.flushed != ASKED)
		return pr_fails(r,
				"of %u requests without an answer, two of them signaled, %u were "
				"flushed, and %u ended otherwise",
				ASKED, seen.flushed, seen.good + seen.other);
	return pr_seen_rises(&seen) ? PR_HOLDS : pr_fails(r, "they were flushed out of order");
}

enum pr_verdict check_verbs_flush(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (open_unanswered(&pair, p, ASKED))
		return PR_CANNOT_TELL;
	verdict = flush_run(&pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-acked ----------------------------------------------------------------------------- */

/* WRITEs have no other sign of their acknowledgement: their bytes, and time enough for it. */
static int write_unsignaled(struct pr_plain *pair, unsigned n)
{
	uint8_t *to = pair->dev->mem;
	uint64_t end_ns;
	int err = 0;

	memset(to, 0, BYTES);
	pr_pattern_fill(to + PR_OUT, BYTES, 77);
	for (unsigned i = 0; i < n && !err; i++)
		err = pr_plain_post(pair, i, IBV_WR_RDMA_WRITE, BYTES, false);
	end_ns = pr_now_ns() + PR_LONG_MS * 1000000ull;
	while (!err && !pr_pattern_is(to, BYTES, 77))
		if (pr_now_ns() > end_ns)
			return pr_fail("a WRITE does not arrive");
	pr_nap_us(CALM_MS * 1000);
	return err ? pr_fail("cannot post a WRITE: %s", strerror(err)) : 0;
}

static enum pr_verdict acked_run(struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen seen;
	unsigned early;

	if (write_unsignaled(pair, 4) || pr_plain_state(&pair->a, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	pr_plain_post(pair, MARKER, IBV_WR_RDMA_WRITE, 0, true); /* where it is refused: by time */
	pr_plain_look(pair->a.scq, MARKER, CALM_MS, &seen);
	early = seen.n && seen.n <= PLAIN_MAX && seen.id[seen.n - 1] == MARKER ? seen.n - 1
									       : seen.n;
	pr_note(r, "acknowledged", 4);
	pr_note(r, "flushed", early);
	return early ? pr_fails(r, "%u of 4 acknowledged WRITEs were flushed", early) : PR_HOLDS;
}

enum pr_verdict check_verbs_acked(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (pr_plain_open(&pair, &p->dev, &as_usual))
		return PR_CANNOT_TELL;
	verdict = acked_run(&pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-post-err -------------------------------------------------------------------------- */

static enum pr_verdict post_err_run(struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen sends, recvs;
	int refused, recv_refused;

	if (pr_plain_state(&pair->a, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	refused = pr_plain_post(pair, 1, IBV_WR_RDMA_WRITE, BYTES, false);
	if (!refused)
		refused = pr_plain_post(pair, MARKER, IBV_WR_RDMA_WRITE, 0, true);
	pr_plain_look(pair->a.scq, MARKER, refused ? CALM_MS : LONG_MS, &sends);
	recv_refused = pr_plain_recv(pair, &pair->a, 2);
	pr_plain_look(pair->a.rcq, 2, CALM_MS, &recvs);
	pr_note(r, "send_error", refused);
	pr_note(r, "sends_flushed", sends.flushed);
	pr_note(r, "receive_error", recv_refused);
	pr_note(r, "receives_flushed", recvs.flushed);
	if (refused)
		return pr_fails(r, "ibv_post_send() in ERR says %s", strerror(refused));
	return sends.flushed == 2 ? PR_HOLDS
				  : pr_fails(r, "of two requests posted in ERR %u were flushed",
					     sends.flushed);
}

enum pr_verdict check_verbs_post_err(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (pr_plain_open(&pair, &p->dev, &as_usual))
		return PR_CANNOT_TELL;
	verdict = post_err_run(&pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-send-limit ------------------------------------------------------------------------ */

enum pr_verdict check_verbs_send_limit(struct probe *p, struct pr_result *r)
{
	const unsigned enough = 64 * PLAIN_WR;
	struct pr_plain pair;
	unsigned taken = 0;
	int refused = 0;

	if (open_unanswered(&pair, p, 0))
		return PR_CANNOT_TELL;
	while (taken < enough && !refused) {
		refused = pr_plain_post(&pair, taken, IBV_WR_RDMA_WRITE, BYTES, false);
		taken += !refused;
	}
	pr_note(r, "asked", PLAIN_WR);
	pr_note(r, "returned", pair.a.cap.max_send_wr);
	pr_note(r, "taken", taken);
	pr_note_text(r, "then", refused ? strerror(refused) : "no end");
	refused = taken < pair.a.cap.max_send_wr;
	pr_plain_close(&pair);
	return refused ? pr_fails(r, "the send queue takes %u requests, fewer than it said", taken)
		       : PR_HOLDS;
}

/* ---- verbs-srq-last -------------------------------------------------------------------------- */

static int srq_sends(struct pr_plain *pair)
{
	struct pr_seen seen;
	int err = 0;

	for (uint64_t i = 0; i < 8 && !err; i++)
		err = pr_plain_recv(pair, &pair->b, i);
	for (uint64_t i = 0; i < 3 && !err; i++)
		err = pr_plain_post(pair, i, IBV_WR_SEND, BYTES, true);
	if (err)
		return pr_fail("cannot post to or for a shared receive queue: %s", strerror(err));
	pr_plain_look(pair->a.scq, 2, PR_LONG_MS, &seen);
	return seen.good == 3 ? 0 : pr_fail("SENDs to a shared receive queue do not complete");
}

static enum pr_verdict srq_last_run(struct probe *p, struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen seen;
	uint64_t began, at_ns;

	if (srq_sends(pair))
		return PR_CANNOT_TELL;
	began = pr_now_ns();
	if (pr_plain_state(&pair->b, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	if (pr_event_wait(&p->dev, IBV_EVENT_QP_LAST_WQE_REACHED, pair->b.qp, LONG_MS, &at_ns)) {
		pr_note(r, "event", 0);
		return pr_fails(r, "no LAST_WQE_REACHED within %u s", LONG_MS / 1000);
	}
	pr_plain_look(pair->b.rcq, PLAIN_NO_ID, 0, &seen);
	pr_note(r, "event", 1);
	pr_note(r, "event_us", (long long)((at_ns - began) / 1000));
	pr_note(r, "completed_at_event", seen.good);
	return seen.good == 3
		       ? PR_HOLDS
		       : pr_fails(r, "at the event %u of 3 completions were there", seen.good);
}

enum pr_verdict check_verbs_srq_last(struct probe *p, struct pr_result *r)
{
	const struct pr_plain_options opt = { .srq = true };
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (pr_plain_open(&pair, &p->dev, &opt))
		return PR_CANNOT_TELL;
	verdict = srq_last_run(p, &pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-empty-write ----------------------------------------------------------------------- */

/* How a WRITE of no bytes ends, with key 0: a status, or -1 with a sentence. */
static int empty_write(struct probe *p, bool no_rights)
{
	const struct pr_plain_options opt = { .no_rights = no_rights };
	struct pr_plain pair;
	struct pr_seen seen;
	int err;

	if (pr_plain_open(&pair, &p->dev, &opt))
		return -1;
	err = pr_plain_post(&pair, MARKER, IBV_WR_RDMA_WRITE, 0, true);
	pr_plain_look(pair.a.scq, MARKER, PR_LONG_MS, &seen);
	pr_plain_close(&pair);
	if (err)
		return pr_fail("a WRITE of no bytes cannot be posted: %s", strerror(err));
	return seen.n ? (int)seen.status : pr_fail("a WRITE of no bytes does not complete");
}

enum pr_verdict check_verbs_empty_write(struct probe *p, struct pr_result *r)
{
	int with = empty_write(p, false), without = with < 0 ? -1 : empty_write(p, true);

	if (without < 0)
		return PR_CANNOT_TELL;
	pr_note_text(r, "with_the_right", ibv_wc_status_str((enum ibv_wc_status)with));
	pr_note_text(r, "without", ibv_wc_status_str((enum ibv_wc_status)without));
	return with == IBV_WC_SUCCESS
		       ? PR_HOLDS
		       : pr_fails(r, "a WRITE of no bytes, with key 0, ends with: %s",
				  ibv_wc_status_str((enum ibv_wc_status)with));
}

/* ---- verbs-mixed ----------------------------------------------------------------------------- */

/* The second WRITE, by the extended verbs. */
static int write_extended(struct pr_plain *pair, uint64_t id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
	struct pr_dev *dev = pair->dev;

	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, dev->mr->rkey, (uintptr_t)dev->mem);
	ibv_wr_set_sge(qp, dev->mr->lkey, (uintptr_t)dev->mem + PR_OUT, BYTES);
	return ibv_wr_complete(qp) ? pr_fail("ibv_wr_complete() fails") : 0;
}

static enum pr_verdict mixed_run(struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen seen;
	int posted;

	if (!pair->a.cq_ex && !pair->a.qp_ex)
		return pr_cannot_tell(r, "the provider offers neither ibv_cq_ex nor ibv_wr_*");
	posted = pr_plain_post(pair, 1, IBV_WR_RDMA_WRITE, BYTES, true);
	pr_note_text(r, "cq_ex", pair->a.cq_ex ? "yes" : "no");
	pr_note_text(r, "wr", pair->a.qp_ex ? "yes" : "no");
	if (posted)
		return pr_fails(r, "ibv_post_send() on a queue pair made for ibv_wr_* says %s",
				strerror(posted));
	pr_plain_look(pair->a.scq, 1, LONG_MS, &seen);
	pr_note(r, "polled", seen.good);
	if (seen.good != 1)
		return pr_fails(r, "ibv_poll_cq() does not find the completion");
	if (!pair->a.qp_ex)
		return PR_HOLDS;
	if (write_extended(pair, 2))
		return pr_fails(r, "%s", pr_why());
	pr_plain_look(pair->a.scq, 2, LONG_MS, &seen);
	pr_note(r, "polled_extended", seen.good);
	return seen.good == 1 ? PR_HOLDS
			      : pr_fails(r, "a request of ibv_wr_* behind one of ibv_post_send() "
					    "does not complete");
}

enum pr_verdict check_verbs_mixed(struct probe *p, struct pr_result *r)
{
	const struct pr_plain_options opt = { .extended = true };
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (pr_plain_open(&pair, &p->dev, &opt))
		return PR_CANNOT_TELL;
	verdict = mixed_run(&pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-state-word ------------------------------------------------------------------------ */

static enum pr_verdict state_word_run(struct pr_plain *pair, struct pr_result *r)
{
	struct pr_seen hidden, rest;

	if (pr_plain_state(&pair->a, IBV_QPS_ERR))
		return PR_CANNOT_TELL;
	pair->a.qp->state = IBV_QPS_RTS; /* the state that libibverbs wrote there */
	pr_plain_look(pair->a.scq, ASKED - 1, LONG_MS, &hidden);
	pair->a.qp->state = IBV_QPS_ERR;
	pr_plain_look(pair->a.scq, ASKED - 1, hidden.n < ASKED ? CALM_MS : 0, &rest);
	note_seen(r, &hidden, ASKED);
	pr_note(r, "flushed_then", rest.flushed);
	return hidden.flushed == ASKED
		       ? PR_HOLDS
		       : pr_fails(r,
				  "%u of %u requests were flushed while ibv_qp.state did not say "
				  "ERR, %u more when it did",
				  hidden.flushed, ASKED, rest.flushed);
}

enum pr_verdict check_verbs_state_word(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_plain pair;

	if (open_unanswered(&pair, p, ASKED))
		return PR_CANNOT_TELL;
	verdict = state_word_run(&pair, r);
	pr_plain_close(&pair);
	return verdict;
}

/* ---- verbs-extended -------------------------------------------------------------------------- */

static bool offers_cq_ex(struct pr_dev *dev, uint64_t flags)
{
	struct ibv_cq *cq = pr_plain_cq_ex(dev, flags);

	return cq && !ibv_destroy_cq(cq);
}

static bool offers_wr(struct pr_dev *dev)
{
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 16, 16, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = dev->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = cq ? ibv_create_qp_ex(dev->ctx, &init) : NULL;
	bool offers = qp && ibv_qp_to_qp_ex(qp);

	if (qp)
		ibv_destroy_qp(qp);
	if (cq)
		ibv_destroy_cq(cq);
	return offers;
}

enum pr_verdict check_verbs_extended(struct probe *p, struct pr_result *r)
{
	bool cq_ex = offers_cq_ex(&p->dev, IBV_WC_EX_WITH_BYTE_LEN);
	bool qp_num = offers_cq_ex(&p->dev, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM);

	pr_note_text(r, "wr", offers_wr(&p->dev) ? "yes" : "no");
	pr_note_text(r, "cq_ex", cq_ex ? "yes" : "no");
	pr_note_text(r, "cq_ex_with_qp_num", qp_num ? "yes" : "no");
	return cq_ex == qp_num ? PR_HOLDS
			       : pr_fails(r, "an ibv_cq_ex does not tell the queue pair's number");
}
