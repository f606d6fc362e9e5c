/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections that wait until the application pauses in its set-up. Lock held. */
#ifndef SHIFTLIB_CONN_MEET_AHEAD_H
#define SHIFTLIB_CONN_MEET_AHEAD_H

struct sh_qp;

void sh_ahead_wait(struct sh_qp *qp); /* puts the introduction off until the set-up pauses */

#endif
