/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The carrier's keys of requests that are written into its ring. The application's own keys are
 * laid aside, in case the request has to go into another ring.
 */
#ifndef RING_XLAT_H
#define RING_XLAT_H

#include "providers/mlx5/qp.h"
#include "providers/mlx5/seg.h"

#pragma GCC visibility push(hidden)

/*
 * Generation of all keys, in the upper half; moves when a translation ends (ring_keys_changed).
 * Read with acquire, against the release there: a thread that finds the new generation finds no old
 * translation in the shell's tables. A thread that finds the old one posts while the key goes away,
 * and not after.
 */
extern _Atomic uint64_t ring_keys_generation;

void ring_keys_changed(void);
RING_NOINLINE __be32 ring_xlat_find(struct sp_qp *qp, struct sp_carrier *c, struct ring_xlat *x,
				    enum ring_key_kind kind, uint32_t key);
void ring_xlat_forget(struct ring_xlat *x);
int ring_xlat_make(struct sp_qp *qp); /* before the QP's first carrier with other keys */
void ring_xlat_free(struct sp_qp *qp);

#pragma GCC visibility pop

RING_INLINE uint64_t ring_key_tag(uint32_t key)
{
	return atomic_load_explicit(&ring_keys_generation, memory_order_acquire) | key;
}

/* True if the key is the last one that was asked for. */
RING_INLINE bool ring_xlat_hit(const struct ring_xlat *x, enum ring_key_kind kind, uint32_t key)
{
	uint64_t tag = ring_key_tag(key);

	return ring_likely(tag == x->last[kind].tag);
}

/*
 * Returns the carrier's key. A key that is not known stays what it is: the NIC must not see the
 * request, and x->missing says so.
 */
RING_INLINE __be32 ring_xlat(struct sp_qp *qp, struct ring_xlat *x, enum ring_key_kind kind,
			     uint32_t key)
{
	if (!ring_xlat_hit(x, kind, key))
		return ring_xlat_find(qp, x == &qp->tx_xlat ? qp->tx : qp->rx, x, kind, key);
	return x->last[kind].wire;
}

/* Lays aside the key of the 16-byte unit at seg. */
RING_INLINE void ring_key_aside(uintptr_t keys_at, const uint8_t *seg, uint32_t key)
{
	*(uint32_t *)((uintptr_t)seg + keys_at) = key;
}

RING_INLINE void ring_xlat_aside(const struct ring_sq *sq, const uint8_t *seg, uint32_t key)
{
	ring_key_aside(sq->keys_at, seg, key);
}

/* Write segments of a send ring with the carrier's keys. */
RING_INLINE void ring_xlat_raddr(struct sp_qp *qp, const struct ring_sq *sq, uint8_t *at,
				 uint64_t addr, uint32_t rkey)
{
	ring_xlat_aside(sq, at, rkey);
	ring_seg_raddr_wire(at, addr, ring_xlat(qp, &qp->tx_xlat, RING_RKEY, rkey));
}

RING_INLINE void ring_xlat_data(struct sp_qp *qp, const struct ring_sq *sq, uint8_t *at,
				uint64_t addr, uint32_t lkey, uint32_t length)
{
	ring_xlat_aside(sq, at, lkey);
	ring_seg_data_wire(at, addr, ring_xlat(qp, &qp->tx_xlat, RING_LKEY, lkey), length);
}

#endif
