/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * READs that push what a NIC wrote. A NIC's answer to a command, and its flushes, go to the host's
 * memory. They say nothing of what it wrote to another device's, a GPU's, just before. But
 * nothing that it reads there passes what it wrote there (PCIe base specification 2.4.1). So a
 * loopback QP of SHIFT's reads a byte of each such region of a protection domain.
 */
#ifndef SHIFTLIB_REPLICA_PUSH_H
#define SHIFTLIB_REPLICA_PUSH_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_mr;
struct sh_pd;
struct sh_pushers;

enum sh_pushed {
	SH_PUSHED,	/* all that the NIC wrote before `since` is there */
	SH_PUSH_WAITS,	/* ask again */
	SH_PUSH_CANNOT, /* the NIC did not read the last time, and its port is down still */
};

/* Does the region lie in memory of another device, and may NICs write to it? */
bool sh_push_concerns(const struct sh_mr *mr);
/* Makes the queue pair ahead, on the NIC of that path; again where it has failed. */
void sh_push_prepare(struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* since, now: ns, as sh_now_ns(). A round of READs that began at `since` or later counts. */
enum sh_pushed sh_push(struct sh_pd *pd, uint8_t path, uint64_t since, uint64_t now) SH_LOCKED;
/* Nobody waits any longer: the NIC does not read. */
void sh_push_give_up(struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* Destroys the queue pair there in the background, before what the PD has on that path. */
void sh_push_leave(struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* Destroys those of the application's own NIC: the PD is about to be deallocated there. */
void sh_push_drop_own(struct sh_pd *pd) SH_DROPS;
/* Destroys all. No job holds the PD. */
void sh_push_drop(struct sh_pd *pd) SH_DROPS;

#endif
