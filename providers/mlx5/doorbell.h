/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The stores that the NIC sees, and their order. From the PRM's doorbell rules: WQE, then doorbell
 * record, then register.
 */
#ifndef RING_DOORBELL_H
#define RING_DOORBELL_H

#include "providers/mlx5/bf.h"
#include "providers/mlx5/carrier.h"

#ifdef RING_STORE_TRACE
/* Called for every store to a doorbell register, in order, by the differential test. */
extern void (*ring_store_trace)(const void *reg, const void *bytes, unsigned len);
#endif

/* The NIC, reading the record, must find the WQEs written. */
RING_INLINE void ring_to_device_barrier(void)
{
#if defined(__x86_64__)
	atomic_signal_fence(memory_order_seq_cst);
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * The NIC, woken by the register, must find the record written. On x86 the locked instruction that
 * took the register's lock has ordered them.
 */
RING_INLINE void ring_wc_start(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#elif !defined(__x86_64__)
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Orders the same stores where no lock was taken behind the record. */
RING_INLINE void ring_wc_start_unlocked(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#else
	ring_wc_start();
#endif
}

/*
 * The next holder of the register's lock, on another CPU, must not overtake what this CPU still has
 * in its write-combining buffer.
 */
RING_INLINE void ring_wc_end(void)
{
#if defined(__x86_64__)
	__asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

RING_INLINE void ring_store64(uint8_t *reg, uint64_t value)
{
#ifdef RING_STORE_TRACE
	if (ring_store_trace)
		ring_store_trace(reg, &value, 8);
#endif
	__atomic_store_n((uint64_t *)reg, value, __ATOMIC_RELAXED);
}

/* A register of 8 bytes, as it is stored, takes two big-endian words. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RING_FIRST_WORD	 0
#define RING_SECOND_WORD 32
#else
#define RING_FIRST_WORD	 32
#define RING_SECOND_WORD 0
#endif

RING_INLINE uint64_t ring_first_word(__be32 word)
{
	return (uint64_t)word << RING_FIRST_WORD;
}

RING_INLINE uint64_t ring_second_word(__be32 word)
{
	return (uint64_t)word << RING_SECOND_WORD;
}

RING_INLINE __be32 ring_first_word_of(uint64_t value)
{
	return (__be32)(value >> RING_FIRST_WORD);
}

RING_INLINE void ring_store_record(__be32 *record, uint32_t value)
{
	__atomic_store_n(record, htobe32(value), __ATOMIC_RELEASE);
}

typedef uint64_t ring_pair __attribute__((vector_size(16), may_alias));

RING_INLINE void ring_store_pair(uint8_t *reg, const uint8_t *src)
{
	ring_pair v = *(const ring_pair *)src;

#ifdef RING_STORE_TRACE
	if (ring_store_trace)
		ring_store_trace(reg, &v, 16);
#endif
	*(volatile ring_pair *)reg = v;
}

/* Stores 64 bytes by ascending 16-byte stores: a memcpy may store in another order. */
RING_INLINE void ring_store_block(uint8_t *reg, const uint8_t *src)
{
	ring_store_pair(reg, src);
	ring_store_pair(reg + 16, src + 16);
	ring_store_pair(reg + 32, src + 32);
	ring_store_pair(reg + 48, src + 48);
}

RING_INLINE void ring_store_wqe(uint8_t *reg, const struct ring_sq *sq, const void *ctrl,
				uint32_t ds)
{
	const uint8_t *src = ctrl;
	int left = ds * 16;

	do {
		ring_store_block(reg, src);
		reg += 64;
		src += 64;
		if (ring_unlikely(src == sq->end))
			src = sq->buf;
		left -= 64;
	} while (left > 0);
}

/* Stores the record: the first half of a doorbell, without the register's lock. */
RING_INLINE void ring_doorbell_record(struct sp_carrier *c)
{
	SP_ASSERT(c->sq.head - atomic_load(&c->sq.tail) <= c->sq.mask + 1);
	ring_to_device_barrier();
	ring_store_record(&c->dbrec[MLX5_SND_DBR], c->sq.cur_post & 0xffff);
}

/* Stores into the register: the second half, with the register's lock, which it drops. */
RING_INLINE void ring_doorbell_ring(struct ring_bf *bf, const struct ring_sq *sq,
				    const struct mlx5_wqe_ctrl_seg *ctrl, uint32_t nreq,
				    uint32_t ds, bool inl)
{
	ring_wc_start();
	if (nreq == 1 && ds > 1 && ds <= atomic_load_explicit(&bf->bf_ds, memory_order_relaxed) &&
	    (inl || bf->prefer)) {
		ring_store_wqe(bf->reg + bf->offset, sq, ctrl, ds);
	} else {
		uint64_t v;

		memcpy(&v, ctrl, 8);
		ring_store64(bf->reg + bf->offset, v);
	}
	ring_wc_end();
	bf->offset ^= bf->size;
	sp_unlock(&bf->lock);
}

/* Publishes what was laid into the carrier's ring, up to cur_post. */
RING_INLINE void ring_doorbell(struct sp_carrier *c, const struct ring_batch *batch)
{
	ring_doorbell_record(c);
	sp_lock(&c->bf->lock);
	ring_doorbell_ring(c->bf, &c->sq, batch->ctrl, batch->nreq, batch->ds, batch->inl);
}

#endif
