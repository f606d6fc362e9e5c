/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The causes of events about a connection. Called by incident.c. */
#ifndef SHIFTLIB_CONN_TOLD_CAUSE_H
#define SHIFTLIB_CONN_TOLD_CAUSE_H

#include <infiniband/verbs.h>
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/report/event.h"

struct sh_nic;
struct sh_qp;

enum sh_event_cause sh_cause_of(const struct sh_qp *qp, enum sc_reason reason) SH_LOCKED;
/*
 * Returns the cause of a move that the peer began: it may have seen first what this end's NIC
 * itself says, or says a moment later.
 */
enum sh_event_cause sh_cause_of_peer(const struct sh_nic *nic) SH_LOCKED;
extern const char sh_cause_outran[], sh_cause_peer_outran[]; /* clauses for people */
/* Returns a constant clause about an error that was passed on: who has to correct what. */
const char *sh_cause_passed(enum ibv_wc_status status);

#endif
