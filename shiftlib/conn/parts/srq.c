/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where the receives of a shared receive queue go. The engine hands them to the queues that
 * carriers take from; here is decided when a queue that nobody takes from any more gives back
 * what it has.
 */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/srq.h"

#define SRQ_RETRY_NS	 SH_NS_PER_MS
#define SRQ_RETRY_MAX_NS (100 * SH_NS_PER_MS)
/*
 * Receives wait so long on a NIC that all have left, for queue pairs that are being set up
 * there.
 */
#define SRQ_CONNECT_NS (500 * SH_NS_PER_MS)
/* A NIC that has died may still write so long, if nothing tells that it is cut off. */
#define SRQ_DEAD_NS (500 * SH_NS_PER_MS)

/* So often the limit of a queue is checked of which the application may poll nothing. */
#define SRQ_LIMIT_NS (20 * SH_NS_PER_MS)

enum sh_srq_pending {
	SRQ_PENDING_STUCK = 1, /* receives wait for the key of a NIC, or lie on the wrong one */
	SRQ_PENDING_LIMIT = 2,
};

/* ---- from the data path ---------------------------------------------------------------------- */

static void srq_pend(struct sh_srq *srq, uint32_t what)
{
	if (!(atomic_fetch_or(&srq->pending, what) & what))
		sh_kick();
}

void sh_srq_cb_stuck(void *srq)
{
	srq_pend(srq, SRQ_PENDING_STUCK);
}

void sh_srq_cb_limit(void *srq)
{
	srq_pend(srq, SRQ_PENDING_LIMIT);
}

int sh_srq_cb_lkey(void *cookie, uint8_t path, uint32_t key, uint32_t *out)
{
	struct sh_srq *srq = cookie;

	return sh_keymap_get(&srq->ctx->lkeys[path], key, out) ? 0 : -ENOENT;
}

/* ---- who takes, who gives -------------------------------------------------------------------- */

/* Is a move to that queue under way? Its receives will be needed there. */
static bool srq_awaited(const struct sh_srq *srq, const struct sh_shadow_srq *shadow)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && qp->standby && qp->standby->srq == shadow &&
		    qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED)
			return true;
	return false;
}

static void srq_lose_standbys(struct sh_srq *srq, const struct sh_shadow_srq *shadow) SH_LOCKED
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && qp->conn_id && qp->standby && qp->standby->srq == shadow)
			sh_carrier_fault(qp, qp->standby, SC_REASON_RESOURCE);
}

/*
 * A queue pair that is not connected yet would lose its queue. If the NIC is dead, that does
 * not matter any more.
 */
static bool srq_set_up_for(const struct sh_srq *srq)
{
	struct sh_qp *qp;

	if (srq->ctx->dead)
		return false;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && !qp->own.srq &&
		    (qp->app.state == IBV_QPS_RESET || qp->app.state == IBV_QPS_INIT))
			return true;
	return false;
}

static bool srq_own_awaited(struct sh_srq *srq)
{
	uint64_t now = sh_now_ns();

	if (!srq->own_idle_since)
		srq->own_idle_since = now;
	return now - srq->own_idle_since < SRQ_CONNECT_NS && srq_set_up_for(srq);
}

/* ---- a NIC that is dead, and those that do not leave it -------------------------------------- */

/*
 * A queue pair that SHIFT does not move, or whose connection has ended, stays where it is.
 * Nothing comes there any more, so what lies there is given to the others, too: on stock the
 * same receives would serve them.
 */

static bool srq_nic_dead(const struct sh_srq *srq, const struct sh_shadow_srq *shadow)
{
	if (shadow)
		return shadow->nic->fatal || shadow->incarnation != shadow->nic->incarnation;
	return srq->ctx->dead;
}

/*
 * True if the dead NIC has written all that it ever will. incarnation: the NIC's when its queue
 * pairs were made. Where nobody can tell, SRQ_DEAD_NS must do: data that came before the death
 * was told has been written by then.
 */
