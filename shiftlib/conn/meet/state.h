/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/meet/ in a connection. */
#ifndef SHIFTLIB_CONN_MEET_STATE_H
#define SHIFTLIB_CONN_MEET_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/list.h"

/* In struct sh_qp. */
struct sh_intro {
	uint64_t start_at; /* the background thread begins, not the application's */
	uint64_t next_at, interval, since, put_again_at, asked_at;
	uint64_t look_at;	/* when the peer's record is looked for */
	uint64_t news_interval; /* no sooner is it looked for at a hint */
	uint64_t progressed;	/* number of completions when the wait began */
	uint64_t introduced_to; /* the instance that the core was told of last */
	struct list_node line;	/* entry in sh_intros.line or .waiting, or alone */
	bool queued;		/* stands in line, or is being asked about */
	bool waits;		/* in sh_intros.waiting instead */
	uint8_t peer_protocol;	/* protocol of the record that was read last; 0: none was read */
	bool published, told;
	bool no_store;	  /* the store did not answer when asked last */
	bool refused;	  /* logged: the peer's record is wrong */
	bool gid_unknown; /* the NIC does not tell what the application connected from */
};

/* In struct sh_qp. */
struct sh_qp_unknown {
	struct list_node link; /* sh_conns.suspects: sightings, and not refused yet */
	uint32_t key;	       /* the one that is suspected, while sightings is not 0 */
	bool remote;
	uint8_t path; /* path of the standby that would lack the key */
	uint32_t sightings;
	uint32_t number; /* number of the latest request, as sp_qp_sending() has it */
	uint64_t first_ns, last_ns;
};

#endif
