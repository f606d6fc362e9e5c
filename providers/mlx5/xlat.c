/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory that a queue has of the shell's translations of keys. */
#include <stdlib.h>

#include "providers/mlx5/xlat.h"

#define GENERATION_ONE	(1ull << 32)
#define GENERATION_LAST (UINT64_MAX << 32)

/* A tag is never that of an empty place: not 0. */
_Atomic uint64_t ring_keys_generation = GENERATION_ONE;

/*
 * Called behind the change of the shell's tables, before the memory that the key named can be
 * another's. The last generation does not wrap: nothing is remembered in it.
 */
void ring_keys_changed(void)
{
	uint64_t now = atomic_load_explicit(&ring_keys_generation, memory_order_relaxed);

	while (now != GENERATION_LAST && !atomic_compare_exchange_weak_explicit(
						 &ring_keys_generation, &now, now + GENERATION_ONE,
						 memory_order_release, memory_order_relaxed))
		;
}

/* Called by the shell alone, which makes the carriers too. */
int ring_xlat_make(struct sp_qp *qp)
{
	struct ring_xlat_slots *slots;

	if (qp->tx_xlat.slots)
		return 0;
	slots = calloc(2, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	ring_qp_lock(qp);
	qp->tx_xlat.slots = &slots[0];
	qp->rx_xlat.slots = &slots[1];
	ring_qp_unlock(qp);
	return 0;
}

void ring_xlat_free(struct sp_qp *qp)
{
	free(qp->tx_xlat.slots);
}

/* Forgets all keys: another carrier's are others. */
void ring_xlat_forget(struct ring_xlat *x)
{
	memset(x->last, 0, sizeof(x->last));
	x->missing = false;
	if (x->slots)
		memset(x->slots, 0, sizeof(*x->slots));
}

/* Keys of one NIC differ in the bits above the lowest eight, or in those. */
static struct ring_key *slot_of(struct ring_xlat *x, enum ring_key_kind kind, uint32_t key)
{
	return &x->slots->of[kind][(key ^ key >> 8) % RING_KEY_SLOTS];
}

/*
 * Asks the shell. The generation was read before the shell's table is: if it moves meanwhile, the
 * answer may be older than it or not, and is asked for again.
 */
static bool ask(struct sp_qp *qp, struct sp_carrier *c, enum ring_key_kind kind, uint32_t key,
		__be32 *wire)
{
	const struct sp_callbacks *cb = qp->dev->cb;
	uint32_t out;

	if ((kind == RING_RKEY ? cb->rkey : cb->lkey)(qp->cookie, c->epoch, key, &out))
		return false;
	*wire = htobe32(out);
	return true;
}

/* The key is one of those before the last, or the shell knows it. */
__be32 ring_xlat_find(struct sp_qp *qp, struct sp_carrier *c, struct ring_xlat *x,
		      enum ring_key_kind kind, uint32_t key)
{
	struct ring_key *slot = slot_of(x, kind, key);
	uint64_t tag = ring_key_tag(key);
	__be32 wire;

	if (slot->tag != tag) {
		if (!ask(qp, c, kind, key, &wire)) {
			x->missing = true;
			return htobe32(key);
		}
		if (tag >= GENERATION_LAST)
			return wire;
		*slot = (struct ring_key){ tag, wire };
	}
	x->last[kind] = *slot;
	return slot->wire;
}
