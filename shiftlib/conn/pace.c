/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When a NIC with thousands of queue pairs dies, the last of them is answered when the NICs
 * have carried out thousands of commands. Who took that for loss would repeat itself, be
 * answered again over every path, and hold up all others. How fast answers come says how long
 * the line is; when few are missing, these are soon taken for lost.
 */
#include "shiftlib/conn/pace.h"

#define PACE_SLACK 2 /* the two ends are not equally far */

void sh_pace_wait(struct sh_pace *pace, bool on, uint64_t now)
{
	if (on && !pace->waiting++) {
		pace->since = now;
		pace->answered = 0;
	} else if (!on) {
		pace->waiting--;
		pace->answered++;
	}
}

uint64_t sh_pace_ns(const struct sh_pace *pace, uint64_t now, uint64_t max_ns)
{
	uint64_t ns;

	if (pace->waiting < 2)
		return 0;
	ns = PACE_SLACK * (now - pace->since) / (pace->answered + 1) * pace->waiting;
	return ns < max_ns ? ns : max_ns;
}
