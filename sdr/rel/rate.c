/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sdr/rel/rate.h"

#include <string.h>

#define SPAN_NS	   10000000000ull /* routes and clocks change: older delays are forgotten */
#define TARGET_MIN 500000ull	  /* ns; what hosts add to a delay is no queue */
#define TARGET_MAX 10000000ull
#define FORGET	   0.999 /* part of the longest queue that is left after a round */
#define MUCH_LOST  0.05
#define LATELY	   0.75	 /* part of older rounds' packets that still counts after a round */
#define GROWTH	   0.125 /* Compound TCP's alpha; the exponent is 3/4 */
#define FULL	   0.75	 /* parts of a queue */
#define FALLEN	   0.75
#define SHRINK_MIN 0.5
#define SHRINK_MAX 0.8
#define FALL_MAX   0.95

enum { FIRST_PACKETS = 32, LEAST_PACKETS = 2, SILENT_ROUNDS = 3, TARGET_PART = 8, MANY = 4 };
enum { BURSTS = 64 /* in a window */, LEAST_BURST = 2, MOST_BURST = 1024 };
enum { MOST_ROUNDS = 4 };

void sdr_rate_init(struct sdr_rate *r, uint32_t packet, uint64_t rtt_ns, uint64_t now)
{
	memset(r, 0, sizeof(*r));
	r->packet = packet;
	r->starts = true;
	r->slow = (double)packet * FIRST_PACKETS;
	r->rtt_ns = rtt_ns;
	r->round_at = r->span_at = now;
}

void sdr_rate_sent(struct sdr_rate *r, uint32_t packets)
{
	r->round_sent += packets;
	r->sent += packets;
}

void sdr_rate_lost(struct sdr_rate *r, uint32_t packets)
{
	r->lost += packets;
}

void sdr_rate_restored(struct sdr_rate *r, uint32_t packets, uint32_t of)
{
	r->lost += packets;
	if ((double)packets <= MUCH_LOST * of)
		r->few += packets;
}

void sdr_rate_alive(struct sdr_rate *r)
{
	r->heard = true;
}

/* A span begins: the least delay of the one before it still counts. */
static void next_span(struct sdr_rate *r, int64_t delay_us, uint64_t now)
{
	r->least_us = r->newer_us;
	r->newer_us = delay_us;
	r->span_at = now;
}

void sdr_rate_heard(struct sdr_rate *r, uint64_t rtt_ns, uint32_t delay_us, uint64_t now)
{
	int64_t delay;

	if (!r->known) {
		r->first_us = delay_us;
		r->rtt_ns = rtt_ns;
		r->known = true;
		r->span_at = now;
	}
	delay = (int32_t)(delay_us - r->first_us);
	if (rtt_ns < r->rtt_ns)
		r->rtt_ns = rtt_ns;
	if (now >= r->span_at + SPAN_NS)
		next_span(r, delay, now);
	if (delay < r->newer_us)
		r->newer_us = delay;
	if (delay < r->least_us)
		r->least_us = delay;
	r->last_us[0] = r->last_us[1];
	r->last_us[1] = delay;
	r->heard = true;
	if (!r->samples++ || delay < r->round_least_us)
		r->round_least_us = delay;
}

/* ---- the window ------------------------------------------------------------------------------ */

static double window(const struct sdr_rate *r)
{
	return r->slow + r->fast;
}

uint64_t sdr_rate_target(uint64_t rtt_ns)
{
	uint64_t t = rtt_ns / TARGET_PART;

	return t < TARGET_MIN ? TARGET_MIN : t > TARGET_MAX ? TARGET_MAX : t;
}

static double target(const struct sdr_rate *r)
{
	return (double)sdr_rate_target(r->rtt_ns);
}

static void set_window(struct sdr_rate *r, double to)
{
	double least = (double)r->packet * LEAST_PACKETS;

	if (to < least)
		to = least;
	r->slow = r->slow < to ? r->slow : to;
	r->fast = to - r->slow;
}

/* Returns a number of packets to the power of 3/4. */
static double power(double packets)
{
	double root = packets > 1 ? packets : 1, x = root, y;

	for (int i = 0; i < 24; i++) /* Newton: the square root */
		x = (x + root / x) / 2;
	y = x;
	for (int i = 0; i < 24; i++)
		y = (y + x / y) / 2;
	return x * y;
}

/* A sender that had less to send than it may send learns nothing of the link. */
static bool is_used(const struct sdr_rate *r)
{
	return (double)r->sent * r->packet > window(r) / 2 * r->rounds;
}

/*
 * A small message that loses one of three packets says little, and would not grow again. Losses are
 * told a round trip or more after the packets left.
 */
