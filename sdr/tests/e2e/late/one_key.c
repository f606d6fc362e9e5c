/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * In the place of sdr/nic/window.c, for a program that is to fail: one key for all uses of a buffer, as in the paper, whose single
 * root key serves every generation. Nothing is ever unbound; a late packet's key is good.
 */
#include "sdr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>

struct keys {
	struct ibv_mr *mr; /* of the one buffer that this program has */
	uint64_t addr;
	struct sdr_slot_event *events;
	uint32_t first, n_events;
};

static int keys_open(struct sdr_slots *s)
{
	struct keys *k = calloc(1, sizeof(*k));

	s->priv = k;
	k->events = calloc(s->n, sizeof(*k->events));
	return 0;
}

static void keys_close(struct sdr_slots *s)
{
	struct keys *k = s->priv;

	if (k->mr)
		ibv_dereg_mr(k->mr);
	free(k->events);
	free(k);
	s->priv = NULL;
}

static void happened(const struct sdr_slots *s, uint32_t slot, bool bound)
{
	struct keys *k = s->priv;

	k->events[(k->first + k->n_events++) % s->n] = (struct sdr_slot_event){
		.bound = bound, .slot = slot, .addr = k->addr, .rkeys = { k->mr->rkey }
	};
}

static int keys_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation,
		     struct ibv_mr *const *mrs, uint64_t addr, uint64_t length)
{
	struct keys *k = s->priv;

	if (!k->mr)
		k->mr = ibv_reg_mr(s->nics[0].pd, (void *)(uintptr_t)addr, length,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!k->mr)
		return -errno;
	k->addr = addr;
	happened(s, slot, true);
	return 0;
}

static int keys_unbind(struct sdr_slots *s, uint32_t slot)
{
	happened(s, slot, false);
	return 0;
}

static int keys_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max)
{
	struct keys *k = s->priv;
	uint32_t n = 0;

	for (; n < max && k->n_events; n++, k->n_events--) {
		events[n] = k->events[k->first];
		k->first = (k->first + 1) % s->n;
	}
	return (int)n;
}

const struct sdr_slots_ops sdr_slots_window = {
	.open = keys_open,
	.close = keys_close,
	.bind = keys_bind,
	.unbind = keys_unbind,
	.poll = keys_poll,
};
