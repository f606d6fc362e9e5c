/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 *  The ledger engine: protection over plain verbs, on any NIC whose provider offers RC.
 *
 *  The provider posts and polls; the engine keeps a ledger of what is outstanding, from which it
 *  can be posted again elsewhere. Objects:
 *    sp_dev      one ibv_context: lookup tables, the provider's own verbs
 *    sp_cq       what the application polls: real CQs (rings), backlog, failed queue pairs
 *    sp_qp       what the application posts to, and the ledger: slots of requests and receives
 *    sp_carrier  one real QP that the provider drives
 *
 *  Locks (held around the provider's call, whose own nest inside; the shell may take any of them):
 *    sp_cq.lock        backlog, failed lists, tails and error accounts of the queues that complete
 *                      here
 *    sp_qp.sq_lock     the send side: tx, tx_mode, head, pub, slots
 *    sp_qp.rq_lock     the receive side: rx, rx_mode, head, pub, slots
 *    sp_srq.lock       a shared receive queue
 *  Order: send CQ and receive CQ (by address), sq_lock (never waited for with a CQ held: see
 *  led_qp_lock), rq_lock, sp_srq.lock. sp_cq.ex_lock is held from start_poll to end_poll and orders
 *  only pollers; the shell never takes it.
 */
#ifndef LED_BASE_H
#define LED_BASE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "providers/common/lock.h"
#include "providers/provider.h"
#include "providers/common/table.h"

#pragma GCC visibility push(hidden)

#define led_likely(x)	__builtin_expect(!!(x), 1)
#define led_unlikely(x) __builtin_expect(!!(x), 0)
#define LED_INLINE	static inline __attribute__((always_inline))
#define LED_NOINLINE	__attribute__((noinline, cold))
#define LED_HOT		__attribute__((noinline, hot))

enum led_limits {
	LED_MAX_FD = 1 << 16,	  /* contexts, by command fd */
	LED_MAX_HANDLE = 1 << 20, /* uverbs handles of QPs, CQs and SRQs */
	LED_MAX_WR = 1 << 20,	  /* requests of a queue */
	LED_MAX_SGE = 256,	  /* SGEs of a request */
	LED_BATCH = 16,		  /* requests that are translated, or completions polled, at once */
	LED_CHUNK = 128,	  /* backlog entries of one allocation */
};

/* sp_qp.tx_mode and rx_mode. Zero: the fast path. */
enum led_mode {
	LED_HOLD = 1, /* posts are withheld */
	/* posts are withheld until a key can be translated, or the provider takes them */
	LED_RETRY = 2,
	LED_XLAT = 4,	      /* keys must be translated */
	LED_FAILED = 8,	      /* posts complete with a flush error */
	LED_FENCE = 16,	      /* sends are withheld, behind the fence of an ordered switch */
	LED_GATE = 32,	      /* sends run when the shell lets them pass, one by one */
	LED_WRITES = 64,      /* nothing but WRITEs may run any more: recall.c */
	LED_FENCE_NEXT = 128, /* the next signaled request is the fence */
	LED_WIDE = 256,	      /* some request was not kept in a slot alone */
	LED_HOME = 512,	      /* atomics may not run yet */
	LED_LOG = 1024,	      /* log WQEs come among what is posted */
	LED_TELL = 2048,      /* the next post is told to the shell, once */
};

#pragma GCC visibility pop

#endif
