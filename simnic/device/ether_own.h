/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the network interface (ether.h) share. Lock held. */
#ifndef SIMNIC_DEVICE_ETHER_OWN_H
#define SIMNIC_DEVICE_ETHER_OWN_H

#include "simnic/device/ether.h"

/* Words of a doorbell record. */
enum { SN_ETHER_RECORD_RECEIVE = 0, SN_ETHER_RECORD_SEND = 1 };

struct sn_ether_sq {
	struct sn_ether_sq *next;
	struct sn_dev *dev;
	struct sn_ether_ring_attr attr;
	uint32_t number;
	uint16_t rung, done; /* WQEBBs */
	uint32_t segments;   /* sent already of the request at `done` */
	bool ready, failed;
};

struct sn_ether_rq {
	struct sn_ether_rq *next;
	struct sn_dev *dev;
	struct sn_ether_ring_attr attr;
	uint32_t number;
	uint16_t done; /* WQEs */
	bool ready;
};

/* Requests that the driver has written, by the doorbell record. */
uint16_t sn_ether_producer(const struct sn_ether_ring_attr *attr, int record);

static inline uint16_t sn_ether_get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

#endif
