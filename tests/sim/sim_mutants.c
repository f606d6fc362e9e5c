/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/core/internal.h"
#include "sim_mutants.h"
#include "uid/protocol.h"

#include <stdio.h>
#include <string.h>

enum sim_mutant sim_mutant;

/* Under the promise that was seen broken first; another schedule may name another. What each breaks is
 * the comment at its enumerator. */
static const struct {
	const char *name;
	enum sc_mutant core;
	enum sim_mutant model;
} mutants[] = {
	/* P1 */
	{ "delivered-read-nop", SC_MUTANT_READ_NOP, SIM_MUTANT_NONE },
	{ "completion-dropped", SC_MUTANT_NONE, SIM_MUTANT_DROP },
	{ "receives-reordered", SC_MUTANT_NONE, SIM_MUTANT_REORDER },
	{ "receives-not-laid-again", SC_MUTANT_NONE, SIM_MUTANT_NOT_RELAID },
	/* P2 */
	{ "count-unchecked", SC_MUTANT_COUNT_UNCHECKED, SIM_MUTANT_NONE },
	{ "lower-standby-adopted", SC_MUTANT_LOWER_STANDBY, SIM_MUTANT_NONE },
	{ "same-qpn", SC_MUTANT_NONE, SIM_MUTANT_SAME_QPN },
	/* P3 */
	{ "fenced-read-again", SC_MUTANT_FENCED_READ, SIM_MUTANT_NONE },
	{ "publish-before-settle", SC_MUTANT_NONE, SIM_MUTANT_PUBLISH_EARLY },
	{ "acknowledged-is-placed", SC_MUTANT_ACKED_IS_PLACED, SIM_MUTANT_NONE },
	{ "flush-taken-for-success", SC_MUTANT_NONE, SIM_MUTANT_FLUSH_GOOD },
	/* P4 */
	{ "atomic-again", SC_MUTANT_ATOMIC_AGAIN, SIM_MUTANT_NONE },
	/* P5 */
	{ "count-before-quiesce", SC_MUTANT_COUNT_EARLY, SIM_MUTANT_NONE },
	{ "resubmit-before-answer", SC_MUTANT_NO_ANSWER, SIM_MUTANT_NONE },
	{ "no-lifetime", SC_MUTANT_NO_LIFETIME, SIM_MUTANT_NONE },
	{ "no-peer-quiesce", SC_MUTANT_NO_PEER_QUIESCE, SIM_MUTANT_NONE },
	{ "receives-late", SC_MUTANT_RECEIVES_LATE, SIM_MUTANT_NONE },
	{ "delivered-write-again", SC_MUTANT_WRITE_AGAIN, SIM_MUTANT_NONE },
	{ "late-message-obeyed", SC_MUTANT_OBEY_LATE, SIM_MUTANT_NONE },
	{ "leave-without-peer", SC_MUTANT_ALONE, SIM_MUTANT_NONE },
	{ "back-after-fenced", SC_MUTANT_GO_BACK, SIM_MUTANT_NONE },
	{ "idle-counts-as-flushed", SC_MUTANT_NONE, SIM_MUTANT_IDLE_FLUSHED },
	{ "count-not-final", SC_MUTANT_NONE, SIM_MUTANT_NOT_FINAL },
	{ "fenced-not-drained", SC_MUTANT_NONE, SIM_MUTANT_FENCE_EARLY },
	{ "fence-open", SC_MUTANT_NONE, SIM_MUTANT_FENCE_OPEN },
	/* P6 */
	{ "application-error-retried", SC_MUTANT_NONE, SIM_MUTANT_RETRY_ERROR },
	/* P7 */
	{ "answer-of-any-epoch", SC_MUTANT_ANY_EPOCH, SIM_MUTANT_NONE },
	{ "no-resend", SC_MUTANT_NO_RESEND, SIM_MUTANT_NONE },
	{ "lost-not-told", SC_MUTANT_NO_LOST, SIM_MUTANT_NONE },
	{ "epoch-used-again", SC_MUTANT_EPOCH_AGAIN, SIM_MUTANT_NONE },
	{ "answer-kept", SC_MUTANT_KEEP_ANSWER, SIM_MUTANT_NONE },
	{ "cancelled-number-used-again", SC_MUTANT_NUMBER_AGAIN, SIM_MUTANT_NONE },
	{ "fence-timeout-leaves", SC_MUTANT_FENCE_ATOMICS, SIM_MUTANT_NONE },
	{ "patience-shorter-than-retry", SC_MUTANT_IMPATIENT, SIM_MUTANT_NONE },
	{ "patience-of-nominal-retries", SC_MUTANT_NOMINAL, SIM_MUTANT_NONE },
	{ "no-turning-back", SC_MUTANT_NO_TURN, SIM_MUTANT_NONE },
	{ "no-deadline", SC_MUTANT_FOR_EVER, SIM_MUTANT_NONE },
	{ "rest-alone", SC_MUTANT_REST_ALONE, SIM_MUTANT_NONE },
	{ "rest-away", SC_MUTANT_REST_AWAY, SIM_MUTANT_NONE },
	{ "doubt-not-told", SC_MUTANT_DOUBT_UNTOLD, SIM_MUTANT_NONE },
	{ "left-over-leads", SC_MUTANT_LEFT_OVER_LEADS, SIM_MUTANT_NONE },
	{ "other-path", SC_MUTANT_OTHER_PATH, SIM_MUTANT_NONE },
	{ "stampede", SC_MUTANT_STAMPEDE, SIM_MUTANT_NONE },
	{ "drained-last-path", SC_MUTANT_DRAINED_LAST, SIM_MUTANT_NONE },
	{ "count-per-carrier", SC_MUTANT_NONE, SIM_MUTANT_COUNT_ANEW },
	{ "one-control-path", SC_MUTANT_NONE, SIM_MUTANT_ONE_PATH },
	{ "fatal-not-passed-on", SC_MUTANT_NONE, SIM_MUTANT_KEEP_GUARD },
	{ "hold-down-ignored", SC_MUTANT_NONE, SIM_MUTANT_NO_HOLDDOWN },
	{ "both-lead", SC_MUTANT_NONE, SIM_MUTANT_BOTH_LEAD },
	{ "carrier-in-use-destroyed", SC_MUTANT_NONE, SIM_MUTANT_DROP_LIVE },
	/* W1, P9 */
	{ "stay-forever", SC_MUTANT_STAY_FOREVER, SIM_MUTANT_NONE },
	{ "leave-without-go", SC_MUTANT_LEAVE_WITHOUT_GO, SIM_MUTANT_NONE },
	{ "leave-unheard", SC_MUTANT_LEAVE_UNHEARD, SIM_MUTANT_NONE },
	/* R1, P11 */
	{ "flush-takes-room", SC_MUTANT_NONE, SIM_MUTANT_FLUSH_TAKES_ROOM },
	/* X1 to X4, of the exact count */
	{ "x-of-other-epoch", SC_MUTANT_OTHER_PSN, SIM_MUTANT_NONE },
	{ "x-though-sick", SC_MUTANT_SICK_PSN, SIM_MUTANT_NONE },
	{ "x-before-flush", SC_MUTANT_EARLY_PSN, SIM_MUTANT_NONE },
	{ "x-as-delivered-when-cut", SC_MUTANT_CUT_IS_DELIVERED, SIM_MUTANT_NONE },
	{ "read-is-one-packet", SC_MUTANT_NONE, SIM_MUTANT_READ_IS_ONE },
	{ "mtu-of-default-carrier", SC_MUTANT_NONE, SIM_MUTANT_DEFAULT_MTU },
	{ "wrap-24", SC_MUTANT_WRAP_24, SIM_MUTANT_NONE },
	{ "trust-unchecked", SC_MUTANT_TRUST_UNCHECKED, SIM_MUTANT_NONE },
	{ "atomic-ran-again", SC_MUTANT_ATOMIC_RAN_AGAIN, SIM_MUTANT_NONE },
	{ "atomic-ran-dropped", SC_MUTANT_ATOMIC_RAN_DROPPED, SIM_MUTANT_NONE },
	/* O1, of atomics by their owners' values */
	{ "own-value-means-lost", SC_MUTANT_OWN_IS_LOST, SIM_MUTANT_NONE },
	{ "other-value-means-won", SC_MUTANT_OTHER_IS_WON, SIM_MUTANT_NONE },
	/* L1, of the log */
	{ "log-before-data", SC_MUTANT_NONE, SIM_MUTANT_LOG_UNORDERED },
	{ "log-read-before-flush", SC_MUTANT_NONE, SIM_MUTANT_LOG_READ_EARLY },
	{ "log-counts-hidden", SC_MUTANT_NONE, SIM_MUTANT_LOG_HIDDEN },
	{ "log-packet-not-numbered", SC_MUTANT_NONE, SIM_MUTANT_LOG_UNNUMBERED },
	{ "log-packet-before-forgotten", SC_MUTANT_NONE, SIM_MUTANT_LOG_BEFORE },
	{ "log-ends-with-a-move", SC_MUTANT_NONE, SIM_MUTANT_LOG_NOT_RELAID },
	{ "log-of-old-carrier", SC_MUTANT_LOG_OF_OLD, SIM_MUTANT_NONE },
	{ "log-of-other-carrier", SC_MUTANT_LOG_OF_OTHER, SIM_MUTANT_NONE },
	{ "log-counts-beyond", SC_MUTANT_LOG_BEYOND, SIM_MUTANT_NONE },
	/* U1, of atomics whose results survive; those of the library are below */
	{ "uid-swap-again", SC_MUTANT_UID_AGAIN, SIM_MUTANT_NONE },
	{ "uid-step-dropped", SC_MUTANT_UID_STEP_DROPPED, SIM_MUTANT_NONE },
};

