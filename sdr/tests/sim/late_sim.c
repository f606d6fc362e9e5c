/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_late_sim [--seeds N] [--seed S]
 *
 * A sender that finds its rate, its Writes and their receiver, where both programs lose their
 * processors again and again: what comes meanwhile is read late, and nothing leaves. The Writes'
 * rules are sdr/rel's own, with pauses as sdr/rel/pause.c sees them. Only the link, which has one
 * queue, is here. Link, losses and pauses are drawn. A failure prints its seed:
 *
 *	R4 the sender has at least half of what one has whose rate is set to the link's
 */
#include "sdr/rel/pause.h"
#include "sdr/rel/rate.h"
#include "sdr/rel/rel.h"
#include "sdr/tests/sim/draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS   1000000ull
#define STEP 20000ull
#define TICK 100000ull
#define END  (30000 * MS)
#define PART 0.5

enum { PACKET = 4096, CHUNKS = 256, WORDS = CHUNKS / SDR_WORD, PARITY = 64, OPEN = 4 };
enum { FIFO = 1 << 15, PROBES = 8, LATE_MOST = 64 };
enum type { DATA, CODE, OFFER, PROBE, QUESTION, ACK, DONE, ANSWER };

struct message {
	enum type type;
	uint64_t at, sent_at, write;
	uint32_t chunk, delay_us;
	struct sdr_plan plan;
	struct sdr_ack ack;
	uint64_t have[WORDS], wanted[WORDS];
};

struct way {
	struct message list[FIFO];
	uint32_t first, n;
};

struct host {
	struct sdr_pause pause;
	uint64_t sleeps_at, wakes_at;
};

static struct way there, back;

static struct {
	uint64_t random, now, service_ns, rtt_ns, room_ns, free_at, awake_ns, asleep_ns;
	double loss;
	bool set; /* the rate is set to the link's */
	struct host sender, receiver;
	/* the sender */
	struct sdr_rate rate;
	uint64_t pace_at, ask_at, tick_at, least_rtt_ns, next_write, moved;
	bool asks;
	struct sdr_tx tx[OPEN];
	uint64_t acked[OPEN][WORDS], wanted[OPEN][WORDS];
	uint32_t left_at[OPEN][CHUNKS], turn;
	/* the receiver */
	struct sdr_rx rx[OPEN];
	_Atomic uint64_t data[OPEN][WORDS], parity[OPEN][PARITY / SDR_WORD];
	uint64_t have[OPEN][WORDS], have_parity[OPEN][PARITY / SDR_WORD], want[OPEN][WORDS];
	uint32_t asked[OPEN][CHUNKS], skipped;
	struct sdr_sub subs[OPEN][CHUNKS];
} w;

static uint64_t draw(uint64_t below)
{
	return sim_draw(&w.random, below);
}

/* ---- ways and processors --------------------------------------------------------------------- */

static struct message *push(struct way *way, enum type type, uint64_t write, uint64_t at)
{
	struct message *m = &way->list[(way->first + way->n++) % FIFO];

	if (way->n > FIFO)
		abort();
	memset(m, 0, offsetof(struct message, plan));
	m->type = type;
	m->write = write;
	m->sent_at = w.now;
	m->at = at;
	return m;
}

/* Returns the message that has come first; NULL: none is there yet. */
static struct message *pop(struct way *way)
{
	struct message *m = &way->list[way->first % FIFO];

	if (!way->n || m->at > w.now)
		return NULL;
	way->first++;
	way->n--;
	return m;
}

/* Sends by the link's queue; control messages wait in it, but are not lost. */
static struct message *send(enum type type, uint64_t write)
{
	uint64_t queue = w.free_at > w.now ? w.free_at - w.now : 0;
	bool packet = type == DATA || type == CODE;

	if (packet && (queue >= w.room_ns || (double)draw(1 << 30) < w.loss * (1 << 30)))
		return NULL;
	if (packet)
		w.free_at = w.now + queue + w.service_ns;
	return push(&there, type, write, w.now + queue + w.service_ns + w.rtt_ns / 2);
}

static bool is_awake(struct host *h)
{
	if (w.now < h->wakes_at)
		return false;
	if (w.now >= h->sleeps_at) {
		h->wakes_at = w.now + draw(w.asleep_ns);
		h->sleeps_at = h->wakes_at + w.awake_ns / 4 + draw(w.awake_ns);
		return w.now >= h->wakes_at;
	}
	return true;
}

/* ---- the receiver ---------------------------------------------------------------------------- */

static void begin_receive(const struct message *m)
{
	uint32_t i = (uint32_t)(m->write % OPEN);
	const struct sdr_rx_memory memory = { w.have[i], w.have_parity[i], w.want[i], w.asked[i],
					      w.subs[i] };

	memset((void *)w.data[i], 0, sizeof(w.data[i]));
	memset((void *)w.parity[i], 0, sizeof(w.parity[i]));
	sdr_rx_init(&w.rx[i], m->write, CHUNKS, PARITY, &memory, UINT64_MAX);
	sdr_rx_bits(&w.rx[i], w.data[i], w.parity[i]);
}

