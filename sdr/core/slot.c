/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receives: EMPTY -> BINDING -> OPEN -> CLOSING -> QUARANTINE -> EMPTY.
 *
 * An id (slot and generation) may name another message only when no packet of the one before can
 * come: the sender has ended it, and its count was received, each packet once; or a packet's
 * lifetime has passed since both sides were done with it. Counting says nothing where the network
 * duplicates: a packet counted twice hides a missing one.
 */
#include "sdr/core/internal.h"

#include <string.h>

enum sdr_slot_state sdr_slot_state(const struct sdr_slot *s)
{
	return (enum sdr_slot_state)atomic_load_explicit(&s->state, memory_order_relaxed);
}

static uint8_t generation_of(const struct sdr_core *c, uint64_t n)
{
	return (uint8_t)(n / c->attr.slots % c->attr.generations);
}

struct sdr_slot *sdr_core_recv(struct sdr_core *c, uint64_t n)
{
	return &c->slots[n & (c->attr.slots - 1)];
}

/* The record of message n, if it is still kept. */
struct sdr_use *sdr_core_use(struct sdr_core *c, uint64_t n)
{
	struct sdr_use *u = &sdr_core_recv(c, n)->uses[generation_of(c, n)];

	return u->used && u->n == n ? u : NULL;
}

static void transition_empty_to_binding(struct sdr_slot *s)
{
	SDR_ASSERT(sdr_slot_state(s) == SDR_SLOT_EMPTY);
	atomic_store_explicit(&s->state, SDR_SLOT_BINDING, memory_order_release);
}

/* Orders the cleared bitmaps and the generation before any packet that finds the slot open. */
static void transition_binding_to_open(struct sdr_slot *s)
{
	SDR_ASSERT(sdr_slot_state(s) == SDR_SLOT_BINDING);
	atomic_store_explicit(&s->state, SDR_SLOT_OPEN, memory_order_release);
}

static void transition_open_to_closing(struct sdr_slot *s)
{
	SDR_ASSERT(sdr_slot_state(s) == SDR_SLOT_OPEN);
	atomic_store_explicit(&s->state, SDR_SLOT_CLOSING, memory_order_release);
}

static void transition_closing_to_quarantine(struct sdr_slot *s)
{
	SDR_ASSERT(sdr_slot_state(s) == SDR_SLOT_CLOSING);
	atomic_store_explicit(&s->state, SDR_SLOT_QUARANTINE, memory_order_release);
}

static void transition_quarantine_to_empty(struct sdr_slot *s)
{
	SDR_ASSERT(sdr_slot_state(s) == SDR_SLOT_QUARANTINE);
	atomic_store_explicit(&s->state, SDR_SLOT_EMPTY, memory_order_release);
}

static bool all_counted(const struct sdr_core *c, const struct sdr_use *u)
{
	uint32_t received = atomic_load_explicit(&u->received, memory_order_acquire);

	if (SDR_MUTATED(COUNT_OFF))
		received++;
	if (SDR_MUTATED(COUNT_DUPLICATES))
		return received >= u->sent;
	return !c->attr.duplicates && received >= u->sent && !atomic_load(&u->duplicates);
}

static bool no_packet_left(const struct sdr_core *c, const struct sdr_use *u, uint64_t now)
{
	if (!u->used || SDR_MUTATED(NO_QUARANTINE))
		return true;
	if (!u->closed || (!u->ended && !SDR_MUTATED(CLOSE_ALONE)))
		return false;
	return (u->ended && all_counted(c, u)) || now >= u->since + c->attr.lifetime_ns;
}

/*
 * True if the slot's last message is over, the peer knows its CTS, and nothing is left of the id
 * that comes next.
 */
static bool may_serve(struct sdr_core *c, struct sdr_slot *s, uint64_t n, uint64_t now)
{
	struct sdr_use *next = &s->uses[generation_of(c, n)];
	struct sdr_use *last = n >= c->attr.slots ? sdr_core_use(c, n - c->attr.slots) : NULL;

	if (sdr_slot_state(s) != SDR_SLOT_QUARANTINE)
		return sdr_slot_state(s) == SDR_SLOT_EMPTY;
	if (c->cts_told <= s->n && !SDR_MUTATED(NO_QUARANTINE))
		return false;
	if (last && !last->ended && !SDR_MUTATED(NO_QUARANTINE) && !SDR_MUTATED(CLOSE_ALONE))
		return false; /* the sender still has this slot, too */
	return no_packet_left(c, next, now);
}