static bool srq_nic_silent(struct sh_srq *srq, struct sh_shadow_srq *shadow, uint32_t incarnation)
{
	struct sh_srq_nic *state = shadow ? &shadow->state : &srq->own_nic;
	const struct sh_nic *nic = shadow ? shadow->nic : srq->ctx->nic;
	const struct sh_removal *removal = shadow ? &nic->removal : &srq->ctx->removal;
	uint64_t now = sh_now_ns();

	if (!state->dead_since)
		state->dead_since = now;
	return now - state->dead_since >= SRQ_DEAD_NS || incarnation != nic->incarnation ||
	       nic->cut.off || removal->over;
}

static const struct sh_shadow_srq *srq_carrier_on(const struct sh_qp *qp,
						  const struct sh_carrier *carrier)
{
	return carrier == &qp->carriers.own ? qp->own.srq : carrier->srq;
}

/*
 * Does that queue pair hinder? One that is protected leaves by itself; of the others all
 * completions have to be known.
 */
static bool srq_qp_hinders(struct sh_srq *srq, struct sh_shadow_srq *shadow, struct sh_qp *qp)
{
	const struct sh_carrier *at = qp->receiving ? qp->receiving : qp->active;
	bool ended = qp->core.move == SC_MOVE_ENDED;

	if (!at || srq_carrier_on(qp, at) != shadow)
		return false;
	if (qp->conn_id && !ended && (qp->core.guarded || qp->core.move != SC_MOVE_NONE))
		return true;
	return !srq_nic_silent(srq, shadow, at->incarnation) || sp_cq_collect(qp->rcq->sp);
}

/* Can its receives be given away though it has users? */
static bool srq_users_dead(struct sh_srq *srq, struct sh_shadow_srq *shadow)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && qp->sp && srq_qp_hinders(srq, shadow, qp))
			return false;
	return true;
}

/*
 * Gives a queue's receives to the others if nobody takes them here. True: to be tried again
 * later.
 */
static bool srq_give_up(struct sh_srq *srq, struct sp_srq_ring *ring,
			struct sh_shadow_srq *shadow) SH_LOCKED
{
	struct sp_srq_state state = sh_srq_ring_state(ring);
	uint32_t n;

	if (!shadow && state.users)
		srq->own_idle_since = 0;
	if (state.spoiled || !state.receives)
		return false;
	if (state.users && !srq_nic_dead(srq, shadow))
		return false;
	if (state.users && !srq_users_dead(srq, shadow))
		return true;
	if (srq->pinned || (shadow ? srq_awaited(srq, shadow) : srq_own_awaited(srq)))
		return true;
	n = sp_srq_recover(ring);
	sh_log(SH_LOG_INFO, "shared receive queue: %u receives left %s", n,
	       shadow ? shadow->nic->name : srq->ctx->nic->name);
	if (shadow)
		srq_lose_standbys(srq, shadow);
	return false;
}

static bool srq_wanted(struct sp_srq_ring *ring)
{
	struct sp_srq_state state = sh_srq_ring_state(ring);

	return state.users && !state.spoiled;
}

/* Does anybody take receives elsewhere than from this queue? */
static bool srq_wanted_elsewhere(struct sh_srq *srq, const struct sp_srq_ring *ring)
{
	struct sp_srq_ring *own = sp_srq_own(srq->sp);
	struct sh_shadow_srq *shadow;

	if (own != ring && srq_wanted(own))
		return true;
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		if (shadow->ring != ring && srq_wanted(shadow->ring))
			return true;
	return false;
}

void sh_srq_check(struct sh_srq *srq)
{
	struct sp_srq_ring *own = sp_srq_own(srq->sp);
	struct sh_shadow_srq *shadow;
	bool later = false;

	if (srq_wanted_elsewhere(srq, own))
		later |= srq_give_up(srq, own, NULL);
	else
		srq->own_idle_since = 0;
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		if (srq_wanted_elsewhere(srq, shadow->ring))
			later |= srq_give_up(srq, shadow->ring, shadow);
	if (later)
		srq->look_at = sh_earlier_ns(srq->look_at, sh_now_ns() + SRQ_RETRY_NS);
}

