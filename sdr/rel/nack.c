/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The holes that the receiver asks for.
 *
 * Data without a code: holes below the highest chunk that came, when that came longer ago than the
 * network reorders, and all holes once nothing more can be under way. Coded data: missing chunks of
 * submessages that cannot be decoded, after the fallback timeout. A hole is named once a round
 * trip, until it is filled. Under SR the sender's timers do all this, and the receiver asks only
 * where they may be asleep: when it was asked itself.
 */
#include "internal.h"

enum { PACES = 4 }; /* chunks of several Writes leave in turns, some at a time */

void sdr_nack_ripen(struct sdr_rx *r, uint64_t now)
{
	if (now < r->then_at + r->plan.reorder_ns)
		return;
	r->ripe = r->then;
	r->then = r->frontier;
	r->then_at = now;
}

static bool may_name(const struct sdr_rx *r, uint32_t chunk, uint32_t now)
{
	uint32_t wait = (uint32_t)((r->plan.rtt_ns + r->plan.reorder_ns) >> SDR_UNIT_SHIFT) + 1;

	return !r->asked[chunk] || (!SDR_MUTATED(WANT_ONCE) && now - r->asked[chunk] >= wait);
}

/* Up to where holes are losses: (of what is not coded, of what is). */
static void limits(const struct sdr_rx *r, uint64_t now, uint32_t *plain, uint32_t *coded)
{
	/* A sender that is slower than it planned is not at its end while something comes. */
	bool still = now >= r->last_new + r->plan.reorder_ns + PACES * r->pace_ns;
	bool ended = now >= r->end_at && (still || SDR_MUTATED(FTO_WITHOUT_PARITY));
	bool given_up = ended && now >= r->end_at + r->plan.fto_ns;

	*plain = ended && !SDR_MUTATED(TAIL_UNNAMED) ? r->plan.coded_from : r->ripe;
	if (*plain > r->plan.coded_from)
		*plain = r->plan.coded_from;
	if (r->plan.kind == SDR_SCHEME_SR && !ended)
		*plain = 0;
	*coded = given_up && !SDR_MUTATED(NO_FALLBACK) ? r->plan.chunks : r->plan.coded_from;
}

static bool is_hopeless(const struct sdr_rx *r, uint32_t chunk)
{
	return chunk < r->plan.coded_from ||
	       r->subs[sdr_plan_of_data(&r->plan, chunk - r->plan.coded_from)].sub_state ==
		       SDR_SUB_OPEN;
}

/* Names what is due in a window from base on: how many. */
static uint32_t name(struct sdr_rx *r, uint32_t base, uint32_t plain, uint32_t end, uint64_t now)
{
	uint32_t n = 0, last = base + SDR_WINDOW_BITS;

	if (last > r->plan.chunks)
		last = r->plan.chunks;
	for (uint32_t w = base / SDR_WORD; w < sdr_words(last); w++)
		r->want[w] = 0;
	if (last > end)
		last = end;
	for (uint32_t i = sdr_find(r->have, base, last, false); i < last;
	     i = sdr_find(r->have, i + 1, last, false)) {
		if (i >= plain && i < r->plan.coded_from) {
			i = r->plan.coded_from - 1;
			continue;
		}
		if (!may_name(r, i, sdr_unit(now)) || !is_hopeless(r, i))
			continue;
		sdr_add(r->want, i);
		r->asked[i] = sdr_unit(now);
		n++;
	}
	return n;
}

void sdr_nack_ask(struct sdr_rx *r, uint64_t now, struct sdr_rel_actions *a)
{
	uint32_t plain, coded, end, base = r->cumulative / SDR_WORD * SDR_WORD;
	struct sdr_rel_action *act;

	limits(r, now, &plain, &coded);
	end = coded > r->plan.coded_from ? coded : plain;
	for (; base < end && sdr_room(a); base += SDR_WINDOW_BITS) {
		if (!name(r, base, plain, end, now))
			continue;
		act = sdr_say(a, SDR_SAY_ACK);
		act->base = base;
		act->want = true;
		r->probed = false;
	}
}
