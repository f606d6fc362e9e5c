/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a shell would do around the core: actions, ticks, datagrams; and messages without rel. */
#include "sim_world.h"

#include <errno.h>
#include <string.h>

int sim_step(struct sim_world *w, uint8_t end, struct sdr_event *e)
{
	struct sdr_actions a = { 0 };
	int ret = sdr_core_step(&w->ends[end].core, e, w->now, &a);

	/* The owner of the buffer is set before its actions are done. */
	if (!ret && e->type == SDR_EVENT_RECV_POST)
		w->buffer_of[e->n] = (int16_t)e->cookie;
	sim_actions(w, end, &a);
	return ret;
}

/* ---- receiving NIC --------------------------------------------------------------------------- */

static void bind(struct sim_world *w, uint64_t n)
{
	sim_at(w, w->now + 1 + sim_random(w, w->cfg.bind), SIM_EV_BOUND, 1, 0, n);
}

void sim_bound(struct sim_world *w, uint64_t n)
{
	struct sdr_event e = { .type = SDR_EVENT_BOUND, .n = n, .rkeys = { sim_key(w, n) } };

	w->keys[e.rkeys[0]] = w->buffer_of[n];
	sim_step(w, 1, &e);
}

void sim_told_unbound(struct sim_world *w, uint64_t n)
{
	struct sdr_event e = { .type = SDR_EVENT_UNBOUND, .n = n };

	sim_step(w, 1, &e);
}

/* The key is dead: nothing lands there any more. What had landed may still wait to be polled. */
void sim_nic_unbound(struct sim_world *w, uint64_t n)
{
	if (w->keys[sim_key(w, n)] == w->buffer_of[n])
		w->keys[sim_key(w, n)] = -1;
	if (sim_mutant == SIM_MUTANT_UNBOUND_UNPOLLED)
		sim_told_unbound(w, n);
	else if (sim_mutant != SIM_MUTANT_UNBOUND_EARLY)
		w->unbound[n % SIM_SLOTS] = n + 1;
	sim_arm_poll(w);
}

static void unbind(struct sim_world *w, uint64_t n)
{
	sim_at(w, w->now + 1 + sim_random(w, w->cfg.bind), SIM_EV_UNBOUND, 1, 0, n);
	if (sim_mutant == SIM_MUTANT_UNBOUND_EARLY)
		sim_told_unbound(w, n);
}

static void recv_done(struct sim_world *w, const struct sdr_action *a)
{
	struct sim_buffer *b = &w->buffers[a->cookie];

	if (b->n == a->n) {
		b->open = false;
		b->used = false;
	}
}

/* ---- control --------------------------------------------------------------------------------- */

static void say_cts(struct sim_world *w, uint8_t end, const struct sdr_action *a)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c, 0, sizeof(c));
	c.head.type = SDR_CTRL_CTS;
	c.n = a->n;
	c.count = a->count;
	c.keys = 1;
	for (uint32_t i = 0; i < a->count; i++)
		if (!sdr_core_cts(&w->ends[end].core, a->n + i, &c.cts[i]))
			sim_violation(w, "S4: a CTS without its slot");
	sim_say(w, end, &c);
}

static void say_end(struct sim_world *w, uint8_t end, const struct sdr_action *a)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c, 0, sizeof(c));
	c.head.type = SDR_CTRL_END;
	c.n = a->n;
	c.count = a->count;
	if (sim_mutant == SIM_MUTANT_FORGET_PACKETS && c.count)
		c.count--;
	sim_say(w, end, &c);
}

static void send_allowed(struct sim_world *w, const struct sdr_action *a)
{
	if (a->cts.rkeys[0] != sim_key(w, a->n))
		sim_violation(w, "S4: message %llu is allowed by the CTS of another one",
			      (unsigned long long)a->n);
	w->streams[a->n].allowed = true;
	if (w->cfg.rel)
		sim_write_allowed(w, a->n);
	if (!w->inject_armed) {
		w->inject_armed = true;
		sim_at(w, w->now + 1, SIM_EV_INJECT, 0, 0, 0);
	}
}

