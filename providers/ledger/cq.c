/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Polling a CQ (ibv_poll_cq), and what becomes of each completion that the provider gave. */
#include <assert.h>
#include <endian.h>
#include <stddef.h>

#include "providers/ledger/backlog.h"
#include "providers/ledger/errors.h"
#include "providers/ledger/failed.h"
#include "providers/ledger/log.h"
#include "providers/ledger/srq.h"

/* -- one completion ---------------------------------------------------------------------------- */

/* True if wr_id is the address of a slot; *n is then the request there, if it is outstanding. */
bool led_slot_number(const struct sp_qp *qp, uint64_t wr_id, uint32_t *n)
{
	uint64_t at = wr_id - (uintptr_t)qp->sq.slots;
	uint32_t tail = atomic_load_explicit(&qp->tail, memory_order_relaxed);

	if (at / sizeof(union led_send) > qp->sq.mask || at % sizeof(union led_send))
		return false;
	*n = tail + (((uint32_t)(at / sizeof(union led_send)) - tail) & qp->sq.mask);
	return true;
}

struct led_hidden *led_hidden_of(struct sp_carrier *c, uint64_t wr_id)
{
	for (int i = 0; i < LED_HIDDEN_KINDS; i++)
		if (wr_id == (uintptr_t)&c->hidden[i].slot)
			return &c->hidden[i];
	return NULL;
}

/* Completes all requests before n. Their slots are free from here on. */
void led_advance(struct sp_qp *qp, uint32_t n)
{
	if (led_unlikely(atomic_load_explicit(&qp->sq.marks_used, memory_order_relaxed)))
		for (uint32_t i = led_tail(qp); i != n; i++)
			*led_mark(qp, i) = 0;
	atomic_store_explicit(&qp->tail, n, memory_order_release);
}

/* Completes a send. False: the application did not ask for this completion. */
LED_INLINE bool take_send(struct sp_carrier *c, struct ibv_wc *wc)
{
	struct sp_qp *qp = c->qp;
	struct led_hidden *hidden;
	bool signaled;
	uint32_t n;

	if (led_unlikely(!led_slot_number(qp, wc->wr_id, &n))) {
		hidden = led_hidden_of(c, wc->wr_id);
		if (hidden) {
			hidden->out = false;
			if ((int32_t)(hidden->n - led_tail(qp)) > 0)
				led_advance(qp, hidden->n);
		}
		return false;
	}
	wc->wr_id = led_slot(qp, n)->own.wr_id;
	signaled = led_signaled(qp, n);
	led_advance(qp, n + 1);
	return led_likely(signaled);
}

LED_INLINE bool take_recv(struct sp_carrier *c, struct ibv_wc *wc)
{
	struct led_rq *rq = &c->qp->rq;

	if (led_unlikely(c->srq != NULL))
		return led_srq_take(c, wc);
	atomic_store_explicit(&rq->tail, atomic_load_explicit(&rq->tail, memory_order_relaxed) + 1,
			      memory_order_release);
	return true;
}

/*
 * True if the completion is a send's. The opcode of an error says nothing. If both queues complete
 * here, the wr_id tells them apart: of a send it is the address of a slot, where nothing of the
 * application's lies. The outstanding posts cannot tell, as a completion may be polled before its
 * post returns.
 */
static bool is_send(const struct sp_cq_ring *ring, struct sp_carrier *c, const struct ibv_wc *wc)
{
	const struct sp_qp *qp = c->qp;
	uint32_t n;

	if (wc->status == IBV_WC_SUCCESS)
		return !(wc->opcode & IBV_WC_RECV);
	if (qp->scq != qp->rcq)
		return ring->cq == qp->scq;
	return led_hidden_of(c, wc->wr_id) || led_slot_number(qp, wc->wr_id, &n) ||
	       led_log_is(qp, wc->wr_id);
}

