/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The network interface of a NIC: rings of send and receive requests for raw frames of Ethernet.
 * A trapped device has it. Frames go through the fabric's switches, which know the addresses that
 * frames came from (struct sn_nic_end); a frame to another address, or to many, goes to every NIC
 * in reach. Lock held, but for the calls that device.h has.
 */
#ifndef SIMNIC_DEVICE_ETHER_H
#define SIMNIC_DEVICE_ETHER_H

#include "simnic/device/device.h"
#include "simnic/fabric/packet.h"

struct sn_dev;

/* Rings of a device. */
struct sn_ether {
	struct sn_ether_sq *sqs;
	struct sn_ether_rq *rqs;
	struct sn_ether_rq *into; /* takes each frame that arrives; NULL: they get lost */
	uint32_t numbers;	  /* handed out */
};

/* True if the number is that of a send ring, which has heard it. */
bool sn_ether_ring(struct sn_dev *dev, uint32_t number);
/* All send rings hear their records. */
void sn_ether_ring_all(struct sn_dev *dev);
void sn_ether_receive(const struct sn_pkt *pkt);
bool sn_ether_run(void);	 /* sends what has been rung; true: there was something */
uint64_t sn_ether_next_ns(void); /* time to try again what has to wait; UINT64_MAX: nothing */
void sn_ether_free_all(struct sn_dev *dev);

#endif