static void send_gone(struct sim_world *w, uint64_t n)
{
	w->counts->gone++;
	w->streams[n].used = false;
	if (w->cfg.rel)
		sim_write_gone(w, n);
	else
		w->writes[n].tx_result = -ECANCELED;
}

static void say_known(struct sim_world *w, uint8_t end)
{
	static _Thread_local struct sdr_ctrl c;

	c.head.type = SDR_CTRL_KNOWN;
	sim_say(w, end, &c);
}

void sim_actions(struct sim_world *w, uint8_t end, const struct sdr_actions *actions)
{
	for (uint32_t i = 0; i < actions->n && !w->violation[0]; i++) {
		const struct sdr_action *a = &actions->list[i];

		switch (a->type) {
		case SDR_ACTION_BIND: bind(w, a->n); break;
		case SDR_ACTION_UNBIND: unbind(w, a->n); break;
		case SDR_ACTION_SEND_CTS: say_cts(w, end, a); break;
		case SDR_ACTION_SEND_END: say_end(w, end, a); break;
		case SDR_ACTION_RECV_DONE: recv_done(w, a); break;
		case SDR_ACTION_SEND_ALLOWED: send_allowed(w, a); break;
		case SDR_ACTION_SEND_GONE: send_gone(w, a->n); break;
		case SDR_ACTION_SEND_KNOWN: say_known(w, end); break;
		}
	}
}

/* ---- messages without rel ---------------------------------------------------------------------- */

static int free_buffer(const struct sim_world *w)
{
	for (int i = 0; i < SIM_BUFFERS; i++)
		if (!w->buffers[i].used)
			return i;
	return -1;
}

static void message_recv_post(struct sim_world *w)
{
	struct sdr_event e = { .type = SDR_EVENT_RECV_POST };
	uint32_t n = w->posted_recv;
	int b = free_buffer(w);

	if (n >= w->cfg.writes || b < 0)
		return;
	e.cookie = (uint64_t)b;
	e.length = w->writes[n].recv_packets;
	if (sim_step(w, 1, &e))
		return;
	sim_check_id_free(w, n);
	w->posted_recv++;
	w->counts->reused += n >= w->ends[1].core.attr.slots;
	w->buffers[b].used = w->buffers[b].open = true;
	w->buffers[b].n = n;
	memset(w->buffers[b].tags, 0, sizeof(w->buffers[b].tags));
	if (sim_chance(w, w->cfg.early)) {
		w->counts->early++;
		sim_at(w, w->now + sim_random(w, 4 * w->cfg.delay), SIM_EV_COMPLETE, 1, 0, n);
	}
}

static void message_send_post(struct sim_world *w)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_POST };
	uint32_t n = w->posted_send;

	if (n >= w->cfg.writes)
		return;
	w->streams[n].used = true;
	w->posted_send++;
	if (sim_step(w, 0, &e)) {
		w->streams[n].used = false;
		w->posted_send--;
	}
}

static void check_bits(struct sim_world *w, uint64_t n)
{
	struct sdr_slot *s = sdr_core_recv(&w->ends[1].core, n);
	uint32_t imm, chunks = (w->writes[n].packets + (1u << s->bits.shift) - 1) >> s->bits.shift;

	for (uint32_t i = 0; i < chunks && !w->violation[0]; i++)
		if (sdr_bit(s->bits.chunks, i))
			sim_check_chunk(w, n, i, "S2");
	if (sdr_core_imm(&w->ends[1].core, s, &imm) && imm != w->writes[n].imm)
		sim_violation(w, "S2: message %llu has the immediate %08x, not %08x",
			      (unsigned long long)n, imm, w->writes[n].imm);
}

void sim_complete(struct sim_world *w, uint64_t n)
{
	struct sdr_event e = { .type = SDR_EVENT_RECV_COMPLETE, .n = n };

	if (w->writes[n].rx_result <= 0)
		return;
	check_bits(w, n);
	if (!sim_step(w, 1, &e)) {
		w->writes[n].rx_result = 0;
		w->writes[n].rx_ended_at = w->now;
	}
}

