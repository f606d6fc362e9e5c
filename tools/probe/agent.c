/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The other end: makes and drives queue pairs as the client says, and looks into its own memory. */
#include <stdlib.h>
#include <string.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/peer.h"
#include "tools/probe/probe.h"
#include "tools/probe/ring.h"

#define AGENT_POLL_MAX 512

struct agent {
	struct pr_dev *dev;
	struct pr_peer *peer;
	struct pr_end ends[PR_SLOTS];
	struct pr_end self; /* a loopback QP, once it was needed */
	struct ibv_srq *srq;
};

static json_t *no(void)
{
	return NULL;
}

static json_t *done(void)
{
	return json_pack("{s:b}", "ok", 1);
}

/* NULL, with a sentence: there is none. */
static struct pr_end *end_of(struct agent *a, const json_t *q, bool made)
{
	long long slot = pr_int(q, "slot");

	if (slot < 0 || slot >= PR_SLOTS || !a->ends[slot].qp != !made) {
		pr_fail("slot %lld is %s", slot, made ? "empty" : "in use, or not there");
		return NULL;
	}
	return &a->ends[slot];
}

/* The part of memory that a question is about; NULL, with a sentence: there is none. */
static uint8_t *range_of(const struct agent *a, const json_t *q)
{
	long long off = pr_int(q, "off"), len = pr_int(q, "len");

	if (off >= 0 && len >= 0 && off <= PR_ARENA && len <= PR_ARENA - off)
		return a->dev->mem + off;
	pr_fail("no such part of memory");
	return NULL;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static json_t *op_make(struct agent *a, const json_t *q)
{
	struct pr_end *end = end_of(a, q, false);
	struct pr_end_options opt = { 0 };
	struct pr_addr addr;

	if (!end)
		return no();
	if (json_is_true(json_object_get(q, "srq"))) {
		if (!a->srq)
			a->srq = pr_srq_make(a->dev);
		opt.srq = a->srq;
		if (!a->srq)
			return no();
	}
	if (pr_end_make(end, a->dev, &opt))
		return no();
	pr_end_addr(end, &addr);
	return pr_addr_pack(&addr);
}

static json_t *op_connect(struct agent *a, const json_t *q)
{
	const struct pr_end_options opt = { 0 };
	struct pr_end *end = end_of(a, q, true);
	struct pr_addr peer, mine;

	if (!end || pr_addr_unpack(q, &peer) || pr_end_connect(end, &peer, &opt))
		return no();
	pr_end_addr(end, &mine);
	return pr_addr_pack(&mine);
}

static json_t *op_destroy(struct agent *a, const json_t *q)
{
	struct pr_end *end = end_of(a, q, true);

	if (!end)
		return no();
	pr_end_free(end);
	return done();
}

/*
 * Stops the end. With "len": after the command has come back, nothing lands any more where the
 * pattern is put.
 */
static json_t *op_stop(struct agent *a, const json_t *q)
{
	const char *how = json_string_value(json_object_get(q, "how"));
	struct pr_end *end = end_of(a, q, true);
	uint8_t *at = range_of(a, q);

	if (!end || !at || !how)
		return no();
	if (!strcmp(how, "destroy"))
		pr_end_free(end);
	else if (pr_end_state(end, !strcmp(how, "err") ? IBV_QPS_ERR : IBV_QPS_RESET))
		return no();
	pr_pattern_fill(at, (uint32_t)pr_int(q, "len"), (uint32_t)pr_int(q, "seed"));
	return done();
}

static json_t *op_recv(struct agent *a, const json_t *q)
{
	long long n = pr_int(q, "n"), len = pr_int(q, "len");
	struct pr_end *end = end_of(a, q, true);
	const uint8_t *at = range_of(a, q);

	if (!end || !at || n < 0 || n > PR_RECVS || (at - a->dev->mem) + n * len > PR_ARENA)
		return no();
	return pr_end_recv(end, (uint32_t)n, (uint32_t)(at - a->dev->mem), (uint32_t)len) ? no()
											  : done();
}

/* The sequence number that it expects next, as the NIC tells. */
static json_t *op_psn(struct agent *a, const json_t *q)
{
	struct pr_end *end = end_of(a, q, true);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!end)
		return no();
	if (ibv_query_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN, &init)) {
		pr_fail("a queue pair cannot be asked");
		return no();
	}
	return json_pack("{s:i, s:i}", "state", (int)attr.qp_state, "psn", (int)attr.rq_psn);
}

/* ---- completions ----------------------------------------------------------------------------- */

