/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bounded queue, many producers in many processes, one consumer. A slot's seq says whose turn it
 * is: 2 * lap = free for the producer of that lap, 2 * lap + 1 = filled. All zero is the empty
 * queue, so a new fabric file stays sparse.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/proc.h"

/*
 * A producer may die (kill -9) between taking a slot and filling it: after STALL_NS the reader
 * asks whether it runs. A producer that only gets no core keeps its slot, as a datagram is sent
 * once. No slot waits for ever: EVER_NS, or NOBODY_NS where the producer had not even said who it
 * is.
 */
#define SN_INBOX_STALL_NS  200000000ULL
#define SN_INBOX_NOBODY_NS 1000000000ULL
#define SN_INBOX_EVER_NS   5000000000ULL

static uint32_t lap_of(uint64_t position)
{
	return 2 * (uint32_t)(position / SN_INBOX_SLOTS);
}

static void pkt_copy(struct sn_pkt *to, const struct sn_pkt *from)
{
	size_t start = offsetof(struct sn_pkt, op), n;

	memcpy((char *)to + start, (const char *)from + start,
	       offsetof(struct sn_pkt, sge) - start);
	if (from->n_sge) {
		n = from->n_sge < SN_PKT_MAX_SGE ? from->n_sge : SN_PKT_MAX_SGE;
		memcpy(to->sge, from->sge, n * sizeof(from->sge[0]));
	} else {
		n = from->n_inline < SN_PKT_INLINE ? from->n_inline : SN_PKT_INLINE;
		memcpy(to->data, from->data, n);
	}
}

/* Takes the next free slot, or NULL when the queue is full. */
static struct sn_pkt *slot_take(struct sn_proc *proc, uint32_t *lap)
{
	uint64_t head = atomic_load_explicit(&proc->head, memory_order_relaxed);

	for (;;) {
		struct sn_pkt *slot = &proc->inbox[head % SN_INBOX_SLOTS];
		/* Acquire pairs with the consumer's release of the slot one lap ago. */
		int32_t age = atomic_load_explicit(&slot->seq, memory_order_acquire) - lap_of(head);

		if (age < 0)
			return NULL;
		if (age > 0) {
			head = atomic_load_explicit(&proc->head, memory_order_relaxed);
			continue;
		}
		if (atomic_compare_exchange_weak_explicit(&proc->head, &head, head + 1,
							  memory_order_relaxed,
							  memory_order_relaxed)) {
			*lap = lap_of(head);
			return slot;
		}
	}
}

int sn_inbox_push(struct sn_fabric *fabric, uint32_t proc, const struct sn_pkt *pkt)
{
	struct sn_proc *to;
	struct sn_pkt *slot;
	uint32_t lap;

	if (proc >= SN_MAX_PROCS)
		return -ESRCH;
	to = &fabric->proc[proc];
	if (!atomic_load_explicit(&to->pid, memory_order_relaxed))
		return -ESRCH;
	slot = slot_take(to, &lap);
	if (!slot)
		return -ENOBUFS;
	atomic_store_explicit(&slot->filler, getpid(), memory_order_relaxed);
	pkt_copy(slot, pkt);
	/* Release orders the packet before its seq for the consumer. An exchange, not a store: the
	 * consumer may have given this slot up meanwhile, then the packet is lost. */
	if (!atomic_compare_exchange_strong_explicit(&slot->seq, &lap, lap + 1,
						     memory_order_release, memory_order_relaxed))
		return -ENOBUFS;
	sn_proc_wake(fabric, proc);
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* The slot at the tail is taken but not filled: its producer is slow, or dead for long. */
static bool slot_abandoned(const struct sn_pkt *slot, uint64_t tail)
{
	static _Thread_local const struct sn_pkt *stalled;
	static _Thread_local uint64_t stalled_tail, since, looked;
	uint64_t now = now_ns();
	int32_t filler;

	if (stalled != slot || stalled_tail != tail) {
		stalled = slot;
		stalled_tail = tail;
		since = looked = now;
	}
	if (now - looked <= SN_INBOX_STALL_NS)
		return false;
	looked = now;
	filler = atomic_load_explicit(&slot->filler, memory_order_relaxed);
	if (!filler)
		return now - since > SN_INBOX_NOBODY_NS;
	return now - since > SN_INBOX_EVER_NS || !sn_proc_runs(filler);
}

bool sn_inbox_pop(struct sn_proc *proc, struct sn_pkt *out)
{
	uint64_t tail = atomic_load_explicit(&proc->tail, memory_order_relaxed);

	for (;; tail++) {
		struct sn_pkt *slot = &proc->inbox[tail % SN_INBOX_SLOTS];
		uint32_t seq = lap_of(tail);

		if (tail == atomic_load_explicit(&proc->head, memory_order_acquire))
			return false;
		/* Acquire pairs with the producer's release: seq says filled, the packet is. */
		int32_t age =
			(int32_t)(atomic_load_explicit(&slot->seq, memory_order_acquire) - seq);

		if (age >= 2) {
			/* the taker of the packet was killed before it had moved the tail */
			atomic_store_explicit(&proc->tail, tail + 1, memory_order_relaxed);
			continue;
		}
		if (age == 1) {
			pkt_copy(out, slot);
			atomic_store_explicit(&slot->filler, 0, memory_order_relaxed);
			atomic_store_explicit(&slot->seq, seq + 2, memory_order_release);
			atomic_store_explicit(&proc->tail, tail + 1, memory_order_relaxed);
			return true;
		}
		if (!slot_abandoned(slot, tail))
			return false;
		atomic_store_explicit(&slot->filler, 0, memory_order_relaxed);
		if (atomic_compare_exchange_strong(&slot->seq, &seq, seq + 2))
			atomic_store_explicit(&proc->tail, tail + 1, memory_order_relaxed);
		else
			tail--; /* filled at the last moment: look again */
	}
}

uint64_t sn_inbox_end(const struct sn_proc *proc)
{
	return atomic_load_explicit(&proc->head, memory_order_relaxed);
}

bool sn_inbox_read(const struct sn_proc *proc, uint64_t place)
{
	return atomic_load_explicit(&proc->tail, memory_order_relaxed) >= place;
}

bool sn_inbox_empty(const struct sn_proc *proc)
{
	return atomic_load_explicit(&proc->tail, memory_order_relaxed) ==
	       atomic_load_explicit(&proc->head, memory_order_acquire);
}
