/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Accesses of this process to ranges of memory that let some through alone. One that is not let
 * through finds a page of zeros instead, goes on, and is noted. For bridge_space.c; the engine's
 * lock is held here, and by whoever accesses a range.
 */
#ifndef SIMNIC_PCI_BRIDGE_STRAY_H
#define SIMNIC_PCI_BRIDGE_STRAY_H

#include <stdbool.h>
#include <stdint.h>

/* More accesses than this are not noted, and keep their pages of zeros. */
#define SN_STRAYS 256u

/* Pages that were accessed one after the other. write: known on x86-64; elsewhere always true. */
struct sn_stray {
	uint8_t *at;
	uint64_t bytes;
	bool write;
};

struct sn_strays {
	uint8_t *base; /* the range */
	uint64_t bytes;
	/* Says that there is something to take: called by any thread, in a signal handler. */
	void (*wake)(void *ctx);
	void *ctx;
	struct sn_stray met[SN_STRAYS];
	uint32_t n, taken;
	bool read; /* a read is among those that have not been taken; known on x86-64 */
};

/* Watches a range from now on. -ENOSPC: too many are watched; or why signals cannot be had. */
int sn_strays_watch(struct sn_strays *strays);
void sn_strays_forget(struct sn_strays *strays);
/* Takes the oldest one; false: there is none. */
bool sn_strays_take(struct sn_strays *strays, struct sn_stray *stray);

#endif
