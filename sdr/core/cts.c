/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CTS and END, said again until the peer shows that it knows them. Both are numbered by message,
 * never by slot.
 */
#include "sdr/core/internal.h"

#include <string.h>

/* True if the receive's place is known: it was bound, or is gone again. */
static bool has_cts(const struct sdr_core *c, uint64_t n)
{
	const struct sdr_slot *s = &c->slots[n & (c->attr.slots - 1)];

	return n < c->recv_next && s->n == n &&
	       (sdr_slot_state(s) >= SDR_SLOT_OPEN || SDR_MUTATED(CTS_EARLY));
}

bool sdr_core_cts(const struct sdr_core *c, uint64_t n, struct sdr_cts *cts)
{
	const struct sdr_slot *s = &c->slots[n & (c->attr.slots - 1)];

	if (!has_cts(c, n))
		return false;
	*cts = (struct sdr_cts){ .addr = s->addr, .length = s->length, .word = s->word };
	memcpy(cts->rkeys, s->rkeys, sizeof(cts->rkeys));
	cts->gone = sdr_slot_state(s) > SDR_SLOT_OPEN;
	return true;
}

int sdr_told_end(struct sdr_core *c, const struct sdr_event *e, uint64_t now)
{
	struct sdr_use *u;

	if (e->n >= c->recv_next)
		return -EINVAL;
	c->answer = true;
	u = sdr_core_use(c, e->n);
	if (!u || u->ended)
		return 0;
	u->sent = e->count;
	u->ended = true;
	u->since = now; /* a close that comes later sets it anew */
	while ((u = sdr_core_use(c, c->ends_known)) && u->ended)
		c->ends_known++;
	return 0;
}

bool sdr_core_ended(struct sdr_core *c, uint64_t n)
{
	const struct sdr_use *u = sdr_core_use(c, n);

	return u && u->ended;
}

void sdr_told_heard(struct sdr_core *c, const struct sdr_event *e)
{
	if (e->n > c->cts_told && e->n <= c->recv_next)
		c->cts_told = e->n;
	sdr_send_ends_told(c, e->count);
}

static void tell_cts(struct sdr_core *c, struct sdr_actions *a)
{
	uint64_t n = c->cts_told;
	uint32_t count;

	while (n < c->recv_next && a->n < SDR_ACTIONS / 2) {
		for (count = 0; count < SDR_CTS_MAX && has_cts(c, n + count);)
			count++;
		if (count)
			sdr_act(a, SDR_ACTION_SEND_CTS, n)->count = count;
		n += count ? count : 1;
	}
}

static void tell_ends(struct sdr_core *c, struct sdr_actions *a)
{
	struct sdr_send *s;

	for (uint64_t n = c->ends_told; n < c->send_next && a->n < SDR_ACTIONS; n++) {
		s = sdr_core_send(c, n);
		if (s->n == n && s->send_state == SDR_SEND_SENT)
			sdr_act(a, SDR_ACTION_SEND_END, n)->count = s->packets;
	}
}

void sdr_told_tick(struct sdr_core *c, uint64_t now, struct sdr_actions *a)
{
	/* KNOWN is a head alone; a CTS or END has the same head, but may not be due now */
	if (c->answer && !SDR_MUTATED(KNOWN_UNTOLD))
		sdr_act(a, SDR_ACTION_SEND_KNOWN, 0);
	c->answer = false;
	if (now >= c->cts_repeat) {
		tell_cts(c, a);
		c->cts_repeat = SDR_MUTATED(CTS_ONCE) ? UINT64_MAX : now + c->attr.repeat_ns;
	}
	if (now >= c->end_repeat) {
		tell_ends(c, a);
		c->end_repeat = SDR_MUTATED(END_ONCE) ? UINT64_MAX : now + c->attr.repeat_ns;
	}
}
