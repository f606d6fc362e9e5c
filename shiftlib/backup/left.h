/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bandwidth that is left while connections run on NICs that are not their own: as a share, of
 * the connection that has lost most, as a step of a training waits for that one. Pure.
 *
 * A process does not see what others send. So a NIC counts as full with its own traffic as soon
 * as it has a backup, as all those of a training are; only a spare, which nobody has for his own,
 * is taken to be free.
 */
#ifndef SHIFTLIB_BACKUP_LEFT_H
#define SHIFTLIB_BACKUP_LEFT_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/backup/pair.h"

#define BACKUP_LEFT_WHOLE 1000u

struct backup_burden {
	/* Speed in any unit; 0: not known, taken to be as fast as the fastest. */
	uint32_t speed;
	/* Speed of its own traffic before its link became slower than that; else 0. */
	uint32_t whole;
	bool spare;
	uint32_t own; /* connections whose default NIC it is */
	/* How many of these run on each other NIC. */
	uint32_t to[BACKUP_MAP_MAX_NICS];
};

/* Returns it in thousandths of what it was; BACKUP_LEFT_WHOLE if nobody is away. */
uint32_t backup_left(const struct backup_burden *nics, uint32_t n);

#endif
