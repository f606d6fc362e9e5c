/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receiver's end of a Write. */
#include "sdr/shell/rel.h"

#include <string.h>

/* ---- what is said ---------------------------------------------------------------------------- */

/* is_coded: the sender expects losses. */
static void say_done(struct sdr_rel *rel, uint64_t write, int status, uint32_t decoded,
		     bool is_coded)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c.head, 0, sizeof(c.head));
	c.head.type = SDR_CTRL_DONE;
	c.n = write;
	c.status = status;
	c.count = decoded;
	if (is_coded)
		sdr_say_twice(rel->qp, &c);
	else
		sdr_say_ctrl(rel->qp, &c);
}

/* Says an ACK, in as many datagrams as the packet's size asks for. */
static void say_ack(struct sdr_rel *rel, const struct sdr_reader *r, const struct sdr_rel_action *a)
{
	static _Thread_local struct sdr_ctrl c;
	struct sdr_ack all = sdr_rx_ack(&r->rx, a);
	uint32_t words =
		(uint32_t)(sdr_ctrl_room(rel->qp) - SDR_CTRL_HEAD - 24) / 8 / (all.want ? 2 : 1);
	uint32_t most = words * SDR_WORD, at = 0;

	do {
		memset(&c.head, 0, sizeof(c.head));
		c.head.type = SDR_CTRL_ACK;
		c.n = all.write;
		c.ack = all;
		c.ack.base = all.base + at;
		c.ack.nbits = all.nbits - at < most ? all.nbits - at : most;
		c.ack.have = all.have + at / SDR_WORD;
		c.ack.wanted = all.wanted + at / SDR_WORD;
		sdr_say_ctrl(rel->qp, &c);
		at += c.ack.nbits;
	} while (at < all.nbits);
}

/* Decodes a submessage: restores all of its data that the bitmap does not show. */
static int decode(struct sdr_rel *rel, struct sdr_reader *r, uint32_t sub)
{
	struct sdr_piece data[SDR_CODE_CHUNKS], parity[SDR_CODE_CHUNKS];
	const struct sdr_plan *p = &r->rx.plan;
	struct sdr_submessage s = sdr_plan_submessage(p, sub);
	struct sdr_code code;
	uint32_t at;
	int err = sdr_rel_code(p, &code);

	if (err)
		return err;
	sdr_rel_pieces(rel, p, &s, r->req.addr, r->code, data, parity);
	for (uint32_t i = 0; i < s.data; i++) {
		at = p->coded_from + s.data_first + i * s.stride;
		data[i].missing = !(r->rx.have[at / SDR_WORD] >> (at % SDR_WORD) & 1);
	}
	for (uint32_t i = 0; i < s.parity; i++) {
		at = s.parity_first + i * s.stride;
		parity[i].missing = !(r->rx.have_parity[at / SDR_WORD] >> (at % SDR_WORD) & 1);
	}
	err = sdr_code_decode(&code, data, s.data, parity, s.parity, rel->scratch);
	return err ? err : sdr_rx_decoded(&r->rx, sub, rel->qp->now);
}