/* Where nothing comes no receive is put, as long as another NIC can use it. */
static bool srq_rest(const struct sh_nic *nic, bool dead, struct sp_srq_ring *ring, bool *rests)
{
	bool now = dead || !sh_nic_up(nic);

	if (*rests == now)
		return false;
	*rests = now;
	sp_srq_rest(ring, now);
	return true;
}

/* Has any begun or ended to rest? */
static bool srq_rest_all(struct sh_srq *srq)
{
	struct sh_shadow_srq *shadow;
	bool news =
		srq_rest(srq->ctx->nic, srq->ctx->dead, sp_srq_own(srq->sp), &srq->own_nic.rests);

	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		news |= srq_rest(shadow->nic, srq_nic_dead(srq, shadow), shadow->ring,
				 &shadow->state.rests);
	return news;
}

static void srq_limit_event(struct sh_srq *srq)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
					 .element.srq = srq->srq };

	if (sh_async_push(srq->ctx->async, &event, false))
		sh_error_once("the application does not read its asynchronous events: one about "
			      "a shared receive queue is lost");
}

/* Collects completions of the QPs, so that their receives count as taken. */
static void srq_collect(struct sh_srq *srq) SH_LOCKED
{
	struct sh_cq *last = NULL;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (qp->srq != srq || qp->rcq == last || sh_conn_hands_off(qp))
			continue;
		last = qp->rcq;
		(void)sp_cq_collect(last->sp);
	}
}

/*
 * While receives are spread over several NICs, the limit is checked when a completion is taken.
 * An application that waits for the event need not poll until it comes, so SHIFT looks for it.
 */
static void srq_limit_poll(struct sh_srq *srq, uint64_t now) SH_LOCKED
{
	struct sp_srq_state state = sh_srq_ring_state(sp_srq_own(srq->sp));

	if (!state.split || !state.limit) {
		srq->limit_at = 0;
		return;
	}
	if (srq->limit_at > now)
		return;
	srq->limit_at = now + SRQ_LIMIT_NS;
	srq_collect(srq);
}

/* Again and again, ever less often: a key comes soon, or never. */
static void srq_feed(struct sh_srq *srq, uint64_t now)
{
	if (!sp_srq_feed(srq->sp, now, sh.config.core.deadline_ns)) {
		srq->feed_interval = 0;
		return;
	}
	if (!srq->feed_interval || srq->feed_at <= now) {
		srq->feed_interval = srq->feed_interval ? srq->feed_interval * 2 : SRQ_RETRY_NS;
		if (srq->feed_interval > SRQ_RETRY_MAX_NS)
			srq->feed_interval = SRQ_RETRY_MAX_NS;
		srq->feed_at = now + srq->feed_interval;
	}
	srq->look_at = sh_earlier_ns(srq->look_at, srq->feed_at);
}

/* ---- its QPs: when they begin to take, and when they end ------------------------------------- */

bool sh_srq_connectable(const struct sh_qp *qp)
{
	struct sp_srq_ring *ring;

	if (!qp->srq)
		return true;
	ring = qp->own.srq ? qp->own.srq->ring : sp_srq_own(qp->srq->sp);
	return !sh_srq_ring_state(ring).spoiled;
}

static void srq_last_receive_event(struct sh_qp *qp)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
					 .element.qp = qp->qp };

	if (sh_async_push(qp->ctx->async, &event, false))
		sh_error_once("the application does not read its asynchronous events: one about "
			      "a queue pair is lost");
}

/*
 * Is this QP in ERR to the application, with all that it was to get before? What nothing is
 * kept back of goes to ERR as on stock.
 */
static bool srq_qp_ended(const struct sh_qp *qp)
{
	if (!qp->conn_id)
		return true;
	if (qp->error.ending.on)
		return qp->error.ending.over;
	if (qp->app.state == IBV_QPS_ERR || qp->core.move == SC_MOVE_ENDED)
		return true;
	return qp->core.move == SC_MOVE_NONE && !qp->core.guarded;
}