static void answer(const struct message *m)
{
	bool late = sdr_pause_is(&w.receiver.pause, sdr_rate_target(w.rtt_ns) / 2);
	struct message *out = push(&back, ANSWER, 0, w.now + w.rtt_ns / 2);

	if (!late)
		w.skipped = 0;
	out->sent_at = late && w.skipped++ < LATE_MOST ? 0 : m->sent_at;
	out->delay_us = (uint32_t)((w.now - m->sent_at) / 1000);
}

static void receiver_hears(const struct message *m)
{
	uint32_t i = (uint32_t)(m->write % OPEN);
	struct sdr_rx *r = &w.rx[i];

	if (m->type == QUESTION) {
		answer(m);
		return;
	}
	if (m->type == OFFER && (r->write < m->write || !r->have))
		begin_receive(m);
	if (r->write != m->write)
		return;
	if (m->type == OFFER)
		sdr_rx_offer(r, &m->plan, w.now);
	else if (m->type == PROBE)
		sdr_rx_probe(r, w.now);
	else
		(m->type == DATA ? w.data[i] : w.parity[i])[m->chunk / SDR_WORD] |=
			1ull << m->chunk % SDR_WORD;
}

static void receiver_says(struct sdr_rx *r, const struct sdr_rel_action *a)
{
	struct message *m;

	if (a->say == SDR_SAY_DECODE) {
		sdr_rx_decoded(r, a->n, w.now);
		return;
	}
	m = push(&back, a->say == SDR_SAY_ACK ? ACK : DONE, r->write, w.now + w.rtt_ns / 2);
	m->chunk = r->decoded;
	if (a->say != SDR_SAY_ACK)
		return;
	m->ack = sdr_rx_ack(r, a);
	memcpy(m->have, m->ack.have, sdr_words(m->ack.nbits) * sizeof(*m->have));
	memcpy(m->wanted, m->ack.wanted, sdr_words(m->ack.nbits) * sizeof(*m->wanted));
	m->ack.have = m->have;
	m->ack.wanted = m->wanted;
}

static void run_receiver(void)
{
	struct sdr_rel_actions a;
	const struct message *m;

	sdr_pause_note(&w.receiver.pause, w.now);
	while ((m = pop(&there)))
		receiver_hears(m);
	for (uint32_t i = 0; i < OPEN; i++) {
		if (!w.rx[i].have)
			continue;
		sdr_rx_poll(&w.rx[i], w.now, &a);
		for (uint32_t k = 0; k < a.n; k++)
			receiver_says(&w.rx[i], &a.list[k]);
	}
}

/* ---- the sender ------------------------------------------------------------------------------ */

static uint64_t rate_bps(void)
{
	return w.set ? PACKET * 8000000000ull / w.service_ns : sdr_rate_bps(&w.rate);
}

static void begin_write(void)
{
	struct sdr_plan p = { .kind = w.next_write % 2 ? SDR_SCHEME_NACK : SDR_SCHEME_HYBRID,
			      .chunks = CHUNKS,
			      .k = 32,
			      .m = 4,
			      .bytes = 1 };
	uint32_t i = (uint32_t)(w.next_write % OPEN);

	p.inject_ns = (uint64_t)(PACKET * 8e9 / (double)rate_bps()) + 1;
	p.rtt_ns = w.rtt_ns;
	p.reorder_ns = w.rtt_ns / 8 + MS / 2;
	p.rto_ns = 2 * w.rtt_ns + 5 * MS;
	p.fto_ns = p.rtt_ns / 2 + p.reorder_ns;
	sdr_plan_lay(&p, 1.25);
	if (sdr_tx_init(&w.tx[i], w.next_write++, &p, w.acked[i], w.wanted[i], w.left_at[i],
			UINT64_MAX))
		abort();
	sdr_tx_allow(&w.tx[i], w.now);
}

static void take_time(const struct message *m)
{
	uint64_t rtt = w.now - m->sent_at;

	if (!m->sent_at) {
		sdr_rate_alive(&w.rate);
		return;
	}
	if (!w.least_rtt_ns || rtt < w.least_rtt_ns)
		w.least_rtt_ns = rtt;
	sdr_rate_heard(&w.rate, rtt, m->delay_us, w.now);
}

static void sender_hears(const struct message *m)
{
	struct sdr_tx *t = &w.tx[m->write % OPEN];
	uint32_t wanted = t->n_wanted;

	if (m->type == ANSWER) {
		take_time(m);
		return;
	}
	if (m->write != t->write)
		return;
	t->least_rtt_ns = w.least_rtt_ns ? w.least_rtt_ns + w.sender.pause.last_ns : 0;
	if (m->type == ACK)
		sdr_tx_ack(t, &m->ack, w.now);
	if (t->n_wanted > wanted)
		sdr_rate_lost(&w.rate, t->n_wanted - wanted);
	if (m->type != DONE)
		return;
	sdr_rate_restored(&w.rate, m->chunk, CHUNKS);
	w.moved += CHUNKS;
	begin_write();
}

