/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What conn/wqelog/ keeps in a connection, and in each of its carriers. */
#ifndef SHIFTLIB_CONN_WQELOG_STATE_H
#define SHIFTLIB_CONN_WQELOG_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_mr;

/* Of a connection, in turn: a sick NIC may still write to one of old. */
enum { SH_WQE_LOG_WORDS = 4 };

enum sh_wqe_log_phase {
	SH_WQE_LOG_NONE,
	SH_WQE_LOG_ASKED,
	SH_WQE_LOG_ON,
	SH_WQE_LOG_REFUSED,
};

/* In struct sh_carrier. */
struct sh_carrier_log {
	enum sh_wqe_log_phase phase; /* of what is sent on it */
	bool no_room;		     /* its send queue has none for log WQEs */
	bool making;		     /* of what comes: its word is being registered */
	struct ibv_mr *mr;	     /* that; NULL: it is not */
};

struct sh_log_words;

/* In struct sh_qp. */
struct sh_qp_log {
	/* Of what is sent. */
	bool room;	 /* its own send queue was made with room for log WQEs */
	const char *why; /* the carrier in use is not logged; NULL: not known to be refused */
	uint64_t next_at, interval; /* asks again */
	struct {
		bool asked, known; /* the word of that carrier; known: it says number */
		bool answered;
		uint32_t carrier, number;
	} told;
	/* Of what comes. */
	struct sh_log_words *words; /* NULL: nobody has asked */
	uint64_t instance;	    /* whose they are: not this process's, in the child of a fork */
	struct {
		bool given;
		uint32_t carrier, tag;
	} word[SH_WQE_LOG_WORDS]; /* by epoch */
};

#endif
