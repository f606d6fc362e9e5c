/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sender of a Write. Wanted chunks leave before new ones; new are the data in order, then the
 * parity. The Write ends with the receiver's DONE, or with its deadline. While nothing is heard the
 * sender says PROBE, which is answered.
 */
#include "internal.h"

#include <string.h>

const char *sdr_tx_state_name(enum sdr_tx_state state)
{
	static const char *const names[] = { "WAITING", "SENDING", "DONE", "FAILED" };

	return state <= SDR_TX_FAILED ? names[state] : "?";
}

static void transition_sending_to_done(struct sdr_tx *t)
{
	SDR_ASSERT(t->state == SDR_TX_SENDING);
	t->state = SDR_TX_DONE;
}

static void transition_waiting_to_sending(struct sdr_tx *t)
{
	SDR_ASSERT(t->state == SDR_TX_WAITING);
	t->state = SDR_TX_SENDING;
}

static bool is_over(const struct sdr_tx *t)
{
	return t->state == SDR_TX_DONE || t->state == SDR_TX_FAILED;
}

static void transition_any_to_failed(struct sdr_tx *t, int status)
{
	SDR_ASSERT(!is_over(t));
	t->status = status;
	t->state = SDR_TX_FAILED;
}

uint32_t sdr_find(const uint64_t *words, uint32_t at, uint32_t n, bool set)
{
	uint64_t word;

	for (; at < n; at = (at / SDR_WORD + 1) * SDR_WORD) {
		word = (set ? words[at / SDR_WORD] : ~words[at / SDR_WORD]) >> (at % SDR_WORD);
		if (!word)
			continue;
		at += (uint32_t)__builtin_ctzll(word);
		return at < n ? at : n;
	}
	return n;
}

struct sdr_rel_action *sdr_say(struct sdr_rel_actions *a, enum sdr_rel_say say)
{
	struct sdr_rel_action *act;

	SDR_ASSERT(sdr_room(a));
	act = &a->list[a->n++];
	memset(act, 0, sizeof(*act));
	act->say = say;
	return act;
}

bool sdr_room(const struct sdr_rel_actions *a)
{
	return a->n < SDR_REL_ACTIONS;
}

int sdr_tx_init(struct sdr_tx *t, uint64_t write, const struct sdr_plan *plan, uint64_t *acked,
		uint64_t *wanted, uint32_t *left_at, uint64_t deadline)
{
	if (!sdr_plan_valid(plan))
		return -EINVAL;
	memset(t, 0, sizeof(*t));
	t->write = write;
	t->plan = *plan;
	t->acked = acked;
	t->wanted = wanted;
	t->left_at = left_at;
	t->deadline = deadline;
	memset(acked, 0, sdr_words(plan->chunks) * sizeof(*acked));
	memset(wanted, 0, sdr_words(plan->chunks) * sizeof(*wanted));
	memset(left_at, 0, plan->chunks * sizeof(*left_at));
	return 0;
}

void sdr_tx_allow(struct sdr_tx *t, uint64_t now)
{
	if (t->state != SDR_TX_WAITING)
		return;
	transition_waiting_to_sending(t);
	t->offer_at = now;
	t->probe_at = now + t->plan.rto_ns;
}

void sdr_tx_fail(struct sdr_tx *t, int status)
{
	if (!is_over(t))
		transition_any_to_failed(t, status);
}

void sdr_tx_want(struct sdr_tx *t, uint32_t chunk)
{
	if (chunk >= t->next_data || (sdr_has(t->acked, chunk) && !SDR_MUTATED(RTO_ACKED)))
		return;
	if (!sdr_add(t->wanted, chunk))
		return;
	t->n_wanted++;
	if (chunk < t->wanted_hint)
		t->wanted_hint = chunk;
}

static bool next_wanted(struct sdr_tx *t, uint32_t max, struct sdr_range *range)
{
	uint32_t first = sdr_find(t->wanted, t->wanted_hint, t->next_data, true), end = first;

	if (!t->n_wanted)
		return false;
	while (end < t->next_data && end - first < max && sdr_drop(t->wanted, end))
		end++;
	t->wanted_hint = end;
	t->n_wanted -= end - first;
	t->resent += end - first;
	*range = (struct sdr_range){ .first = first, .count = end - first };
	return true;
}

