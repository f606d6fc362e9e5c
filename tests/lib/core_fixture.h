/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One connection under test: give it events, read its actions as one line of names. */
#ifndef TESTS_LIB_CORE_FIXTURE_H
#define TESTS_LIB_CORE_FIXTURE_H

#include "shiftlib/core/core.h"

struct core_fixture {
	struct sc_conn conn;
	struct sc_actions out; /* of the last step */
	uint64_t now;
	uint8_t peer_masks_no;
	char line[512]; /* its names */
};

/*
 * Where a connection can stand, seen from the leader's end with two paths; each state is reached by
 * events only. Up to FALLBACK path 0 is lost; from BACK_MAKING on it is well again.
 */
enum fixture_state {
	AT_NEW,
	AT_MAKING,
	AT_MADE,
	AT_CONNECTING,
	AT_READY, /* own READY, the peer's not heard */
	AT_PROTECTED,
	AT_UNPROTECTED, /* the standby was lost; the guard stays */
	AT_STRANDED,
	AT_QUIESCING,
	AT_COUNTING,
	AT_LAYING,
	AT_AWAITING_COUNT,
	AT_SETTLING,
	AT_FALLBACK,
	AT_BACK_MAKING, /* a standby on path 0 */
	AT_WAIT_SIGNALED,
	AT_WAIT_DRAINED,
	AT_FENCED,
	AT_CANCELLED,
	AT_RETURNING, /* both were fenced */
	AT_HOME,
	AT_CLOSED, /* ended, no FAIL given */
	AT_FAILED, /* ended, FAIL given */
	FIXTURE_STATES,
};
extern const char *const fixture_state_names[FIXTURE_STATES];

#define FIXTURE_RETRY_TIME_NS (540ULL * 1000 * 1000)
#define FIXTURE_COUNT	      7 /* own receive count where one is given */
#define FIXTURE_PEER_COUNT    9

void fixture_init(struct core_fixture *f, bool leader); /* introduced, both paths up */
void fixture_at(struct core_fixture *f, enum fixture_state state);
const char *fixture_give(struct core_fixture *f, const struct sc_event *event);
const char *fixture_type(struct core_fixture *f, enum sc_event_type type);
const char *fixture_fault(struct core_fixture *f, enum sc_reason reason, uint32_t epoch);
const char *fixture_paths(struct core_fixture *f, uint8_t up, uint8_t steady, uint8_t drained);
/* The peer's, about the standby that there is; its paths are all well. */
const char *fixture_standby(struct core_fixture *f, enum sc_standby_phase phase,
			    enum sc_standby_phase seen, bool ask);
const char *fixture_standby_msg(struct core_fixture *f, struct sc_msg_standby m);
const char *fixture_state_msg(struct core_fixture *f, struct sc_msg_state m);
/* The peer's, at the epoch in use, about the switch under way. */
const char *fixture_switch(struct core_fixture *f, enum sc_switch_phase phase);
/* Answer of an action, about the standby or the carrier that it was given for. */
const char *fixture_answer(struct core_fixture *f, enum sc_event_type type, bool ok,
			   enum sc_reason reason);
const char *fixture_quiesced(struct core_fixture *f, bool final, uint32_t count);
/* Lets time pass to the timer that the connection asked for; "" if it did not. */
const char *fixture_timer(struct core_fixture *f);
const struct sc_action *fixture_find(const struct core_fixture *f, enum sc_action_type type);
/* The epoch that the connection is at or on the way to, or else would go to. */
uint32_t fixture_target(const struct core_fixture *f);

#endif
