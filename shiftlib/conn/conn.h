/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections: their life, and events for their cores. */
#ifndef SHIFTLIB_CONN_CONN_H
#define SHIFTLIB_CONN_CONN_H

#include "shiftlib/base/locked.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"

int sh_conn_new(struct sh_qp *qp) SH_LOCKED;
/* Ends the connection; jobs may still hold the QP. */
void sh_conn_close_nowait(struct sh_qp *qp) SH_LOCKED;
void sh_conn_close(struct sh_qp *qp) SH_DROPS; /* no connection after it */
void sh_conn_event(struct sh_qp *qp, const struct sc_event *event) SH_LOCKED;
void sh_conn_simple(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason) SH_LOCKED;
/* About the carrier, or the ordered switch, of that number. */
void sh_conn_about(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason,
		   uint32_t epoch) SH_LOCKED;
/* A carrier died: FAULT if the connection uses it or moves to it, else STANDBY_LOST. */
void sh_carrier_fault(struct sh_qp *qp, const struct sh_carrier *carrier,
		      enum sc_reason reason) SH_LOCKED;
/* Somebody else posts to its rings: not ours any more. */
bool sh_conn_hands_off(struct sh_qp *qp) SH_LOCKED;

#endif
