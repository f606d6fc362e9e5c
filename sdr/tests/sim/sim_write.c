/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Writes: message 2 n has the data of Write n, message 2 n + 1 its parity. A packet is a unit of length here. */
#include "sim_world.h"

#include <errno.h>
#include <string.h>

static uint32_t slot(const struct sim_world *w, uint64_t write)
{
	return (uint32_t)(write % w->cfg.open);
}

static uint32_t shift(const struct sim_world *w)
{
	return w->ends[0].core.attr.chunk_shift;
}

static struct sdr_plan plan_of(const struct sim_world *w, uint64_t write)
{
	const struct sim_config *c = &w->cfg;
	struct sdr_plan p = { .kind = c->kind, .code = c->code, .k = c->k, .m = c->m };

	p.chunks = w->writes[2 * write].chunks;
	p.bytes = w->writes[2 * write].packets;
	p.imm = w->writes[2 * write].imm;
	p.inject_ns = c->inject << shift(w);
	p.rtt_ns = 2 * c->delay;
	p.reorder_ns = c->jitter + 2 * c->tick;
	p.rto_ns = (c->kind == SDR_SCHEME_SR ? 3 : 2) * p.rtt_ns + 4 * c->tick;
	p.fto_ns = c->fto;
	sdr_plan_lay(&p, 1.25);
	return p;
}

/* ---- receives -------------------------------------------------------------------------------- */

static int take_buffer(struct sim_world *w, uint64_t n)
{
	for (int i = 0; i < SIM_BUFFERS; i++) {
		if (w->buffers[i].used)
			continue;
		w->buffers[i].used = w->buffers[i].open = true;
		w->buffers[i].n = n;
		memset(w->buffers[i].tags, 0, sizeof(w->buffers[i].tags));
		return i;
	}
	return -1;
}

/* Data first, then the room for parity, each when its slot is free. */
static bool post_one(struct sim_world *w)
{
	uint64_t n = w->posted_recv, write = n / 2;
	struct sdr_event e = { .type = SDR_EVENT_RECV_POST };
	int b;

	if (n >= 2 * w->cfg.writes ||
	    (write >= w->cfg.open && w->writes[2 * (write - w->cfg.open)].rx_result > 0))
		return false;
	b = take_buffer(w, n);
	if (b < 0)
		return false;
	e.cookie = (uint64_t)b;
	e.length = n % 2 ? w->writes[n - 1].parity << shift(w) : w->writes[n].packets;
	if (sim_step(w, 1, &e)) {
		w->buffers[b].used = w->buffers[b].open = false;
		return false;
	}
	sim_check_id_free(w, n);
	w->counts->reused += n >= w->ends[1].core.attr.slots;
	w->posted_recv++;
	return true;
}

static void begin_receive(struct sim_world *w, uint64_t write)
{
	uint32_t i = slot(w, write);
	const struct sdr_rx_memory memory = {
		.have = w->have[i],
		.have_parity = w->have_parity[i],
		.want = w->want[i],
		.asked = w->asked[i],
		.subs = w->subs[i],
	};
	struct sdr_core *c = &w->ends[1].core;

	w->writes[2 * write].receiving = true;
	w->writes[2 * write].posted_at = w->now;
	sdr_rx_init(&w->rx[i], write, w->writes[2 * write].chunks, w->writes[2 * write].parity,
		    &memory, w->now + w->cfg.deadline);
	sdr_rx_bits(&w->rx[i], sdr_core_recv(c, 2 * write)->bits.chunks,
		    sdr_core_recv(c, 2 * write + 1)->bits.chunks);
}

static void begin_send(struct sim_world *w, uint64_t write)
{
	struct sdr_plan plan = plan_of(w, write);
	uint32_t i = slot(w, write);

	w->writes[2 * write].sending = true;
	w->writes[2 * write + 1].posted_at = w->now;
	if (sdr_tx_init(&w->tx[i], write, &plan, w->acked[i], w->wanted[i], w->left_at[i],
			w->now + w->cfg.deadline))
		sim_violation(w, "S7: a plan that makes no sense");
}

static void post_sends(struct sim_world *w)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_POST };
	uint64_t write = w->posted_send / 2;

	if (w->posted_send >= 2 * w->cfg.writes ||
	    (write >= w->cfg.open && w->writes[2 * (write - w->cfg.open)].tx_result > 0))
		return;
	if (w->posted_send % 2 == 0 && !w->writes[2 * write].sending)
		begin_send(w, write);
	if (!sim_step(w, 0, &e))
		w->posted_send++;
}