static bool is_much_lost(const struct sdr_rate *r)
{
	return r->lost - r->few >= MANY &&
	       r->lost_lately > MUCH_LOST * (r->sent_lately + r->lost_lately);
}

static bool is_congested(const struct sdr_rate *r, double queue)
{
	double stands = r->most_queue / 2, little = target(r) / 4;

	if (!r->lost)
		return false;
	return queue > (stands > little ? stands : little) || is_much_lost(r);
}

/* Shrinks by what stood in the queue, to so much of the window at most. */
static void shrink(struct sdr_rate *r, double queue, double most)
{
	double part = (double)r->rtt_ns / ((double)r->rtt_ns + queue);
	double to;

	part = part < SHRINK_MIN ? SHRINK_MIN : part > most ? most : part;
	to = window(r) * part;
	r->slow *= part;
	set_window(r, to);
	r->holds = true;
	r->peak = 0;
}

/* Somebody else has given way to a queue that was as long as it gets. */
static bool has_fallen(const struct sdr_rate *r, double queue)
{
	return r->peak > r->most_queue * FULL && r->peak > target(r) * 2 &&
	       queue < r->peak * FALLEN;
}

static void grow(struct sdr_rate *r, double queue)
{
	double over = queue - target(r), all = window(r);

	if (over < 0)
		r->fast += r->packet * GROWTH * power(all / r->packet);
	else
		r->fast -= all * over / ((double)r->rtt_ns + queue);
	if (r->fast < 0)
		r->fast = 0;
	r->slow += r->packet;
}

/* Rounds that told nothing were sent in as well: a host that looks seldom would never grow. */
static void grow_for_all(struct sdr_rate *r, double queue)
{
	for (uint32_t i = 0; i < r->rounds && i < MOST_ROUNDS; i++)
		grow(r, queue);
}

static void end_start(struct sdr_rate *r)
{
	r->starts = false;
	r->fast = 0;
	r->slow /= 2; /* the queue that is seen now was made by the round before */
	r->holds = true;
	r->peak = 0;
}

static void adapt(struct sdr_rate *r, double queue)
{
	r->sent_lately = LATELY * r->sent_lately + (double)r->sent;
	r->lost_lately = LATELY * r->lost_lately + (double)(r->lost - r->few);
	if (r->holds) {
		r->holds = false;
		return;
	}
	if (queue > r->peak)
		r->peak = queue;
	if (r->starts && (queue > target(r) / 2 || is_congested(r, queue)))
		end_start(r);
	else if (is_congested(r, queue))
		shrink(r, queue, SHRINK_MAX);
	else if (has_fallen(r, queue))
		shrink(r, r->peak - queue, FALL_MAX);
	else if (is_used(r) && r->starts)
		r->slow *= 2;
	else if (is_used(r))
		grow_for_all(r, queue);
}

/* Nothing comes back: the link may be full of what this end sends. */
static void wait_less(struct sdr_rate *r)
{
	if (!r->round_sent || ++r->silent < SILENT_ROUNDS)
		return;
	r->silent = 0;
	set_window(r, window(r) / 2);
	r->starts = false;
}

void sdr_rate_tick(struct sdr_rate *r, uint64_t now)
{
	int64_t above = r->round_least_us - r->least_us;

	if (now < r->round_at + r->rtt_ns + r->queue_ns)
		return;
	r->rounds++;
	if (r->samples) {
		r->queue_ns = above > 0 ? (uint64_t)above * 1000 : 0;
		r->most_queue *= FORGET;
		if ((double)r->queue_ns > r->most_queue)
			r->most_queue = (double)r->queue_ns;
		adapt(r, (double)r->queue_ns);
		r->sent = r->lost = r->few = r->rounds = 0;
	}
	if (r->heard)
		r->silent = 0;
	else if (r->known)
		wait_less(r);
	r->heard = false;
	r->round_sent = r->samples = 0;
	r->round_at = now;
}

/*
 * The window in a round trip of now. A queue that grows is seen before the round ends, as the
 * acknowledgements that let a window go would come later.
 */
uint64_t sdr_rate_bps(const struct sdr_rate *r)
{
	int64_t last = r->last_us[0] < r->last_us[1] ? r->last_us[0] : r->last_us[1];
	double queue = last > r->least_us ? (double)(last - r->least_us) * 1e3 : 0;

	return (uint64_t)(window(r) * 8e9 / ((double)r->rtt_ns + queue));
}

uint32_t sdr_rate_burst(const struct sdr_rate *r)
{
	double packets = window(r) / r->packet / BURSTS;

	return packets < LEAST_BURST  ? LEAST_BURST
	       : packets < MOST_BURST ? (uint32_t)packets
				      : MOST_BURST;
}
