/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shell's side of driven CQs: create, add rings of other NICs, collect, watch for errors. */
#include <stdlib.h>

#include "providers/ledger/backlog.h"

/*
 * The fields that ibv_wc has: a completion that no provider holds can be reported by these alone.
 */
#define WC_FLAGS                                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS)

static void ring_setup(struct sp_cq_ring *ring, struct sp_cq *cq, struct sp_dev *dev,
		       struct ibv_cq *real)
{
	ring->engine = dev->engine;
	ring->cq = cq;
	ring->dev = dev;
	ring->real = real;
	ring->poll = dev->saved.poll_cq;
	ring->carriers = dev->carriers;
}

int led_cq_drive(struct sp_dev *dev, struct ibv_cq *ibv, bool cq_ex, uint64_t wc_flags,
		 void *cookie, struct sp_cq **out)
{
	struct sp_cq *cq;
	int err;

	if ((cq_ex && (wc_flags & ~(uint64_t)WC_FLAGS)) || ibv->handle >= LED_MAX_HANDLE)
		return -EOPNOTSUPP;
	cq = aligned_alloc(64, (sizeof(*cq) + 63) & ~63ul);
	if (!cq)
		return -ENOMEM;
	memset(cq, 0, sizeof(*cq));
	err = sp_table_reserve(&dev->tables.cqs, ibv->handle);
	if (err) {
		free(cq);
		return err;
	}
	ring_setup(&cq->ring, cq, dev, ibv);
	cq->engine = dev->engine;
	cq->last = &cq->first;
	cq->turn = &cq->ring;
	cq->ahead.at = cq->ahead.end = cq->ahead.wc;
	cq->arm = dev->saved.req_notify_cq;
	cq->ibv = ibv;
	cq->dev = dev;
	cq->cookie = cookie;
	cq->ex = cq_ex;
	if (cq_ex)
		led_cq_ex_install(cq);
	*out = cq;
	atomic_store_explicit(&dev->cqs[ibv->handle], cq, memory_order_release);
	return 0;
}

int led_cq_undrive(struct sp_cq *cq)
{
	uint32_t users;

	sp_lock(&cq->lock);
	users = cq->users;
	sp_unlock(&cq->lock);
	if (users)
		return -EBUSY;
	atomic_store(&cq->dev->cqs[cq->ibv->handle], NULL);
	if (cq->ex)
		led_cq_ex_restore(cq);
	while (cq->ring.next)
		led_cq_ring_del(cq, cq->ring.next);
	led_backlog_free(cq);
	free(cq);
	return 0;
}

int led_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
		    struct sp_cq_ring **out)
{
	struct sp_cq_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	ring_setup(ring, cq, dev, shadow);
	sp_lock(&cq->lock);
	ring->next = cq->ring.next;
	cq->ring.next = ring;
	sp_unlock(&cq->lock);
	*out = ring;
	return 0;
}

/* Removes a ring. A thread that arms or polls holds the lock. */
void led_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring)
{
	struct sp_cq_ring *prev;

	sp_lock(&cq->lock);
	for (prev = &cq->ring; prev->next != ring;)
		prev = prev->next;
	prev->next = ring->next;
	if (cq->turn == ring)
		cq->turn = &cq->ring;
	led_cq_refresh(cq);
	sp_unlock(&cq->lock);
	free(ring);
}

/* Takes over the armings; the arm number is the provider's affair. */
void led_cq_take_over(struct sp_cq *cq, const struct sp_cq_past *past)
{
	if (past->any)
		atomic_fetch_add(&cq->armings[LED_ARMED_ANY].count, 1);
	if (past->solicited)
		atomic_fetch_add(&cq->armings[LED_ARMED_SOLICITED].count, 1);
}

struct sp_cq_ring *led_cq_own_ring(struct sp_cq *cq)
{
	return &cq->ring;
}

/* -- rings come alive -------------------------------------------------------------------------- */

/*
 * The caller has shown the ring to pollers. A thread that arms counts first, and looks for rings
 * then: one of the two sees what the other stored.
 */
static void arm_if_armed(struct sp_cq_ring *ring)
{
	enum led_armed armed = led_cq_armed(ring->cq);

	if (armed != LED_ARMED_NOT)
		ring->dev->saved.req_notify_cq(ring->real, armed == LED_ARMED_SOLICITED);
}

/* Marks a ring as one where this carrier may complete from now on. The CQ's lock is held. */
void led_live(struct sp_cq_ring *ring, bool *flag)
{
	if (*flag)
		return;
	*flag = true;
	if (ring->live++)
		return;
	led_cq_refresh(ring->cq);
	arm_if_armed(ring);
}

void led_unlive(struct sp_cq_ring *ring, bool *flag)
{
	if (!*flag)
		return;
	*flag = false;
	SP_ASSERT(ring->live);
	if (!--ring->live)
		led_cq_refresh(ring->cq);
}

/* -- collect ----------------------------------------------------------------------------------- */

enum collect_result {
	COLLECT_EMPTY,
	COLLECT_NO_ROOM,
};

static enum collect_result collect_marked(struct sp_cq *cq)
{
	struct led_taken taken;
	struct ibv_wc wc;

	while (cq->marked) {
		if (!cq->free)
			return COLLECT_NO_ROOM;
		if (!led_marked_next(cq, &wc, &taken))
			break;
		led_backlog_push(cq, &wc, &taken);
	}
	return COLLECT_EMPTY;
}

/*
 * Collects until the ring is empty or the reserved room is used up. Delivered requests that wait
 * behind a completion come before the next one.
 */
static enum collect_result collect_ring(struct sp_cq_ring *ring)
{
	struct sp_cq *cq = ring->cq;
	struct led_taken taken;
	struct ibv_wc wc;

	do {
		if (collect_marked(cq) == COLLECT_NO_ROOM || !cq->free)
			return COLLECT_NO_ROOM;
		if (ring->poll(ring->real, 1, &wc) != 1)
			return COLLECT_EMPTY;
		if (led_take(ring, &wc, &taken))
			led_backlog_keep(cq, &wc, &taken);
	} while (true);
}

int led_cq_collect(struct sp_cq *cq)
{
	struct sp_cq_ring *ring;
	enum collect_result res;

	do {
		if (led_backlog_reserve(cq, 1))
			return -ENOMEM;
		res = COLLECT_EMPTY;
		sp_lock(&cq->lock);
		/*
		 * a thread that arms meanwhile does so before its ring is looked at, or asks what
		 * was found
		 */
		led_cq_slow(cq, true);
		for (ring = &cq->ring; ring && res == COLLECT_EMPTY; ring = ring->next)
			res = collect_ring(ring);
		led_cq_refresh(cq);
		sp_unlock(&cq->lock);
	} while (res == COLLECT_NO_ROOM);
	return 0;
}

/* -- errors that nobody polls ------------------------------------------------------------------ */

static bool work_is_out(const struct sp_cq *cq)
{
	for (const struct sp_qp *qp = cq->qps; qp; qp = qp->next_on_scq)
		if (atomic_load(&qp->guard) && led_pub(qp) != led_tail(qp))
			return true;
	return false;
}

/* True if completions are due and nobody polls: verbs cannot look into a CQ without taking. */
bool led_cq_error_waiting(struct sp_cq *cq)
{
	bool waiting;

	if (!sp_trylock(&cq->lock))
		return false;
	waiting = cq->polls == cq->looked && work_is_out(cq);
	cq->looked = cq->polls;
	sp_unlock(&cq->lock);
	return waiting;
}
