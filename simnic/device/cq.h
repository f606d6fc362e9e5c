/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. Lock held. */
#ifndef SIMNIC_DEVICE_CQ_H
#define SIMNIC_DEVICE_CQ_H

#include <infiniband/mlx5dv.h>

#include "simnic/device/device.h"
#include "simnic/fabric/list.h"

struct sn_dev;

struct sn_cq {
	struct sn_dev *dev;
	LIST_ENTRY(sn_cq) link; /* dev->cqs */
	uint32_t cqn;
	struct sn_cq_attr attr;
	uint32_t pi;	 /* CQEs ever written */
	uint32_t sol_pi; /* pi behind the last solicited (or error) CQE */
	uint32_t arm_ci;
	uint8_t fired_sn;
	bool armed, armed_solicited, overrun;
	uint32_t comp_events, async_events;
	uint32_t refs;
};

void sn_cq_push(struct sn_cq *cq, struct mlx5_cqe64 *cqe, const void *data, uint32_t data_len,
		bool solicited);
int sn_cq_put_raw(struct sn_cq *cq, const void *cqe, const void *data); /* for tests */
void sn_cq_arm(struct sn_cq *cq); /* as its doorbell record says */
void sn_cq_arm_all(struct sn_dev *dev);
/* Bytes that a completion of this queue has room for. */
uint32_t sn_cq_scatter_limit(const struct sn_cq *cq);
struct sn_cq *sn_cq_find(uint32_t cqn);
void sn_cq_free_all(struct sn_dev *dev);

#endif