/* Looks closer at a carrier's completion. False: drop it. */
static bool take_attn(struct sp_carrier *c, const struct ibv_wc *wc, bool send)
{
	uint32_t attn = atomic_load(&c->attn);

	if (attn & (send ? LED_ATTN_SQ_SEALED : LED_ATTN_RQ_SEALED)) {
		if (!send && c->srq)
			led_srq_give_back(c, wc->wr_id);
		return false;
	}
	if ((attn & LED_ATTN_PROGRESS) && send && wc->status == IBV_WC_SUCCESS &&
	    atomic_fetch_and(&c->attn, ~LED_ATTN_PROGRESS) & LED_ATTN_PROGRESS)
		c->qp->dev->cb->qp_progress(c->qp->cookie, c->epoch);
	return true;
}

/* A QP whose posts go straight to its provider: only what it took of a shared queue is ours. */
static bool take_plain(struct sp_carrier *c, struct ibv_wc *wc)
{
	if (!c->srq || (wc->status == IBV_WC_SUCCESS && !(wc->opcode & IBV_WC_RECV)) ||
	    !led_srq_has(c->srq, wc->wr_id))
		return true;
	return led_srq_take(c, wc);
}

LED_INLINE bool take(struct sp_cq_ring *ring, struct ibv_wc *wc, struct led_taken *taken)
{
	struct sp_carrier *c = led_carrier_of(ring->carriers, wc->qp_num);
	bool send;

	if (led_unlikely(!c || c == &led_carrier_gone)) {
		*taken = (struct led_taken){ 0 };
		return !c && ring == &ring->cq->ring; /* the provider's own; else nobody's */
	}
	taken->qp = c->qp;
	if (led_unlikely(c->qp->plain)) {
		taken->send = false;
		return take_plain(c, wc);
	}
	send = is_send(ring, c, wc);
	taken->epoch = c->epoch;
	taken->send = send;
	if (led_unlikely(atomic_load_explicit(&c->attn, memory_order_relaxed)) &&
	    !take_attn(c, wc, send))
		return false;
	wc->qp_num = c->app_qpn;
	if (led_unlikely(wc->status != IBV_WC_SUCCESS))
		return led_take_error(c, wc, send);
	return send ? take_send(c, wc) : take_recv(c, wc);
}

/* Takes one completion. False: it has nothing for the application. The CQ's lock is held. */
bool led_take(struct sp_cq_ring *ring, struct ibv_wc *wc, struct led_taken *taken)
{
	return take(ring, wc, taken);
}

/* -- delivered requests behind one that runs again --------------------------------------------- */

void led_marked_link(struct sp_qp *qp)
{
	struct sp_qp *at = qp->scq->marked;

	while (at && at != qp)
		at = at->marked_next;
	if (at)
		return;
	qp->marked_next = qp->scq->marked;
	qp->scq->marked = qp;
}

void led_marked_unlink(struct sp_qp *qp)
{
	struct sp_qp **at = &qp->scq->marked;

	while (*at && *at != qp)
		at = &(*at)->marked_next;
	if (*at)
		*at = qp->marked_next;
	qp->marked = 0;
}

/* The request is complete as all before it are. False: it needs no completion. */
static bool marked_pass(struct sp_qp *qp, struct ibv_wc *wc)
{
	uint32_t n = led_tail(qp);
	bool signaled = led_signaled(qp, n);

	if (signaled)
		led_soft_send(qp, n, IBV_WC_SUCCESS, 0, wc);
	SP_ASSERT(qp->marked);
	qp->marked--;
	led_advance(qp, n + 1);
	return signaled;
}

/* Returns the next completion of a delivered request. The CQ's lock is held. */
bool led_marked_next(struct sp_cq *cq, struct ibv_wc *wc, struct led_taken *taken)
{
	struct sp_qp *qp, *next;

	for (qp = cq->marked; qp; qp = next) {
		next = qp->marked_next;
		while (qp->marked && (*led_mark(qp, led_tail(qp)) & LED_MARK_DELIVERED)) {
			*taken = (struct led_taken){ qp, qp->tx->epoch, true };
			if (marked_pass(qp, wc))
				return true;
		}
		if (!qp->marked)
			led_marked_unlink(qp);
	}
	return false;
}

/* -- polling ----------------------------------------------------------------------------------- */