static void act(struct sdr_rel *rel, struct sdr_reader *r, const struct sdr_rel_action *a)
{
	int err = 0;

	switch (a->say) {
	case SDR_SAY_ACK: say_ack(rel, r, a); break;
	case SDR_SAY_DONE:
		say_done(rel, r->req.write, a->status, r->rx.decoded, r->rx.plan.parity);
		break;
	case SDR_SAY_DECODE: err = decode(rel, r, a->n); break;
	case SDR_SAY_OFFER:
	case SDR_SAY_PROBE: break;
	}
	if (err)
		rel->qp->error = err;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Data first, then the room for parity, each when its slot is free. */
static void post_messages(struct sdr_rel *rel, struct sdr_reader *r)
{
	struct sdr_qp *qp = rel->qp;
	uint64_t n, parity = (uint64_t)rel->parity_max * sdr_chunk_bytes(qp);

	while (r->req.n_posted < 2 && qp->core.recv_next == 2 * r->req.write + r->req.n_posted) {
		int err = r->req.n_posted ? sdr_recv_start(qp, r->code_mr, (uintptr_t)r->code,
							   parity, 0, &n)
					  : sdr_recv_start(qp, r->req.mr, r->req.addr, r->req.bytes,
							   r->word, &n);

		if (err)
			return;
		r->req.n_posted++;
	}
	if (r->req.n_posted == 2)
		sdr_rx_bits(&r->rx, sdr_recv_bits(qp, 2 * r->req.write),
			    sdr_recv_bits(qp, 2 * r->req.write + 1));
}

static void close_messages(struct sdr_rel *rel, struct sdr_reader *r)
{
	struct sdr_event e = { .type = SDR_EVENT_RECV_COMPLETE };

	r->req.closing = true;
	for (uint64_t i = 0; i < r->req.n_posted; i++) {
		e.n = 2 * r->req.write + i;
		sdr_qp_step(rel->qp, &e);
	}
}

/* Nothing changes the buffer any more. */
static void finish(struct sdr_rel *rel, struct sdr_reader *r)
{
	uint64_t i = r->req.write % SDR_RESULTS;
	bool done = r->rx.state == SDR_RX_DONE;

	r->req.status = done ? 0 : r->rx.status;
	r->req.imm = r->rx.plan.imm;
	r->req.bytes = r->rx.plan.bytes;
	r->req.over = true;
	rel->results[i].write = r->req.write + 1;
	rel->results[i].status = r->req.status;
	rel->results[i].decoded = r->rx.decoded;
	rel->qp->counts.decoded += r->rx.decoded;
	rel->qp->counts.writes += done;
	rel->qp->counts.failed += !done;
}

/* Fails a Write at the connection's end. The sender may have been told that all has come. */
void sdr_reader_failed(struct sdr_rel *rel, struct sdr_reader *r)
{
	if (!r->req.used || r->req.over)
		return;
	if (r->rx.state == SDR_RX_OPEN)
		sdr_rx_refuse(&r->rx, rel->qp->error);
	finish(rel, r);
}

bool sdr_reader_progress(struct sdr_rel *rel, struct sdr_reader *r)
{
	struct sdr_rel_actions a;

	if (r->req.n_posted < 2 && r->rx.state == SDR_RX_OPEN)
		post_messages(rel, r);
	sdr_rx_poll(&r->rx, rel->qp->now, &a);
	for (uint32_t i = 0; i < a.n; i++)
		act(rel, r, &a.list[i]);
	if (r->rx.state == SDR_RX_OPEN || r->req.over)
		return a.n;
	if (!r->req.closing)
		close_messages(rel, r);
	if (r->req.n_done == r->req.n_posted)
		finish(rel, r);
	return true;
}

/*
 * Takes and closes the slots of receives that were over before they found some, when slots are
 * free: the n-th Write is for the n-th receive. These slots need memory, which nobody is told of.
 */
void sdr_readers_skip(struct sdr_rel *rel)
{
	const struct sdr_reader *any = &rel->readers[0];
	struct sdr_qp *qp = rel->qp;
	struct sdr_event e = { .type = SDR_EVENT_RECV_COMPLETE };

	while (qp->core.recv_next < 2 * rel->next_recv) {
		uint64_t write = qp->core.recv_next / 2;
		const struct sdr_reader *r = sdr_reader_of(rel, write);

		if (r->req.used && !r->req.over && r->req.write == write)
			return; /* the receive posts its own messages */
		if (sdr_recv_start(qp, any->code_mr, (uintptr_t)any->code, 1, 0, &e.n))
			return;
		sdr_qp_step(qp, &e);
	}
}

/*
 * True if a plan does not fit the receive. The pure part counts chunks; decoding writes bytes, and
 * none behind the receive's last.
 */
static bool is_too_long(const struct sdr_rel *rel, const struct sdr_reader *r,
			const struct sdr_plan *p)
{
	uint64_t chunk = sdr_chunk_bytes(rel->qp);

	return p->bytes > r->req.bytes || (p->bytes + chunk - 1) / chunk != p->chunks;
}

void sdr_reader_hear(struct sdr_rel *rel, const struct sdr_ctrl *c)
{
	struct sdr_reader *r = sdr_reader_of(rel, c->n);
	uint64_t i = c->n % SDR_RESULTS;

	if (rel->results[i].write == c->n + 1) {
		say_done(rel, c->n, rel->results[i].status, rel->results[i].decoded, false);
		return;
	}
	if (!r->req.used || r->req.write != c->n)
		return;
	if (c->head.type == SDR_CTRL_OFFER && is_too_long(rel, r, &c->plan))
		sdr_rx_refuse(&r->rx, -EPROTO);
	else if (c->head.type == SDR_CTRL_OFFER)
		sdr_rx_offer(&r->rx, &c->plan, rel->qp->now);
	else
		sdr_rx_probe(&r->rx, rel->qp->now);
}

SDR_API int sdr_rel_recv(struct sdr_rel *rel, struct sdr_mr *mr, void *addr, uint64_t length,
			 struct sdr_req **req)
{
	return sdr_rel_recv_word(rel, mr, addr, length, 0, req);
}

SDR_API int sdr_rel_recv_word(struct sdr_rel *rel, struct sdr_mr *mr, void *addr, uint64_t length,
			      uint64_t word, struct sdr_req **req)
{
	struct sdr_reader *r = sdr_reader_of(rel, rel->next_recv);
	uint64_t chunk;
	int err = sdr_rel_ready(rel);

	if (err)
		return err;
	if (!length || length > rel->qp->attr.max_msg_size)
		return length ? -EMSGSIZE : -EINVAL;
	if (!sdr_mr_covers(mr, rel->qp, (uintptr_t)addr, length))
		return -EINVAL;
	if (r->req.used)
		return -EAGAIN;
	chunk = sdr_chunk_bytes(rel->qp);
	r->req = (struct sdr_req){ .rel = rel,
				   .used = true,
				   .write = rel->next_recv++,
				   .addr = (uintptr_t)addr,
				   .bytes = length,
				   .mr = mr };
	r->word = word;
	sdr_rx_init(&r->rx, r->req.write, (uint32_t)((length + chunk - 1) / chunk), rel->parity_max,
		    &r->memory, rel->qp->now + rel->attr.receive_timeout_ns);
	mr->uses++;
	post_messages(rel, r);
	*req = &r->req;
	return 0;
}
