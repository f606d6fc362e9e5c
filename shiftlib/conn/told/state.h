/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/told/ in a connection. */
#ifndef SHIFTLIB_CONN_TOLD_STATE_H
#define SHIFTLIB_CONN_TOLD_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct sh_move;

/* In struct sh_qp. */
struct sh_qp_incident {
	uint32_t moving;   /* serial number of the incident; 0: it does not move */
	uint64_t level_at; /* time when the protection changed; 0: it is as was told */
	bool told_protected;
	bool ended; /* its end was told */
};

/* In struct sh_qp. */
struct sh_qp_stats {
	struct { /* totals of all moves */
		uint32_t moves;
		uint64_t resubmitted, resent_bytes, settled;
	} totals;
	uint8_t away_path;    /* path counted in its NIC's `away`; 0: none */
	struct sh_move *move; /* figures of the move under way or of the last one */
};

#endif
