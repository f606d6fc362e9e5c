/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an engine does when a queue pair moves to another carrier: in the order in which the shell
 * calls it. */
#ifndef SHIFT_MOVE_H
#define SHIFT_MOVE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"
#include "providers/request.h"

struct sp_flushed {
	/* Nothing of this queue completes well any more: what was published is complete, or its
	 * flush was seen to begin. A flush must have been seen somewhere: an idle QP of a NIC
	 * that only says that it obeys is not flushed. (Without a send queue there is no way to
	 * make one be seen: look at error_seen if the NIC is not to be trusted.) After
	 * sp_qp_lay_receives and before sp_qp_settle, sends are in an old, sealed carrier, which
	 * counts as flushed, and receives in the new one: rq and error_seen speak of that. */
	bool sq, rq;
	/* an error completion of this carrier was seen at all, or it was sealed */
	bool error_seen;
	/* good receive completions of the QP over all carriers, from its start */
	uint32_t recv_count;
	/* First error completion of the active carrier that is not a flush; IBV_WC_SUCCESS:
	 * none. One of class APPLICATION forbids to send anything again (P6): sp_qp_fail with
	 * it. */
	enum ibv_wc_status status;
	uint32_t vendor_err;
};

struct sp_settled {
	uint32_t delivered;    /* completed in software */
	uint32_t resent;       /* laid again, doorbell rung */
	uint32_t published;    /* withheld requests that ran for the first time */
	uint64_t resent_bytes; /* their data; of READs, too */
};

struct sp_move_ops {
	/* [shell] IBV_EVENT_QP_LAST_WQE_REACHED of the carrier of that epoch was read: it takes
	 * nothing from its shared receive queue any more. Before the collect whose sp_qp_flushed is
	 * to count. */
	void (*last_receive)(struct sp_qp *qp, uint32_t epoch);
	/* [shell] leave: from now on posted sends are written, doorbell withheld; error completions
	 * of all carriers of this QP are withheld. Idempotent. */
	void (*withhold)(struct sp_qp *qp);
	/*
	 * [shell] Ordered switch: lay a fence, that is a signaled request, at the end of the
	 * active send ring (the application's last one if it is signaled, else a hidden NOP;
	 * none if nothing is outstanding), and withhold the sends that are posted from now on.
	 * Receives go on. *atomics: something outstanding before it may not be repeated, as
	 * atomics, or READs before a request with the fence flag. -EAGAIN: no room for the
	 * NOP yet, or the application is between wr_start and wr_complete; sends may be
	 * withheld already (else a ring that is kept full would never have room): collect
	 * from the send CQ and call again, or sp_qp_resume. -EINVAL: the carrier is given up. Idempotent.
	 */
	int (*fence)(struct sp_qp *qp, bool *atomics);
	/* [shell] After sp_cq_collect: are all sends that were published complete? (No error.) False
	 * without sp_qp_fence, and while the application is between wr_start and wr_complete. */
	bool (*fenced)(struct sp_qp *qp);
	/* [shell] The move is off (CANCEL): what was withheld runs on the active carrier. As
	 * publish, -EAGAIN too. Not after sp_qp_flushed: that means the carrier is given up. */
	int (*resume)(struct sp_qp *qp);
	/* [shell] While the real QP goes to ERR, after sp_cq_collect: how far is it flushed? Ask after
	 * every collect. in_error: the commands are through; then it may post a hidden NOP whose
	 * completion ends the flush of unsignaled requests. */
	void (*flushed)(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
	/* [shell] No more completions of older carriers count: a dead NIC's late CQE is dropped.
	 * Called when recv_count has been made final, before sp_qp_lay_receives. */
	void (*seal)(struct sp_qp *qp);
	/* [shell] Copy the outstanding receives into the new carrier's ring with keys
	 * translated, ring its record; new ones go there too. One whose key no region has any more is laid
	 * with one that names nothing. -ENOENT: a key is missing (nothing laid). */
	int (*lay_receives)(struct sp_qp *qp, struct sp_carrier *to);
	/*
	 * [shell] After seal, before outstanding: the peer's NIC died, and may not have put into
	 * memory what it had acknowledged. All that the application has not seen complete is
	 * outstanding again, its completions are taken back; *seen: the last one that it has seen.
	 * -EIO: the ring does not tell any more. Again is harmless.
	 */
	int (*recall)(struct sp_qp *qp, enum sp_last_seen *seen);
	/* [shell] After recall, before settle, for good: the first request that is not a WRITE is
	 * not published: key_missing, and publish answers -EPROTO. */
	void (*writes_only)(struct sp_qp *qp);
	/* [shell] The outstanding sends, published or not, oldest first. Returns their number (may
	 * exceed max: call again with more room; stable while withheld but for new unpublished). */
	uint32_t (*outstanding)(struct sp_qp *qp, struct sp_request *info, uint32_t max);
	/* [shell] Carry out fates[0..n) on the oldest n requests (n: exactly the published
	 * ones, else -EINVAL; what lies behind is withheld work that runs for the first
	 * time): deliver in software, lay the rest into `to` with keys translated, make it
	 * the active carrier, publish, end the withholding. Completions stay in posting
	 * order: behind a READ_AGAIN, a delivered request is laid as a NOP that completes
	 * with the original opcode. Withheld work with a missing key stays withheld (key_missing).
	 * -ENOENT: a key of one of the n is missing; -EACCES: an atomic of
	 * RESEND may not run yet (sp_qp_atomics); -EOPNOTSUPP: a request can run on its own NIC only; -EIO: a READ of DELIVERED may have lost its data with its
	 * completion. On any error nothing was done. */
	int (*settle)(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates,
		      uint32_t n, struct sp_settled *out);
	/* [shell] After key_missing: translate and publish what is withheld. -ENOENT: still
	 * missing. -EACCES: sp_qp_atomics. -EPROTO: after writes_only. After sp_qp_resume: -EAGAIN: the fence's NOP is not complete and takes a place,
	 * so that a request of a full ring may have to wait for it. Polls of the application
	 * publish that request too, but it may never poll: call again (it collects from the send CQ)
	 * every few milliseconds until it is 0, however long that takes. */
	int (*publish)(struct sp_qp *qp);
	/* [shell] The end: every outstanding request completes in order through the backlog,
	 * the first send with `first`, all else with WR_FLUSH_ERR; later posts complete with
	 * WR_FLUSH_ERR at once. With fates (may be NULL): the leading n_delivered complete
	 * with success first. */
	void (*fail_all)(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			 uint32_t n_delivered);
};

#endif
