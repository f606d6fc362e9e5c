/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How a kernel takes a device away. First all files that have it open lose their commands (EIO, asked of
 * no device); then, file after file, what was made over it is destroyed. So that commands fail says
 * nothing of the queue pairs, which run on until the turn of their file. Its end is the file's own
 * DEVICE_FATAL since Linux 5.7; before, that came first. An internal error raises the same event.
 */
#ifndef SHIFTLIB_NIC_REMOVAL_H
#define SHIFTLIB_NIC_REMOVAL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Of one opened context, in who has opened it. Lock held. */
struct sh_removal {
	uint32_t told; /* how often DEVICE_FATAL was read */
	bool over;     /* the queue pairs of this file are destroyed */
	/* Of a NIC's own; see going.c. */
	bool leaving;	  /* the removal waits for SHIFT, which goes */
	uint64_t look_at; /* 0: nothing is to be seen */
};

/* Has the file lost its commands? No device is asked, so it cannot hang. Any thread. */
bool sh_removal_begun(struct ibv_context *context);
/* All events that were there have been read: is it over by now, and was not before? */
bool sh_removal_ends(struct sh_removal *removal, struct ibv_context *context);
/* Does the kernel of that release (of uname) destroy a file's objects before it says DEVICE_FATAL? */
bool sh_removal_tells_last(const char *release);

#endif
