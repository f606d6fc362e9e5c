/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The sender's end of a Write. */
#include "sdr/shell/rel.h"

#include <string.h>

enum { RANGE_CHUNKS = 2 }; /* the least: small chunks are posted as many at a time as large ones */

/* ---- parity ---------------------------------------------------------------------------------- */

/* Encodes one submessage, beside the sending of the data as long as there is time. */
static int encode_one(struct sdr_rel *rel, struct sdr_writer *w)
{
	struct sdr_piece data[SDR_CODE_CHUNKS], parity[SDR_CODE_CHUNKS];
	struct sdr_submessage s = sdr_plan_submessage(&w->tx.plan, w->encoded);
	struct sdr_code code;
	int err = sdr_rel_code(&w->tx.plan, &code);

	if (err)
		return err;
	sdr_rel_pieces(rel, &w->tx.plan, &s, w->req.addr, w->code, data, parity);
	err = sdr_code_encode(&code, data, s.data, parity, s.parity, rel->scratch);
	w->encoded += !err;
	return err;
}

static int encode(struct sdr_rel *rel, struct sdr_writer *w, bool all)
{
	int err = 0;

	while (!err && w->encoded < sdr_plan_submessages(&w->tx.plan)) {
		err = encode_one(rel, w);
		if (!all)
			break;
	}
	return err;
}

/* ---- packets --------------------------------------------------------------------------------- */

static uint32_t packets_of(uint64_t bytes, uint32_t packet)
{
	return (uint32_t)((bytes + packet - 1) / packet);
}

/*
 * Gathers the rest of the range's packets, as many as one call takes. The last chunk of data may be
 * short; as the receive may be longer, empty packets fill it up.
 */
static uint32_t gather(const struct sdr_rel *rel, const struct sdr_writer *w, uint32_t *offsets,
		       uint32_t max)
{
	const struct sdr_send_req *s = w->range.parity ? &w->parity : &w->data;
	uint32_t shift = rel->qp->core.attr.chunk_shift, n = 0;
	uint32_t at = (w->range.first << shift) + w->at;
	uint32_t end = (w->range.first + w->range.count) << shift;
	uint32_t room = packets_of(s->cts.length, rel->qp->packet);

	if (end > room)
		end = room;
	while (at < end && n < max)
		offsets[n++] = at++;
	return n;
}

static uint32_t range_chunks(const struct sdr_rel *rel)
{
	uint32_t burst = SDR_BURST >> rel->qp->core.attr.chunk_shift;

	return burst > RANGE_CHUNKS ? burst : RANGE_CHUNKS;
}

static bool next_range(struct sdr_rel *rel, struct sdr_writer *w)
{
	int err;

	if (!sdr_tx_next(&w->tx, range_chunks(rel), rel->qp->now, &w->range))
		return false;
	w->at = 0;
	err = w->range.parity ? encode(rel, w, true) : encode(rel, w, false);
	if (err)
		sdr_tx_fail(&w->tx, err);
	return !err;
}

static bool inject(struct sdr_rel *rel, struct sdr_writer *w)
{
	struct sdr_send_req *s;
	uint32_t offsets[SDR_BURST], n, most = sdr_pace(rel->qp, SDR_BURST);
	int done;

	if (w->tx.state != SDR_TX_SENDING || !most)
		return false;
	if (!w->range.count && !next_range(rel, w))
		return false;
	s = w->range.parity ? &w->parity : &w->data;
	n = gather(rel, w, offsets, most);
	if (!n) {
		w->range.count = 0;
		return true;
	}
	done = sdr_packets_post(rel->qp, s, offsets, n, w->data.posted);
	w->at += done > 0 ? (uint32_t)done : 0;
	return done > 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void say(struct sdr_rel *rel, struct sdr_writer *w, const struct sdr_rel_action *a)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c.head, 0, sizeof(c.head));
	c.n = w->req.write;
	c.head.type = a->say == SDR_SAY_OFFER ? SDR_CTRL_OFFER : SDR_CTRL_PROBE;
	c.plan = w->tx.plan;
	if (a->say == SDR_SAY_OFFER && c.plan.parity)
		sdr_say_twice(rel->qp, &c);
	else
		sdr_say_ctrl(rel->qp, &c);
}

