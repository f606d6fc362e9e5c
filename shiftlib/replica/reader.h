/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Readers: queue pairs of SHIFT's own, looped back to themselves on one NIC, which read what that
 * NIC reaches. They are made and destroyed on the NIC's worker.
 */
#ifndef SHIFTLIB_REPLICA_READER_H
#define SHIFTLIB_REPLICA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/replica/real_qp.h"

struct sh_pd;

struct sh_reader {
	enum { SH_READER_NONE, SH_READER_MAKING, SH_READER_READY } state;
	bool own;    /* made in the application's context; else it holds the NIC's incarnation */
	bool failed; /* has to be made anew; set by who uses it */
	uint32_t incarnation;
	struct sh_looped looped;
};

/* What all readers of one use have alike, and what their owners do. */
struct sh_reader_kind {
	size_t bytes;	/* of its memory */
	uint32_t batch; /* requests at a time */
	uint8_t reads;	/* READs that are on their way at most */
	int access;	/* IBV_ACCESS_*, of the queue pair */
	bool alone; /* without a shadow of the PD it gets one of its own, and reads other memory */
	/* A job begins or ends that holds the owner. */
	void (*hold)(void *owner, uint8_t path, bool begin) SH_LOCKED;
	/* The reader is ready, or could not be made: NONE. May be NULL. */
	void (*made)(void *owner, uint8_t path) SH_LOCKED;
};

struct sh_reader_place {
	struct sh_pd *pd; /* the application's; its keys name what is read */
	uint8_t path;	  /* which of the NICs */
	void *owner;	  /* has the reader */
};

/*
 * Destroys the reader that is there; make: another one follows. False: no job could be given, and
 * the reader is as it was. The owner and the PD stay while a job holds the owner.
 */
bool sh_reader_renew(struct sh_reader *reader, const struct sh_reader_kind *kind,
		     const struct sh_reader_place *place, bool make) SH_LOCKED;
/* True if its NIC has died since the reader was made. */
bool sh_reader_stale(const struct sh_reader *reader, const struct sh_pd *pd, uint8_t path);
/* Destroys it at once. No job holds the owner. */
void sh_reader_drop(struct sh_reader *reader, const struct sh_reader_kind *kind,
		    const struct sh_reader_place *place) SH_DROPS;

#endif
