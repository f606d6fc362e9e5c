/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "simnic/fabric/check.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/line.h"
#include "simnic/fabric/room.h"

/* longest wait for a line without a queue: beyond it the sender waits */
#define BACKLOG_NS 1000000ULL
/* longest delay of a sender that waits for the line and then for a processor */
#define LATE_NS 20000000ULL
/* lateness at which a packet's taker stands still, or its sender never filled it */
#define GIVE_UP_NS 200000000ULL
#define OVERDUE_NS 10000000ULL /* lateness at which the holder of the lock may have died with it */
#define SPINS	   1000

/* ---- the lock: a process may die with it ----------------------------------------------------- */

static bool line_try(struct sn_line *line, int32_t pid)
{
	int32_t nobody = 0;

	return atomic_compare_exchange_strong(&line->holder, &nobody, pid);
}

static bool line_inherit(struct sn_line *line, int32_t pid)
{
	int32_t holder = atomic_load(&line->holder);

	return holder && !sn_proc_runs(holder) &&
	       atomic_compare_exchange_strong(&line->holder, &holder, pid);
}

static void line_lock(struct sn_line *line, int32_t pid)
{
	for (uint32_t i = 1; !line_try(line, pid); i++) {
		if (i % SPINS)
			continue;
		if (line_inherit(line, pid))
			return;
		sched_yield();
	}
}

static int32_t device_of(const struct sn_fabric *fabric, uint32_t proc)
{
	return sn_proc_device(&fabric->proc[proc]);
}

static void line_unlock(struct sn_line *line)
{
	atomic_store(&line->next_ns, line->n_heap ? line->slot[line->heap[0]].due_ns : UINT64_MAX);
	atomic_store(&line->holder, 0);
}

/* ---- packets by their arrival ---------------------------------------------------------------- */

static bool before(const struct sn_line *line, uint32_t a, uint32_t b)
{
	const struct sn_line_slot *x = &line->slot[line->heap[a]], *y = &line->slot[line->heap[b]];

	return x->due_ns != y->due_ns ? x->due_ns < y->due_ns : x->order < y->order;
}

static void exchange(struct sn_line *line, uint32_t a, uint32_t b)
{
	uint32_t slot = line->heap[a];

	line->heap[a] = line->heap[b];
	line->heap[b] = slot;
}

static void heap_push(struct sn_line *line, uint32_t slot)
{
	uint32_t at = line->n_heap++;

	SN_ASSERT(at < SN_LINE_SLOTS);
	line->heap[at] = slot;
	for (; at && before(line, at, (at - 1) / 2); at = (at - 1) / 2)
		exchange(line, at, (at - 1) / 2);
}

static void heap_pop(struct sn_line *line)
{
	uint32_t at = 0, child;

	SN_ASSERT(line->n_heap && line->n_heap <= SN_LINE_SLOTS);
	line->heap[0] = line->heap[--line->n_heap];
	while ((child = 2 * at + 1) < line->n_heap) {
		if (child + 1 < line->n_heap && before(line, child + 1, child))
			child++;
		if (!before(line, child, at))
			return;
		exchange(line, child, at);
		at = child;
	}
}

/* ---- entering -------------------------------------------------------------------------------- */

static struct sn_line_slot *depart(struct sn_line *line, uint64_t due_ns)
{
	uint32_t i = line->free[--line->n_free];
	struct sn_line_slot *slot = &line->slot[i];

	SN_ASSERT(line->n_free < SN_LINE_SLOTS && i < SN_LINE_SLOTS);
	slot->due_ns = due_ns;
	slot->order = line->order++;
	atomic_store(&slot->ready, 0);
	heap_push(line, i);
	return slot;
}

/* Room for the slot that departs next, or after it. */
static bool slot_make(const struct sn_fabric *fabric, struct sn_line *line, uint32_t nth)
{
	uint32_t i = line->free[line->n_free - 1 - nth];

	if (line->roomy[i / 64] >> i % 64 & 1)
		return true;
	if (sn_room_take(fabric, &line->slot[i], sizeof(line->slot[i])))
		return false;
	line->roomy[i / 64] |= 1ULL << i % 64;
	return true;
}

static uint64_t time_of(const struct sn_line *line, uint64_t bytes)
{
	return line->rate_bps ? bytes * 8000000000ULL / line->rate_bps : 0;
}

/* Is there room? 0; -ENOBUFS: the sender is to wait; -ENOSPC: it is lost. */
static int admit(const struct sn_line *line, uint64_t now_ns, bool may_wait)
{
	const struct sn_line_config *c = &line->config;
	uint64_t waits = line->free_ns > now_ns ? line->free_ns - now_ns : 0;

	if (line->n_free < 2)
		return may_wait && !c->queue ? -ENOBUFS : -ENOSPC;
	if (c->queue)
		return waits > time_of(line, c->queue) ? -ENOSPC : 0;
	return may_wait && waits > BACKLOG_NS ? -ENOBUFS : 0;
}

/*
 * The time at which the next packet begins to leave. A NIC whose packets wait for the line sends
 * them back to back. A process may have waited for a processor since the line refused it; the
 * packets that it then brings at once were there all the time.
 */
