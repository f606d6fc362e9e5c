/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable datagrams. Lock held. */
#ifndef SIMNIC_DEVICE_UD_H
#define SIMNIC_DEVICE_UD_H

#include "simnic/device/wqe.h"
#include "simnic/fabric/packet.h"

struct sn_qp;

int sn_ud_send(struct sn_qp *qp, const struct sn_wqe *wqe);
void sn_ud_receive(struct sn_qp *qp, const struct sn_pkt *pkt);

#endif
