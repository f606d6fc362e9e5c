/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/parts/ in a connection; sh_spread is in sh_conns. */
#ifndef SHIFTLIB_CONN_PARTS_STATE_H
#define SHIFTLIB_CONN_PARTS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/backup/spread.h"

struct sh_loopback_reader;

/* The gate of a loopback QP, in struct sh_qp. */
struct sh_loopback {
	bool counted; /* counted in its context's n_self */
	bool shut;    /* shut: sends wait until other NICs have read */
	uint32_t n;   /* so many of them wait for those of `asked`, by path */
	uint8_t asked;
	uint64_t next_at;
	struct sh_loopback_reader *readers; /* readers by path; NULL: it never was a loopback QP */
};

/* Room for flushes of the application's own QP, in struct sh_qp. */
struct sh_qp_room {
	/*
	 * The fault whose move waits for room: its kind (0: none), reason and carrier; since when a
	 * move waits (0: none does).
	 */
	uint64_t late_since;
	uint32_t late_epoch;
	uint8_t late_type, late_reason;
	bool has;   /* has its places, until the QP is destroyed */
	bool waits; /* there is no room yet; counted in sh_conns.roomless */
};

/* Looks into an error that a sick NIC may have made; made for the first one (inquiry.c). */
struct sh_qp_inquiry {
	uint64_t since;	   /* start; 0: none is under way */
	uint32_t epoch;	   /* carrier of the error */
	uint8_t status;	   /* of the error */
	bool asks;	   /* the peer is asked, too, and has not answered */
	uint64_t asked_at; /* when the own NIC was asked first; 0: it was not */
	uint64_t look_at, interval;
	struct {			    /* the peer's question */
		uint64_t since;		    /* time of hearing it first; 0: there is none */
		uint32_t epoch;		    /* of a carrier */
		uint64_t look_at, interval; /* 0: it was answered, or was too long ago */
	} of_peer;
};

/* READs that push what the NICs wrote that are left, in struct sh_qp. */
struct sh_qp_push {
	uint64_t since; /* when the count was final, and began to wait; 0: it has not */
};

/* The connections of a NIC, and where they would go. */
struct sh_spread {
	uint32_t carries;
	struct backup_load load;
};

#endif
