/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_rate_sim [--seeds N] [--seed S] [--case CASE] [--trace CASE]
 *
 * Senders that share one link, packet by packet in virtual time: those whose rate is
 * sdr/rel/rate.c's, and flows that do as TCP Reno. The link has one queue, which drops what finds
 * no room. Rate, round trip, the queue's length, random losses and how late hosts look are drawn.
 * A failure prints its seed:
 *
 *	R1 alone a sender uses 0.9 of the link at least, also where packets get lost at random
 *	R2 beside a flow of TCP neither has more than twice as much as the other
 *	R3 nor beside another sender of its kind that came ten seconds later
 *
 * --case plays one case alone (alone, tcp, self).
 * --trace prints lines of "second flow rate queue" of one case, for a figure.
 */
#include "sdr/rel/rate.h"
#include "sdr/tests/sim/draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS     1000000ull
#define SECOND (1000 * MS)

enum { PACKET = 4096, EVENTS = 1 << 17, FLOWS = 2, PROBES = 8, TRACES = 240 };
enum kind { ALONE, BESIDE_TCP, BESIDE_ITSELF, KINDS };
enum type { LEAVES, COMES_BACK, IS_LOST };

static const char *const names[KINDS] = { "alone", "tcp", "self" };

struct event {
	uint64_t at, order, sent_at, queue_ns;
	enum type type;
	uint32_t flow;
	bool probe;
};

struct flow {
	bool tcp, begun;
	struct sdr_rate rate;
	uint64_t probe_at, moved; /* moved: packets that arrived after the warm-up */
	uint64_t all, told;	  /* arrived in all, and by the last line of a trace */
	/* Reno */
	bool starts;
	double window;
	uint32_t under_way;
	uint64_t recovered_at;
};

static struct {
	uint64_t random, now, order, service_ns, rtt_ns, room, free_at, end_at, warm_at, noise_ns;
	double loss;
	uint32_t n_flows, n;
	struct flow flows[FLOWS];
	struct event heap[EVENTS];
	uint64_t trace_at;
	bool trace;
} w;

static uint64_t draw(uint64_t below)
{
	return sim_draw(&w.random, below);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct event e)
{
	uint32_t i = w.n++;

	if (w.n > EVENTS)
		abort();
	e.order = w.order++;
	for (; i && before(&e, &w.heap[(i - 1) / 2]); i = (i - 1) / 2)
		w.heap[i] = w.heap[(i - 1) / 2];
	w.heap[i] = e;
}

static struct event pop(void)
{
	struct event first = w.heap[0], last = w.heap[--w.n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w.n) {
		if (child + 1 < w.n && before(&w.heap[child + 1], &w.heap[child]))
			child++;
		if (!before(&w.heap[child], &last))
			break;
		w.heap[i] = w.heap[child];
		i = child;
	}
	w.heap[i] = last;
	return first;
}

/* ---- the link -------------------------------------------------------------------------------- */

static uint64_t queue_ns(void)
{
	return w.free_at > w.now ? w.free_at - w.now : 0;
}

static void send_packet(uint32_t flow, bool probe)
{
	struct event e = { .type = COMES_BACK,
			   .flow = flow,
			   .probe = probe,
			   .sent_at = w.now,
			   .queue_ns = queue_ns() };

	e.at = w.now + e.queue_ns + w.service_ns + w.rtt_ns;
	if (e.queue_ns >= w.room * w.service_ns)
		e.type = IS_LOST;
	else
		w.free_at = w.now + e.queue_ns + w.service_ns;
	if ((double)draw(1 << 30) < w.loss * (1 << 30))
		e.type = IS_LOST;
	push(e);
}

/* ---- senders --------------------------------------------------------------------------------- */

static void next_leaves(uint32_t i)
{
	uint64_t bps = sdr_rate_bps(&w.flows[i].rate);

	push((struct event){
		.at = w.now + (uint64_t)(PACKET * 8e9 / (double)bps), .type = LEAVES, .flow = i });
}

static void tcp_leaves(uint32_t i)
{
	struct flow *f = &w.flows[i];

	while (f->under_way < f->window) {
		f->under_way++;
		send_packet(i, false);
	}
}

static void leaves(uint32_t i)
{
	struct flow *f = &w.flows[i];
	bool probe = w.now >= f->probe_at;

	f->begun = true;
	if (f->tcp) {
		tcp_leaves(i);
		return;
	}
	if (probe)
		f->probe_at = w.now + w.rtt_ns / PROBES;
	send_packet(i, probe);
	sdr_rate_sent(&f->rate, 1);
	sdr_rate_tick(&f->rate, w.now);
	next_leaves(i);
}

static void tcp_comes_back(struct flow *f)
{
	f->under_way--;
	f->window += f->starts ? 1 : 1 / f->window;
}

static void comes_back(const struct event *e)
{
	struct flow *f = &w.flows[e->flow];
	uint64_t late = draw(w.noise_ns + 1);

	f->all++;
	f->moved += w.now >= w.warm_at;
	if (f->tcp)
		tcp_comes_back(f);
	else if (e->probe)
		sdr_rate_heard(&f->rate, w.now - e->sent_at + late,
			       (uint32_t)((e->queue_ns + late) / 1000 + 4000000000u), w.now);
	if (f->tcp)
		tcp_leaves(e->flow);
}

