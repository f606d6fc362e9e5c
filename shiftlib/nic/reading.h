/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reading of a NIC's files in sysfs, in the background. Each file may be a command to the NIC: it
 * is given by the NIC's worker, and by a process apart where the device is the kernel's.
 */
#ifndef SHIFTLIB_READING_H
#define SHIFTLIB_READING_H

#include "shiftlib/base/locked.h"
#include "shiftlib/nic/nic.h"

struct sh_reading {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	uint32_t incarnation;
	int device; /* a descriptor of it; negative: none */
	char name[sizeof(((struct sh_nic *)0)->name)];
	void (*read)(struct sh_reading *reading); /* reads; lock not held, no other descriptor */
	void (*told)(struct sh_reading *reading) SH_LOCKED; /* not called if nothing was read */
	bool *under_way;
};

/*
 * Begins a reading of the NIC. Its memory, of which struct sh_reading is the first member, comes
 * from malloc(), and read and told are set; it is freed when it is over, or if it cannot begin.
 * *under_way is true meanwhile, and must be false now.
 */
void sh_reading_begin(struct sh_reading *reading, struct sh_nic *nic, bool *under_way) SH_LOCKED;

#endif
