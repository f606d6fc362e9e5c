/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completions of QPs that libmlx5 posts, on a CQ that we drive: they come to private CQs, which
 * libmlx5 polls. If such a QP completes into the driven ring itself, its completions are copied to
 * a private CQ that no NIC writes to, so that libmlx5 finds them there.
 */
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/backlog.h"
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/libmlx5.h"

/* -- fed from the driven ring ------------------------------------------------------------------ */

static bool feeds(const struct ring_foreign *f, uint32_t qpn)
{
	return f->fed && !f->muted && (f->qpn == qpn || !f->qpn);
}

/* Returns how many completions lie in the private CQ. */
static uint32_t fed_waiting(const struct ring_foreign *f)
{
	return f->fed ? (f->pi - be32toh(*f->ring.dbrec)) & 0xffffff : 0;
}

/*
 * Moves the oldest completion out of the private CQ, as if the program had polled. False: there is
 * none, or no memory.
 */
static bool keep_oldest(struct ring_foreign *f)
{
	struct ibv_wc *wc = ring_kept_place(&f->kept);

	if (!wc || f->events.dev->saved.poll_cq(f->cq, 1, wc) != 1)
		return false;
	ring_kept_add(&f->kept);
	return true;
}

/*
 * Copies a CQE as the NIC would have written it, with the owner bit of that turn of the ring last.
 */
static void feed_copy(struct ring_foreign *f, const struct sp_cq_ring *from,
		      const struct mlx5_cqe64 *cqe)
{
	uint32_t size = 1u << from->shift, turn = f->pi & f->ring.cqe_cnt;
	uint8_t *slot =
		(uint8_t *)f->ring.buf + (size_t)(f->pi & (f->ring.cqe_cnt - 1)) * f->ring.cqe_size;
	struct mlx5_cqe64 *last = (struct mlx5_cqe64 *)(slot + f->ring.cqe_size - 64);

	if (size > f->ring.cqe_size)
		size = f->ring.cqe_size;
	memcpy((uint8_t *)(last + 1) - size, (const uint8_t *)(cqe + 1) - size, size);
	last->op_own = (cqe->op_own & ~MLX5_CQE_OWNER_MASK) | (turn ? MLX5_CQE_OWNER_MASK : 0);
	f->pi++;
}

/*
 * Feeds a completion to the private CQ, which has as many places as the program was told; the
 * driven ring may have more. A completion that finds neither a place nor memory is lost: its
 * program has left more unpolled than it has places.
 */
static void feed(struct ring_foreign *f, const struct sp_cq_ring *from,
		 const struct mlx5_cqe64 *cqe)
{
	if (fed_waiting(f) < f->ring.cqe_cnt || keep_oldest(f))
		feed_copy(f, from, cqe);
}

/* Takes a completion of a QP that libmlx5 posts. A completion without a number is swept. */
void ring_foreign_take(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t qpn)
{
	struct ring_foreign *f = qpn && ring == &ring->cq->ring ? ring->cq->foreign : NULL;

	while (f && !feeds(f, qpn))
		f = f->next;
	if (f)
		feed(f, ring, cqe);
}

static bool fed_waits(const struct ring_foreign *f)
{
	return f->fed && !f->muted && (f->kept.n || fed_waiting(f));
}

/* -- while libmlx5 resets or destroys the QP --------------------------------------------------- */

/*
 * Makes what the ring has of a QP nobody's, as ring_cq_sweep() does. f: gets these completions, or
 * NULL.
 */
static void take_out(struct sp_cq_ring *ring, uint32_t qpn, struct ring_foreign *f)
{
	struct mlx5_cqe64 *cqe;
	uint32_t ci;

	for (ci = ring->ci; ci - ring->ci < ring->cnt && (cqe = ring_cqe_at(ring, ci)); ci++) {
		if ((be32toh(cqe->sop_drop_qpn) & 0xffffff) != qpn)
			continue;
		if (f)
			feed(f, ring, cqe);
		cqe->sop_drop_qpn &= htobe32(0xff000000);
	}
}

static struct ring_foreign *fed_of(struct sp_cq *cq, const struct ibv_cq *private_cq)
{
	struct ring_foreign *f = cq->foreign;

	while (f && f->cq != private_cq)
		f = f->next;
	return f && f->fed ? f : NULL;
}

/*
 * Mutes a QP. libmlx5 forgets nothing of a CQ whose ring it has shown to us: an older completion
 * would be polled after the RESET. So all are polled now, which also gives the places of a shared
 * receive queue back, and kept from the program.
 */
void ring_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq)
{
	struct ring_foreign *f;

	sp_lock(&cq->lock);
	f = fed_of(cq, private_cq);
	if (f && f->qpn)
		take_out(&cq->ring, f->qpn, f);
	while (f && keep_oldest(f))
		;
	if (f)
		f->muted = true;
	sp_unlock(&cq->lock);
}

void ring_foreign_unmute(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset)
{
	struct ring_foreign *f;

	sp_lock(&cq->lock);
	f = fed_of(cq, private_cq);
	if (f && reset && f->qpn)
		take_out(&cq->ring, f->qpn, NULL);
	if (f && reset)
		ring_kept_free(&f->kept);
	if (f)
		f->muted = false;
	ring_foreign_tell(cq);
	sp_unlock(&cq->lock);
}

/* -- polled ------------------------------------------------------------------------------------ */

/* Polls the private CQs. An error of libmlx5's counts as nothing there, as on stock. */
int ring_foreign_poll(struct sp_cq *cq, bool fed, int n, struct ibv_wc *wc)
{
	int got = 0, more;

	for (struct ring_foreign *f = cq->foreign; f && got < n; f = f->next) {
		if (f->muted || (fed && !fed_waits(f)))
			continue;
		got += ring_kept_take(&f->kept, n - got, wc + got);
		more = cq->dev->saved.poll_cq(f->cq, n - got, wc + got);
		if (more > 0)
			got += more;
	}
	return got;
}

