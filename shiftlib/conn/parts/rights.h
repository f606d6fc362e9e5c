/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Attributes that change while a QP is connected. */
#ifndef SHIFTLIB_CONN_PARTS_RIGHTS_H
#define SHIFTLIB_CONN_PARTS_RIGHTS_H

#include <infiniband/verbs.h>
#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

#define SH_RIGHTS (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)

/*
 * The application has set those of mask, which are recorded: its carriers get them, or are given
 * up, before this returns.
 */
void sh_rights_follow(struct sh_qp *qp, int mask) SH_DROPS;
/* Gives the application's own QP the rights that were withheld; in the background. */
void sh_rights_restore(struct sh_qp *qp) SH_LOCKED;

extern const struct sh_conn_part sh_rights_part;

#endif