static bool inject(struct sdr_tx *t)
{
	struct sdr_range range;
	struct message *m;

	if (!sdr_tx_next(t, w.set ? 32 : sdr_rate_burst(&w.rate), w.now, &range))
		return false;
	for (uint32_t i = 0; i < range.count; i++) {
		m = send(range.parity ? CODE : DATA, t->write);
		if (m)
			m->chunk = range.first + i;
	}
	w.pace_at += (uint64_t)(range.count * PACKET * 8e9 / (double)rate_bps());
	sdr_rate_sent(&w.rate, range.count);
	w.asks = true;
	return true;
}

static void tick_sender(void)
{
	struct sdr_rel_actions a;

	if (w.now < w.tick_at)
		return;
	w.tick_at = w.now + TICK;
	for (uint32_t i = 0; i < OPEN; i++) {
		sdr_tx_tick(&w.tx[i], w.now, &a);
		for (uint32_t k = 0; k < a.n; k++)
			send(a.list[k].say == SDR_SAY_OFFER ? OFFER : PROBE, w.tx[i].write)->plan =
				w.tx[i].plan;
	}
	sdr_rate_tick(&w.rate, w.now);
	if (!w.asks || w.now < w.ask_at)
		return;
	send(QUESTION, 0);
	w.asks = false;
	w.ask_at = w.now + w.rate.rtt_ns / PROBES;
}

static void run_sender(void)
{
	const struct message *m;
	bool any = true;

	sdr_pause_note(&w.sender.pause, w.now);
	while ((m = pop(&back)))
		sender_hears(m);
	tick_sender(); /* a question waits behind no packets that leave with it */
	if (w.pace_at + w.rtt_ns / 4 < w.now)
		w.pace_at = w.now - w.rtt_ns / 4;
	while (any && w.pace_at <= w.now) {
		any = false;
		for (uint32_t i = 0; i < OPEN && w.pace_at <= w.now; i++)
			any |= inject(&w.tx[w.turn++ % OPEN]);
	}
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void begin(uint64_t seed, bool set)
{
	static const uint64_t mbps[] = { 50, 100, 200, 400 }, ms[] = { 10, 25, 50 };
	static const double losses[] = { 0, 0, 1e-3, 1e-2 };

	memset(&w, 0, sizeof(w));
	there.first = there.n = back.first = back.n = 0;
	w.random = seed + 1;
	w.set = set;
	w.now = STEP;
	w.service_ns = PACKET * 8000 / mbps[draw(4)];
	w.rtt_ns = ms[draw(3)] * MS;
	w.room_ns = w.rtt_ns / 2 + draw(w.rtt_ns);
	w.loss = losses[draw(4)];
	w.awake_ns = MS + draw(10 * MS);
	w.asleep_ns = 2 * MS + draw(40 * MS);
	sdr_rate_init(&w.rate, PACKET, 10 * MS, w.now);
	for (uint32_t i = 0; i < OPEN; i++)
		begin_write();
}

static double run(void)
{
	for (; w.now < END; w.now += STEP) {
		if (is_awake(&w.sender))
			run_sender();
		if (is_awake(&w.receiver))
			run_receiver();
	}
	return (double)w.moved * (double)w.service_ns / END;
}

static bool is_right(uint64_t seed)
{
	double set, found;

	begin(seed, true);
	set = run();
	begin(seed, false);
	found = run();
	if (found >= PART * set && !getenv("SDR_RATE_ALL"))
		return true;
	printf("seed %llu, R4: %.0f Mbit/s, %llu ms, a queue of %.2f ms, loss %g, awake for %.1f "
	       "ms, "
	       "asleep for up to %.1f ms: %.3f of the link, %.3f where the rate is set\n",
	       (unsigned long long)seed, PACKET * 8e3 / (double)w.service_ns,
	       (unsigned long long)(w.rtt_ns / MS), (double)w.room_ns / 1e6, w.loss,
	       (double)w.awake_ns / 1e6, (double)w.asleep_ns / 1e6, found, set);
	return found >= PART * set;
}

int main(int argc, char **argv)
{
	uint64_t seeds = 8, seed = (uint64_t)time(NULL) * 1000, failed = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seeds"))
			seeds = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else
			return 2;
	}
	printf("first seed %llu\n", (unsigned long long)seed);
	for (uint64_t s = seed; s < seed + seeds; s++)
		failed += !is_right(s);
	printf("%llu links, %llu below\n", (unsigned long long)seeds, (unsigned long long)failed);
	return failed ? 1 : 0;
}