static const char *const of_library[UID_MUTANTS] = {
	[UID_MUTANT_SLOT_REUSED] = "uid-slot-reused",
	[UID_MUTANT_CONFIRM_BEFORE_COMMIT] = "uid-confirm-before-commit",
	[UID_MUTANT_COMMIT_BY_WRITE] = "uid-commit-by-write",
	[UID_MUTANT_RECORD_FIRST] = "uid-record-first",
	[UID_MUTANT_RECORD_BY_WRITE] = "uid-record-by-write",
	[UID_MUTANT_UNKNOWN_IS_LOST] = "uid-unknown-is-lost",
	[UID_MUTANT_LEFT_ALONE] = "uid-left-alone",
};

void sim_mutants_list(void)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(*mutants); i++)
		puts(mutants[i].name);
	for (int i = UID_MUTANT_NONE + 1; i < UID_MUTANTS; i++)
		puts(of_library[i]);
}

bool sim_mutants_choose(const char *name)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(*mutants); i++) {
		if (strcmp(mutants[i].name, name))
			continue;
		sc_mutant = mutants[i].core;
		sim_mutant = mutants[i].model;
		return true;
	}
	for (int i = UID_MUTANT_NONE + 1; i < UID_MUTANTS; i++)
		if (!strcmp(of_library[i], name))
			uid_mutant = (enum uid_mutant)i;
	return uid_mutant != UID_MUTANT_NONE;
}
