/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of a connection's core, and its clock. */
#ifndef SHIFTLIB_CONN_ACT_H
#define SHIFTLIB_CONN_ACT_H

#include "shiftlib/base/locked.h"

struct sc_action;
struct sh_conn_part;
struct sh_qp;

/*
 * Carries an action out, or hands it to who does. Answers that come at once are put in line
 * (sh_conn_event).
 */
void sh_act(struct sh_qp *qp, const struct sc_action *action) SH_LOCKED;

extern const struct sh_conn_part sh_core_part;

#endif
