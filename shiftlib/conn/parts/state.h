/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What conn/parts/ keeps in a connection; and sh_spread, in sh_conns. */
#ifndef SHIFTLIB_CONN_PARTS_STATE_H
#define SHIFTLIB_CONN_PARTS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/backup/spread.h"

struct sh_loopback_reader;

/* In struct sh_qp: of a loopback QP. */
struct sh_loopback {
	bool counted; /* in its context's n_self */
	bool shut;    /* its sends wait until other NICs have read */
	uint32_t n;   /* so many of them wait for those of `asked`, by path */
	uint8_t asked;
	uint64_t next_at;
	struct sh_loopback_reader *readers; /* by path; NULL: it never was a loopback QP */
};

/* In struct sh_qp, of its own QP. */
struct sh_qp_room {
	bool has;   /* its places are taken, until it is destroyed */
	bool waits; /* its connection has none yet; counted in sh_conns.roomless */
};

/* Of one NIC: its connections, and where they would go. */
struct sh_spread {
	uint32_t carries;
	struct backup_load load;
};

#endif
