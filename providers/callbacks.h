/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an engine asks and tells the shell. */
#ifndef SHIFT_CALLBACKS_H
#define SHIFT_CALLBACKS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* What an error completion means to the shell. */
enum sp_error_class {
	SP_ERROR_TRANSPORT,   /* retry exceeded, flush without cause: another path may help */
	SP_ERROR_APPLICATION, /* protection, length, access, RNR: passed on, never retried (P6) */
	SP_ERROR_DOUBTFUL,    /* this driver says it of both: the shell has to look at the link */
};

static inline enum sp_error_class sp_error_class_of(enum ibv_wc_status status)
{
	if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR)
		return SP_ERROR_TRANSPORT;
	return SP_ERROR_APPLICATION;
}

/* No memory, on any NIC: the highest index of all, which no NIC reaches. Its protection check fails. */
#define SP_NO_KEY UINT32_MAX

/*
 * Called by the engine, on the data path, with CQ or queue locks held: must not block, must
 * not call back into the engine; typically pushes the cookie on a list and writes an eventfd.
 */
struct sp_callbacks {
	/* First error completion of a carrier since it was added. If the class is TRANSPORT
	 * and the QP is guarded (sp_qp_guard), this and all later error completions of that
	 * carrier are withheld from the application (withheld); else they are passed on. The same
	 * of DOUBTFUL: the shell finds out which it is.
	 * Called once more, with class APPLICATION or DOUBTFUL, if such an error comes behind a
	 * flush that was withheld (the cause lay on the other CQ): it is withheld too, and the
	 * shell ends the QP with sp_qp_fail if it is the application's. */
	void (*qp_error)(void *qp_cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			 enum ibv_wc_status status, uint32_t vendor_err);
	/* A backlog entry was added to a CQ that the application had armed: hand it an event. */
	void (*cq_event)(void *cq_cookie);
	/* The application has armed a CQ that is not driven: sp_cq_take_over will want to know. No lock is held. */
	void (*cq_armed)(const struct ibv_cq *cq, bool solicited);
	/* A post needed a key that could not be translated; the QP now withholds its doorbells. */
	void (*key_missing)(void *qp_cookie);
	/* Something was posted behind the gate (sp_qp_gate). */
	void (*gated)(void *qp_cookie);
	/* First good send completion on a carrier that is not 0 was polled (for figures). */
	void (*qp_progress)(void *qp_cookie, uint32_t epoch);
	/* Translation for the carrier of that epoch; 0 or -ENOENT. Lock-free for readers. */
	int (*lkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	int (*rkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	/* From functions that are marked [shell] only: has no region of the application's that key (any more)? */
	bool (*lkey_gone)(void *qp_cookie, uint32_t key);
	/* The same for receives of a shared queue, by the path of its ring. */
	int (*srq_lkey)(void *srq_cookie, uint8_t path, uint32_t key, uint32_t *out);
	/* A receive of it could not be handed to a ring for want of a key: sp_srq_feed tries again. Or
	 * a ring has far less than its share, or nothing: sp_srq_share, sp_srq_starving tell. */
	void (*srq_stuck)(void *srq_cookie);
	/* Fewer receives are left than srq_limit said. Once. */
	void (*srq_limit)(void *srq_cookie);
	/*
	 * Of a completion queue that something was withheld from, or that sp_cq_watch was called for, a poll found nothing.
	 * owed, with its lock: must the next one ask, too? If so, give_way, without any lock: it may sleep, as the poller
	 * may keep the shell's threads from their core. Both may be NULL.
	 */
	bool (*owed)(void);
	void (*give_way)(void);
};

#endif