void sim_write_post(struct sim_world *w, uint8_t end)
{
	if (!end) {
		post_sends(w);
		return;
	}
	while (post_one(w) && !w->violation[0])
		if (w->posted_recv % 2 == 0)
			begin_receive(w, w->posted_recv / 2 - 1);
}

/* ---- sender ---------------------------------------------------------------------------------- */

static void end_sends(struct sim_world *w, uint64_t write, int result)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_END };
	struct sim_write *x = &w->writes[2 * write];

	x->sending = false;
	x->tx_result = result;
	x->tx_ended_at = w->now;
	w->counts->failed += result < 0;
	for (int i = 0; i < 2; i++) {
		e.n = 2 * write + (uint64_t)i;
		sim_step(w, 0, &e); /* -EINVAL: its receive is gone */
	}
}

void sim_write_allowed(struct sim_world *w, uint64_t n)
{
	uint64_t write = n / 2;

	if (w->writes[2 * write].tx_result > 0 && ++w->send_allowed[write] == 2)
		sdr_tx_allow(&w->tx[slot(w, write)], w->now);
}

void sim_write_gone(struct sim_world *w, uint64_t n)
{
	if (w->writes[2 * (n / 2)].tx_result > 0)
		sdr_tx_fail(&w->tx[slot(w, n / 2)], -ECANCELED);
}

static void send_chunk(struct sim_world *w, uint64_t write, bool parity, uint32_t chunk)
{
	uint64_t n = 2 * write + parity;
	struct sdr_send *s = sdr_core_send(&w->ends[0].core, n);
	struct sdr_event e = { .type = SDR_EVENT_INJECTED, .n = n };
	uint32_t first = chunk << shift(w), end = first + (1u << shift(w)), all;

	all = parity ? w->writes[n - 1].parity << shift(w) : w->writes[n].packets;
	for (uint32_t p = first; p < end && p < all && !w->violation[0]; p++, e.count++)
		sim_send_packet(w, n, p, w->writes[2 * write].imm, &s->cts);
	sim_step(w, 0, &e);
}

bool sim_write_inject(struct sim_world *w)
{
	struct sdr_range range;

	for (uint32_t i = 0; i < w->cfg.open; i++) {
		struct sdr_tx *t = &w->tx[(i + w->turn) % w->cfg.open];

		if (!t->write && !w->writes[0].sending)
			continue;
		if (!w->writes[2 * t->write].sending ||
		    slot(w, t->write) != (i + w->turn) % w->cfg.open)
			continue;
		if (!sdr_tx_next(t, 2, w->now, &range))
			continue;
		w->turn++;
		for (uint32_t k = 0; k < range.count; k++)
			send_chunk(w, t->write, range.parity, range.first + k);
		return true;
	}
	return false;
}

/* ---- what is said ---------------------------------------------------------------------------- */

/* S6: what an ACK names is in place. */
static void check_ack(struct sim_world *w, const struct sdr_ack *ack)
{
	for (uint32_t i = 0; i < ack->nbits && !w->violation[0]; i++)
		if (ack->have[i / SDR_WORD] >> (i % SDR_WORD) & 1)
			sim_check_chunk(w, 2 * ack->write, ack->base + i, "S6");
	for (uint32_t i = 0; i < ack->cumulative && !w->violation[0]; i++)
		sim_check_chunk(w, 2 * ack->write, i, "S6");
}

/* S9: on a line that keeps its order, nothing that is coded is asked for before its parity has left. */
static void check_want(struct sim_world *w, const struct sdr_ack *ack)
{
	const struct sim_config *c = &w->cfg;
	const struct sdr_tx *t = &w->tx[slot(w, ack->write)];
	uint32_t from = t->plan.coded_from;

	if (!ack->want || c->reorder || c->late || c->open > 1 || t->write != ack->write ||
	    t->state != SDR_TX_SENDING || t->next_parity == t->plan.parity)
		return;
	for (uint32_t i = from > ack->base ? from - ack->base : 0; i < ack->nbits; i++)
		if (ack->wanted[i / SDR_WORD] >> (i % SDR_WORD) & 1)
			sim_violation(
				w, "S9: chunk %u of Write %llu is asked for before its parity left",
				ack->base + i, (unsigned long long)ack->write);
}

