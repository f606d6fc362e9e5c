/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completer: acknowledgements and responses that come back to a requester. Lock held. */
#ifndef SIMNIC_DEVICE_COMPLETER_H
#define SIMNIC_DEVICE_COMPLETER_H

#include "simnic/fabric/packet.h"

struct sn_qp;

void sn_completer_receive(struct sn_qp *qp, const struct sn_pkt *pkt);

#endif
