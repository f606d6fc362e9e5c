/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log of a connection (SHIFT_WQE_LOG): behind each n-th request that changes the peer's memory its sender writes one
 * word there, so that what ran is known also where the peer's NIC is dead (core/settle.h). Who sends asks where the word
 * of a carrier is, and behind a fault what it says; who receives has it registered, and reads it. Lock held.
 */
#ifndef SHIFTLIB_CONN_WQELOG_WQE_LOG_H
#define SHIFTLIB_CONN_WQELOG_WQE_LOG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sc_counts;
struct sh_carrier;
struct sh_conn_part;
struct sh_qp;
struct sh_wire_log;
struct sp_request;

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

/* In struct sh_carriers. */
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

/* For the log of a queue of so many requests, as SHIFT_WQE_LOG says: more requests, more bytes inline. 0: none. */
uint32_t sh_wqe_log_room(uint32_t requests);
void sh_wqe_log_caps(struct ibv_qp_cap *cap);

/* "off", "on", "asked", "refused", of the carrier in use; *why: of the last one. NULL: it is not wanted. */
const char *sh_wqe_log_state(const struct sh_qp *qp, const char **why);

void sh_wqe_log_free(struct sh_qp *qp); /* its queue pairs are gone */
/* Of a queue pair that is gone. May block: on the NIC's worker, or without the lock. */
void sh_wqe_log_drop(struct ibv_mr *mr);

extern const struct sh_conn_part sh_wqe_log_part;

#endif