static void say(struct sim_world *w, uint8_t end, uint64_t write, const struct sdr_rel_action *a)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c.head, 0, sizeof(c.head));
	c.n = write;
	switch (a->say) {
	case SDR_SAY_OFFER:
		c.head.type = SDR_CTRL_OFFER;
		c.plan = w->tx[slot(w, write)].plan;
		break;
	case SDR_SAY_PROBE: c.head.type = SDR_CTRL_PROBE; break;
	case SDR_SAY_ACK:
		c.head.type = SDR_CTRL_ACK;
		c.ack = sdr_rx_ack(&w->rx[slot(w, write)], a);
		check_ack(w, &c.ack);
		check_want(w, &c.ack);
		break;
	case SDR_SAY_DONE:
		c.head.type = SDR_CTRL_DONE;
		c.status = a->status;
		break;
	case SDR_SAY_DECODE:
		sim_at(w, w->now + 1 + sim_random(w, w->cfg.bind), SIM_EV_DECODED, 1, a->n, write);
		return;
	}
	sim_say(w, end, &c);
}

static void tx_tick(struct sim_world *w, uint64_t write)
{
	struct sdr_tx *t = &w->tx[slot(w, write)];
	struct sdr_rel_actions a;

	sdr_tx_tick(t, w->now, &a);
	for (uint32_t i = 0; i < a.n; i++)
		say(w, 0, write, &a.list[i]);
	if (t->state > SDR_TX_SENDING && w->posted_send >= 2 * write + 2)
		end_sends(w, write, t->state == SDR_TX_DONE ? 0 : t->status);
}

/* ---- receiver -------------------------------------------------------------------------------- */

/* S7: all bytes are right. */
static void check_bytes(struct sim_world *w, uint64_t write)
{
	for (uint32_t i = 0; i < w->writes[2 * write].chunks && !w->violation[0]; i++)
		sim_check_chunk(w, 2 * write, i, "S7");
	if (w->rx[slot(w, write)].plan.imm != w->writes[2 * write].imm)
		sim_violation(w, "S7: another immediate");
}

static void end_receives(struct sim_world *w, uint64_t write)
{
	struct sdr_event e = { .type = SDR_EVENT_RECV_COMPLETE };
	struct sdr_rx *r = &w->rx[slot(w, write)];
	struct sim_write *x = &w->writes[2 * write];

	if (r->state == SDR_RX_DONE)
		check_bytes(w, write);
	w->counts->decoded += r->decoded;
	x->rx_result = r->state == SDR_RX_DONE ? 0 : r->status;
	x->rx_ended_at = w->now;
	for (uint64_t n = 2 * write; n < 2 * write + 2 && !w->violation[0]; n++) {
		e.n = n;
		if (sim_step(w, 1, &e))
			sim_violation(w, "S8: message %llu cannot be completed",
				      (unsigned long long)n);
	}
}

static void rx_tick(struct sim_world *w, uint64_t write)
{
	struct sdr_rx *r = &w->rx[slot(w, write)];
	struct sdr_rel_actions a;

	if (r->write != write)
		return;
	sdr_rx_poll(r, w->now, &a);
	for (uint32_t i = 0; i < a.n && !w->violation[0]; i++)
		say(w, 1, write, &a.list[i]);
	if (r->state != SDR_RX_OPEN && w->writes[2 * write].rx_result > 0 && !w->violation[0])
		end_receives(w, write);
}

/* The code at work: what it gives is right only if what it takes suffices. */
void sim_write_decoded(struct sim_world *w, uint64_t write, uint32_t sub)
{
	struct sdr_rx *r = &w->rx[slot(w, write)];
	struct sdr_submessage s;
	struct sdr_slot *data = sdr_core_recv(&w->ends[1].core, 2 * write);
	struct sdr_slot *parity = sdr_core_recv(&w->ends[1].core, 2 * write + 1);
	uint32_t missing[SIM_PACKETS] = { 0 }, here = 0, all = 0, group, chunk;
	bool is_xor = r->plan.code == SDR_CODE_XOR;
	struct sim_buffer *b = &w->buffers[w->buffer_of[2 * write]];

	if (r->write != write || r->state != SDR_RX_OPEN)
		return;
	s = sdr_plan_submessage(&r->plan, sub);
	for (uint32_t i = 0; i < s.parity; i++)
		here += sdr_bit(parity->bits.chunks, s.parity_first + i * s.stride);
	for (uint32_t i = 0; i < s.data; i++) {
		group = is_xor ? i % s.parity : 0;
		chunk = r->plan.coded_from + s.data_first + i * s.stride;
		if (sdr_bit(data->bits.chunks, chunk))
			continue;
		all++;
		if (is_xor && (++missing[group] > 1 ||
			       !sdr_bit(parity->bits.chunks, s.parity_first + group * s.stride)))
			sim_violation(
				w, "S7: submessage %u of Write %llu is decoded out of too little",
				sub, (unsigned long long)write);
		for (uint32_t p = chunk << shift(w); p < (chunk + 1) << shift(w) && p < SIM_PACKETS;
		     p++)
			b->tags[p] = sim_tag(2 * write, p);
	}
	if (!is_xor && all > here)
		sim_violation(w, "S7: submessage %u of Write %llu is decoded out of too little",
			      sub, (unsigned long long)write);
	sdr_rx_decoded(r, sub, w->now);
}