/* A receiver that gives up: what was ended and can no more come is not waited for. */
static void message_look(struct sim_world *w)
{
	for (uint32_t n = 0; n < w->posted_recv; n++) {
		struct sdr_slot *s = sdr_core_recv(&w->ends[1].core, n);
		struct sdr_use *u =
			&s->uses[n / w->ends[1].core.attr.slots % w->ends[1].core.attr.generations];
		bool all = true;

		if (w->writes[n].rx_result <= 0 || s->n != n)
			continue;
		for (uint32_t i = 0; i < s->bits.n_chunks; i++)
			all = all && sdr_bit(s->bits.chunks, i);
		if (all || (u->ended && w->now > u->since + 2 * w->cfg.delay))
			sim_complete(w, n);
	}
}

/* Sends one packet of a message, maybe twice or not at all; true if there was one. */
static bool message_inject(struct sim_world *w)
{
	struct sdr_event e = { .type = SDR_EVENT_INJECTED, .count = 1 };
	struct sdr_event end = { .type = SDR_EVENT_SEND_END };
	uint32_t fragments = sdr_imm_fragments(&w->ends[0].core.layout);

	for (uint32_t n = 0; n < w->posted_send; n++) {
		struct sim_stream *s = &w->streams[n];
		uint32_t all = w->writes[n].packets > fragments ? w->writes[n].packets : fragments;
		struct sdr_send *send = sdr_core_send(&w->ends[0].core, n);
		uint32_t offset = s->next;

		if (!s->used || !s->allowed)
			continue;
		if (s->next == all) {
			s->used = false;
			w->writes[n].tx_result = 0;
			end.n = n;
			if (sim_mutant == SIM_MUTANT_SEND_AFTER_END)
				sim_send_packet(w, n, 0, w->writes[n].imm, &send->cts);
			sim_step(w, 0, &end);
			return true;
		}
		s->next += !sim_chance(w, 100); /* else it goes out once more */
		/* Behind a short message come empty packets with the rest of the immediate. */
		if (offset >= w->writes[n].packets &&
		    !sdr_imm_filler(&w->ends[0].core.layout, (uint32_t)send->cts.length, offset,
				    &offset))
			sim_violation(w, "S2: no room for an immediate's fragment");
		sim_send_packet(w, n, offset, w->writes[n].imm, &send->cts);
		e.n = n;
		sim_step(w, 0, &e);
		return true;
	}
	return false;
}

/* ---- both ------------------------------------------------------------------------------------ */

void sim_inject(struct sim_world *w)
{
	bool more = w->cfg.rel ? sim_write_inject(w) : message_inject(w);

	w->inject_armed = more;
	if (more)
		sim_at(w, w->line_free > w->now ? w->line_free : w->now + 1, SIM_EV_INJECT, 0, 0,
		       0);
}

void sim_tick(struct sim_world *w, uint8_t end)
{
	struct sdr_event e = { .type = SDR_EVENT_TICK };

	if (w->cfg.rel) {
		sim_write_post(w, end);
		sim_write_tick(w, end);
	} else if (end) {
		message_look(w);
		message_recv_post(w);
	} else {
		message_send_post(w);
	}
	sim_step(w, end, &e);
	if (!w->inject_armed && !end) {
		w->inject_armed = true;
		sim_at(w, w->now + 1, SIM_EV_INJECT, 0, 0, 0);
	}
	sim_at(w, w->now + w->cfg.tick / 2 + sim_random(w, w->cfg.tick), SIM_EV_TICK, end, 0, 0);
}

void sim_hear(struct sim_world *w, uint8_t end, const struct sdr_ctrl *c)
{
	struct sdr_event e = { .type = SDR_EVENT_HEARD, .n = c->head.cts_seen };

	e.count = c->head.ends_seen;
	sim_step(w, end, &e);
	if (c->head.type == SDR_CTRL_CTS) {
		for (uint32_t i = 0; i < c->count; i++) {
			e = (struct sdr_event){ .type = SDR_EVENT_CTS,
						.n = c->n + i,
						.cts = c->cts[i] };
			sim_step(w, end, &e);
		}
	} else if (c->head.type == SDR_CTRL_END) {
		e = (struct sdr_event){ .type = SDR_EVENT_PEER_END, .n = c->n, .count = c->count };
		sim_step(w, end, &e);
	} else if (w->cfg.rel && c->head.type != SDR_CTRL_KNOWN) {
		sim_write_hear(w, end, c);
	}
}
