/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/atomics/ in a connection. */
#ifndef SHIFTLIB_CONN_ATOMICS_STATE_H
#define SHIFTLIB_CONN_ATOMICS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/home.h"

/*
 * The connection's two roles in struct sh_qp, as both ends may do atomics: the requester, and a
 * member of this end's group.
 */
struct sh_qp_home {
	struct sc_home_user user;
	struct sc_home_member member;
	bool waits;    /* an atomic waits until it may run */
	bool said;     /* ... which was logged */
	bool alone;    /* the peer takes no part, which was logged */
	bool entering; /* the command that connects it is under way */
	uint64_t waits_since;
	uint64_t resend_at, interval; /* something is not answered yet */
};

#endif
