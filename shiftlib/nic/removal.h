/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The removal of a device by the kernel. First all files that have it open lose their commands
 * (EIO, no device is asked); then, file after file, the objects made over it are destroyed. So
 * failing commands say nothing of the queue pairs, which run on until the turn of their file. The
 * end is the file's own DEVICE_FATAL since Linux 5.7; before, that came first. An internal error
 * raises the same event.
 */
#ifndef SHIFTLIB_NIC_REMOVAL_H
#define SHIFTLIB_NIC_REMOVAL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* State of one opened context, kept by its owner. Lock held. */
struct sh_removal {
	uint32_t told; /* number of DEVICE_FATAL events read */
	bool over;     /* the queue pairs of this file are destroyed */
	/* These only for a NIC's own context; see going.c. */
	bool leaving;	  /* the removal waits for SHIFT, which goes */
	uint64_t look_at; /* next look; 0: nothing is to be seen */
};

/* True if the file has lost its commands. No device is asked, so this cannot hang. Any thread. */
bool sh_removal_begun(struct ibv_context *context);
/* True if the removal is over by now, and was not before. All pending events have been read. */
bool sh_removal_ends(struct sh_removal *removal, struct ibv_context *context);
/*
 * True if the kernel of that release (of uname) destroys a file's objects before its DEVICE_FATAL.
 */
bool sh_removal_tells_last(const char *release);

#endif
