/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of conn/wqelog/ in a connection, and in each of its carriers. */
#ifndef SHIFTLIB_CONN_WQELOG_STATE_H
#define SHIFTLIB_CONN_WQELOG_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_mr;

/* Words of a connection, used in turn: a sick NIC may still write to an old one. */
enum { SH_WQE_LOG_WORDS = 4 };

enum sh_wqe_log_phase {
	SH_WQE_LOG_NONE,
	SH_WQE_LOG_ASKED,
	SH_WQE_LOG_ON,
	SH_WQE_LOG_REFUSED,
};

/* In struct sh_carrier. */
struct sh_carrier_log {
	enum sh_wqe_log_phase phase; /* the sender's phase */
	bool no_room;		     /* no_room: the send queue has none for log WQEs */
	bool making;		     /* the receiver's word is being registered */
	struct ibv_mr *mr;	     /* the region of the receiver's word; NULL: none */
};

struct sh_log_words;

/* In struct sh_qp. */
struct sh_qp_log {
	/* The sender's half. */
	bool room;	 /* the first send queue was made with room for log WQEs */
	const char *why; /* the carrier in use is not logged; NULL: not known to be refused */
	uint64_t next_at, interval; /* asks again */
	struct {
		bool asked, known; /* the word of that carrier; known: it says number */
		bool answered;
		uint32_t carrier, number;
	} told;
	/* Of what comes. */
	struct sh_log_words *words; /* NULL: nobody has asked */
	uint64_t instance;	    /* owner of the words: the parent, in the child of a fork */
	struct {
		bool given;
		uint32_t carrier, tag;
	} word[SH_WQE_LOG_WORDS]; /* by epoch */
};

#endif