/* Recomputes whether pollers must look elsewhere than into the application's own ring. */
void led_cq_refresh(struct sp_cq *cq)
{
	bool more = led_has_ahead(cq) || cq->first || cq->failed_tx || cq->failed_rx || cq->marked;

	for (struct sp_cq_ring *r = cq->ring.next; r; r = r->next)
		more |= r->live != 0;
	led_cq_slow(cq, more);
	cq->slow |= cq->watched;
}

/* A thread that arms need not know. */
void led_cq_watch_locked(struct sp_cq *cq)
{
	if (!cq->dev->cb->owed)
		return;
	cq->watched = true;
	cq->slow = true;
}

void led_cq_watch(struct sp_cq *cq)
{
	sp_lock(&cq->lock);
	led_cq_watch_locked(cq);
	sp_unlock(&cq->lock);
}

/*
 * Called when a poll of a watched CQ found nothing; true: the poller has to give way, behind the
 * locks. The lock is held.
 */
bool led_cq_owed(struct sp_cq *cq)
{
	const struct sp_callbacks *cb = cq->dev->cb;

	cq->watched = cb->owed();
	if (!cq->watched)
		led_cq_refresh(cq);
	return cq->watched;
}

enum step {
	STEP_EMPTY, /* the rings have nothing */
	STEP_TOOK,  /* a completion that is not the application's: it may have ended a wait */
	STEP_SHOWN,
};

static enum step ring_step(struct sp_cq_ring *ring, struct ibv_wc *wc)
{
	struct led_taken taken;

	if (!ring->live && ring != &ring->cq->ring)
		return STEP_EMPTY;
	if (ring->poll(ring->real, 1, wc) != 1)
		return STEP_EMPTY;
	return take(ring, wc, &taken) ? STEP_SHOWN : STEP_TOOK;
}

static enum step rings_step(struct sp_cq *cq, struct ibv_wc *wc)
{
	struct sp_cq_ring *first = cq->turn, *r = first;
	enum step step;

	do {
		step = ring_step(r, wc);
		r = r->next ? r->next : &cq->ring;
	} while (step == STEP_EMPTY && r != first);
	cq->turn = r;
	return step;
}

/*
 * Returns the next completion of a CQ with more than one ring: the backlog first, as it is older
 * than what the rings hold, then failed QPs, then the rings in turn.
 */
bool led_cq_next(struct sp_cq *cq, struct ibv_wc *wc)
{
	struct led_taken taken;
	enum step step;

	do {
		if (led_ahead_pop(cq, wc) || led_backlog_pop(cq, wc) || led_failed_next(cq, wc) ||
		    led_marked_next(cq, wc, &taken))
			return true;
		step = rings_step(cq, wc);
	} while (step == STEP_TOOK);
	return step == STEP_SHOWN;
}

/* True for a good completion of that queue: compares status and opcode as one word. */
LED_INLINE bool is_good(const struct ibv_wc *wc, bool send)
{
	const uint64_t recv = (uint64_t)IBV_WC_RECV << 32;
	uint64_t both;

	static_assert(offsetof(struct ibv_wc, opcode) == offsetof(struct ibv_wc, status) + 4,
		      "side by side");
	memcpy(&both, (const char *)wc + offsetof(struct ibv_wc, status), sizeof(both));
	both = le64toh(both);
	return (both & (recv | UINT32_MAX)) == (send ? 0 : recv);
}

LED_INLINE bool in_run(const struct ibv_wc *wc, uint32_t qpn, bool send)
{
	return wc->qp_num == qpn && is_good(wc, send);
}

/* Completes all requests up to the one in that slot; none of them has a mark. */
LED_INLINE void sent_up_to(struct sp_qp *qp, uint32_t number)
{
	uint32_t tail = atomic_load_explicit(&qp->tail, memory_order_relaxed);

	atomic_store_explicit(&qp->tail, tail + ((number - tail) & qp->sq.mask) + 1,
			      memory_order_release);
}

/*
 * Returns the end of the run, from wc, of good completions of that carrier's send queue: nothing to
 * look for, none hidden, and all asked for by the application. They are accounted for at once.
 */
