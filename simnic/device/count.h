/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets as the counters of a real port count them: fabric/counters.h. Lock held. */
#ifndef SIMNIC_DEVICE_COUNT_H
#define SIMNIC_DEVICE_COUNT_H

#include <stdint.h>

#include "simnic/fabric/packet.h"

struct sn_qp;

/* Packets that this brings, or leaves with: a message is handed over whole. */
uint32_t sn_count_packets(const struct sn_qp *qp, const struct sn_pkt *pkt);
void sn_count_request(const struct sn_qp *qp, enum sn_pkt_op op); /* executed */

#endif
