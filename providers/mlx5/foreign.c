/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completions of QPs that libmlx5 posts, on a CQ that we drive: they come to private CQs, which
 * libmlx5 polls. Where such a QP completes into the driven ring itself, what the ring has of it is
 * copied to a private CQ that no NIC writes to, so that libmlx5 finds it there.
 */
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/cq.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/libmlx5.h"

/* -- fed from the driven ring ------------------------------------------------------------------ */

static bool feeds(const struct ring_foreign *f, uint32_t qpn)
{
	return f->fed && (f->qpn == qpn || !f->qpn);
}

/* As the NIC would have written it, with the owner bit of that turn of the ring last. */
static void feed(struct ring_foreign *f, const struct sp_cq_ring *from,
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
 * A completion of a QP that libmlx5 posts. One without a number is swept. A ring that was fed is
 * emptied before this one is looked at, and is as large.
 */
void ring_foreign_take(struct sp_cq_ring *ring, const struct mlx5_cqe64 *cqe, uint32_t qpn)
{
	struct ring_foreign *f = qpn && ring == &ring->cq->ring ? ring->cq->foreign : NULL;

	while (f && !feeds(f, qpn))
		f = f->next;
	if (f)
		feed(f, ring, cqe);
}

/* -- polled ------------------------------------------------------------------------------------ */

/* An error of libmlx5's is its word that there is nothing, as on stock. */
int ring_foreign_poll(struct sp_cq *cq, bool fed, int n, struct ibv_wc *wc)
{
	int got = 0, more;

	for (struct ring_foreign *f = cq->foreign; f && got < n; f = f->next) {
		if (fed && (!f->fed || f->pi == be32toh(*f->ring.dbrec)))
			continue;
		more = cq->dev->saved.poll_cq(f->cq, n - got, wc + got);
		if (more > 0)
			got += more;
	}
	return got;
}

/* -- private CQs come and go ------------------------------------------------------------------- */

static int foreign_add(struct sp_cq *cq, const struct ring_foreign *like)
{
	struct ring_foreign *f;

	/* libmlx5's completions have no place between start_poll and end_poll */
	if (cq->ex)
		return -EOPNOTSUPP;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = *like;
	sp_lock(&cq->lock);
	f->next = cq->foreign;
	cq->foreign = f;
	ring_cq_refresh_slow(cq);
	sp_unlock(&cq->lock);
	return 0;
}

int ring_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return foreign_add(cq, &(struct ring_foreign){ .cq = private_cq });
}

int ring_foreign_feed(struct sp_cq *cq, struct ibv_cq *private_cq, uint32_t qpn)
{
	struct ring_foreign f = { .cq = private_cq, .fed = true, .qpn = qpn };
	struct mlx5dv_obj obj = { .cq = { .in = private_cq, .out = &f.ring } };
	int err = ring_init_obj(&obj, MLX5DV_OBJ_CQ);

	if (err)
		return err;
	if (f.ring.cqe_cnt < cq->ring.cnt)
		return -EOPNOTSUPP;
	return foreign_add(cq, &f);
}

int ring_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	struct ring_foreign **at, *f;

	sp_lock(&cq->lock);
	for (at = &cq->foreign; *at && (*at)->cq != private_cq;)
		at = &(*at)->next;
	f = *at;
	if (f)
		*at = f->next;
	ring_cq_refresh_slow(cq);
	sp_unlock(&cq->lock);
	free(f);
	return f ? 0 : -ENOENT;
}
