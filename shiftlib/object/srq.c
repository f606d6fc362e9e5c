/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues, and their shadows on the NICs of the paths. The engine hands receives to
 * the queues that carriers take from; here is decided when a queue that nobody takes from any more
 * gives back what it has, and by what it is replaced.
 *
 * A queue that gave back is never used again, as its NIC may have read ahead: standbys on it are made
 * anew, and QPs that the application makes on its own queue later get one that stands in for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

#define SRQ_RETRY_NS	 SH_NS_PER_MS
#define SRQ_RETRY_MAX_NS (100 * SH_NS_PER_MS)
/* Receives wait so long on a NIC that all have left, for queue pairs that are being set up there. */
#define SRQ_CONNECT_NS (500 * SH_NS_PER_MS)

enum sh_srq_pending {
	SRQ_PENDING_STUCK = 1, /* receives wait for the key of a NIC */
	SRQ_PENDING_LIMIT = 2,
};

struct sh_srq *sh_srq_of(const struct ibv_srq *srq)
{
	return srq ? sh_table_get(&sh_objects.by_srq, srq) : NULL;
}

struct sh_srq *sh_srq_driven(const struct ibv_srq *real)
{
	struct sh_srq *srq = sh_srq_of(real);

	return srq && !srq->left ? srq : NULL;
}

/* ---- from the data path --------------------------------------------------------------------- */

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

/* ---- shadows -------------------------------------------------------------------------------- */

static struct sp_srq_state srq_state(struct sp_srq_ring *ring)
{
	struct sp_srq_state state;

	sp_srq_look(ring, &state);
	return state;
}

bool sh_srq_shadow_usable(const struct sh_shadow_srq *shadow)
{
	return shadow->incarnation == shadow->nic->incarnation && !srq_state(shadow->ring).spoiled;
}

/* Lock not held. dev: of the PD's context. */
static struct sh_shadow_srq *srq_shadow_new(struct sh_srq *srq, struct sh_nic *nic,
					    struct ibv_pd *pd)
{
	struct sh_shadow_srq *shadow = calloc(1, sizeof(*shadow));
	struct ibv_srq_init_attr attr = { .attr = srq->attr };

	if (!shadow)
		return NULL;
	attr.attr.srq_limit = 0;
	shadow->refs = 1;
	shadow->nic = nic;
	shadow->incarnation = nic->incarnation;
	shift_async_real_begin(pd->context);
	shadow->srq = sh.real->create_srq(pd, &attr);
	shift_async_real_end(pd->context);
	if (shadow->srq)
		return shadow;
	free(shadow);
	return NULL;
}

static int srq_shadow_add(struct sh_srq *srq, struct sh_shadow_srq *shadow, struct sp_dev *dev,
			  uint8_t path)
{
	int ret = sp_srq_ring_add(srq->sp, dev, shadow->srq, path, &shadow->ring);

	if (ret)
		return ret;
	list_add_tail(&srq->shadows, &shadow->link);
	if (dev != srq->ctx->dev)
		sh_nic_hold(shadow->nic, shadow->incarnation);
	return 0;
}

static void srq_shadow_free(struct sh_srq *srq, struct sh_shadow_srq *shadow, bool held)
{
	sh_reclaim_destroy(&shadow->reclaim);
	sh.real->destroy_srq(shadow->srq);
	if (held) {
		pthread_mutex_lock(&sh.lock);
		sh_nic_release(shadow->nic, shadow->incarnation);
		pthread_mutex_unlock(&sh.lock);
	}
	free(shadow);
}

/* Lock held, given up meanwhile. What it still had has been given back. */
void sh_srq_shadow_put(struct sh_srq *srq, struct sh_shadow_srq *shadow)
{
	bool own;

	if (!shadow || --shadow->refs)
		return;
	own = shadow->srq->context == srq->ctx->ctx;
	if (srq_state(shadow->ring).receives) /* its QPs are gone: nobody can take them any more */
		sp_srq_recover(shadow->ring);
	sh_reclaim_forget(&shadow->reclaim);
	list_del(&shadow->link);
	sp_srq_ring_del(shadow->ring);
	sh_job_begin(&srq->busy);
	pthread_mutex_unlock(&sh.lock);
	srq_shadow_free(srq, shadow, !own);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&srq->busy);
}

