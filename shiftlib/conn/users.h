/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs by what a fault of their context's NIC means to them, counted by context and port.
 */
#ifndef SHIFTLIB_CONN_USERS_H
#define SHIFTLIB_CONN_USERS_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/facade/held.h"

struct sh_qp;

/* True if the connection outlives a fault of the NIC. */
bool sh_user_protected(const struct sh_qp *qp) SH_LOCKED;
/* Counts the QP anew: its connection, its state or its port may have changed. */
void sh_users_count(struct sh_qp *qp) SH_LOCKED;
void sh_users_forget(struct sh_qp *qp) SH_LOCKED; /* it is destroyed */

#endif
