/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Detector of NICs that hang without an event. Pure.
 *
 * A NIC hangs if its own datagrams are not sent and a command does not return either. One of the
 * two alone is no hang: a paused port sends nothing, but its NIC obeys; registering much memory
 * takes long, but requests on the rings are sent.
 */
#ifndef SHIFTLIB_HANG_H
#define SHIFTLIB_HANG_H

#include <stdint.h>

struct sh_hang_config {
	uint64_t ask_ns;     /* a NIC that sends nothing for this time gets a command */
	uint64_t send_ns;    /* limit for a datagram of ours to be sent */
	uint64_t command_ns; /* limit for a command to return */
};

enum sh_hang_verdict {
	SH_HANG_NONE,
	SH_HANG_ASK,  /* give the NIC a command; call sh_hang_answered() when it returned */
	SH_HANG_HUNG, /* repeated as long as the hang lasts */
};

struct sh_hang {
	uint64_t asked_at; /* start of our command that is under way; 0: none */
	uint64_t ask_again_at;
};

/*
 * Judges a NIC. waiting_since: start of the time in which the NIC has datagrams of ours and
 * completes none; 0: it has none. busy_since: start of its present command; 0: none runs. now:
 * later than both.
 */
enum sh_hang_verdict sh_hang_judge(struct sh_hang *hang, const struct sh_hang_config *config,
				   uint64_t waiting_since, uint64_t busy_since, uint64_t now);
/* Returns when that may become another verdict by time alone; later than now. 0: never. */
uint64_t sh_hang_next(const struct sh_hang *hang, const struct sh_hang_config *config,
		      uint64_t waiting_since, uint64_t busy_since, uint64_t now);
void sh_hang_answered(struct sh_hang *hang, const struct sh_hang_config *config, uint64_t now);

#endif