static uint64_t departs_from(struct sn_line *line, uint64_t now_ns, bool may_wait)
{
	if (line->refused && may_wait) {
		line->refused = false;
		line->caught_ns = now_ns;
	}
	if (line->caught_ns == now_ns && now_ns < line->free_ns + LATE_NS)
		return line->free_ns;
	return line->free_ns > now_ns ? line->free_ns : now_ns;
}

static int enter(struct sn_line *line, uint64_t bytes, uint64_t now_ns, bool may_wait,
		 struct sn_line_slot *slots[2])
{
	const struct sn_line_config *c = &line->config;
	struct sn_fate fate = sn_fate_of(&c->loss, line->n++);
	uint64_t due;

	line->free_ns = departs_from(line, now_ns, may_wait) + time_of(line, bytes);
	atomic_fetch_add(&line->sent, 1);
	if (fate.lost) {
		atomic_fetch_add(&line->lost, 1);
		return 0;
	}
	due = (may_wait || line->free_ns > now_ns ? line->free_ns : now_ns) + c->delay_ns +
	      (fate.late ? c->reorder_ns : 0);
	atomic_fetch_add(&line->reordered, fate.late);
	slots[0] = depart(line, due);
	if (!fate.twice)
		return 1;
	atomic_fetch_add(&line->duplicated, 1);
	slots[1] = depart(line, due + time_of(line, bytes));
	return 2;
}

int sn_line_enter(struct sn_fabric *fabric, struct sn_line *line, uint64_t bytes, uint32_t proc,
		  uint64_t now_ns, bool may_wait, struct sn_line_slot *slots[2])
{
	int n;

	if (bytes > SN_LINE_PAYLOAD) {
		atomic_fetch_add(&line->oversized, 1);
		return 0;
	}
	line_lock(line, device_of(fabric, proc));
	n = admit(line, now_ns, may_wait);
	if (!n && (!slot_make(fabric, line, 0) || !slot_make(fabric, line, 1)))
		n = -ENOSPC;
	if (!n)
		n = enter(line, bytes, now_ns, may_wait, slots);
	else if (n == -ENOBUFS && line->n_free >= 2)
		line->refused = true; /* the line is busy, not its slots all used */
	line_unlock(line);
	if (n != -ENOSPC)
		return n;
	atomic_fetch_add(&line->overflown, 1);
	return 0;
}

static uint32_t owner_of(const struct sn_fabric *fabric, const struct sn_pkt *pkt)
{
	if (pkt->op == SN_PKT_CM)
		return atomic_load(&fabric->proc[pkt->dst_qpn].pid) > 0 ? pkt->dst_qpn + 1 : 0;
	return atomic_load(&fabric->nic[pkt->dst_host][pkt->dst_nic].qpn_owner[pkt->dst_qpn]);
}

