/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable datagrams. Lock held. */
#ifndef SIMNIC_DEVICE_UD_H
#define SIMNIC_DEVICE_UD_H

#include "simnic/device/wqe.h"
#include "simnic/fabric/packet.h"

struct sn_qp;

int sn_ud_send(struct sn_qp *qp, const struct sn_wqe *wqe);
/*
 * The service level that a receive's CQE tells. On Ethernet that is the kind of packet: RoCE v1, or
 * RoCE v2 over which IP. UCX finds the destination's address by that.
 */
uint8_t sn_ud_sl(const struct sn_qp *qp, const struct sn_pkt *pkt);
void sn_ud_receive(struct sn_qp *qp, const struct sn_pkt *pkt);

#endif