static json_t *completion_pack(const struct pr_done *d)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i}", "opcode", d->opcode, "index", d->index,
			 "syndrome", d->syndrome, "bytes", (int)d->bytes, "format", d->format);
}

static json_t *op_poll(struct agent *a, const json_t *q)
{
	struct pr_end *end = end_of(a, q, true);
	long long n = pr_int(q, "n"), ms = pr_int(q, "ms");
	json_t *list = json_array();
	struct pr_done d;

	for (long long i = 0; end && i < n && i < AGENT_POLL_MAX; i++) {
		if (!pr_wait(end, &d, ms > 0 && ms < PR_LONG_MS ? (unsigned)ms : PR_LONG_MS))
			break;
		json_array_append_new(list, completion_pack(&d));
	}
	return json_pack("{s:o}", "list", list);
}

/* Awaits a receive, and says where its bytes went: into the completion, or into the buffer. */
static json_t *op_scatter(struct agent *a, const json_t *q)
{
	uint32_t len = (uint32_t)pr_int(q, "len"), seed = (uint32_t)pr_int(q, "seed");
	struct pr_end *end = end_of(a, q, true);
	const uint8_t *at = range_of(a, q);
	struct pr_done d;

	if (!end || !at)
		return no();
	if (!pr_wait(end, &d, PR_LONG_MS) && pr_fail("no receive completes"))
		return no();
	return json_pack("{s:b, s:i, s:i, s:b, s:b}", "good", pr_is_good(&d), "format", d.format,
			 "bytes", (int)d.bytes, "in_cqe",
			 len <= 64 && pr_pattern_is(d.data, len, seed), "in_buffer",
			 pr_pattern_is(at, len, seed));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static json_t *op_fill(struct agent *a, const json_t *q)
{
	uint8_t *at = range_of(a, q);

	if (!at)
		return no();
	pr_pattern_fill(at, (uint32_t)pr_int(q, "len"), (uint32_t)pr_int(q, "seed"));
	return done();
}

static json_t *op_has(struct agent *a, const json_t *q)
{
	const uint8_t *at = range_of(a, q);

	if (!at)
		return no();
	return json_pack(
		"{s:b}", "has",
		pr_pattern_is(at, (uint32_t)pr_int(q, "len"), (uint32_t)pr_int(q, "seed")));
}

/* A word of 8 bytes; with "value": it is set first. */
static json_t *op_word(struct agent *a, const json_t *q)
{
	json_t *value = json_object_get(q, "value");
	long long off = pr_int(q, "off");
	uint64_t *at;

	if (off < 0 || off > PR_ARENA - 8 || off % 8)
		return no();
	at = (uint64_t *)(a->dev->mem + off);
	if (value)
		__atomic_store_n(at, (uint64_t)json_integer_value(value), __ATOMIC_SEQ_CST);
	return json_pack("{s:I}", "value", (json_int_t)__atomic_load_n(at, __ATOMIC_SEQ_CST));
}

/* ---- what needs two steps -------------------------------------------------------------------- */

static int self_make(struct agent *a)
{
	const struct pr_end_options opt = { 0 };

	if (a->self.qp)
		return 0;
	return pr_end_make(&a->self, a->dev, &opt) || pr_end_connect_self(&a->self, &opt) ? -1 : 0;
}

/* READs a byte of its own over its own NIC. */
static int self_read(struct agent *a, uint32_t off)
{
	struct pr_wr wr = { .opcode = MLX5_OPCODE_RDMA_READ, .signaled = true, .len = 1 };
	struct pr_done d;

	wr.off = PR_ARENA - 64;
	wr.raddr = (uintptr_t)a->dev->mem + off;
	wr.rkey = a->dev->mr->rkey;
	pr_post(&a->self, &wr);
	if (!pr_wait(&a->self, &d, PR_LONG_MS))
		return pr_fail("a READ over a loopback QP does not complete");
	return pr_is_good(&d) ? 0
			      : pr_fail("a READ over a loopback QP ends with %s", pr_done_text(&d));
}

/*
 * Waits, spinning, for a receive's completion and looks at once at the bytes written before it;
 * with "flush", as NCCL calls it, after a loopback READ. The client may send when it has the first
 * answer.
 */
static json_t *op_expect(struct agent *a, const json_t *q)
{
	uint32_t len = (uint32_t)pr_int(q, "len"), seed = (uint32_t)pr_int(q, "seed");
	bool loopback = json_is_true(json_object_get(q, "flush")), there;
	struct pr_end *end = end_of(a, q, true);
	const uint8_t *at = range_of(a, q);
	struct pr_done d;

	if (!end || !at || (loopback && self_make(a)) || pr_send(a->peer, done()))
		return no();
	if (!pr_wait(end, &d, PR_LONG_MS) && pr_fail("no receive completes"))
		return no();
	if (!pr_is_good(&d) && pr_fail("a receive ends with %s", pr_done_text(&d)))
		return no();
	if (loopback && self_read(a, (uint32_t)(at - a->dev->mem)))
		return no();
	there = pr_pattern_is(at, len, seed);
	return json_pack("{s:b}", "has", there);
}

/* Waits, spinning, for a word that is written behind data, and looks at the data at once. */
static json_t *op_log(struct agent *a, const json_t *q)
{
	uint32_t len = (uint32_t)pr_int(q, "len"), seed = (uint32_t)pr_int(q, "seed");
	uint64_t value = (uint64_t)pr_int(q, "value"),
		 end_ns = pr_now_ns() + PR_LONG_MS * 1000000ull;
	long long word = pr_int(q, "word");
	const uint8_t *at = range_of(a, q);
	const uint64_t *seen;

	if (!at || word < 0 || word > PR_ARENA - 8 || word % 8 || pr_send(a->peer, done()))
		return no();
	seen = (const uint64_t *)(a->dev->mem + word);
	while (__atomic_load_n(seen, __ATOMIC_ACQUIRE) != value)
		if (pr_now_ns() > end_ns) {
			pr_fail("the word is not written");
			return no();
		}
	return json_pack("{s:b}", "has", pr_pattern_is(at, len, seed));
}

/* Takes a queue pair of a shared queue to ERR, and counts what it had completed at the event. */
static json_t *op_last_wqe(struct agent *a, const json_t *q)
{
	struct pr_end *end = end_of(a, q, true);
	uint64_t began = pr_now_ns(), at_ns;
	struct pr_done d;
	int good = 0;

	if (!end || pr_end_state(end, IBV_QPS_ERR))
		return no();
	if (pr_event_wait(a->dev, IBV_EVENT_QP_LAST_WQE_REACHED, end->qp, 3000, &at_ns))
		return json_pack("{s:b}", "event", 0);
	while (pr_next(end, &d))
		good += pr_is_good(&d);
	return json_pack("{s:b, s:i, s:I}", "event", 1, "good", good, "us",
			 (json_int_t)((at_ns - began) / 1000));
}

static json_t *op_describe(struct agent *a, const json_t *q)
{
	return json_pack("{s:i, s:b, s:s, s:o}", "protocol", PR_PROTOCOL, "ethernet",
			 pr_dev_ethernet(a->dev), "gid_type", a->dev->gid_type, "host",
			 pr_dev_describe(a->dev));
}

/* ---- the loop -------------------------------------------------------------------------------- */

static json_t *answer(struct agent *a, const json_t *question)
{
	static const struct {
		const char *name;
		json_t *(*run)(struct agent *a, const json_t *question);
	} ops[] = {
		{ "describe", op_describe }, { "make", op_make },	{ "connect", op_connect },
		{ "destroy", op_destroy },   { "stop", op_stop },	{ "recv", op_recv },
		{ "poll", op_poll },	     { "fill", op_fill },	{ "has", op_has },
		{ "word", op_word },	     { "scatter", op_scatter }, { "expect", op_expect },
		{ "last-wqe", op_last_wqe }, { "psn", op_psn },		{ "log", op_log },
	};
	const char *op = json_string_value(json_object_get(question, "op"));
	json_t *said;

	pr_fail("a question that makes no sense");
	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(op, ops[i].name))
			continue;
		said = ops[i].run(a, question);
		return said ? said : json_pack("{s:s}", "error", pr_why());
	}
	return json_pack("{s:s}", "error", "a question of another version of shift-probe");
}

static void agent_free(struct agent *a)
{
	for (unsigned i = 0; i < PR_SLOTS; i++)
		pr_end_free(&a->ends[i]);
	pr_end_free(&a->self);
	pr_events_clear(a->dev);
	if (a->srq)
		ibv_destroy_srq(a->srq);
}

int pr_agent_serve(struct pr_peer *peer, struct pr_dev *dev)
{
	struct agent a = { .dev = dev, .peer = peer };
	json_t *question;
	int rc = -1;

	while ((question = pr_receive(peer))) {
		bool bye = json_object_get(question, "bye") != NULL;

		rc = bye ? 0 : pr_send(peer, answer(&a, question));
		json_decref(question);
		if (rc || bye)
			break;
		rc = -1;
	}
	agent_free(&a);
	return rc;
}
