/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The callbacks: what an engine asks the shell and reports to it. */
#ifndef SHIFT_CALLBACKS_H
#define SHIFT_CALLBACKS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* The meaning of an error completion to the shell. */
enum sp_error_class {
	SP_ERROR_TRANSPORT,   /* retry exceeded, flush without cause: another path may help */
	SP_ERROR_APPLICATION, /* protection, length, access, RNR: passed on, never retried (P6) */
	/* a status that this driver uses for both: the shell has to look at the link */
	SP_ERROR_DOUBTFUL,
};

static inline enum sp_error_class sp_error_class_of(enum ibv_wc_status status)
{
	if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR)
		return SP_ERROR_TRANSPORT;
	return SP_ERROR_APPLICATION;
}

/* No memory, on any NIC: the highest index, which no NIC reaches, so its protection check fails. */
#define SP_NO_KEY UINT32_MAX

/*
 * The shell's functions, called by the engine on the data path with CQ or queue locks held. They
 * must not block, nor call back into the engine; a typical one pushes the cookie on a list and
 * writes an eventfd.
 */
struct sp_callbacks {
	/*
	 * Reports the first error completion of a carrier since it was added. If the QP is guarded
	 * (sp_qp_guard) and the error is a send's, or the class is TRANSPORT, this and all later
	 * error completions of that carrier are withheld from the application (withheld); else they
	 * are passed on. For DOUBTFUL, and for APPLICATION, as a sick NIC answers so too, the shell
	 * finds out whose the error is.
	 *
	 * Called once more, with class APPLICATION or DOUBTFUL, if such an error comes behind a
	 * flush that was withheld (the cause lay on the other CQ). That error is withheld too, and
	 * the shell ends the QP with sp_qp_fail if a withheld error is the application's.
	 */
	void (*qp_error)(void *qp_cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			 enum ibv_wc_status status, uint32_t vendor_err);
	/*
	 * Reports a new backlog entry of a CQ that the application has armed: hand the CQ an event.
	 */
	void (*cq_event)(void *cq_cookie);
	/*
	 * Reports that the application has armed a CQ that is not driven; sp_cq_take_over needs to
	 * know later. No lock is held.
	 */
	void (*cq_armed)(const struct ibv_cq *cq, bool solicited);
	/* Reports a post whose key could not be translated; the QP now withholds its doorbells. */
	void (*key_missing)(void *qp_cookie);
	/* Reports the first post of a send since sp_qp_tell, before the NIC can have it. */
	void (*posted)(void *qp_cookie);
	/* Reports a post behind the gate (sp_qp_gate). */
	void (*gated)(void *qp_cookie);
	/* Reports the first good send completion polled on a carrier other than 0 (for figures). */
	void (*qp_progress)(void *qp_cookie, uint32_t epoch);
	/* Translates a key for the carrier of that epoch; 0 or -ENOENT. Lock-free for readers. */
	int (*lkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	int (*rkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	/*
	 * True if no region of the application has that key (any more). Called only by functions
	 * marked [shell].
	 */
	bool (*lkey_gone)(void *qp_cookie, uint32_t key);
	/* Translates a key for receives of a shared queue, by the path of the queue's ring. */
	int (*srq_lkey)(void *srq_cookie, uint8_t path, uint32_t key, uint32_t *out);
	/*
	 * Reports a shared queue that needs the shell: a receive could not be handed to a ring for
	 * want of a key (sp_srq_feed tries again), or a ring has far less than its share or nothing
	 * (sp_srq_share and sp_srq_starving tell which).
	 */
	void (*srq_stuck)(void *srq_cookie);
	/* Reports, once, that fewer receives are left than srq_limit said. */
	void (*srq_limit)(void *srq_cookie);
	/*
	 * Called after a poll that found nothing, if completions were withheld from the queue or
	 * sp_cq_watch was called for it. Either may be NULL.
	 *
	 * owed, with the queue's lock held: true if the next empty poll must ask again. Then
	 * give_way follows, without any lock. It may sleep, as the poller may keep the shell's
	 * threads from their core.
	 */
	bool (*owed)(void);
	void (*give_way)(void);
};

#endif
