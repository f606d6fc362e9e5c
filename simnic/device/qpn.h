/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* QP numbers. A QP may have two: its own, and one that peers know it by (sn_qp_attr.alias). */
#ifndef SIMNIC_DEVICE_QPN_H
#define SIMNIC_DEVICE_QPN_H

struct sn_qp;

/* Takes the numbers for a QP. 0; -EBUSY: another QP has the alias; -ENOMEM: all are taken. */
int sn_qpn_take(struct sn_qp *qp);
/* Lets packets find the QP from now on. Lock held. */
void sn_qpn_enter(struct sn_qp *qp);
/* Gives the numbers back. Lock held. */
void sn_qpn_leave(struct sn_qp *qp);

#endif
