/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs that were judged to be bad though nothing has failed: it is told of, or with SHIFT_GRAY=on
 * their connections leave in order, if that helps. Who judges (gray.c, slow.c) has a struct
 * sh_judge.
 */
#ifndef SHIFTLIB_CONN_WATCH_JUDGED_H
#define SHIFTLIB_CONN_WATCH_JUDGED_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/nic/nic.h"

struct sh_judge {
	enum sh_drain drain;
	enum sh_event_cause (*cause)(const struct sh_nic *nic);
	void (*log)(const struct sh_nic *nic, const char *what_is_done);
	void (*log_well)(const struct sh_nic *nic);
	/* Why its connections do not leave; NULL: they do. A literal, which is told once. */
	const char *(*stays)(const struct sh_nic *nic);
};

/* The last word about a NIC that is used on; NULL: none. Zeroed at the start. */
struct sh_judged {
	const char *told_stays;
};

/* After each look: is it bad, and has that changed? */
void sh_judged_act(const struct sh_judge *judge, struct sh_judged *judged, struct sh_nic *nic,
		   bool bad, bool changed) SH_LOCKED;
/* The operator wants it to be used. It was bad. */
void sh_judged_use(const struct sh_judge *judge, struct sh_judged *judged,
		   struct sh_nic *nic) SH_LOCKED;

#endif