static void post_messages(struct sdr_rel *rel, struct sdr_writer *w)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_POST };

	while (w->req.n_posted < 2 &&
	       rel->qp->core.send_next == 2 * w->req.write + w->req.n_posted) {
		w->req.n_posted++; /* the step may allow it at once */
		if (!sdr_qp_step(rel->qp, &e))
			continue;
		w->req.n_posted--;
		return;
	}
}

static void learn(struct sdr_rel *rel, const struct sdr_writer *w)
{
	struct sdr_qp_counts *c = &rel->qp->counts;
	const struct sdr_tx *t = &w->tx;

	c->chunks += t->plan.chunks;
	c->chunks_sent += t->sent;
	c->resent += t->resent;
	if (t->state == SDR_TX_DONE) {
		/* Chunks that a code made good were never asked for: the receiver tells of them. */
		sdr_estimate_loss(&rel->qp->estimate, t->plan.chunks + t->resent,
				  t->resent + w->decoded);
		if (t->plan.parity && !t->plan.coded_from)
			sdr_estimate_coded(&rel->qp->estimate, t->resent);
		c->writes++;
	} else {
		c->failed++;
	}
}

static void over(struct sdr_rel *rel, struct sdr_writer *w)
{
	w->req.status = w->tx.state == SDR_TX_DONE ? 0 : w->tx.status;
	w->req.over = true;
	learn(rel, w);
}

/*
 * Gives the buffer back to the user, and ends both messages, when the last packet has left: not
 * sooner, as an id rests for the lifetime of packets that have left.
 */
static bool finish(struct sdr_rel *rel, struct sdr_writer *w)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_END };

	if (!sdr_all_left(rel->qp, w->data.posted))
		return false;
	for (uint64_t i = 0; i < w->req.n_posted; i++) {
		e.n = 2 * w->req.write + i;
		sdr_qp_step(rel->qp, &e); /* -EINVAL: its receive is gone */
	}
	rel->qp->urgent = true;
	over(rel, w);
	return true;
}

/* Fails a Write at the connection's end. The receiver may have said that all has come. */
void sdr_writer_failed(struct sdr_rel *rel, struct sdr_writer *w)
{
	if (!w->req.used || w->req.over)
		return;
	sdr_tx_fail(&w->tx, rel->qp->error);
	over(rel, w);
}

/* Timers that run out are losses, too. */
static void tick_sender(struct sdr_rel *rel, struct sdr_writer *w, struct sdr_rel_actions *a)
{
	uint32_t wanted = w->tx.n_wanted;

	sdr_tx_tick(&w->tx, rel->qp->now, a);
	if (w->tx.n_wanted > wanted)
		sdr_share_lost(rel->qp, w->tx.n_wanted - wanted);
}

bool sdr_writer_progress(struct sdr_rel *rel, struct sdr_writer *w, bool tick)
{
	struct sdr_rel_actions a;
	bool any;

	if (w->req.n_posted < 2 && w->tx.state == SDR_TX_WAITING)
		post_messages(rel, w);
	any = inject(rel, w);
	while (rel->attr.in_order && inject(rel, w))
		; /* until the line or its queues are full, or all has left */
	if (tick) {
		tick_sender(rel, w, &a);
		for (uint32_t i = 0; i < a.n; i++)
			say(rel, w, &a.list[i]);
	}
	if (w->tx.state > SDR_TX_SENDING)
		any |= finish(rel, w);
	return any;
}

/*
 * Takes and ends the slots of Writes that were over before they found some, as sdr_readers_skip()
 * does.
 */
