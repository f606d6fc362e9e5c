/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Submessages at the receiver: OPEN -> WHOLE, or by way of DECODING. Parity i of m is, of XOR, the
 * sum of the data whose place modulo m is i; of MDS any m may be missing.
 */
#include "internal.h"

static void transition_open_to_decoding(struct sdr_sub *s)
{
	SDR_ASSERT(s->sub_state == SDR_SUB_OPEN);
	s->sub_state = SDR_SUB_DECODING;
}

static void transition_any_to_whole(struct sdr_sub *s)
{
	SDR_ASSERT(s->sub_state != SDR_SUB_WHOLE);
	s->sub_state = SDR_SUB_WHOLE;
}

void sdr_ec_data(struct sdr_rx *r, uint32_t chunk)
{
	uint32_t n = sdr_plan_of_data(&r->plan, chunk - r->plan.coded_from);
	struct sdr_sub *s = &r->subs[n];

	s->data++;
	if (s->sub_state != SDR_SUB_WHOLE && s->data == sdr_plan_submessage(&r->plan, n).data)
		transition_any_to_whole(s);
}

void sdr_ec_parity(struct sdr_rx *r, uint32_t parity)
{
	if (parity < r->plan.parity && sdr_add(r->have_parity, parity))
		r->subs[sdr_plan_of_parity(&r->plan, parity)].parity++;
}

/* True if each group misses none of its data, or one, with its parity here. */
static bool xor_suffices(const struct sdr_rx *r, const struct sdr_submessage *s)
{
	uint32_t missing, at;

	for (uint32_t g = 0; g < s->parity; g++) {
		missing = 0;
		for (uint32_t i = g; i < s->data; i += s->parity) {
			at = r->plan.coded_from + s->data_first + i * s->stride;
			missing += !sdr_has(r->have, at);
		}
		if (missing > 1 ||
		    (missing && !sdr_has(r->have_parity, s->parity_first + g * s->stride)))
			return false;
	}
	return true;
}

static bool suffices(const struct sdr_rx *r, uint32_t n, const struct sdr_sub *s)
{
	struct sdr_submessage sub = sdr_plan_submessage(&r->plan, n);
	uint32_t here = s->data + s->parity + (SDR_MUTATED(DECODE_SHORT) ? 1u : 0u);

	return here >= sub.data && (r->plan.code == SDR_CODE_MDS || xor_suffices(r, &sub));
}

/* A mutant: marks chunks, which an ACK then names before they are in place. */
static void acknowledge_undecoded(struct sdr_rx *r, uint32_t n)
{
	struct sdr_submessage s = sdr_plan_submessage(&r->plan, n);

	for (uint32_t i = 0; i < s.data; i++)
		sdr_rx_came(r, r->plan.coded_from + s.data_first + i * s.stride);
}

void sdr_ec_decode(struct sdr_rx *r, struct sdr_rel_actions *a)
{
	uint32_t all = sdr_plan_submessages(&r->plan);

	for (uint32_t n = 0; n < all && a->n < SDR_REL_ACTIONS / 2; n++) {
		struct sdr_sub *s = &r->subs[n];

		if (s->sub_state != SDR_SUB_OPEN || !s->parity || !suffices(r, n, s))
			continue;
		transition_open_to_decoding(s);
		sdr_say(a, SDR_SAY_DECODE)->n = n;
		if (SDR_MUTATED(ACK_UNDECODED))
			acknowledge_undecoded(r, n);
	}
}