static bool next_new(struct sdr_tx *t, uint32_t max, struct sdr_range *range)
{
	bool parity = t->next_data == t->plan.chunks;
	uint32_t *next = parity ? &t->next_parity : &t->next_data;
	uint32_t left = (parity ? t->plan.parity : t->plan.chunks) - *next;

	*range = (struct sdr_range){ .parity = parity, .first = *next };
	range->count = left < max ? left : max;
	*next += range->count;
	return range->count;
}

bool sdr_tx_next(struct sdr_tx *t, uint32_t max, uint64_t now, struct sdr_range *range)
{
	bool timed = t->plan.kind == SDR_SCHEME_SR;

	if (t->state != SDR_TX_SENDING || !max || (timed && !sdr_sr_room(t)))
		return false;
	if (!next_wanted(t, max, range) && !next_new(t, max, range))
		return false;
	if (timed)
		sdr_sr_sent(t, range->first, range->count, now);
	for (uint32_t i = 0; i < range->count && !range->parity; i++)
		t->left_at[range->first + i] = sdr_unit(now);
	t->sent += range->count;
	return true;
}

/*
 * True if a chunk left so lately that the receiver cannot have missed it when it asked. A receiver
 * whose sender has become slower than planned asks for what is under way.
 */
static bool is_under_way(const struct sdr_tx *t, uint32_t chunk, uint64_t now)
{
	uint64_t least = t->least_rtt_ns ? t->least_rtt_ns + t->plan.reorder_ns / 2 : 0;

	return sdr_unit(now) - t->left_at[chunk] < (uint32_t)(least >> SDR_UNIT_SHIFT);
}

static void take_acked(struct sdr_tx *t, uint32_t chunk)
{
	if (!sdr_add(t->acked, chunk))
		return;
	t->n_acked++;
	if (!SDR_MUTATED(RTO_ACKED) && sdr_drop(t->wanted, chunk))
		t->n_wanted--;
}

int sdr_tx_ack(struct sdr_tx *t, const struct sdr_ack *ack, uint64_t now)
{
	if ((ack->write != t->write && !SDR_MUTATED(ACK_OTHER_WRITE)) || t->state != SDR_TX_SENDING)
		return 0;
	if (ack->cumulative > t->plan.chunks || ack->base > t->plan.chunks ||
	    ack->nbits > t->plan.chunks - ack->base)
		return -EINVAL;
	t->offer_seen = true;
	t->probe_at = now + t->plan.rto_ns;
	for (uint32_t i = sdr_find(t->acked, 0, ack->cumulative, false); i < ack->cumulative;
	     i = sdr_find(t->acked, i + 1, ack->cumulative, false))
		take_acked(t, i);
	for (uint32_t i = sdr_find(ack->have, 0, ack->nbits, true); i < ack->nbits;
	     i = sdr_find(ack->have, i + 1, ack->nbits, true))
		take_acked(t, ack->base + i);
	if (!ack->want)
		return 0;
	for (uint32_t i = sdr_find(ack->wanted, 0, ack->nbits, true); i < ack->nbits;
	     i = sdr_find(ack->wanted, i + 1, ack->nbits, true))
		if (!is_under_way(t, ack->base + i, now))
			sdr_tx_want(t, ack->base + i);
	return 0;
}

int sdr_tx_done(struct sdr_tx *t, uint64_t write, int status)
{
	if ((write != t->write && !SDR_MUTATED(ACK_OTHER_WRITE)) || is_over(t))
		return 0;
	if (status || t->state == SDR_TX_WAITING) /* nothing was sent that could be there */
		transition_any_to_failed(t, status < 0 ? status : -EPROTO);
	else
		transition_sending_to_done(t);
	return 1;
}

void sdr_tx_tick(struct sdr_tx *t, uint64_t now, struct sdr_rel_actions *a)
{
	a->n = 0;
	if (is_over(t))
		return;
	if (now >= t->deadline && !SDR_MUTATED(NO_DEADLINE)) {
		transition_any_to_failed(t, -ETIMEDOUT);
		return;
	}
	if (t->state == SDR_TX_WAITING)
		return;
	if (t->plan.kind == SDR_SCHEME_SR)
		sdr_sr_expire(t, now);
	if (!t->offer_seen && now >= t->offer_at) {
		sdr_say(a, SDR_SAY_OFFER);
		t->offer_at = SDR_MUTATED(OFFER_ONCE) ? UINT64_MAX : now + t->plan.rtt_ns / 2;
	}
	if (now >= t->probe_at && !SDR_MUTATED(NO_PROBE)) {
		sdr_say(a, SDR_SAY_PROBE);
		t->probe_at = now + t->plan.rtt_ns;
	}
}
