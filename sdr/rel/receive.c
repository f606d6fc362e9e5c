/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receiver of a Write. It reads the core's bitmaps, counts what is new for its submessages, and
 * says what is there and what it wants. It is done when every chunk of data is in place, whatever
 * of the parity has come.
 */
#include "internal.h"

#include <string.h>

const char *sdr_rx_state_name(enum sdr_rx_state state)
{
	static const char *const names[] = { "OPEN", "DONE", "FAILED" };

	return state <= SDR_RX_FAILED ? names[state] : "?";
}

static void transition_open_to_done(struct sdr_rx *r)
{
	SDR_ASSERT(r->state == SDR_RX_OPEN);
	r->state = SDR_RX_DONE;
}

static void transition_open_to_failed(struct sdr_rx *r, int status)
{
	SDR_ASSERT(r->state == SDR_RX_OPEN);
	r->status = status;
	r->state = SDR_RX_FAILED;
}

void sdr_rx_init(struct sdr_rx *r, uint64_t write, uint32_t capacity, uint32_t parity_capacity,
		 const struct sdr_rx_memory *memory, uint64_t deadline)
{
	memset(r, 0, sizeof(*r));
	r->write = write;
	r->deadline = deadline;
	r->capacity = capacity;
	r->parity_capacity = parity_capacity;
	r->have = memory->have;
	r->have_parity = memory->have_parity;
	r->want = memory->want;
	r->asked = memory->asked;
	r->subs = memory->subs;
	memset(r->have, 0, sdr_words(capacity) * sizeof(*r->have));
	memset(r->want, 0, sdr_words(capacity) * sizeof(*r->want));
	memset(r->have_parity, 0, sdr_words(parity_capacity) * sizeof(*r->have_parity));
	memset(r->asked, 0, capacity * sizeof(*r->asked));
	memset(r->subs, 0, capacity * sizeof(*r->subs));
}

void sdr_rx_bits(struct sdr_rx *r, const _Atomic uint64_t *data, const _Atomic uint64_t *parity)
{
	r->data_bits = data;
	r->parity_bits = parity;
}

int sdr_rx_offer(struct sdr_rx *r, const struct sdr_plan *plan, uint64_t now)
{
	r->probed = true; /* the sender wants to hear that the offer is known */
	if (r->offered || r->state != SDR_RX_OPEN)
		return 0;
	if (!sdr_plan_valid(plan) || plan->chunks > r->capacity ||
	    plan->parity > r->parity_capacity) {
		transition_open_to_failed(r, -EPROTO);
		return -EINVAL;
	}
	r->plan = *plan;
	r->offered = true;
	r->then_at = r->last_new = now;
	r->end_at = UINT64_MAX;
	return 0;
}

void sdr_rx_refuse(struct sdr_rx *r, int status)
{
	r->probed = true;
	if (r->state == SDR_RX_OPEN)
		transition_open_to_failed(r, status);
}

void sdr_rx_probe(struct sdr_rx *r, uint64_t now)
{
	if (SDR_MUTATED(PROBE_UNANSWERED))
		return;
	r->probed = true;
	/*
	 * all was sent and the sender hears nothing: missing chunks are lost, or were never asked
	 * for
	 */
	if (r->offered && r->end_at > now)
		r->end_at = now;
}

void sdr_rx_came(struct sdr_rx *r, uint32_t chunk)
{
	if (!sdr_add(r->have, chunk))
		return;
	r->n_have++;
	if (chunk >= r->frontier)
		r->frontier = chunk + 1;
	if (chunk >= r->plan.coded_from)
		sdr_ec_data(r, chunk);
}

/*
 * Sets end_at, when all should have come: by the plan from the first chunk on, and not before the
 * chunks behind the foremost can have left, at the pace of those before. Repeats tell nothing.
 */
static void when_it_ends(struct sdr_rx *r, uint64_t now, uint32_t foremost)
{
	uint64_t all = r->plan.chunks + r->plan.parity, planned, left;

	if (!r->began) {
		r->began = true;
		r->began_at = now;
	}
	if (SDR_MUTATED(FTO_WITHOUT_PARITY))
		all = r->plan.chunks;
	/* only the sender knows when a chunk of SR is late */
	if (foremost <= r->foremost || foremost > all || r->plan.kind == SDR_SCHEME_SR)
		return;
	r->foremost = foremost;
	r->pace_ns = (now - r->began_at) / foremost;
	if (r->pace_ns < r->plan.inject_ns)
		r->pace_ns = r->plan.inject_ns;
	planned = r->began_at + all * r->plan.inject_ns;
	left = now + (all - foremost) * r->pace_ns;
	r->end_at = (planned > left ? planned : left) + r->plan.reorder_ns;
}

