/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does a NIC that raised no event hang? Pure.
 *
 * It does if its own datagrams do not get sent and a command does not return either. Only one of
 * the two is no hang: a port that is paused sends nothing, but obeys; the registration of much
 * memory takes long, but what is on the rings is sent.
 */
#ifndef SHIFTLIB_HANG_H
#define SHIFTLIB_HANG_H

#include <stdint.h>

struct sh_hang_config {
	uint64_t send_ns;    /* a datagram of ours is sent in this time */
	uint64_t command_ns; /* a command returns in this time */
};

enum sh_hang_verdict {
	SH_HANG_NONE,
	SH_HANG_ASK,  /* give it a command: sh_hang_answered() when it returned */
	SH_HANG_HUNG, /* said again as long as it lasts */
};

struct sh_hang {
	uint64_t asked_at; /* a command of ours is under way since; 0: none */
	uint64_t ask_again_at;
};

/*
 * waiting_since: since when the NIC has datagrams of ours and completes none; 0: it has none.
 * busy_since: since when its present command runs; 0: none does. now: later than both.
 */
enum sh_hang_verdict sh_hang_judge(struct sh_hang *hang, const struct sh_hang_config *config,
				   uint64_t waiting_since, uint64_t busy_since, uint64_t now);
void sh_hang_answered(struct sh_hang *hang, const struct sh_hang_config *config, uint64_t now);

#endif
