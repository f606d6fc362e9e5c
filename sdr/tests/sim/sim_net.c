/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The network, the receiving NIC's keys and memory, and its completions. */
#include "sim_world.h"
#include "sdr/core/packet.h"

#include <string.h>

uint32_t sim_key(const struct sim_world *w, uint64_t n)
{
	const struct sdr_core_attr *a = &w->ends[1].core.attr;
	uint32_t generation = (uint32_t)(n / a->slots % a->generations);

	if (sim_mutant == SIM_MUTANT_ONE_KEY)
		generation = 0;
	return (uint32_t)(n % a->slots) * SDR_GENERATIONS_MAX + generation;
}

/* ---- packets --------------------------------------------------------------------------------- */

static uint64_t packet_delay(struct sim_world *w)
{
	const struct sim_config *c = &w->cfg;
	uint64_t d = c->delay;

	if (w->healed)
		return d;
	if (sim_chance(w, c->reorder))
		d += sim_random(w, c->jitter + 1);
	if (sim_chance(w, c->late))
		d = c->delay + sim_random(w, c->lifetime - c->delay);
	return d;
}

static bool packet_lost(struct sim_world *w)
{
	if (w->healed)
		return false;
	if (w->bad)
		w->bad = sim_chance(w, 1000 - 1000 / (w->cfg.burst + 1));
	else
		w->bad = sim_chance(w, w->cfg.loss);
	return w->bad;
}

static void fly(struct sim_world *w, const struct sim_packet *p)
{
	for (uint32_t i = 0; i < SIM_FLYING; i++) {
		if (w->packets[i].used)
			continue;
		w->packets[i] = *p;
		w->packets[i].used = true;
		sim_at(w, w->line_free + packet_delay(w), SIM_EV_PACKET, 1, i, p->n);
		return;
	}
	sim_violation(w, "S9: more packets are under way than there can be");
}

/* S4: only what its receiver has opened, by the place that it was told. */
static void check_allowed(struct sim_world *w, uint64_t n, const struct sdr_cts *cts)
{
	struct sdr_slot *s = sdr_core_recv(&w->ends[1].core, n);
	struct sdr_use *u =
		&s->uses[n / w->ends[1].core.attr.slots % w->ends[1].core.attr.generations];

	if (!u->used || u->n != n || (s->n == n && atomic_load(&s->state) < SDR_SLOT_OPEN))
		sim_violation(w, "S4: message %llu is sent before its receive is open",
			      (unsigned long long)n);
	else if (cts->rkeys[0] != sim_key(w, n))
		sim_violation(w, "S4: message %llu is sent by the key of another one",
			      (unsigned long long)n);
}