/*
 * Each carrier's NIC raises it once; the application gets that of the last carrier. What is
 * read behind a RESET is of before, and goes through without a mark.
 */
bool sh_srq_last_receive(struct sh_qp *qp, struct sh_carrier *carrier)
{
	sp_qp_last_receive(qp->sp, carrier->epoch);
	if (qp->srq)
		sh_srq_check(qp->srq);
	if (carrier->last_receive == SH_LAST_RECEIVE_TOLD)
		return true;
	if (carrier != qp->active || !srq_qp_ended(qp)) {
		carrier->last_receive = SH_LAST_RECEIVE_KEPT;
		return true;
	}
	if (qp->conn_id)
		carrier->last_receive = SH_LAST_RECEIVE_TOLD;
	if (carrier == &qp->carriers.own)
		return false;
	srq_last_receive_event(qp);
	return true;
}

/* A NIC that is dead does not raise it, but the connection has outlived that. */
static bool srq_last_receive_due(const struct sh_carrier *carrier, bool failed)
{
	switch (carrier->last_receive) {
	case SH_LAST_RECEIVE_NONE: return failed && sh_carrier_dead(carrier);
	case SH_LAST_RECEIVE_KEPT: return true;
	case SH_LAST_RECEIVE_TOLD: return false;
	}
	return false;
}

/* Raises IBV_EVENT_QP_LAST_WQE_REACHED if it was kept back. */
static void srq_ended(struct sh_qp *qp, bool failed)
{
	if (!qp->srq || !srq_last_receive_due(qp->active, failed))
		return;
	qp->active->last_receive = SH_LAST_RECEIVE_TOLD;
	srq_last_receive_event(qp);
}

void sh_srq_silence(struct sh_qp *qp)
{
	qp->active->last_receive = SH_LAST_RECEIVE_TOLD;
}

/* ---- the round ------------------------------------------------------------------------------- */

static void srq_run(struct sh_srq *srq, uint64_t now) SH_LOCKED
{
	uint32_t pending = atomic_exchange(&srq->pending, 0);
	bool due = srq_rest_all(srq) || (srq->look_at && srq->look_at <= now);

	if (due)
		srq->look_at = 0;
	if (pending & SRQ_PENDING_LIMIT)
		srq_limit_event(srq);
	if (due || (pending & SRQ_PENDING_STUCK))
		sh_srq_check(srq);
	srq_limit_poll(srq, now);
	srq_feed(srq, now);
	sh_reclaim_run(srq, now);
	sh_srq_few_run(srq, pending & SRQ_PENDING_STUCK, now);
	sh_srq_clean_run(srq, now);
}

static void srqs_run(uint64_t now) SH_LOCKED
{
	struct sh_ctx *ctx;
	struct sh_srq *srq;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->srqs, srq, struct sh_srq, link)
			srq_run(srq, now);
}

static uint64_t srqs_next_timer(void)
{
	uint64_t at = 0;
	struct sh_ctx *ctx;
	struct sh_srq *srq;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->srqs, srq, struct sh_srq, link)
			at = sh_earlier_ns(at, sh_earlier_ns(srq->look_at, srq->limit_at));
	return at;
}

const struct sh_module sh_srqs_module = {
	.name = "srqs",
	.run = srqs_run,
	.next_timer = srqs_next_timer,
};

/* A shadow's QP takes no more receives. Its struct is there until the event is acknowledged. */
void sh_news_last_receive(const struct ibv_qp *real)
{
	struct sh_qp *qp = real->qp_context;
	int i;

	if (real->qp_context == &sh_reclaim_mark)
		return;
	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (sh_carrier_at(qp, i)->nic && sh_carrier_at(qp, i)->qp == real) {
			sh_srq_last_receive(qp, sh_carrier_at(qp, i));
			return;
		}
}

static void srq_laid(struct sh_qp *qp) SH_LOCKED
{
	if (qp->srq)
		sh_srq_check(qp->srq);
}

const struct sh_conn_part sh_srq_part = {
	.name = "srq",
	.clock.due = srqs_next_timer,
	.move = { .laid = srq_laid, .ended = srq_ended },
};
