/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What verify says at its end, and why it failed. */
#ifndef VERIFY_REPORT_H
#define VERIFY_REPORT_H

struct verify;
struct vqp;

/*
 * Why a run failed. Each name stands for one broken promise; the first that is met is printed.
 *
 *	LOST: a signaled request was skipped, or fewer messages arrived than were sent
 *	DOUBLED: a completion or a message came twice
 *	REORDERED: completions out of posting order, or success after an error
 *	INVENTED: a completion that nobody was owed
 *	WRONG_BYTES: of a message, a READ or a polled word; the text says whose bytes they are
 *	WENT_BACK: a unit of a slot has the flag of an older message than before
 *	TORN: a unit of a slot has a message's flag and not all of that message's data
 *	GHOST_WRITE: a buffer was written after its use
 *	WRONG_WR_ID .. WRONG_QP_NUM: a field of a completion
 *	WRONG_ATOMIC: it returned what it cannot have found, or the counters match no order of the atomics
 *	WRONG_QP_STATE: ibv_query_qp answers something else than the application made
 *	UNEXPECTED_STATUS: an error completion on a QP that has no right to one
 *	UNEXPECTED_EVENT: an asynchronous event of a masked fault
 *	LOST_EVENT: a completion without its event
 *	POST_FAILED, VERB_FAILED, SETUP: a verb failed
 *	MISSING_ERROR, ONE_SIDED_ERROR: only one end of a failed QP was told
 *	STUCK: no progress with work outstanding
 *	PEER_GONE: the other end ended first
 */
#define FAIL_REASONS(X)                                                                            \
	X(NONE)                                                                                    \
	X(LOST)                                                                                    \
	X(DOUBLED)                                                                                 \
	X(REORDERED)                                                                               \
	X(INVENTED)                                                                                \
	X(WRONG_BYTES)                                                                             \
	X(WENT_BACK)                                                                               \
	X(TORN)                                                                                    \
	X(GHOST_WRITE)                                                                             \
	X(WRONG_WR_ID)                                                                             \
	X(WRONG_IMM)                                                                               \
	X(WRONG_LENGTH)                                                                            \
	X(WRONG_OPCODE)                                                                            \
	X(WRONG_FLAGS)                                                                             \
	X(WRONG_QP_NUM)                                                                            \
	X(WRONG_ATOMIC)                                                                            \
	X(WRONG_QP_STATE)                                                                          \
	X(UNEXPECTED_STATUS)                                                                       \
	X(UNEXPECTED_EVENT)                                                                        \
	X(LOST_EVENT)                                                                              \
	X(POST_FAILED)                                                                             \
	X(VERB_FAILED)                                                                             \
	X(MISSING_ERROR)                                                                           \
	X(ONE_SIDED_ERROR)                                                                         \
	X(STUCK)                                                                                   \
	X(PEER_GONE)                                                                               \
	X(SETUP)

enum fail_reason {
#define X(name) FAIL_##name,
	FAIL_REASONS(X)
#undef X
};

/* Says why and ends the process; never returns. */
_Noreturn void verify_fail(const struct vqp *q, enum fail_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void verify_summary(const struct verify *v, enum fail_reason reason, const char *text);
void verify_progress(const struct verify *v);
void verify_memory(void);

#endif