int sdr_slot_post(struct sdr_core *c, struct sdr_event *e, uint64_t now, struct sdr_actions *a)
{
	uint64_t n = c->recv_next, packets = (e->length + c->attr.packet - 1) / c->attr.packet;
	struct sdr_slot *s = sdr_core_recv(c, n);
	struct sdr_use *u = &s->uses[generation_of(c, n)];
	struct sdr_action *act;

	if (!e->length || packets > c->attr.max_packets)
		return -EINVAL;
	if (!may_serve(c, s, n, now))
		return -EAGAIN;
	if (sdr_slot_state(s) == SDR_SLOT_QUARANTINE)
		transition_quarantine_to_empty(s);
	s->n = e->n = n;
	s->cookie = e->cookie;
	s->addr = e->addr;
	s->length = e->length;
	s->word = e->word;
	s->complete_asked = false;
	s->bits.n_packets = (uint32_t)packets;
	if (SDR_MUTATED(LAST_CHUNK_FULL))
		s->bits.n_packets = (uint32_t)((packets + (1u << s->bits.shift) - 1) >>
					       s->bits.shift << s->bits.shift);
	if (SDR_MUTATED(LAST_CHUNK_EARLY) && packets > 1 && (packets - 1) % (1u << s->bits.shift))
		s->bits.n_packets--;
	s->bits.n_chunks = (s->bits.n_packets + (1u << s->bits.shift) - 1) >> s->bits.shift;
	sdr_bitmap_clear(&s->bits);
	atomic_store_explicit(&s->imm, 0, memory_order_relaxed);
	atomic_store_explicit(&s->imm_have, 0, memory_order_relaxed);
	u->n = n;
	u->used = true;
	u->ended = u->closed = false;
	u->sent = 0;
	atomic_store(&u->received, 0);
	atomic_store(&u->duplicates, 0);
	atomic_store_explicit(&s->generation, generation_of(c, n), memory_order_release);
	transition_empty_to_binding(s);
	c->recv_next++;
	act = sdr_act(a, SDR_ACTION_BIND, n);
	act->addr = e->addr;
	act->length = e->length;
	if (SDR_MUTATED(CTS_EARLY))
		c->cts_repeat = 0;
	return 0;
}

static void close_slot(struct sdr_core *c, struct sdr_slot *s, struct sdr_actions *a)
{
	transition_open_to_closing(s);
	sdr_act(a, SDR_ACTION_UNBIND, s->n);
	if (SDR_MUTATED(NO_UNBIND))
		sdr_act(a, SDR_ACTION_RECV_DONE, s->n)->cookie = s->cookie;
}

int sdr_slot_bound(struct sdr_core *c, const struct sdr_event *e, struct sdr_actions *a)
{
	struct sdr_slot *s = sdr_core_recv(c, e->n);

	if (s->n != e->n || sdr_slot_state(s) != SDR_SLOT_BINDING)
		return -EINVAL;
	memcpy(s->rkeys, e->rkeys, sizeof(s->rkeys));
	s->addr = e->addr;
	transition_binding_to_open(s);
	c->cts_repeat = 0;
	if (s->complete_asked)
		close_slot(c, s, a);
	return 0;
}

int sdr_slot_complete(struct sdr_core *c, uint64_t n, struct sdr_actions *a)
{
	struct sdr_slot *s = sdr_core_recv(c, n);

	if (n >= c->recv_next || s->n != n || s->complete_asked)
		return -EINVAL;
	switch (sdr_slot_state(s)) {
	case SDR_SLOT_BINDING: s->complete_asked = true; return 0;
	case SDR_SLOT_OPEN:
		s->complete_asked = true;
		close_slot(c, s, a);
		return 0;
	case SDR_SLOT_EMPTY:
	case SDR_SLOT_CLOSING:
	case SDR_SLOT_QUARANTINE: break;
	}
	return -EINVAL;
}

int sdr_slot_unbound(struct sdr_core *c, uint64_t n, uint64_t now, struct sdr_actions *a)
{
	struct sdr_slot *s = sdr_core_recv(c, n);
	struct sdr_use *u = sdr_core_use(c, n);

	if (s->n != n || !u || sdr_slot_state(s) != SDR_SLOT_CLOSING)
		return -EINVAL;
	transition_closing_to_quarantine(s);
	u->closed = true;
	u->since = now;
	if (!SDR_MUTATED(NO_UNBIND))
		sdr_act(a, SDR_ACTION_RECV_DONE, n)->cookie = s->cookie;
	return 0;
}
