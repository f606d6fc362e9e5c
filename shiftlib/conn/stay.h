/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting out a flap, for the core. Lock held. */
#ifndef SHIFTLIB_CONN_STAY_H
#define SHIFTLIB_CONN_STAY_H

struct sc_action;
struct sh_qp;

/* SC_ACT_STAY. */
void sh_stay(struct sh_qp *qp, const struct sc_action *action);

#endif
