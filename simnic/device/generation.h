/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The generations of a QP: as long as one lasts, the process at the other end may pull payload out
 * of the application's buffers; when it has ended, nobody does. The words are in the fabric
 * (sn_nic.qpn_gen). Lock held.
 */
#ifndef SIMNIC_DEVICE_GENERATION_H
#define SIMNIC_DEVICE_GENERATION_H

#include "simnic/fabric/packet.h"

struct sn_qp;

void sn_gen_begin(struct sn_qp *qp);
/*
 * Ends the generation: nobody reads this QP's payload any more, and the buffers are the
 * application's.
 */
void sn_gen_end(struct sn_qp *qp);
/* False: the generation that the packet names is over. */
bool sn_gen_pull_begin(const struct sn_pkt *pkt);
void sn_gen_pull_end(const struct sn_pkt *pkt);

#endif