void sdr_writers_skip(struct sdr_rel *rel)
{
	struct sdr_core *core = &rel->qp->core;

	while (core->send_next < 2 * rel->next_send) {
		uint64_t write = core->send_next / 2;
		const struct sdr_writer *w = sdr_writer_of(rel, write);
		struct sdr_event e = { .type = SDR_EVENT_SEND_POST };

		if (w->req.used && !w->req.over && w->req.write == write)
			return;
		if (sdr_qp_step(rel->qp, &e))
			return;
		e.type = SDR_EVENT_SEND_END;
		sdr_qp_step(rel->qp, &e); /* -EINVAL: its receive is gone */
		rel->qp->urgent = true;
	}
}

void sdr_writer_hear(struct sdr_rel *rel, const struct sdr_ctrl *c)
{
	struct sdr_writer *w = sdr_writer_of(rel, c->n);
	uint64_t least = rel->qp->estimate.min_ns;
	uint32_t wanted = w->tx.n_wanted;

	if (!w->req.used || w->req.over || w->req.write != c->n)
		return;
	w->tx.least_rtt_ns = least ? least + rel->qp->rounds.pause.last_ns : 0;
	if (c->head.type == SDR_CTRL_ACK)
		sdr_tx_ack(&w->tx, &c->ack, rel->qp->now);
	else if (c->head.type == SDR_CTRL_DONE && sdr_tx_done(&w->tx, c->n, c->status))
		w->decoded = c->count < w->tx.plan.chunks ? c->count : w->tx.plan.chunks;
	if (c->head.type == SDR_CTRL_DONE)
		sdr_share_restored(rel->qp, w->decoded, w->tx.plan.chunks);
	else if (w->tx.n_wanted > wanted)
		sdr_share_lost(rel->qp, w->tx.n_wanted - wanted);
}

SDR_API int sdr_rel_posted(const struct sdr_rel *rel, uint64_t ahead, struct sdr_rel_posted *posted)
{
	const struct sdr_cts *cts;

	if (rel->qp->error)
		return rel->qp->error;
	cts = sdr_core_heard_cts(&rel->qp->core, 2 * (rel->next_send + ahead));
	if (!cts)
		return -EAGAIN;
	*posted = (struct sdr_rel_posted){ .length = cts->length, .word = cts->word };
	return cts->gone ? -ECANCELED : 0;
}

SDR_API int sdr_rel_write(struct sdr_rel *rel, struct sdr_mr *mr, const void *addr, uint64_t length,
			  uint32_t imm, struct sdr_req **req)
{
	struct sdr_writer *w = sdr_writer_of(rel, rel->next_send);
	struct sdr_plan plan;
	int err = sdr_rel_ready(rel);

	if (err)
		return err;
	if (length > rel->qp->attr.max_msg_size)
		return -EMSGSIZE;
	if (!sdr_mr_covers(mr, rel->qp, (uintptr_t)addr, length))
		return -EINVAL;
	if (w->req.used)
		return -EAGAIN;
	err = sdr_rel_plan(rel, length, imm, &plan);
	if (!err && plan.parity > rel->parity_max)
		err = -EINVAL;
	if (!err)
		err = sdr_tx_init(&w->tx, rel->next_send, &plan, w->acked, w->wanted, w->left_at,
				  rel->qp->now + rel->attr.timeout_ns);
	if (err)
		return err;
	w->data = (struct sdr_send_req){ .qp = rel->qp,
					 .n = 2 * rel->next_send,
					 .addr = (uintptr_t)addr,
					 .length = length,
					 .mr = mr };
	w->parity =
		(struct sdr_send_req){ .qp = rel->qp,
				       .n = 2 * rel->next_send + 1,
				       .addr = (uintptr_t)w->code,
				       .length = (uint64_t)plan.parity * sdr_chunk_bytes(rel->qp),
				       .mr = w->code_mr };
	w->encoded = w->at = w->range.count = w->decoded = 0;
	w->req = (struct sdr_req){ .rel = rel,
				   .send = true,
				   .used = true,
				   .write = rel->next_send++,
				   .addr = (uintptr_t)addr,
				   .bytes = length,
				   .mr = mr,
				   .imm = imm };
	mr->uses++;
	post_messages(rel, w);
	*req = &w->req;
	return 0;
}
