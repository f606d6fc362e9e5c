/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Doorbell registers (BlueFlame). */
#ifndef RING_BF_H
#define RING_BF_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

/*
 * A doorbell register. Offset and lock belong to the register, not to the QP: later QPs of a
 * context share registers. bf_ds is 0 where a QP that libmlx5 drives may write here too: its
 * lock is not ours, and only single 8-byte stores are safe without one.
 */
struct ring_bf {
	struct sp_lock lock;
	uint32_t offset;	/* which half comes next */
	uint32_t size;		/* bytes of a half */
	_Atomic uint32_t bf_ds; /* largest WQE, in 16-byte units, that is copied whole; 0: none */
	bool prefer;		/* true: also copy what is not inline */
	uint8_t *reg;
	uint32_t refs; /* under sp_dev.lock */
	struct ring_bf *next;
};

struct ring_bf *ring_bf_get(struct sp_dev *dev, const struct mlx5dv_qp *dv);
void ring_bf_put(struct sp_dev *dev, struct ring_bf *bf);
void ring_bf_share(struct sp_dev *dev, void *reg, uint32_t size);
void ring_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp);

#pragma GCC visibility pop

#endif
