/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is left of the bandwidth while connections run on NICs that are not their own: as a share, of the connection
 * that has lost most, as that is whom a step of a training waits for. Pure.
 *
 * A process does not see what others send. So a NIC counts as full with its own traffic as soon as it has a backup, as
 * all those of a training are; only one that nobody has for his own, a spare, is taken to be free.
 */
#ifndef SHIFTLIB_BACKUP_LEFT_H
#define SHIFTLIB_BACKUP_LEFT_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/backup/pair.h"

#define BACKUP_LEFT_WHOLE 1000u

struct backup_burden {
	uint32_t speed; /* of any unit; 0: not known, taken to be as fast as the fastest */
	uint32_t
		whole; /* what its own traffic was, where its link has become slower than that; else 0 */
	bool spare;
	uint32_t own;			  /* connections whose default NIC it is */
	uint32_t to[BACKUP_MAP_MAX_NICS]; /* of these, how many run on which other one */
};

/* In thousandths of what it was; BACKUP_LEFT_WHOLE if nobody is away. */
uint32_t backup_left(const struct backup_burden *nics, uint32_t n);

#endif
