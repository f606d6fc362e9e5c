/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sends: EMPTY -> WAITING (no CTS) -> SENDING -> SENT -> EMPTY. A send becomes EMPTY again when the
 * peer knows how much was sent.
 */
#include "sdr/core/internal.h"

struct sdr_send *sdr_core_send(struct sdr_core *c, uint64_t n)
{
	return &c->sends[n & (c->attr.slots - 1)];
}

static void transition_empty_to_waiting(struct sdr_send *s)
{
	SDR_ASSERT(s->send_state == SDR_SEND_EMPTY);
	s->send_state = SDR_SEND_WAITING;
}

static void transition_waiting_to_sending(struct sdr_send *s)
{
	SDR_ASSERT(s->send_state == SDR_SEND_WAITING);
	s->send_state = SDR_SEND_SENDING;
}

static void transition_sending_to_sent(struct sdr_send *s)
{
	SDR_ASSERT(s->send_state == SDR_SEND_SENDING);
	s->send_state = SDR_SEND_SENT;
}

static void transition_waiting_to_sent(struct sdr_send *s)
{
	SDR_ASSERT(s->send_state == SDR_SEND_WAITING);
	s->send_state = SDR_SEND_SENT;
}

static void transition_sent_to_empty(struct sdr_send *s)
{
	SDR_ASSERT(s->send_state == SDR_SEND_SENT);
	s->send_state = SDR_SEND_EMPTY;
}

/* The CTS of message n is there, or need not be. */
static bool allowed(const struct sdr_send *s)
{
	return (s->allowed && (s->cts_n == s->n || SDR_MUTATED(CTS_BY_SLOT))) ||
	       SDR_MUTATED(SEND_UNASKED);
}

static void start(struct sdr_core *c, struct sdr_send *s, struct sdr_actions *a)
{
	struct sdr_action *act;

	if (s->send_state != SDR_SEND_WAITING || !allowed(s))
		return;
	if (s->cts.gone) {
		transition_waiting_to_sent(s);
		c->end_repeat = 0;
	} else {
		transition_waiting_to_sending(s);
	}
	act = sdr_act(a, s->cts.gone ? SDR_ACTION_SEND_GONE : SDR_ACTION_SEND_ALLOWED, s->n);
	act->cookie = s->cookie;
	act->cts = s->cts;
}

int sdr_send_begin(struct sdr_core *c, struct sdr_event *e, struct sdr_actions *a)
{
	struct sdr_send *s = sdr_core_send(c, c->send_next);

	/* A CTS for it shows that the receiver is done with the message before. */
	if (s->send_state == SDR_SEND_SENT && s->allowed && s->cts_n == c->send_next)
		transition_sent_to_empty(s);
	if (s->send_state != SDR_SEND_EMPTY)
		return -EAGAIN;
	s->n = e->n = c->send_next++;
	s->cookie = e->cookie;
	s->packets = 0;
	transition_empty_to_waiting(s);
	start(c, s, a);
	return 0;
}

static struct sdr_send *sending(struct sdr_core *c, uint64_t n)
{
	struct sdr_send *s = sdr_core_send(c, n);

	return n < c->send_next && s->n == n && s->send_state == SDR_SEND_SENDING ? s : NULL;
}

int sdr_send_injected(struct sdr_core *c, const struct sdr_event *e)
{
	struct sdr_send *s = sending(c, e->n);

	if (!s)
		return -EINVAL;
	s->packets += e->count;
	return 0;
}

int sdr_send_ended(struct sdr_core *c, uint64_t n)
{
	struct sdr_send *s = sdr_core_send(c, n);

	if (n >= c->send_next || s->n != n)
		return -EINVAL;
	switch (s->send_state) {
	case SDR_SEND_WAITING: transition_waiting_to_sent(s); break;
	case SDR_SEND_SENDING: transition_sending_to_sent(s); break;
	case SDR_SEND_EMPTY:
	case SDR_SEND_SENT: return -EINVAL;
	}
	c->end_repeat = 0;
	return 0;
}

static bool cts_is_old(const struct sdr_core *c, const struct sdr_send *s, uint64_t n)
{
	return n < c->cts_known || (s->allowed && s->cts_n >= n) ||
	       n >= c->cts_known + c->attr.slots;
}

int sdr_send_cts(struct sdr_core *c, const struct sdr_event *e, struct sdr_actions *a)
{
	struct sdr_send *s = sdr_core_send(c, e->n);

	c->answer = true;
	if (cts_is_old(c, s, e->n) && !SDR_MUTATED(CTS_BY_SLOT))
		return 0; /* said again */
	s->allowed = true;
	s->cts_n = e->n;
	s->cts = e->cts;
	while ((s = sdr_core_send(c, c->cts_known))->allowed && s->cts_n == c->cts_known)
		c->cts_known++;
	start(c, sdr_core_send(c, e->n), a);
	return 0;
}

const struct sdr_cts *sdr_core_heard_cts(const struct sdr_core *c, uint64_t n)
{
	const struct sdr_send *s = &c->sends[n & (c->attr.slots - 1)];

	return s->allowed && s->cts_n == n ? &s->cts : NULL;
}

void sdr_send_ends_told(struct sdr_core *c, uint32_t low)
{
	uint64_t told = c->ends_told + (uint32_t)(low - (uint32_t)c->ends_told);
	struct sdr_send *s;

	/* the peer is behind what we know, or says nonsense */
	if (told > c->send_next)
		return;
	for (; c->ends_told < told; c->ends_told++) {
		s = sdr_core_send(c, c->ends_told);
		if (s->n == c->ends_told && s->send_state == SDR_SEND_SENT)
			transition_sent_to_empty(s);
	}
}
