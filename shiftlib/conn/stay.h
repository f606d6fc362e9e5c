/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting out a flap, for the core. */
#ifndef SHIFTLIB_CONN_STAY_H
#define SHIFTLIB_CONN_STAY_H

#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sc_action;
struct sh_qp;

/* SC_ACT_STAY. */
void sh_stay(struct sh_qp *qp, const struct sc_action *action) SH_LOCKED;
/* Logs a peer that does not answer; called at the core's timer. */
void sh_stay_say_unanswered(struct sh_qp *qp, uint64_t now) SH_LOCKED;

#endif