void sim_send_packet(struct sim_world *w, uint64_t n, uint32_t offset, uint32_t imm,
		     const struct sdr_cts *cts)
{
	const struct sdr_core *c = &w->ends[0].core;
	struct sim_packet p = { .n = n, .key = cts->rkeys[0], .offset = offset };

	check_allowed(w, n, cts);
	/* The line takes one after the other. */
	w->line_free = (w->line_free > w->now ? w->line_free : w->now) + w->cfg.inject;
	p.imm = sdr_imm_make(&c->layout, (uint32_t)(n % c->attr.slots), offset, imm);
	p.tag = sim_tag(n, offset);
	p.generation = (uint8_t)(n / c->attr.slots % c->attr.generations);
	w->counts->packets++;
	if (packet_lost(w)) {
		w->counts->lost++;
		return;
	}
	fly(w, &p);
	if (w->cfg.duplicates && !w->healed && sim_chance(w, w->cfg.duplicate)) {
		w->counts->duplicates++;
		fly(w, &p);
	}
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* S1 and S3, where a payload lands. */
static void write_payload(struct sim_world *w, const struct sim_packet *p)
{
	struct sim_buffer *b = &w->buffers[w->keys[p->key]];

	if (p->offset >= w->writes[p->n].packets)
		return; /* an empty one, for its fragment of the immediate */
	if (!b->open)
		sim_violation(w, "S1: message %llu changes a buffer after its completion",
			      (unsigned long long)p->n);
	else if (b->n != p->n)
		sim_violation(w, "S3: a packet of message %llu lands in message %llu",
			      (unsigned long long)p->n, (unsigned long long)b->n);
	b->tags[p->offset] = p->tag;
}

void sim_payload_arrives(struct sim_world *w, uint32_t i)
{
	if (w->keys[w->packets[i].key] >= 0)
		write_payload(w, &w->packets[i]);
	w->packets[i].used = false;
}

void sim_packet_arrives(struct sim_world *w, uint32_t i)
{
	struct sim_packet *p = &w->packets[i];
	bool dead = w->keys[p->key] < 0;

	if (dead && w->cfg.window) { /* dropped with nothing said */
		p->used = false;
		return;
	}
	if (w->cq.n >= w->cfg.rq_depth) { /* the receive queue is dry: one more way to be lost */
		w->counts->dry++;
		p->used = false;
		return;
	}
	w->cq.list[(w->cq.first + w->cq.n++) % SIM_CQES] = (struct sim_cqe){
		.imm = p->imm,
		.generation = w->cfg.window ? -1 : p->generation,
		.n = p->n,
	};
	sim_trace(w, "packet %u of message %llu arrives%s", p->offset, (unsigned long long)p->n,
		  dead ? ", its key is dead" : "");
	sim_arm_poll(w);
	if (sim_mutant == SIM_MUTANT_BIT_FIRST) {
		sim_at(w, w->now + w->cfg.poll * 3, SIM_EV_PAYLOAD, 1, i, p->n);
		return;
	}
	if (!dead)
		write_payload(w, p);
	p->used = false;
}

/* S2 and S6: every packet of the chunk is in place. */
void sim_check_chunk(struct sim_world *w, uint64_t n, uint32_t chunk, const char *promise)
{
	struct sdr_slot *s = sdr_core_recv(&w->ends[1].core, n);
	const struct sim_buffer *b = &w->buffers[w->buffer_of[n]];
	uint32_t first = chunk << s->bits.shift, packets = w->writes[n].packets;

	for (uint32_t i = first; i < first + (1u << s->bits.shift) && i < packets; i++)
		if (b->n != n || b->tags[i] != sim_tag(n, i)) {
			sim_violation(w, "%s: chunk %u of message %llu lacks packet %u", promise,
				      chunk, (unsigned long long)n, i);
			return;
		}
}

/* S3 for bitmaps: only a packet of the message that the slot serves may mark its bits. */
static void take(struct sim_world *w, const struct sim_cqe *q)
{
	struct sdr_core *c = &w->ends[1].core;
	struct sdr_slot *s = sdr_core_recv(c, q->n);
	uint32_t offset = sdr_imm_offset(&c->layout, q->imm);
	bool was = offset < s->bits.n_packets && sdr_bit(s->bits.packets, offset), is;
	uint64_t late = atomic_load(&c->stats.late);
	int64_t chunk = sdr_packet(c, q->imm, q->generation);

	is = offset < s->bits.n_packets && sdr_bit(s->bits.packets, offset);
	if (s->n != q->n && is != was)
		sim_violation(w, "S3: a packet of message %llu marks message %llu",
			      (unsigned long long)q->n, (unsigned long long)s->n);
	w->counts->late += atomic_load(&c->stats.late) - late;
	if (chunk != SDR_NO_CHUNK && w->buffer_of[s->n] >= 0)
		sim_check_chunk(w, s->n, (uint32_t)chunk, "S2");
}

/* When something is there to be polled: it is, some time later. */
void sim_arm_poll(struct sim_world *w)
{
	if (!w->poll_armed)
		sim_at(w, w->now + 1 + sim_random(w, 2 * w->cfg.poll), SIM_EV_POLL, 1, 0, 0);
	w->poll_armed = true;
}

void sim_poll(struct sim_world *w)
{
	struct sim_cqe q;

	w->poll_armed = false;
	while (w->cq.n && !w->violation[0]) {
		q = w->cq.list[w->cq.first];
		w->cq.first = (w->cq.first + 1) % SIM_CQES;
		w->cq.n--;
		take(w, &q);
	}
	for (uint32_t s = 0; s < SIM_SLOTS; s++) {
		if (!w->unbound[s])
			continue;
		sim_told_unbound(w, w->unbound[s] - 1);
		w->unbound[s] = 0;
	}
}

/* Slot and generation. */
static uint64_t id(const struct sim_world *w, uint64_t n)
{
	const struct sdr_core_attr *a = &w->ends[1].core.attr;

	return n % ((uint64_t)a->slots * a->generations);
}

/* S5: of an id that is used again, nothing is under way. */
void sim_check_id_free(struct sim_world *w, uint64_t n)
{
	uint64_t key = id(w, n);

	for (uint32_t i = 0; i < SIM_FLYING; i++)
		if (w->packets[i].used && id(w, w->packets[i].n) == key)
			sim_violation(w,
				      "S5: message %llu gets the id of %llu, of which a packet is "
				      "under way",
				      (unsigned long long)n, (unsigned long long)w->packets[i].n);
	for (uint32_t i = 0; i < w->cq.n; i++)
		if (id(w, w->cq.list[(w->cq.first + i) % SIM_CQES].n) == key)
			sim_violation(w,
				      "S5: message %llu gets an id with completions to be polled",
				      (unsigned long long)n);
}

/* ---- control --------------------------------------------------------------------------------- */

static void post(struct sim_world *w, uint8_t to, const uint8_t *bytes, int size)
{
	uint64_t delay = w->cfg.delay;

	if (!w->healed && sim_chance(w, w->cfg.reorder + 50))
		delay += sim_random(w, w->cfg.lifetime * 2); /* control may be older than data */
	for (uint32_t i = 0; i < SIM_FLYING / 8; i++) {
		if (w->datagrams[i].used)
			continue;
		w->datagrams[i].used = true;
		w->datagrams[i].size = (uint16_t)size;
		memcpy(w->datagrams[i].bytes, bytes, (size_t)size);
		sim_at(w, w->now + delay, SIM_EV_DATAGRAM, to, i, 0);
		return;
	}
	sim_violation(w, "S9: more control messages are under way than there can be");
}

void sim_say(struct sim_world *w, uint8_t end, struct sdr_ctrl *c)
{
	static _Thread_local uint8_t bytes[SDR_CTRL_MAX];
	struct sim_end *e = &w->ends[end];
	int size;

	c->head.connection = 7;
	c->head.sequence = ++e->sequence;
	c->head.cts_seen = e->core.cts_known;
	c->head.ends_seen = (uint32_t)e->core.ends_known;
	size = sdr_ctrl_write(c, bytes, sizeof(bytes));
	w->counts->datagrams++;
	if (size < 0) {
		sim_violation(w, "S9: a %s that cannot be written", sdr_ctrl_name(c->head.type));
		return;
	}
	sim_trace(w, "end %u says %s %llu", end, sdr_ctrl_name(c->head.type),
		  (unsigned long long)c->n);
	if (w->healed || !sim_chance(w, w->cfg.ctrl_loss))
		post(w, !end, bytes, size);
	if (!w->healed && sim_chance(w, w->cfg.duplicate))
		post(w, !end, bytes, size);
}