void ring_foreign_arm(struct sp_cq *cq, bool solicited)
{
	for (struct ring_foreign *f = cq->foreign; f; f = f->next)
		if (!f->fed)
			cq->dev->saved.req_notify_cq(f->cq, solicited);
}

bool ring_foreign_waiting(const struct sp_cq *cq)
{
	const struct ring_foreign *f = cq->foreign;

	while (f && !fed_waits(f))
		f = f->next;
	return f;
}

void ring_foreign_tell(struct sp_cq *cq)
{
	if (ring_unlikely(cq->foreign != NULL) && ring_foreign_waiting(cq))
		ring_backlog_event(cq, true);
}

/* -- CQs that are not driven ------------------------------------------------------------------- */

/*
 * Counts of polling threads, by handle. Each on a line of its own, as several threads poll several
 * CQs.
 */
static struct pollers {
	_Alignas(64) _Atomic uint32_t n;
} pollers[64];

static _Atomic uint32_t *pollers_of(const struct ibv_cq *ibv)
{
	return &pollers[ibv->handle % (sizeof(pollers) / sizeof(pollers[0]))].n;
}

int ring_unknown_poll(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	_Atomic uint32_t *n_pollers = pollers_of(ibv);
	int got;

	atomic_fetch_add(n_pollers, 1); /* in order before the look, see ring_unknown_wait() */
	if (ring_unlikely(ring_cq_of_behind(ibv->context, ibv->handle))) {
		atomic_fetch_sub(n_pollers, 1);
		return ring_poll_cq(ibv, n, wc);
	}
	got = ring_dev_of(ibv->context)->saved.poll_cq(ibv, n, wc);
	atomic_fetch_sub_explicit(n_pollers, 1, memory_order_release);
	return got;
}

void ring_unknown_wait(const struct ibv_cq *ibv)
{
	_Atomic uint32_t *n_pollers = pollers_of(ibv);

	__sync_synchronize();
	for (uint32_t round = 0; atomic_load(n_pollers);)
		sp_lock_give_way(round++);
}

/* -- private CQs come and go ------------------------------------------------------------------- */

static struct ring_foreign *foreign_new(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	struct ring_foreign *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->cq = private_cq;
	f->events.engine = cq->engine;
	f->events.cq = cq;
	f->events.dev = cq->dev;
	return f;
}

static void foreign_free(struct ring_foreign *f)
{
	ring_kept_free(&f->kept);
	free(f);
}

static int foreign_new_fed(struct sp_cq *cq, const struct sp_cq_user *user,
			   struct ring_foreign **out)
{
	struct ring_foreign *f = foreign_new(cq, user->private_cq);
	struct mlx5dv_obj obj = { 0 };
	int err;

	if (!f)
		return -ENOMEM;
	f->fed = true;
	f->qpn = user->qpn;
	obj.cq.in = user->private_cq;
	obj.cq.out = &f->ring;
	err = ring_init_obj(&obj, MLX5DV_OBJ_CQ);
	if (err)
		free(f);
	else
		*out = f;
	return err;
}

static void foreign_link(struct sp_cq *cq, struct ring_foreign *f)
{
	f->next = cq->foreign;
	cq->foreign = f;
}

/* Arms a private CQ if the program has armed its CQ before. */
static void arm_as_armed(struct sp_cq *cq, struct ring_foreign *f)
{
	enum ring_armed armed = ring_cq_armed(cq);

	if (armed != RING_ARMED_NOT)
		cq->dev->saved.req_notify_cq(f->cq, armed == RING_ARMED_SOLICITED);
}

static void foreign_add(struct sp_cq *cq, struct ring_foreign *f)
{
	sp_lock(&cq->lock);
	foreign_link(cq, f);
	if (f->fed)
		ring_live(&cq->ring, &f->live);
	ring_cq_refresh_slow(cq);
	if (!f->fed)
		arm_as_armed(cq, f);
	sp_unlock(&cq->lock);
}

int ring_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events)
{
	struct ring_foreign *f;

	f = foreign_new(cq, private_cq);
	if (!f)
		return -ENOMEM;
	*events = &f->events;
	foreign_add(cq, f);
	return 0;
}

int ring_foreign_feed(struct sp_cq *cq, const struct sp_cq_user *user)
{
	struct ring_foreign *f;
	int err = foreign_new_fed(cq, user, &f);

	if (!err)
		foreign_add(cq, f);
	return err;
}

int ring_foreign_feed_all(struct sp_cq *cq, const struct sp_cq_user *users, uint32_t n)
{
	struct ring_foreign *f;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		err = foreign_new_fed(cq, &users[i], &f);
		if (!err)
			foreign_link(cq, f);
	}
	return err;
}

void ring_foreign_free(struct sp_cq *cq)
{
	struct ring_foreign *f;

	while ((f = cq->foreign)) {
		cq->foreign = f->next;
		foreign_free(f);
	}
}

int ring_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	struct ring_foreign **at, *f;

	sp_lock(&cq->lock);
	for (at = &cq->foreign; *at && (*at)->cq != private_cq;)
		at = &(*at)->next;
	f = *at;
	if (f) {
		*at = f->next;
		ring_unlive(&cq->ring, &f->live);
	}
	ring_cq_refresh_slow(cq);
	sp_unlock(&cq->lock);
	if (f)
		foreign_free(f);
	return f ? 0 : -ENOENT;
}