LED_INLINE struct ibv_wc *sends_run(struct sp_carrier *c, struct ibv_wc *wc,
				    const struct ibv_wc *end)
{
	struct sp_qp *qp = c->qp;
	const uint64_t slots = (uintptr_t)qp->sq.slots, size = qp->sq.bytes;
	const union led_send *last = NULL;
	const uint32_t qpn = wc->qp_num;

	do {
		uint64_t at = wc->wr_id;

		if (led_unlikely(at - slots >= size))
			break;
		last = (const union led_send *)(uintptr_t)at;
		wc->wr_id = last->own.wr_id;
		wc++;
	} while (wc != end && in_run(wc, qpn, true));
	if (led_likely(last))
		sent_up_to(qp, (uint32_t)(last - qp->sq.slots));
	return wc;
}

LED_INLINE struct ibv_wc *recvs_run(struct sp_carrier *c, struct ibv_wc *wc,
				    const struct ibv_wc *end)
{
	struct led_rq *rq = &c->qp->rq;
	const struct ibv_wc *first = wc;
	const uint32_t qpn = wc->qp_num;
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);

	do
		wc++;
	while (wc != end && in_run(wc, qpn, false));
	atomic_store_explicit(&rq->tail, tail + (uint32_t)(wc - first), memory_order_release);
	return wc;
}

static void name_run(const struct sp_carrier *c, struct ibv_wc *wc, const struct ibv_wc *end)
{
	for (; wc != end; wc++)
		wc->qp_num = c->app_qpn;
}

LED_INLINE uint32_t attn_of(const struct sp_carrier *c)
{
	return atomic_load_explicit(&c->attn, memory_order_relaxed);
}

/* Returns the end of the run, from wc, of usual completions; wc: the first needs a closer look. */
LED_INLINE struct ibv_wc *take_run(struct sp_cq_ring *ring, struct ibv_wc *wc,
				   const struct ibv_wc *end)
{
	struct sp_carrier *c = led_carrier_of(ring->carriers, wc->qp_num);
	struct ibv_wc *to;

	if (led_unlikely(!c || (attn_of(c) & ~LED_ATTN_NAMED)))
		return wc;
	if (is_good(wc, true))
		to = sends_run(c, wc, end);
	else if (led_likely(is_good(wc, false)))
		to = recvs_run(c, wc, end);
	else
		return wc;
	if (led_unlikely(attn_of(c)))
		name_run(c, wc, to);
	return to;
}

/* Takes one completion alone, of a send: what programs with a few requests under way poll. */
LED_INLINE bool take_send_alone(struct sp_cq_ring *ring, struct ibv_wc *wc)
{
	struct sp_carrier *c = led_carrier_of(ring->carriers, wc->qp_num);
	const union led_send *slot;
	struct sp_qp *qp;
	uint64_t at;

	if (led_unlikely(!c || attn_of(c)) || !is_good(wc, true))
		return false;
	qp = c->qp;
	at = wc->wr_id - (uintptr_t)qp->sq.slots;
	if (led_unlikely(at >= qp->sq.bytes))
		return false;
	slot = (const union led_send *)(uintptr_t)wc->wr_id;
	wc->wr_id = slot->own.wr_id;
	sent_up_to(qp, (uint32_t)(at / sizeof(*slot)));
	return true;
}

/*
 * Takes all completions from wc to end. Returns how many are the application's; these move up, in
 * order.
 */
static int take_all(struct sp_cq_ring *ring, struct ibv_wc *wc, const struct ibv_wc *end)
{
	struct ibv_wc *to = wc, *from, *behind;
	const struct ibv_wc *first = wc;
	struct led_taken taken;

	for (from = wc; from != end; from = behind) {
		behind = take_run(ring, from, end);
		if (behind != from) {
			memmove(to, from, (size_t)((char *)behind - (char *)from));
			to += behind - from;
		} else {
			behind++;
			*to = *from;
			to += take(ring, to, &taken);
		}
	}
	return (int)(to - first);
}