void sn_line_ready(struct sn_fabric *fabric, struct sn_line_slot *slot)
{
	uint32_t owner = owner_of(fabric, &slot->pkt);

	atomic_store_explicit(&slot->ready, 1, memory_order_release);
	if (owner && atomic_load(&fabric->proc[owner - 1].sleeping))
		sn_proc_wake(fabric, owner - 1);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* The first one, if it has arrived and is for this process to take. */
static struct sn_line_slot *arrived(struct sn_fabric *fabric, struct sn_line *line, uint32_t proc,
				    uint64_t now_ns)
{
	struct sn_line_slot *slot = line->n_heap ? &line->slot[line->heap[0]] : NULL;
	uint32_t owner;

	if (!slot || slot->due_ns > now_ns)
		return NULL;
	if (now_ns - slot->due_ns > GIVE_UP_NS)
		return slot;
	if (!atomic_load_explicit(&slot->ready, memory_order_acquire))
		return NULL;
	owner = owner_of(fabric, &slot->pkt);
	return !owner || owner == proc + 1 ? slot : NULL;
}

static struct sn_line_slot *take(struct sn_fabric *fabric, struct sn_line *line, uint32_t proc,
				 uint64_t now_ns)
{
	struct sn_line_slot *slot;

	int32_t pid = device_of(fabric, proc);

	/* The line's last sender may have died with the lock, and nobody else may send. */
	if (!line_try(line, pid) &&
	    (now_ns - atomic_load(&line->next_ns) < OVERDUE_NS || !line_inherit(line, pid)))
		return NULL;
	slot = arrived(fabric, line, proc, now_ns);
	if (slot)
		heap_pop(line);
	line_unlock(line);
	return slot;
}

struct sn_line_slot *sn_line_take(struct sn_fabric *fabric, uint32_t proc, uint64_t now_ns,
				  struct sn_line **line)
{
	struct sn_line_slot *slot;

	for (uint32_t i = 0; i < SN_LINES; i++) {
		*line = &fabric->line[i];
		if (!atomic_load_explicit(&(*line)->active, memory_order_acquire) ||
		    atomic_load_explicit(&(*line)->next_ns, memory_order_relaxed) > now_ns)
			continue;
		slot = take(fabric, *line, proc, now_ns);
		if (slot)
			return slot;
	}
	return NULL;
}

void sn_line_free(struct sn_fabric *fabric, struct sn_line *line, struct sn_line_slot *slot,
		  uint32_t proc)
{
	line_lock(line, device_of(fabric, proc));
	SN_ASSERT(line->n_free < SN_LINE_SLOTS);
	line->free[line->n_free++] = (uint32_t)(slot - line->slot);
	line_unlock(line);
}

uint64_t sn_line_next_ns(const struct sn_fabric *fabric)
{
	uint64_t first = UINT64_MAX, next;

	for (uint32_t i = 0; i < SN_LINES; i++) {
		if (!atomic_load_explicit(&fabric->line[i].active, memory_order_relaxed))
			continue;
		next = atomic_load_explicit(&fabric->line[i].next_ns, memory_order_relaxed);
		first = next < first ? next : first;
	}
	return first;
}

/* ---- which NIC has one ----------------------------------------------------------------------- */

static struct sn_line *numbered(struct sn_fabric *fabric, const _Atomic uint32_t *number)
{
	uint32_t i = atomic_load_explicit(number, memory_order_acquire);

	return i && i <= SN_LINES && atomic_load(&fabric->line[i - 1].on) ? &fabric->line[i - 1]
									  : NULL;
}

/*
 * The line of a packet's way. A GID that nobody has leads to no NIC: then the sender's own cable
 * counts.
 */
struct sn_line *sn_line_of(struct sn_fabric *fabric, const struct sn_pkt *pkt)
{
	struct sn_nic *src = &fabric->nic[pkt->src_host][pkt->src_nic], *dst;
	struct sn_line *line = numbered(fabric, &src->cable.out);

	if (pkt->dst_host >= fabric->n_hosts || pkt->dst_nic >= fabric->n_nics)
		return line;
	dst = &fabric->nic[pkt->dst_host][pkt->dst_nic];
	if (src == dst) /* inside a NIC there is no cable */
		return NULL;
	return line ? line : numbered(fabric, &dst->cable.in);
}

static void line_speed(struct sn_line *line, const struct sn_nic *nic)
{
	line->rate_bps = line->config.rate_bps * sn_speed_share(&nic->cable.speed) / SN_SPEED_WHOLE;
}

/* Packets that are under way on it stay so. */
static void line_set(struct sn_fabric *fabric, struct sn_line *line, const struct sn_nic *nic,
		     const struct sn_line_config *config)
{
	uint32_t i = (uint32_t)(line - fabric->line);

	line_lock(line, getpid());
	line->config = *config;
	line_speed(line, nic);
	line->config.loss.seed = ((uint64_t)fabric->seed << 8) + i;
	line->n = 0;
	line->refused = false;
	if (!atomic_load(&line->active)) {
		for (line->n_free = 0; line->n_free < SN_LINE_SLOTS; line->n_free++)
			line->free[line->n_free] = line->n_free;
		line->n_heap = 0;
	}
	line_unlock(line);
	atomic_store_explicit(&line->active, 1, memory_order_release);
	atomic_store_explicit(&line->on, 1, memory_order_release);
}

static int find(struct sn_fabric *fabric, const struct sn_nic *nic, _Atomic uint32_t *number,
		const struct sn_line_config *config)
{
	uint32_t i = atomic_load(number);

	for (uint32_t k = 0; !i && k < SN_LINES; k++)
		if (!atomic_load(&fabric->line[k].active))
			i = k + 1;
	if (!i)
		return -ENOSPC;
	line_set(fabric, &fabric->line[i - 1], nic, config);
	atomic_store_explicit(number, i, memory_order_release);
	return 0;
}

/* Turns a direction off. Packets under way arrive; the line stays the NIC's. */
static void turn_off(struct sn_fabric *fabric, const _Atomic uint32_t *number)
{
	struct sn_line *line = numbered(fabric, number);

	if (line)
		atomic_store(&line->on, 0);
}

int sn_line_set_way(struct sn_fabric *fabric, uint32_t host, uint32_t nic, enum sn_line_way way,
		    const struct sn_line_config *config)
{
	struct sn_nic *end = &fabric->nic[host][nic];
	_Atomic uint32_t *const numbers[] = { &end->cable.out, &end->cable.in };
	int err = 0;

	for (uint32_t i = 0; i < 2 && !err; i++) {
		if (!(way >> i & 1))
			continue;
		if (config)
			err = find(fabric, end, numbers[i], config);
		else
			turn_off(fabric, numbers[i]);
	}
	return err;
}

void sn_line_speed_changed(struct sn_fabric *fabric, struct sn_nic *nic)
{
	struct sn_line *lines[] = { numbered(fabric, &nic->cable.out),
				    numbered(fabric, &nic->cable.in) };

	for (uint32_t i = 0; i < 2; i++) {
		if (!lines[i])
			continue;
		line_lock(lines[i], getpid());
		line_speed(lines[i], nic);
		line_unlock(lines[i]);
	}
}

int sn_line_set(struct sn_fabric *fabric, uint32_t host, uint32_t nic,
		const struct sn_line_config *config)
{
	return sn_line_set_way(fabric, host, nic, SN_LINE_BOTH, config);
}