struct sh_shadow_srq *sh_srq_shadow_get(struct sh_srq *srq, uint8_t path)
{
	struct sh_shadow_srq *shadow = srq->shadow[path];

	shadow->refs++;
	return shadow;
}

int sh_srq_shadow_make(struct sh_srq *srq, uint8_t path)
{
	struct sh_nic *nic = srq->ctx->path[path];
	struct sh_shadow_srq *shadow = srq->shadow[path], *before;
	int ret;

	if (shadow && sh_srq_shadow_usable(shadow))
		return 0;
	shadow = srq_shadow_new(srq, nic, srq->pd->shadow[path].pd);
	if (!shadow)
		return -ENOMEM;
	pthread_mutex_lock(&sh.lock);
	ret = srq_shadow_add(srq, shadow, nic->dev, path);
	if (!ret) {
		before = srq->shadow[path];
		srq->shadow[path] = shadow;
		sh_srq_shadow_put(srq, before);
	}
	pthread_mutex_unlock(&sh.lock);
	if (ret)
		srq_shadow_free(srq, shadow, false);
	return ret;
}

/* ---- the application's own, and what stands in for it --------------------------------------- */

static int srq_own_make(struct sh_srq *srq)
{
	struct sh_shadow_srq *shadow, *before = srq->own;
	int ret;

	sh_job_begin(&srq->busy);
	pthread_mutex_unlock(&sh.lock);
	shadow = srq_shadow_new(srq, srq->ctx->nic, srq->pd->pd);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&srq->busy);
	if (!shadow)
		return -errno;
	ret = srq_shadow_add(srq, shadow, srq->ctx->dev, 0);
	if (ret || srq->own != before) { /* or another thread was quicker */
		sh_job_begin(&srq->busy);
		if (!ret) {
			list_del(&shadow->link);
			sp_srq_ring_del(shadow->ring);
		}
		pthread_mutex_unlock(&sh.lock);
		srq_shadow_free(srq, shadow, false);
		pthread_mutex_lock(&sh.lock);
		sh_job_end(&srq->busy);
		return ret;
	}
	srq->own = shadow;
	sh_srq_shadow_put(srq, before);
	return 0;
}

struct ibv_srq *sh_srq_for_qp(struct sh_srq *srq, struct sh_shadow_srq **hold)
{
	int ret;

	*hold = NULL;
	if (!srq->own_idle_since && !srq_state(sp_srq_own(srq->sp)).spoiled)
		return srq->srq; /* an idle one is about to give its receives away */
	while (!srq->own || srq_state(srq->own->ring).spoiled) {
		ret = srq_own_make(srq);
		if (ret) {
			errno = -ret;
			return NULL;
		}
	}
	srq->own->refs++;
	*hold = srq->own;
	return srq->own->srq;
}

bool sh_srq_connectable(struct sh_qp *qp)
{
	struct sp_srq_ring *ring;

	if (!qp->srq)
		return true;
	ring = qp->own.srq ? qp->own.srq->ring : sp_srq_own(qp->srq->sp);
	return !srq_state(ring).spoiled;
}

/* ---- who takes, who gives ------------------------------------------------------------------- */

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

static void srq_lose_standbys(struct sh_srq *srq, const struct sh_shadow_srq *shadow)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->srq == srq && qp->conn_id && qp->standby && qp->standby->srq == shadow)
			sh_carrier_fault(qp, qp->standby, SC_REASON_RESOURCE);
}

/*
 * A queue pair that is not connected yet would lose its queue. If the NIC is dead, that does not matter
 * any more.
 */
