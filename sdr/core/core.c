/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The core's entry: calls the function of each event, and begins a queue pair. */
#include "sdr/core/internal.h"

#include <string.h>

#ifdef SDR_MUTANTS
enum sdr_mutant sdr_mutant;
#endif

const char *sdr_slot_state_name(enum sdr_slot_state state)
{
	static const char *const names[] = { "EMPTY", "BINDING", "OPEN", "CLOSING", "QUARANTINE" };

	return state <= SDR_SLOT_QUARANTINE ? names[state] : "?";
}

const char *sdr_send_state_name(enum sdr_send_state state)
{
	static const char *const names[] = { "EMPTY", "WAITING", "SENDING", "SENT" };

	return state <= SDR_SEND_SENT ? names[state] : "?";
}

struct sdr_action *sdr_act(struct sdr_actions *a, enum sdr_action_type type, uint64_t n)
{
	struct sdr_action *act;

	SDR_ASSERT(a->n < SDR_ACTIONS);
	act = &a->list[a->n++];
	memset(act, 0, sizeof(*act));
	act->type = type;
	act->n = n;
	return act;
}

static uint32_t chunks_max(const struct sdr_core_attr *attr)
{
	return (attr->max_packets + (1u << attr->chunk_shift) - 1) >> attr->chunk_shift;
}

static uint32_t packets_max(const struct sdr_core_attr *attr)
{
	return chunks_max(attr) << attr->chunk_shift;
}

size_t sdr_core_words(const struct sdr_core_attr *attr)
{
	return (size_t)attr->slots * (sdr_words(packets_max(attr)) + sdr_words(chunks_max(attr)));
}

static bool makes_sense(const struct sdr_core_attr *a, struct sdr_imm_layout *layout)
{
	return sdr_imm_layout_make(layout, a->id_bits, a->offset_bits) && a->slots &&
	       !(a->slots & (a->slots - 1)) && a->slots <= 1ull << a->id_bits && a->generations &&
	       a->generations <= SDR_GENERATIONS_MAX && a->chunk_shift <= 6 && a->packet &&
	       a->max_packets && a->max_packets <= 1ull << a->offset_bits &&
	       /* Fragments of short messages lie behind their packets. */
	       1ull << a->offset_bits >= sdr_imm_fragments(layout) && a->repeat_ns;
}

int sdr_core_init(struct sdr_core *c, const struct sdr_core_attr *attr, struct sdr_slot *slots,
		  struct sdr_send *sends, _Atomic uint64_t *words)
{
	memset(c, 0, sizeof(*c));
	if (!makes_sense(attr, &c->layout))
		return -EINVAL;
	c->attr = *attr;
	c->slots = slots;
	c->sends = sends;
	memset(slots, 0, attr->slots * sizeof(*slots));
	memset(sends, 0, attr->slots * sizeof(*sends));
	for (uint32_t i = 0; i < attr->slots; i++) {
		slots[i].bits.shift = attr->chunk_shift;
		slots[i].bits.packets = words;
		words += sdr_words(packets_max(attr));
		slots[i].bits.chunks = words;
		words += sdr_words(chunks_max(attr));
	}
	return 0;
}

bool sdr_core_imm(const struct sdr_core *c, const struct sdr_slot *slot, uint32_t *imm)
{
	uint32_t n = sdr_imm_fragments(&c->layout), all = n >= 32 ? ~0u : (1u << n) - 1;

	if (atomic_load_explicit(&slot->imm_have, memory_order_acquire) != all)
		return false;
	*imm = atomic_load_explicit(&slot->imm, memory_order_relaxed);
	return true;
}

int sdr_core_step(struct sdr_core *c, struct sdr_event *e, uint64_t now, struct sdr_actions *a)
{
	a->n = 0;
	switch (e->type) {
	case SDR_EVENT_RECV_POST: return sdr_slot_post(c, e, now, a);
	case SDR_EVENT_BOUND: return sdr_slot_bound(c, e, a);
	case SDR_EVENT_RECV_COMPLETE: return sdr_slot_complete(c, e->n, a);
	case SDR_EVENT_UNBOUND: return sdr_slot_unbound(c, e->n, now, a);
	case SDR_EVENT_SEND_POST: return sdr_send_begin(c, e, a);
	case SDR_EVENT_INJECTED: return sdr_send_injected(c, e);
	case SDR_EVENT_SEND_END: return sdr_send_ended(c, e->n);
	case SDR_EVENT_CTS: return sdr_send_cts(c, e, a);
	case SDR_EVENT_PEER_END: return sdr_told_end(c, e, now);
	case SDR_EVENT_HEARD: sdr_told_heard(c, e); return 0;
	case SDR_EVENT_TICK: sdr_told_tick(c, now, a); return 0;
	}
	return -EINVAL;
}
