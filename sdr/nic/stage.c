/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The stage: memory of our own, a place for each slot and generation, and copies. Late packets
 * change nothing that is the user's. The stage needs no right but that of a region.
 */
#include "sdr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct place {
	uint8_t *from;
	uint64_t to;
	uint64_t length;
};

struct stage {
	uint8_t *mem;
	size_t size;
	struct ibv_mr *mrs[SDR_NICS_MAX];
	uint32_t lost; /* bits of NICs */
	struct place *places;
	struct sdr_slot_event *events; /* a ring: one of each slot at most */
	uint32_t first, n_events;
};

static void stage_close(struct sdr_slots *s)
{
	struct stage *g = s->priv;

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (g->mrs[i])
			ibv_dereg_mr(g->mrs[i]);
	if (g->mem)
		munmap(g->mem, g->size);
	free(g->places);
	free(g->events);
	free(g);
	s->priv = NULL;
}

static int enroll(const struct sdr_slots *s, struct stage *g, uint32_t nic)
{
	g->mrs[nic] = ibv_reg_mr(sdr_slots_nic(s, nic)->pd, g->mem, g->size,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return g->mrs[nic] ? 0 : -errno;
}

static int make_memory(struct sdr_slots *s, struct stage *g)
{
	int err = 0;

	g->places = calloc(s->n, sizeof(*g->places));
	g->events = calloc(s->n, sizeof(*g->events));
	if (!g->places || !g->events)
		return -ENOMEM;
	g->size = s->n * s->generations * s->slot_size;
	g->mem = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->mem == MAP_FAILED) {
		g->mem = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < s->n_nics && !err; i++)
		err = enroll(s, g, i);
	return err;
}

static int stage_open(struct sdr_slots *s)
{
	struct stage *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	s->priv = g;
	err = make_memory(s, g);
	if (err)
		stage_close(s);
	return err;
}

static void happened(const struct sdr_slots *s, struct stage *g, uint32_t slot, bool bound)
{
	struct sdr_slot_event *e = &g->events[(g->first + g->n_events++) % s->n];

	*e = (struct sdr_slot_event){ .bound = bound,
				      .slot = slot,
				      .addr = (uintptr_t)g->places[slot].from };
	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!(g->lost >> i & 1))
			e->rkeys[i] = g->mrs[i]->rkey;
}

static int stage_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation,
		      struct ibv_mr *const *mrs, uint64_t addr, uint64_t length)
{
	struct stage *g = s->priv;

	if (length > s->slot_size)
		return -EMSGSIZE;
	g->places[slot] = (struct place){
		.from = g->mem + ((size_t)generation * s->n + slot) * s->slot_size,
		.to = addr,
		.length = length,
	};
	happened(s, g, slot, true);
	return 0;
}

static int stage_unbind(struct sdr_slots *s, uint32_t slot)
{
	struct stage *g = s->priv;

	g->places[slot].length = 0;
	happened(s, g, slot, false);
	return 0;
}

static int stage_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max)
{
	struct stage *g = s->priv;
	uint32_t n = 0;

	for (; n < max && g->n_events; n++, g->n_events--) {
		events[n] = g->events[g->first];
		g->first = (g->first + 1) % s->n;
	}
	return (int)n;
}

static void stage_came(struct sdr_slots *s, uint32_t slot, uint64_t offset, uint64_t length)
{
	const struct place *p = &((struct stage *)s->priv)->places[slot];

	if (offset >= p->length)
		return;
	if (length > p->length - offset)
		length = p->length - offset;
	memcpy((void *)(uintptr_t)(p->to + offset), p->from + offset, length);
}

static void stage_lost(struct sdr_slots *s, uint32_t nic, bool over)
{
	struct stage *g = s->priv;

	(void)over; /* late writes to a place of ours harm nobody */
	g->lost |= 1u << nic;
}

static void stage_bury(struct sdr_slots *s, uint32_t nic)
{
	struct stage *g = s->priv;

	if (g->mrs[nic])
		ibv_dereg_mr(g->mrs[nic]);
	g->mrs[nic] = NULL;
}

static int stage_renew(struct sdr_slots *s, uint32_t nic)
{
	return enroll(s, s->priv, nic);
}

static void stage_joined(struct sdr_slots *s, uint32_t nic)
{
	((struct stage *)s->priv)->lost &= ~(1u << nic);
}

const struct sdr_slots_ops sdr_slots_stage = {
	.open = stage_open,
	.close = stage_close,
	.bind = stage_bind,
	.unbind = stage_unbind,
	.poll = stage_poll,
	.came = stage_came,
	.lost = stage_lost,
	.bury = stage_bury,
	.renew = stage_renew,
	.joined = stage_joined,
};
