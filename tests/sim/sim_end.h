/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One end of a connection: core, application, engine and shell. */
#ifndef TESTS_SIM_SIM_END_H
#define TESTS_SIM_SIM_END_H

#include "shiftlib/core/core.h"
#include "sim_app.h"
#include "sim_event.h"
#include "sim_limits.h"

/* Events for one core, which is never entered twice. */
struct sim_line {
	struct sc_event event[SIM_QUEUED];
	uint32_t n;
	bool stepping; /* the core works on them */
};

/* How far the shell is with QUIESCE. */
struct sim_quiesce {
	bool running;
	uint32_t epoch, generation;
	uint32_t pending; /* carriers whose command is not answered */
};

struct sim_log_state {
	uint64_t word;		     /* of what comes: one for all carriers, as hard as can be */
	bool unordered;		     /* its memory: the word may be there before what it counts */
	bool asked, answered;	     /* of what is sent: in this move */
	struct sim_log_message told; /* by the peer; maybe in a move before */
};

struct sim_end {
	struct sc_conn conn;
	uint32_t timer_generation;
	uint64_t stepped_at;
	uint32_t seen_states; /* bits of enum sim_trigger that held after the last step */
	struct sim_app app;
	struct sim_request requests[SIM_REQUESTS];
	uint32_t receive_message[SIM_REQUESTS];
	bool receive_given[SIM_REQUESTS]; /* back to the application */
	struct {
		uint32_t half[2]; /* request + 1 of the write that was here last */
		uint32_t floor;	  /* writes up to here are over: the memory may be in other use */
		uint32_t third;	  /* somebody else saw that write, + 1, and has written since */
		uint32_t word;	  /* beside: of compare-and-swaps */
	} cell[SIM_CELLS];
	uint32_t counter; /* target of other atomics */
	/* engine */
	bool guarded, withheld, passing, app_error_told;
	uint16_t active, recv_to;
	uint32_t retired; /* requests, in posting order */
	struct {
		uint32_t from;	  /* the first request that was laid into the carrier in use */
		uint32_t acked;	  /* requests, before those were recalled that are to be settled */
		bool writes_only; /* a WRITE may be missing from the peer's memory */
		bool misled;	  /* once, by a wrong number that nothing contradicted */
		struct sim_log_state log;
	} laid;
	uint32_t recv_count;
	uint32_t receives_given; /* good or with an error, to the application */
	uint32_t room;		 /* of the send ring: its depth, or more */
	bool fence_early;	 /* sends are withheld before the fence has found room */
	struct {
		bool wanted, laid, told;
		uint32_t number;
	} fence;
	struct sim_completion backlog[SIM_BACKLOG];
	uint32_t n_backlog, backlog_head;
	uint16_t carriers[SIM_QPS]; /* that are not gone */
	uint32_t n_carriers;
	/* shell */
	struct sim_line line;
	struct sim_quiesce quiesce;
	struct {
		bool late, gone; /* gone: a switch finds none at first ... */
		uint32_t epoch;	 /* ... on the way to this epoch */
		uint32_t misses;
	} keys;
	bool suspicious;
	uint32_t resource_misses;
	struct {
		uint32_t loss_run;
		/*
		 * What names the peer was left by a process that has ended: 2; it is believed: 1; the peer's own
		 * is there: 0. Until then who really is the peer is not heard.
		 */
		uint8_t left_over;
	} control;
	struct {
		uint32_t epoch;
		uint8_t path;
	} asked; /* the last standby that was asked for */
	bool failed;
	bool cqes_were_lost, writes_were_lost, was_sick; /* by a NIC of this end's host */
};

#endif