static void is_lost(const struct event *e)
{
	struct flow *f = &w.flows[e->flow];

	if (!f->tcp) {
		sdr_rate_lost(&f->rate, 1);
		return;
	}
	f->under_way--;
	f->starts = false;
	if (e->sent_at >= f->recovered_at) {
		f->window = f->window > 4 ? f->window / 2 : 2;
		f->recovered_at = w.now;
	}
	tcp_leaves(e->flow);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void trace(void)
{
	uint64_t step = w.end_at / TRACES;

	if (!w.trace || w.now < w.trace_at)
		return;
	w.trace_at = w.now + step;
	for (uint32_t i = 0; i < w.n_flows; i++) {
		struct flow *f = &w.flows[i];

		printf("%.3f %u %.3f %.3f\n", (double)w.now / 1e9, i,
		       (double)(f->all - f->told) * (double)w.service_ns / (double)step,
		       (double)queue_ns() / 1e6);
		f->told = f->all;
	}
}

static void run(void)
{
	struct event e;

	while (w.n) {
		e = pop();
		w.now = e.at;
		if (w.now >= w.end_at)
			return;
		trace();
		switch (e.type) {
		case LEAVES: leaves(e.flow); break;
		case COMES_BACK: comes_back(&e); break;
		case IS_LOST: is_lost(&e); break;
		}
	}
}

static void begin(enum kind kind, uint64_t seed)
{
	static const uint64_t mbps[] = { 50, 100, 200, 400 }, ms[] = { 5, 10, 25, 50, 100 };
	static const double losses[] = { 0, 1e-4, 1e-3, 1e-2 };
	double under_way;

	memset(&w, 0, sizeof(w));
	w.random = seed * KINDS + kind + 1;
	w.service_ns = PACKET * 8000 / mbps[draw(4)];
	w.rtt_ns = ms[draw(5)] * MS;
	under_way = (double)w.rtt_ns / (double)w.service_ns;
	w.room = (uint64_t)(under_way * (0.5 + (double)draw(100) / 66)) + 8; /* 0.5 to 2 */
	w.loss = kind == ALONE ? losses[draw(4)] : 0;
	w.noise_ns = draw(2) ? draw(w.rtt_ns / 20) : 0;
	w.n_flows = kind == ALONE ? 1 : 2;
	/* Flows that grow by a packet in a round trip take as many round trips as packets fit. */
	w.warm_at = kind == ALONE ? 10 * SECOND
				  : 60 * SECOND + (uint64_t)(3 * under_way * (double)w.rtt_ns);
	w.end_at = kind == ALONE ? 60 * SECOND : 2 * w.warm_at + 120 * SECOND;
	for (uint32_t i = 0; i < w.n_flows; i++) {
		struct flow *f = &w.flows[i];

		f->tcp = kind == BESIDE_TCP && i;
		f->starts = true;
		f->window = 10;
		sdr_rate_init(&f->rate, PACKET, 10 * MS, 0);
		push((struct event){ .at = 1 + i * 10 * SECOND, .type = LEAVES, .flow = i });
	}
}

static double used(uint32_t flow)
{
	return (double)w.flows[flow].moved * (double)w.service_ns / (double)(w.end_at - w.warm_at);
}

static bool is_right(enum kind kind, uint64_t seed)
{
	double a = used(0), b = used(1), ratio = b > 0 ? a / b : 0;
	bool right = kind == ALONE ? a >= 0.9 : ratio >= 0.5 && ratio <= 2;

	if (right && !getenv("SDR_RATE_ALL"))
		return true;
	printf("seed %llu, R%d (%s): %.0f Mbit/s, %llu ms, a queue of %.2f ms, loss %g, hosts late "
	       "by %.2f ms: %.3f%s%.3f\n",
	       (unsigned long long)seed, kind + 1, names[kind], PACKET * 8e3 / (double)w.service_ns,
	       (unsigned long long)(w.rtt_ns / MS), (double)(w.room * w.service_ns) / 1e6, w.loss,
	       (double)w.noise_ns / 1e6, a, kind == ALONE ? " of the link, " : " beside ", b);
	return right;
}

int main(int argc, char **argv)
{
	uint64_t seeds = 8, seed = (uint64_t)time(NULL) * 1000, failed = 0;
	double least[KINDS] = { 9, 9, 9 }, most[KINDS] = { 0 };
	const char *only = NULL, *traced = NULL;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seeds"))
			seeds = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--case"))
			only = argv[i + 1];
		else if (!strcmp(argv[i], "--trace"))
			only = traced = argv[i + 1];
		else
			return 2;
	}
	if (!traced)
		printf("first seed %llu\n", (unsigned long long)seed);
	for (uint64_t s = seed; s < seed + seeds; s++)
		for (enum kind k = ALONE; k < KINDS; k++) {
			double got;

			if (only && strcmp(only, names[k]))
				continue;
			begin(k, s);
			w.trace = traced;
			run();
			failed += !traced && !is_right(k, s);
			got = k == ALONE ? used(0) : used(0) / used(1);
			least[k] = got < least[k] ? got : least[k];
			most[k] = got > most[k] ? got : most[k];
		}
	for (enum kind k = ALONE; k < KINDS && !traced; k++)
		if (!only || !strcmp(only, names[k]))
			printf("%s: %.3f to %.3f\n", names[k], least[k], most[k]);
	return failed ? 1 : 0;
}
