/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Deterministic simulation of the whole protocol: the production core at both ends; NICs, rings,
 * packets, completion queues, memory, control messages, detection and applications as a model in
 * virtual time. One seed is one schedule: it draws every delay, loss, fault and request, and replays
 * exactly.
 *
 * Two hosts with two or three NICs each; NIC k of one and NIC k of the other are path k. Two or three
 * connections between them: end 2 c + h is that of connection c on host h, its peer is end ^ 1. Every
 * carrier is a QP of its own with a number of its own.
 */
#ifndef TESTS_SIM_SIM_WORLD_H
#define TESTS_SIM_SIM_WORLD_H

#include "shiftlib/core/core.h"
#include "sim_end.h"
#include "sim_event.h"
#include "sim_fault.h"
#include "sim_limits.h"
#include "sim_nic.h"
#include "sim_report.h"
#include "sim_uid.h"

struct sim_view {		      /* of a path, by one host */
	bool up, steady, blind, well; /* well: its own NIC */
	uint64_t since, holddown;
	uint32_t generation;
};

struct sim_host {
	bool dead, answers;	/* answers: the host says that it knows nobody */
	bool doubts[SIM_PATHS]; /* what the other one's NIC there says of its PSNs */
	bool dark;		/* it was told that no path to the other one has an answer */
	uint64_t halted_since, halted_until; /* its process is, not its NICs; 0: it runs */
	bool halted_untold;		     /* something came up that it is told when it goes on */
	uint32_t halted_messages;	     /* that found room meanwhile */
	struct sim_nic nic[SIM_PATHS];
	struct sim_view view[SIM_PATHS];
};

/* How unlucky packets and messages are. */
struct sim_weather {
	uint32_t loss_percent, slow_percent, held_percent;
	uint32_t
		log_every; /* a log WQE lies behind so many requests that change memory; 0: there is no log */
	bool crowded; /* many connections move: messages are sent again later */
};

/* What chance decided, for --shrink. */
struct sim_decisions {
	uint64_t *list;
	uint32_t n, max, next;
	bool replay;
};

/* Events to come, a heap. */
struct sim_queue {
	uint32_t n, order;
	struct sim_event heap[SIM_EVENTS];
};

struct sim_payloads {
	uint32_t n_free;
	uint16_t free[SIM_PAYLOADS];
	union sim_payload payload[SIM_PAYLOADS];
};

struct sim_world {
	uint64_t seed, random, now;
	bool trace;
	uint32_t n_paths, n_conns, n_ends, n_qps, steps;
	struct sim_host host[SIM_HOSTS];
	struct sim_end end[SIM_ENDS];
	struct sim_fault faults[SIM_FAULTS];
	uint32_t n_faults;
	uint64_t faults_until;
	uint32_t more_times;	/* faults were added: none had struck during a move */
	bool restless;		/* there was something to do for longer than all faults explain */
	bool healed, disturbed; /* disturbed: something has happened to the paths */
	bool rail_up[SIM_PATHS];
	struct {
		uint64_t since; /* it is a way; 0: it is none */
		uint64_t from[SIM_INTERVALS], to[SIM_INTERVALS];
		uint32_t n;
	} way[SIM_PATHS];
	struct {
		bool sick;	    /* a default NIC was, or retries over it are spent */
		uint64_t cut_since; /* the default path passes nothing; 0: it does */
		uint64_t longest;   /* such a time */
		uint32_t stretch;   /* so many times their nominal time its NICs retry */
	} stock;
	struct sc_config config;
	bool owned; /* atomics are compare-and-swaps, of values of their own */
	struct sim_uid uid;
	uint32_t base_count, first_psn;
	uint32_t mtu[SIM_PATHS]; /* in units */
	struct sim_weather weather;
	uint32_t excuse[SIM_CONNS];
	uint32_t moves[SIM_CONNS];
	struct {
		uint64_t since[SIM_ENDS]; /* it is waited out here; 0: it is not */
		uint64_t asks[SIM_ENDS]; /* since: it wants to leave, or knows that its peer does */
		uint64_t halted;	 /* the longest time that a process was */
	} flap;
	uint32_t peaceful[SIM_CONNS]; /* epoch that a switch went to, with nothing wrong */
	struct sim_figures figures;
	char violation[256];
	bool out_of_room; /* and violation says of what */
	/* of all schedules */
	struct sim_decisions decisions;
	struct sim_totals *totals;
	/* not cleared: large */
	struct sim_qp qp[SIM_QPS];
	struct sim_queue queue;
	struct sim_payloads payloads;
};

uint64_t sim_random(struct sim_world *w);
uint32_t sim_pick(struct sim_world *w, uint32_t n); /* 0 .. n - 1 */
bool sim_chance(struct sim_world *w, uint32_t percent);
uint64_t sim_delay(struct sim_world *w);
void sim_at(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type, uint32_t who,
	    uint32_t arg);
void sim_at_generation(struct sim_world *w, uint64_t at, enum sim_event_type type, uint32_t who,
		       uint32_t arg, uint32_t generation);
union sim_payload *sim_at_payload(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type,
				  uint32_t who);
void sim_violation(struct sim_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * The model's tables are full: the schedule ends here. Two paths that answer pings and pass no data,
 * for longer than the model has carriers, bring that about; it is counted, and must stay rare.
 */
void sim_out_of_room(struct sim_world *w, const char *what);
void sim_trace(struct sim_world *w, uint32_t who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sim_reach(struct sim_world *w, uint32_t promise);
void sim_init(struct sim_world *w, uint64_t seed, bool trace);
void sim_run(struct sim_world *w);

#endif
