/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The partitions that a port of InfiniBand belongs to (IBA 10.9). */
#ifndef SHIFTLIB_CONTROL_PKEYS_H
#define SHIFTLIB_CONTROL_PKEYS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/shift.h"

#define SH_PKEYS_MAX	128    /* entries of a ConnectX */
#define SH_PKEY_DEFAULT 0xffff /* P_Key of the default partition, which every port is in at first */

/* n 0: this link has none, or they cannot be read. */
struct sh_pkeys {
	uint16_t n;
	uint16_t value[SH_PKEYS_MAX]; /* 0: an empty entry */
};

/* Asks the port (may block); on InfiniBand by a command for each entry. */
void sh_pkeys_read(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		   struct sh_pkeys *out);
/*
 * Returns the index of that P_Key's partition: as full member if possible, else as limited one.
 * -ENOENT: the port is not in it.
 */
int sh_pkeys_find(const struct sh_pkeys *pkeys, uint16_t pkey);
/* same: one partition. speak: packets pass, as one of the two is a full member of it. */
bool sh_pkeys_same(uint16_t a, uint16_t b);
bool sh_pkeys_speak(uint16_t a, uint16_t b);
/*
 * Returns the index of the partition of SHIFT's own datagrams: the same at all hosts that are full
 * members of the same partitions.
 */
uint16_t sh_pkeys_own_index(const struct sh_pkeys *pkeys);

#endif
