/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The work of a connection whose path is silent. Heartbeats may be lost alone: only where work is
 * outstanding and none completes either is the path dead. Pure.
 */
#ifndef SHIFTLIB_SILENCE_H
#define SHIFTLIB_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

struct sh_silence {
	uint64_t since; /* time of the last completion seen, or of the first look; 0: not silent */
	uint64_t completions;
	bool told;
};

/*
 * Notes how many have completed. Returns true while that number stands still. Call it at each look
 * while the path is silent.
 */
bool sh_silence_stands(struct sh_silence *silence, uint64_t completions, uint64_t now);
/* True, once: the work has stood still for least_ns, on a path that was found to be lost. */
bool sh_silence_dead(struct sh_silence *silence, uint64_t least_ns, uint64_t now);
void sh_silence_over(struct sh_silence *silence);

#endif
