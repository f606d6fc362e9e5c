/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Incidents of connections and NICs, told as events: connections are put together. */
#ifndef SHIFTLIB_CONN_TOLD_INCIDENT_H
#define SHIFTLIB_CONN_TOLD_INCIDENT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_carrier;
struct sh_nic;
struct sh_qp;
struct sp_settled;

/* So long an event waits for more connections of its kind, and never longer than the second. */
#define SH_EVENT_LINGER_NS    10000000ull
#define SH_EVENT_STRAGGLER_NS 1000000000ull

/* Tells that the program has overrun the queue of a connection that does not move. */
void sh_incident_overran(struct sh_qp *qp) SH_LOCKED;
void sh_incidents_end(void) SH_LOCKED; /* the process ends: what waits is recorded */

extern const struct sh_module sh_incidents_module;
extern const struct sh_conn_part sh_incident_part;

#endif
