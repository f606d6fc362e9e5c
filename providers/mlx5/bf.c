/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Doorbell registers. */
#include <stdlib.h>

#include "providers/mlx5/bf.h"
#include "providers/mlx5/dev.h"
#include "providers/mlx5/libmlx5.h"

static struct ring_bf *bf_find(struct sp_dev *dev, const void *reg)
{
	struct ring_bf *bf = dev->bfs;

	while (bf && bf->reg != reg)
		bf = bf->next;
	return bf;
}

static struct ring_bf *bf_make(struct sp_dev *dev, void *reg, uint32_t size)
{
	struct ring_bf *bf = calloc(1, sizeof(*bf));

	if (!bf)
		return NULL;
	bf->reg = reg;
	bf->size = size;
	bf->prefer = dev->prefer_bf;
	atomic_init(&bf->bf_ds, dev->shut_up_bf ? 0 : size / 16);
	bf->next = dev->bfs;
	dev->bfs = bf;
	return bf;
}

struct ring_bf *ring_bf_get(struct sp_dev *dev, const struct mlx5dv_qp *dv)
{
	struct ring_bf *bf;

	sp_lock(&dev->lock);
	bf = bf_find(dev, dv->bf.reg);
	if (!bf)
		bf = bf_make(dev, dv->bf.reg, dv->bf.size);
	if (bf)
		bf->refs++;
	sp_unlock(&dev->lock);
	return bf;
}

/*
 * Drops a reference. The register's state outlives its QPs: the next QP there goes on with the
 * other half, as libmlx5 does.
 */
void ring_bf_put(struct sp_dev *dev, struct ring_bf *bf)
{
	sp_lock(&dev->lock);
	bf->refs--;
	sp_unlock(&dev->lock);
}

void ring_bf_share(struct sp_dev *dev, void *reg, uint32_t size)
{
	struct ring_bf *bf;

	sp_lock(&dev->lock);
	bf = bf_find(dev, reg);
	if (!bf)
		bf = bf_make(dev, reg, size);
	if (bf)
		atomic_store(&bf->bf_ds, 0);
	sp_unlock(&dev->lock);
}

/*
 * Notes a QP that libmlx5 posts: from now on no WQE is copied to the register that it shares with
 * ours.
 */
void ring_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp)
{
	struct mlx5dv_qp dv = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = qp, .out = &dv } };

	if (!ring_init_obj(&obj, MLX5DV_OBJ_QP) && dv.bf.reg)
		ring_bf_share(dev, dv.bf.reg, dv.bf.size);
}
