/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues. Lock held. */
#ifndef SIMNIC_DEVICE_SRQ_H
#define SIMNIC_DEVICE_SRQ_H

#include "simnic/device/device.h"
#include "simnic/fabric/list.h"

struct sn_dev;

struct sn_srq {
	struct sn_dev *dev;
	LIST_ENTRY(sn_srq) link; /* dev->srqs */
	uint32_t srqn;
	struct sn_srq_attr attr;
	uint16_t head;	/* the WQE that is taken next */
	uint16_t taken; /* WQEs so far; the doorbell record counts those posted */
	uint32_t limit, async_events, refs;
};

uint32_t sn_srq_available(const struct sn_srq *srq);
const uint8_t *sn_srq_wqe(const struct sn_srq *srq, uint16_t idx);
uint16_t sn_srq_take(struct sn_srq *srq);
void sn_srq_free_all(struct sn_dev *dev);

#endif
