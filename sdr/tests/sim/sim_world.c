/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A schedule: what is drawn from its seed, and the loop of events. */
#include "sim_world.h"
#include "draw.h"

#include <stdio.h>
#include <string.h>

enum sim_mutant sim_mutant;

uint64_t sim_random(struct sim_world *w, uint64_t below)
{
	return sim_draw(&w->random, below);
}

bool sim_chance(struct sim_world *w, uint32_t in_1000)
{
	return in_1000 && sim_random(w, 1000) < in_1000;
}

uint64_t sim_tag(uint64_t n, uint32_t offset)
{
	return (n + 1) << 32 | (offset + 1);
}

void sim_violation(struct sim_world *w, const char *format, ...)
{
	va_list args;

	if (w->violation[0])
		return;
	va_start(args, format);
	vsnprintf(w->violation, sizeof(w->violation), format, args);
	va_end(args);
}

void sim_trace(struct sim_world *w, const char *format, ...)
{
	va_list args;

	if (!w->trace)
		return;
	printf("%10.3f us  ", (double)w->now / 1e3);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_at(struct sim_world *w, uint64_t at, enum sim_type type, uint8_t end, uint32_t i,
	    uint64_t n)
{
	struct sim_event e = {
		.at = at, .order = w->order++, .type = type, .end = end, .i = i, .n = n
	};
	uint32_t k = w->heap_n;

	if (k == SIM_EVENTS) {
		sim_violation(w, "S9: more events than there can be");
		return;
	}
	w->heap_n++;
	for (; k && before(&e, &w->heap[(k - 1) / 2]); k = (k - 1) / 2)
		w->heap[k] = w->heap[(k - 1) / 2];
	w->heap[k] = e;
}

static struct sim_event next(struct sim_world *w)
{
	struct sim_event first = w->heap[0], last = w->heap[--w->heap_n];
	uint32_t k = 0, child;

	while ((child = 2 * k + 1) < w->heap_n) {
		if (child + 1 < w->heap_n && before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!before(&w->heap[child], &last))
			break;
		w->heap[k] = w->heap[child];
		k = child;
	}
	w->heap[k] = last;
	return first;
}

static void datagram(struct sim_world *w, uint8_t end, uint32_t i)
{
	static _Thread_local struct sdr_ctrl c;
	struct sim_datagram *d = &w->datagrams[i];

	d->used = false;
	if (sdr_ctrl_read(&c, d->bytes, d->size))
		sim_violation(w, "S9: a control message that cannot be read");
	else
		sim_hear(w, end, &c);
}

static void act(struct sim_world *w, const struct sim_event *e)
{
	switch (e->type) {
	case SIM_EV_TICK: sim_tick(w, e->end); break;
	case SIM_EV_INJECT: sim_inject(w); break;
	case SIM_EV_PACKET: sim_packet_arrives(w, e->i); break;
	case SIM_EV_PAYLOAD: sim_payload_arrives(w, e->i); break;
	case SIM_EV_POLL: sim_poll(w); break;
	case SIM_EV_DATAGRAM: datagram(w, e->end, e->i); break;
	case SIM_EV_BOUND: sim_bound(w, e->n); break;
	case SIM_EV_UNBOUND: sim_nic_unbound(w, e->n); break;
	case SIM_EV_DECODED: sim_write_decoded(w, e->n, e->i); break;
	case SIM_EV_COMPLETE: sim_complete(w, e->n); break;
	case SIM_EV_HEAL:
		/* A queue that is always too short is a fault, too: what comes first starves the rest. */
		w->cfg.rq_depth = SIM_CQES;
		w->healed = true;
		break;
	}
}

/* ---- what a seed decides --------------------------------------------------------------------- */

static uint32_t pick(struct sim_world *w, const uint32_t *list, uint32_t n)
{
	return list[sim_random(w, n)];
}

static void draw_faults(struct sim_world *w)
{
	static const uint32_t losses[] = { 0, 1, 10, 50, 200 };
	static const uint32_t others[] = { 0, 0, 20, 200 };
	struct sim_config *c = &w->cfg;

	c->loss = pick(w, losses, 5);
	c->ctrl_loss = pick(w, losses, 5);
	c->burst = sim_chance(w, 300) ? 1 + (uint32_t)sim_random(w, 8) : 0;
	c->duplicate = pick(w, others, 4);
	c->duplicates = c->duplicate > 0;
	c->reorder = pick(w, others, 4);
	c->late = pick(w, others, 4) / 2;
	c->early = c->rel ? 0 : pick(w, others, 4) * 2;
	c->rq_depth = sim_chance(w, 100) ? 4 + (uint32_t)sim_random(w, 16) : SIM_CQES;
}

static void draw_times(struct sim_world *w)
{
	struct sim_config *c = &w->cfg;

	c->delay = 50 * SIM_US + sim_random(w, 2 * SIM_MS);
	c->jitter = sim_random(w, c->delay);
	c->lifetime = c->delay + c->jitter + 1 + sim_random(w, 6 * c->delay);
	c->inject = SIM_US + sim_random(w, c->delay / 20);
	c->tick = c->delay / 8 + sim_random(w, c->delay / 4);
	c->fto = sim_random(w, 3) * c->delay;
	c->bind = 1 + sim_random(w, c->delay);
	c->poll = SIM_US + sim_random(w, sim_chance(w, 200) ? c->delay : c->delay / 20);
	/* Some Writes are to fail: too little time, or no end of faults. */
	c->heals = sim_chance(w, 850);
	c->deadline = c->heals ? 40000 * c->delay : c->delay + sim_random(w, 60 * c->delay);
	c->heal_at = sim_random(w, 400 * c->delay);
}

static void draw_writes(struct sim_world *w, uint32_t chunk_shift)
{
	struct sim_config *c = &w->cfg;
	uint32_t most = sim_chance(w, 500) ? SIM_PACKETS : 12;

	c->kind = (enum sdr_scheme_kind)sim_random(w, 4);
	c->code = (enum sdr_code_kind)sim_random(w, 2);
	c->k = 1 + (uint32_t)sim_random(w, sim_chance(w, 300) ? 2 : 12);
	c->m = 1 + (uint32_t)sim_random(w, c->k < 6 ? c->k : 6);
	for (uint32_t i = 0; i < SIM_MESSAGES; i++) {
		struct sim_write *x = &w->writes[i];

		x->tx_result = x->rx_result = 1;
		x->packets = 1 + (uint32_t)sim_random(w, most);
		x->recv_packets = x->packets;
		if (sim_chance(w, 200))
			x->recv_packets += (uint32_t)sim_random(w, SIM_PACKETS + 1 - x->packets);
		x->chunks = (x->packets + (1u << chunk_shift) - 1) >> chunk_shift;
		x->imm = (uint32_t)sim_random(w, 1ull << 32);
		x->parity = (x->chunks * c->m + c->k - 1) / c->k;
		w->buffer_of[i] = -1;
	}
}

/* Of a Write's second message: what the first says, and room for its parity. */
static void draw_parities(struct sim_world *w)
{
	for (uint32_t i = 1; i < SIM_MESSAGES && w->cfg.rel; i += 2) {
		w->writes[i].packets = w->writes[i - 1].parity << w->ends[0].core.attr.chunk_shift;
		w->writes[i].chunks = w->writes[i - 1].parity;
		w->writes[i].tx_result = w->writes[i].rx_result = 0;
	}
}

static bool draw(struct sim_world *w)
{
	static const uint32_t slots[] = { 4, 8, 16 }, generations[] = { 1, 2, 4 };
	struct sdr_core_attr a = { .id_bits = 10, .offset_bits = 18, .packet = 1 };
	struct sim_config *c = &w->cfg;

	c->rel = sim_chance(w, 600);
	c->window = sim_chance(w, 500);
	a.slots = pick(w, slots, 3);
	a.generations = pick(w, generations, 3);
	if (sim_chance(w, 200)) {
		a.id_bits = 8;
		a.offset_bits = 22;
	}
	a.chunk_shift = (uint8_t)sim_random(w, 4);
	a.max_packets = SIM_PACKETS << 3;
	c->open = a.slots == 4 ? 1 + (uint32_t)sim_random(w, 2)
			       : 1 + (uint32_t)sim_random(w, SIM_OPEN);
	c->writes = c->rel ? 2 + (uint32_t)sim_random(w, SIM_WRITES - 1)
			   : 2 + (uint32_t)sim_random(w, SIM_MESSAGES - 1);
	draw_faults(w);
	draw_times(w);
	draw_writes(w, a.chunk_shift);
	a.lifetime_ns = c->lifetime + 32 * c->inject; /* what waits for the line counts, too */
	a.repeat_ns = 2 * c->delay;
	a.duplicates = c->duplicates;
	a.max_packets = SIM_PACKETS;
	for (int i = 0; i < 2; i++)
		if (sdr_core_init(&w->ends[i].core, &a, w->ends[i].slots, w->ends[i].sends,
				  w->ends[i].words))
			return false;
	draw_parities(w);
	return true;
}

static void begin(struct sim_world *w, uint64_t seed, bool trace)
{
	struct sim_counts *counts = w->counts;

	memset(w, 0, sizeof(*w));
	w->counts = counts;
	w->seed = seed;
	w->random = seed * 0x2545f4914f6cdd1dull + 1;
	w->trace = trace;
	for (uint32_t i = 0; i < SIM_KEYS; i++)
		w->keys[i] = -1;
	if (!draw(w)) {
		sim_violation(w, "S9: attributes that make no sense");
		return;
	}
	sim_trace(w, "%s, %u writes, %u slots, %u generations, %s, kind %d code %d (%u,%u)",
		  w->cfg.window ? "windows" : "root", w->cfg.writes, w->ends[0].core.attr.slots,
		  w->ends[0].core.attr.generations, w->cfg.rel ? "rel" : "messages", w->cfg.kind,
		  w->cfg.code, w->cfg.k, w->cfg.m);
	sim_at(w, 1, SIM_EV_TICK, 0, 0, 0);
	sim_at(w, 2, SIM_EV_TICK, 1, 0, 0);
	sim_at(w, w->cfg.heal_at, SIM_EV_HEAL, 0, 0, 0);
}

/* S9: when all is over, both ends fall silent. */
static void wait_for_silence(struct sim_world *w)
{
	uint64_t round = 4 * w->cfg.delay + 4 * w->cfg.tick + 2 * w->cfg.bind + w->cfg.lifetime;
	uint64_t silent = w->now + 12 * round, end = silent + 4 * round, said = 0;
	struct sim_event e;

	w->healed = true;
	while (!w->violation[0] && w->now < end) {
		if (w->now < silent)
			said = w->counts->datagrams;
		e = next(w);
		w->now = e.at;
		act(w, &e);
	}
	if (w->counts->datagrams != said)
		sim_violation(w, "S9: %llu control messages though all is over",
			      (unsigned long long)(w->counts->datagrams - said));
}

void sim_run(struct sim_world *w, uint64_t seed, bool trace)
{
	struct sim_event e;

	begin(w, seed, trace);
	while (!w->violation[0] && !sim_writes_over(w)) {
		if (++w->steps > SIM_STEPS) {
			sim_violation(w, "S8: %u events, and it does not come to rest", SIM_STEPS);
			break;
		}
		e = next(w);
		w->now = e.at;
		act(w, &e);
	}
	w->counts->steps += w->steps;
	w->counts->schedules++;
	if (!w->violation[0])
		sim_writes_judge(w);
	if (!w->violation[0])
		wait_for_silence(w);
}