static bool srq_set_up_for(const struct sh_srq *srq)
{
	struct sh_qp *qp;

	if (srq->ctx->death_masked)
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

/* Its receives are given to the others, if nobody takes them here. Returns: later. */
static bool srq_give_up(struct sh_srq *srq, struct sp_srq_ring *ring,
			const struct sh_shadow_srq *shadow)
{
	struct sp_srq_state state = srq_state(ring);
	uint32_t n;

	if (!shadow && state.users)
		srq->own_idle_since = 0;
	if (state.users || state.spoiled || !state.receives)
		return false;
	if (srq->pinned || (shadow ? srq_awaited(srq, shadow) : srq_own_awaited(srq)))
		return true;
	n = sp_srq_recover(ring);
	sh_log(SH_LOG_INFO, "shared receive queue: %u receives left %s", n,
	       shadow ? shadow->nic->name : srq->ctx->nic->name);
	if (shadow)
		srq_lose_standbys(srq, shadow);
	return false;
}

/* Does anybody take receives elsewhere than from this queue? */
static bool srq_wanted_elsewhere(struct sh_srq *srq, const struct sp_srq_ring *ring)
{
	struct sp_srq_ring *own = sp_srq_own(srq->sp);
	struct sh_shadow_srq *shadow;

	if (own != ring && srq_state(own).users)
		return true;
	list_for_each (&srq->shadows, shadow, struct sh_shadow_srq, link)
		if (shadow->ring != ring && srq_state(shadow->ring).users)
			return true;
	return false;
}

void sh_srq_look(struct sh_srq *srq)
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

static void srq_limit_event(struct sh_srq *srq)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
					 .element.srq = srq->srq };

	if (sh_async_push(srq->ctx->async, &event, false))
		sh_error_once("the application does not read its asynchronous events: one about "
			      "a shared receive queue is lost");
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

void sh_srq_keys_came(struct sh_ctx *ctx)
{
	struct sh_srq *srq;

	list_for_each (&ctx->srqs, srq, struct sh_srq, link)
		if (srq->feed_interval) {
			srq->look_at = srq->feed_at = sh_now_ns();
			sh_kick();
		}
}

static void srq_run(struct sh_srq *srq, uint64_t now)
{
	uint32_t pending = atomic_exchange(&srq->pending, 0);
	bool due = srq->look_at && srq->look_at <= now;

	if (due)
		srq->look_at = 0;
	if (pending & SRQ_PENDING_LIMIT)
		srq_limit_event(srq);
	if (due || (pending & SRQ_PENDING_STUCK))
		sh_srq_look(srq);
	srq_feed(srq, now);
	sh_reclaim_run(srq, now);
}

static void srqs_run(uint64_t now)
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
			at = sh_earlier_ns(at, srq->look_at);
	return at;
}

/* ---- the event that ends a QP's taking ------------------------------------------------------ */

static void srq_last_receive_event(struct sh_qp *qp)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
					 .element.qp = qp->qp };

	if (sh_async_push(qp->ctx->async, &event, false))
		sh_error_once("the application does not read its asynchronous events: one about "
			      "a queue pair is lost");
}

/* Does the application know that this QP is in ERR? */
static bool srq_qp_ended(const struct sh_qp *qp)
{
	return qp->app.state == IBV_QPS_ERR || !qp->conn_id || qp->core.move == SC_MOVE_ENDED;
}

bool sh_srq_last_receive(struct sh_qp *qp, const struct sh_carrier *carrier)
{
	bool own = carrier == qp->carriers.slot;

	sp_qp_last_receive(qp->sp, carrier->epoch);
	if (qp->srq)
		sh_srq_look(qp->srq);
	if (srq_qp_ended(qp)) {
		if (!own && carrier == qp->active)
			srq_last_receive_event(qp);
		return !own;
	}
	qp->own.last_receive_masked |= own;
	return true;
}

void sh_srq_ended(struct sh_qp *qp)
{
	if (qp->own.last_receive_masked)
		srq_last_receive_event(qp);
	qp->own.last_receive_masked = false;
}

/*
 * Whoever fills a shared queue must also hear which receives were taken: libmlx5 for its QPs, the
 * engine for those that it drives. Nobody can do so for both.
 */
int sh_srq_leave(struct sh_srq *srq)
{
	if (srq->qps || sp_srq_hand_back(srq->sp))
		return -EOPNOTSUPP;
	srq->left = true;
	return 0;
}

/* ---- verbs ---------------------------------------------------------------------------------- */

