/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/watch/ in a connection. */
#ifndef SHIFTLIB_CONN_WATCH_STATE_H
#define SHIFTLIB_CONN_WATCH_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "providers/qp.h"
#include "shiftlib/core/silence.h"

/* In struct sh_qp. */
struct sh_qp_detector {
	struct { /* sends of which no completion tells: the last one, and when */
		uint32_t number;
		uint64_t since;
	} untold;
	struct { /* the sends at a look: if more are complete at the next, the path works */
		struct sp_sent sent;
		uint32_t epoch;
		uint64_t at;
	} mark;
	struct sh_silence
		silence; /* while the path in use is silent: does the work make progress? */
};

struct sh_stall_why;

/* In struct sh_qp: does it go on? */
struct sh_qp_stall {
	uint64_t since;			/* time of the last look that showed it going on */
	const struct sh_stall_why *why; /* what it waits for, as was told; NULL: it goes on */
	uint32_t progress;		/* completions at the last look, modulo 2^32 */
	bool moves;			/* it was moving then */
	bool collected;			/* completions that nobody polls were looked for */
};

#endif
