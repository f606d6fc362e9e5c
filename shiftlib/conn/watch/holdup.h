/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What holds up the requests of a NIC while nothing is lost: a paused port, or receivers that are
 * not ready. Told by counters of the port, which are read only while a connection on the NIC
 * stands still (watch/stall.c). They are those of all connections of the NIC together.
 */
#ifndef SHIFTLIB_CONN_WATCH_HOLDUP_H
#define SHIFTLIB_CONN_WATCH_HOLDUP_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_nic;

/* Kinds of hold-ups, as bits. */
enum sh_holdup {
	SH_HOLDUP_PAUSED = 1,  /* the port had something to send and could not */
	SH_HOLDUP_UNREADY = 2, /* peers answered that no receive is posted */
	SH_HOLDUP_KINDS = 4,
};

/* Asks for a reading, unless there was one just now. */
void sh_holdup_ask(struct sh_nic *nic, uint64_t now) SH_LOCKED;
/*
 * Returns true if enough was read to tell, or if nothing can be read; then *held has the kinds that
 * were seen. 0: the counters stand still, or this NIC has none.
 */
bool sh_holdup_told(const struct sh_nic *nic, uint64_t now, unsigned *held) SH_LOCKED;

extern const struct sh_module sh_holdups_module;

#endif