/* Polls again for the places that stayed free, as some of n completions were withheld. */
static LED_NOINLINE int poll_again(struct sp_cq_ring *ring, int got, int n, struct ibv_wc *wc)
{
	int asked, polled;

	do {
		asked = n - got;
		polled = ring->poll(ring->real, asked, wc + got);
		if (polled < 0)
			return got ? got : polled;
		got += take_all(ring, wc + got, wc + got + polled);
	} while (got < n && polled == asked);
	return got;
}

static LED_NOINLINE int take_more(struct sp_cq_ring *ring, int got, int polled, int n,
				  struct ibv_wc *wc)
{
	got += take_all(ring, wc + got, wc + polled);
	return got < polled && polled == n ? poll_again(ring, got, n, wc) : got;
}

/* Returns how many of n places the application gets filled. */
static LED_HOT int take_polled(struct sp_cq_ring *ring, int polled, int n, struct ibv_wc *wc)
{
	struct ibv_wc *to = take_run(ring, wc, wc + polled);

	if (led_likely(to == wc + polled))
		return polled;
	return take_more(ring, (int)(to - wc), polled, n, wc);
}

LED_INLINE int poll_ring(struct sp_cq_ring *ring, int n, struct ibv_wc *wc)
{
	int polled = ring->poll(ring->real, n, wc);

	return polled > 0 ? take_polled(ring, polled, n, wc) : polled;
}

/*
 * Polls each ring in turn, as after a move; the ring that filled the last place comes last next
 * time.
 */
static int poll_rings(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	struct sp_cq_ring *first = cq->turn, *r = first;
	int got = 0, polled;

	do {
		polled = r->live || r == &cq->ring ? poll_ring(r, n - got, wc + got) : 0;
		got += polled > 0 ? polled : 0;
		r = r->next ? r->next : &cq->ring;
	} while (got < n && r != first);
	cq->turn = r;
	return got;
}

/* Called with the CQ's lock; drops it. */
static LED_NOINLINE int poll_slow(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	int got = 0;
	bool owed;

	if (!led_has_ahead(cq) && !cq->first && !cq->failed_tx && !cq->failed_rx && !cq->marked)
		got = poll_rings(cq, n, wc);
	else
		while (got < n && led_cq_next(cq, &wc[got]))
			got++;
	led_cq_refresh(cq);
	owed = !got && cq->watched && led_cq_owed(cq);
	sp_unlock(&cq->lock);
	if (owed)
		cq->dev->cb->give_way();
	return got;
}

static LED_NOINLINE int poll_late(struct sp_cq *cq, int n, struct ibv_wc *wc)
{
	sp_lock_wait(&cq->lock);
	cq->polls++;
	return poll_slow(cq, n, wc);
}

int led_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct sp_cq *cq = led_cq_of(ibv->context, ibv->handle);
	int got;

	if (led_unlikely(!cq))
		return led_dev_of(ibv->context)->saved.poll_cq(ibv, n, wc);
	if (led_unlikely(!sp_trylock(&cq->lock)))
		return poll_late(cq, n, wc);
	cq->polls++;
	if (led_unlikely(cq->slow))
		return poll_slow(cq, n, wc);
	cq->room = wc;
	cq->places = n;
	got = cq->ring.poll(ibv, n, wc);
	if (got > 0 && (got > 1 || !take_send_alone(&cq->ring, cq->room)))
		got = take_polled(&cq->ring, got, cq->places, cq->room);
	sp_unlock(&cq->lock);
	return got;
}

/*
 * Takes `got` (not 0) completions that were polled into `ahead`, of a CQ with its own ring alone.
 * Returns how many are to be shown.
 */
int led_cq_take_ahead(struct sp_cq *cq, int got)
{
	struct led_ahead *ahead = &cq->ahead;

	if (got > 1 || !take_send_alone(&cq->ring, ahead->wc))
		got = take_polled(&cq->ring, got, LED_BATCH, ahead->wc);
	ahead->at = ahead->wc;
	ahead->end = ahead->wc + (got > 0 ? got : 0);
	led_cq_slow(cq, got > 1);
	cq->slow |= cq->watched;
	return got;
}
