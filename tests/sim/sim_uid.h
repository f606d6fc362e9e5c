/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics whose results survive (uid/protocol.h, SHIFT_ATOMICS=uid). In some schedules the ends of a host are clients of the
 * library: each swaps and adds, one call at a time, in words at the other host that all of them share, and each request of the
 * library is one of the end's. If its connection ends, a client goes on over a spare one when the old one can execute nothing
 * more; or it is dead, and another one takes its instance over.
 *
 * The library waits for its answers, and the simulation does not. So a call is made anew whenever an answer has come: it
 * asks for the same again, is given the answers that it has had, and asks for more.
 *
 * U1: a UID that comes into a word has its record; it is taken out when that is committed, for its own value; until then its
 * slot is not used again. No UID comes twice; a call has swapped once if it says so, and else never; what was added is there.
 */
#ifndef TESTS_SIM_SIM_UID_H
#define TESTS_SIM_SIM_UID_H

#include <stdbool.h>
#include <stdint.h>

#include "sim_limits.h"
#include "uid/protocol.h"

struct sim_packet;
struct sim_posted;
struct sim_qp;
struct sim_request;
struct sim_world;
struct sp_request;

enum { SIM_UID_WORDS = 2, SIM_UID_CAME = 64, SIM_UID_BATCHES = 16 };

/* At a host, for the ends of the other one. */
struct sim_uid_memory {
	uint64_t word[SIM_UID_WORDS];
	uint32_t added[SIM_UID_WORDS];
	struct uid_record record[SIM_CONNS * UID_SLOTS];
	struct {
		uint64_t uid, swap;
	} came[SIM_UID_CAME]; /* into words */
	uint32_t n_came;
};

enum sim_uid_phase {
	SIM_UID_NONE, /* no client is here */
	SIM_UID_LOOKS,
	SIM_UID_CALLS,
	SIM_UID_TAKES_OVER,
	SIM_UID_BROKEN, /* its connection has ended */
	SIM_UID_STOPPED,
};

/* Of an end. */
struct sim_uid_client {
	uint8_t phase, then; /* enum sim_uid_phase; then: over another connection */
	bool adds;
	uint8_t word;
	uint32_t due, tries;
	struct uid_machine base, now;	 /* as the phase found it; as it is, waiting for answers */
	uint32_t batch[SIM_UID_BATCHES]; /* of this phase: the first request of each, */
	uint32_t n_batches, behind;	 /* and the one behind the last */
	uint32_t swapped;		 /* by the truth, by this call */
	uint64_t seen, before;		 /* what it read; what the word was when it swapped */
};

struct sim_uid {
	bool on;
	uint8_t host;  /* of the clients */
	uint8_t words; /* that they share */
	struct sim_uid_memory memory[SIM_HOSTS];
	struct sim_uid_client client[SIM_ENDS];
};

void sim_uid_init(struct sim_world *w);
/* Is, or was, a client at that end? */
bool sim_uid_is(const struct sim_world *w, uint32_t end);
/* It has requests of the library, and no others. */
bool sim_uid_keeps(const struct sim_world *w, uint32_t end);
/* A call is due, or another look whether the old connection is gone. */
void sim_uid_due(struct sim_world *w, uint32_t end, uint32_t what);
/* The application has polled. */
void sim_uid_polled(struct sim_world *w, uint32_t end);
/* The receiver executes it, at that end; into p: its answer. */
void sim_uid_write(struct sim_world *w, const struct sim_qp *qp, uint32_t request);
void sim_uid_respond(struct sim_world *w, uint32_t end, uint32_t request, bool again,
		     struct sim_packet *p);
void sim_uid_unwrite(struct sim_world *w, const struct sim_posted *posted);
/* What settling knows of it. */
void sim_uid_tell(const struct sim_request *r, struct sp_request *request);
/* Its answer may never come. */
bool sim_uid_decides(const struct sim_request *r);
/* It may run again. */
bool sim_uid_repeats(const struct sim_request *r);
void sim_uid_completed(struct sim_world *w, uint32_t end, uint32_t request);
/* May the connection end for an atomic of it? */
bool sim_uid_may_end(const struct sim_world *w, uint32_t end);
/* Its connection lives, and nothing happens any more. */
void sim_uid_check_done(struct sim_world *w, uint32_t end);
void sim_uid_check_end(struct sim_world *w);

#endif