static void srq_record(struct ibv_pd *pd, struct ibv_srq *real, const struct ibv_srq_attr *attr)
{
	struct sh_srq *srq = calloc(1, sizeof(*srq));

	if (!srq)
		return; /* unknown to us: QPs on it stay foreign */
	pthread_mutex_lock(&sh.lock);
	srq->srq = real;
	srq->ctx = sh_ctx_find(pd->context);
	srq->pd = sh_pd_find(pd);
	srq->attr = *attr;
	list_init(&srq->shadows);
	if (!srq->ctx || !srq->ctx->dev || !srq->pd ||
	    sp_srq_drive(srq->ctx->dev, real, srq, &srq->sp)) {
		free(srq);
	} else if (sh_table_put(&sh_objects.by_srq, real, srq)) {
		sp_srq_undrive(srq->sp);
		free(srq);
	} else {
		list_add_tail(&srq->ctx->srqs, &srq->link);
	}
	pthread_mutex_unlock(&sh.lock);
}

struct ibv_srq *shift_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct sh_yield yield = { pd->context, SH_YIELD_NIC };
	struct ibv_srq *real;

	do {
		shift_async_real_begin(pd->context);
		real = sh.real->create_srq(pd, attr);
		shift_async_real_end(pd->context);
	} while (!real && sh_yield(&yield));
	if (real)
		srq_record(pd, real, &attr->attr);
	return real;
}

int shift_modify_srq(struct ibv_srq *real, struct ibv_srq_attr *attr, int mask)
{
	int ret = sh.real->modify_srq(real, attr, mask);
	struct sh_srq *srq;

	pthread_mutex_lock(&sh.lock);
	srq = sh_srq_of(real);
	if (srq && (mask & IBV_SRQ_LIMIT) && (!ret || srq_state(sp_srq_own(srq->sp)).spoiled)) {
		sp_srq_limit(srq->sp, attr->srq_limit);
		ret = 0;
	}
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

int shift_query_srq(struct ibv_srq *real, struct ibv_srq_attr *attr)
{
	int ret = sh.real->query_srq(real, attr);
	struct sh_srq *srq;

	pthread_mutex_lock(&sh.lock);
	srq = ret ? sh_srq_of(real) : NULL;
	if (srq && sh_ctx_masked(srq->ctx)) { /* a dead NIC */
		*attr = srq->attr;
		ret = 0;
	}
	pthread_mutex_unlock(&sh.lock);
	return ret;
}

/* Lock held, given up meanwhile. No QP is on it: no carrier holds a shadow. */
void sh_srq_forget(struct sh_srq *srq)
{
	uint8_t path;

	sh_table_remove(&sh_objects.by_srq, srq->srq);
	list_del(&srq->link);
	sh_wait_idle(&srq->busy);
	for (path = 0; path < SC_MAX_PATHS; path++) {
		sh_srq_shadow_put(srq, srq->shadow[path]);
		srq->shadow[path] = NULL;
	}
	sh_srq_shadow_put(srq, srq->own);
	sh_reclaim_forget(&srq->reclaim);
	sh_job_begin(&srq->busy);
	pthread_mutex_unlock(&sh.lock);
	sh_reclaim_destroy(&srq->reclaim);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(&srq->busy);
	sh_wait_idle(&srq->busy);
	sp_srq_undrive(srq->sp);
	free(srq);
}

int shift_destroy_srq(struct ibv_srq *real)
{
	struct ibv_context *context = real->context;
	struct sh_async *async = sh_async_of(context);
	struct sh_srq *srq;
	int ret;

	pthread_mutex_lock(&sh.lock);
	srq = sh_srq_of(real);
	if (srq && srq->qps) {
		pthread_mutex_unlock(&sh.lock);
		return EBUSY;
	}
	if (srq)
		sh_srq_forget(srq);
	pthread_mutex_unlock(&sh.lock);
	sh_async_forget_begin(async, real);
	ret = sh_ctx_destroy_result(context, sh.real->destroy_srq(real));
	sh_async_forget_end(async, real);
	return ret;
}

const struct sh_module sh_srqs_module = {
	.name = "srqs",
	.run = srqs_run,
	.next_timer = srqs_next_timer,
};