/* ---- both ------------------------------------------------------------------------------------ */

void sim_write_tick(struct sim_world *w, uint8_t end)
{
	for (uint64_t write = 0; write < w->cfg.writes && !w->violation[0]; write++) {
		if (end && w->writes[2 * write].receiving)
			rx_tick(w, write);
		else if (!end && w->writes[2 * write].sending)
			tx_tick(w, write);
	}
}

/* A Write that is over at the receiver is answered for; what it was is kept by the number alone. */
static void answer_over(struct sim_world *w, uint64_t write)
{
	struct sdr_rel_action done = { .say = SDR_SAY_DONE };

	if (w->writes[2 * write].rx_result > 0)
		return;
	done.status = w->writes[2 * write].rx_result;
	say(w, 1, write, &done);
}

static void rx_hear(struct sim_world *w, const struct sdr_ctrl *c)
{
	struct sdr_rx *r = &w->rx[slot(w, c->n)];

	if (!w->writes[2 * c->n].receiving)
		return;
	if (r->write != c->n) {
		answer_over(w, c->n);
		return;
	}
	if (c->head.type == SDR_CTRL_OFFER)
		sdr_rx_offer(r, &c->plan, w->now);
	else if (c->head.type == SDR_CTRL_PROBE)
		sdr_rx_probe(r, w->now);
}

void sim_write_hear(struct sim_world *w, uint8_t end, const struct sdr_ctrl *c)
{
	struct sdr_tx *t = &w->tx[slot(w, c->n)];

	if (c->n >= w->cfg.writes) {
		sim_violation(w, "S7: a Write that there is not");
		return;
	}
	if (end) {
		rx_hear(w, c);
		return;
	}
	if (!w->writes[2 * t->write].sending)
		return;
	t->least_rtt_ns = 2 * w->cfg.delay;
	if (c->head.type == SDR_CTRL_ACK)
		sdr_tx_ack(t, &c->ack, w->now);
	else if (c->head.type == SDR_CTRL_DONE)
		sdr_tx_done(t, c->n, c->status);
}

bool sim_writes_over(const struct sim_world *w)
{
	for (uint32_t i = 0; i < w->cfg.writes; i++) {
		const struct sim_write *x = &w->writes[w->cfg.rel ? 2 * i : i];

		if (x->tx_result > 0 || x->rx_result > 0)
			return false;
	}
	return true;
}

static void judge(struct sim_world *w, uint32_t i)
{
	const struct sim_write *x = &w->writes[2 * i];
	uint64_t slack = 20 * w->cfg.delay + 20 * w->cfg.tick;

	if (!x->tx_result && x->rx_result)
		sim_violation(w, "S7: Write %u is good at the sender, %d at the receiver", i,
			      x->rx_result);
	else if (x->tx_ended_at > w->writes[2 * i + 1].posted_at + w->cfg.deadline + slack)
		sim_violation(w, "S7: Write %u ends after its deadline at the sender", i);
	else if (x->rx_ended_at > x->posted_at + w->cfg.deadline + slack)
		sim_violation(w, "S7: Write %u ends after its deadline at the receiver", i);
	else if (w->cfg.heals && (x->tx_result || x->rx_result))
		sim_violation(w, "S8: Write %u fails (%d, %d) though the network healed in time", i,
			      x->tx_result, x->rx_result);
}

void sim_writes_judge(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->cfg.writes && w->cfg.rel && !w->violation[0]; i++)
		judge(w, i);
	w->counts->writes += w->cfg.writes;
}
