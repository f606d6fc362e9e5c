/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ring engine: mlx5 send, receive and completion rings driven from user space.
 *
 * Layouts are those of infiniband/mlx5dv.h; what is written and returned equals libmlx5
 * (checked by tests/diff). Objects:
 *   sp_dev      one ibv_context: lookup tables and doorbell registers
 *   sp_cq       what the application polls: rings, backlog, failed queue pairs
 *   sp_qp       what the application posts to: limits, modes, the active carriers
 *   sp_carrier  one real QP: its send and receive ring
 *
 * Locks (all are held for memory operations only, so the shell may take any of them):
 *   sp_cq.lock        consumer indices, backlog, failed lists; tails and error accounts of
 *                     the queues that complete here
 *   sp_qp.sq_lock     the send side: tx, tx_mode, hold, heads, WQEs
 *   sp_qp.rq_lock     the receive side: rx, rx_mode, heads, WQEs
 *   ring_bf.lock      one doorbell register
 * Order: send CQ and receive CQ (by address), sq_lock (never waited for with a CQ held: see
 * ring_qp_lock), rq_lock, ring_bf.lock. sp_cq.ex_lock is held from start_poll to end_poll and
 * orders only pollers; the shell never takes it.
 */
#ifndef RING_BASE_H
#define RING_BASE_H

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "providers/common/lock.h"
#include "providers/provider.h"
#include "providers/common/table.h"

#pragma GCC visibility push(hidden)

#define ring_likely(x)	 __builtin_expect(!!(x), 1)
#define ring_unlikely(x) __builtin_expect(!!(x), 0)
#define RING_INLINE	 static inline __attribute__((always_inline))
#define RING_NOINLINE	 __attribute__((noinline, cold))

enum ring_limits {
	RING_MAX_FD = 1 << 16,	   /* contexts, by command fd */
	RING_MAX_HANDLE = 1 << 20, /* uverbs handles of QPs and CQs */
	RING_MAX_DS = 63,	   /* 16-byte units of a send WQE: a 6-bit field */
	RING_CHUNK = 256,	   /* backlog entries of one allocation */
	RING_CQE_DATA = 64,	   /* bytes that a CQE can bring along */
	RING_PSN_MASK = 0xffffff,
	RING_KEY_SLOTS = 8, /* translated keys that a queue remembers, of each kind */
};

/* Opcodes of our own, in a CQE or a WQE's slot; beside the MLX5_OPCODE_* of mlx5dv.h. */
enum ring_pseudo_opcode {
	RING_OP_BIND_MW = 0xf0, /* both are MLX5_OPCODE_UMR on the wire */
	RING_OP_LOCAL_INV = 0xf1,
	RING_OP_LOG = 0xfe,    /* a log WQE: it bears the number of the request before it */
	RING_OP_HIDDEN = 0xff, /* a NOP of our own: never shown to the application */
};

/* The objects, each in the header of its name. */
struct ring_batch;
struct ring_bf;
struct ring_comp;
struct ring_entry;
struct ring_rq;
struct ring_sq;
struct ring_wqe;

#pragma GCC visibility pop

#endif