/* Bits that the core has set since the last look; what decoding brought is not among them. */
static bool look(struct sdr_rx *r, uint64_t now)
{
	uint32_t before = r->n_have, parity_new = 0, foremost = 0;
	uint64_t word, last = r->plan.chunks % SDR_WORD;

	for (uint32_t w = r->cumulative / SDR_WORD; w < sdr_words(r->plan.chunks); w++) {
		word = atomic_load_explicit(&r->data_bits[w], memory_order_acquire) & ~r->have[w];
		if (last && w == r->plan.chunks / SDR_WORD)
			word &= (1ull << last) - 1;
		for (; word; word &= word - 1)
			sdr_rx_came(r, w * SDR_WORD + (uint32_t)__builtin_ctzll(word));
	}
	for (uint32_t w = 0; r->parity_bits && w < sdr_words(r->plan.parity); w++) {
		word = atomic_load_explicit(&r->parity_bits[w], memory_order_acquire) &
		       ~r->have_parity[w];
		for (; word; word &= word - 1, parity_new++) {
			foremost = w * SDR_WORD + (uint32_t)__builtin_ctzll(word) + 1;
			sdr_ec_parity(r, foremost - 1);
		}
	}
	r->cumulative = sdr_find(r->have, r->cumulative, r->plan.chunks, false);
	if (r->n_have == before && !parity_new)
		return false;
	when_it_ends(r, now, foremost ? r->plan.chunks + foremost : r->frontier);
	r->last_new = now;
	return true;
}

int sdr_rx_decoded(struct sdr_rx *r, uint32_t sub, uint64_t now)
{
	struct sdr_submessage s;

	if (sub >= sdr_plan_submessages(&r->plan) || r->subs[sub].sub_state != SDR_SUB_DECODING)
		return -EINVAL;
	s = sdr_plan_submessage(&r->plan, sub);
	for (uint32_t i = 0; i < s.data; i++)
		if (!sdr_has(r->have, r->plan.coded_from + s.data_first + i * s.stride)) {
			sdr_rx_came(r, r->plan.coded_from + s.data_first + i * s.stride);
			r->decoded++;
		}
	r->last_new = now;
	return 0;
}

static bool whole(const struct sdr_rx *r)
{
	uint32_t missing = SDR_MUTATED(DONE_EARLY) ? 1 : 0;

	return r->offered && r->n_have + missing >= r->plan.chunks;
}

static void answer(struct sdr_rx *r, struct sdr_rel_actions *a)
{
	if (r->probed && !SDR_MUTATED(DONE_ONCE))
		sdr_say(a, SDR_SAY_DONE)->status = r->status;
	r->probed = false;
}

/*
 * Acknowledges all that came, also far ahead of a hole: SR's timers take for lost what is not
 * acknowledged.
 */
static void acknowledge(struct sdr_rx *r, uint64_t now, struct sdr_rel_actions *a)
{
	uint32_t base = r->cumulative / SDR_WORD * SDR_WORD;

	for (uint32_t i = 0; i < a->n; i++)
		if (a->list[i].say == SDR_SAY_ACK)
			return;
	if ((!r->probed && (now < r->ack_at || !r->began)) || !sdr_room(a))
		return;
	do {
		sdr_say(a, SDR_SAY_ACK)->base = base;
		base += SDR_WINDOW_BITS;
	} while (base < r->frontier && sdr_room(a));
	r->ack_at = now + r->plan.rtt_ns / 4;
	r->probed = false;
}

void sdr_rx_poll(struct sdr_rx *r, uint64_t now, struct sdr_rel_actions *a)
{
	a->n = 0;
	if (r->state != SDR_RX_OPEN) {
		answer(r, a);
		return;
	}
	if (now >= r->deadline && !SDR_MUTATED(NO_DEADLINE)) {
		transition_open_to_failed(r, -ETIMEDOUT);
		return;
	}
	if (!r->offered || !r->data_bits)
		return;
	look(r, now);
	if (whole(r)) {
		transition_open_to_done(r);
		r->probed = false;
		sdr_say(a, SDR_SAY_DONE);
		return;
	}
	sdr_ec_decode(r, a);
	sdr_nack_ripen(r, now);
	sdr_nack_ask(r, now, a);
	acknowledge(r, now, a);
}

struct sdr_ack sdr_rx_ack(const struct sdr_rx *r, const struct sdr_rel_action *action)
{
	uint32_t base = action->base / SDR_WORD * SDR_WORD, left = r->plan.chunks - base;
	struct sdr_ack ack = { .write = r->write, .cumulative = r->cumulative, .base = base };

	ack.nbits = left < SDR_WINDOW_BITS ? left : SDR_WINDOW_BITS;
	ack.want = action->want;
	ack.decoded = r->decoded;
	ack.have = r->have + base / SDR_WORD;
	ack.wanted = r->want + base / SDR_WORD;
	return ack;
}
