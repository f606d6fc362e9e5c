/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The application of an end: its requests, receives and completions. */
#ifndef TESTS_SIM_SIM_APP_H
#define TESTS_SIM_SIM_APP_H

#include <stdbool.h>
#include <stdint.h>

struct sim_world;

/* Of shift/shift_uid.h: sim_uid.h. */
struct sim_uid_request {
	bool on;
	uint8_t verb, words; /* enum uid_verb; words of data, but for a CAS */
	uint64_t addr, compare, swap;
	uint64_t data[4]; /* WRITE: what; READ, CAS: the answer */
	uint64_t ran_old; /* CAS: what the responder repeats */
};

struct sim_request {
	uint8_t kind;	    /* enum sp_request_kind */
	uint8_t cell, size; /* size: in units; a packet has one, two or four of them */
	bool with_write;    /* two-sided: WRITE_WITH_IMM */
	bool signaled, send_fence, bad;
	bool nop;		       /* delivered, and laid as a NOP */
	bool published, retired, seen; /* seen: the application knows that it is complete */
	bool refused;		       /* a NIC has reported an application error for it */
	bool answered;		       /* READ, atomic: data is in the local buffer */
	uint32_t low, high;
	uint32_t message;  /* two-sided: ordinal, from 0 */
	uint32_t executed; /* atomics */
	uint32_t ran;	   /* its last packet was taken so often */
	bool unsure;	   /* laid again though it may have run: nobody could tell */
	uint32_t old_value;
	bool swapped; /* a compare-and-swap */
	struct sim_uid_request uid;
};

struct sim_completion {
	bool recv, error;
	uint8_t index;
	uint32_t message;
};

struct sim_app {
	uint32_t n_requests, n_due, n_posted;
	uint32_t n_receives, receives_due, n_receives_posted;
	uint32_t depth;	    /* of the send queue */
	uint32_t send_next; /* next request whose completion may come */
	uint32_t recv_next;
	bool receives_follow; /* a receive is posted when an own request completes */
	bool failed, send_failed, closed, poll_scheduled;
};

void sim_app_init(struct sim_world *w);
void sim_app_post(struct sim_world *w, uint32_t end);
void sim_app_post_receive(struct sim_world *w, uint32_t end);
void sim_app_poll(struct sim_world *w, uint32_t end);
void sim_app_wake(struct sim_world *w, uint32_t end);
void sim_app_close(struct sim_world *w, uint32_t end);
void sim_app_check_completion(struct sim_world *w, uint32_t end, const struct sim_completion *c);

#endif
