/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move's part of an engine (struct sp_move_ops): a queue pair moves to another carrier. In the
 * order in which the shell calls.
 */
#ifndef SHIFT_MOVE_H
#define SHIFT_MOVE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"
#include "providers/request.h"

struct sp_flushed {
	/*
	 * True if nothing of this queue completes well any more: what was published is complete, or
	 * its flush was seen to begin. A flush must have been seen somewhere: an idle QP of a NIC
	 * that only says that it obeys is not flushed. (Without a send queue no flush can be made
	 * visible: look at error_seen if the NIC is not to be trusted.) After sp_qp_lay_receives
	 * and before sp_qp_settle, sends are in an old, sealed carrier, which counts as flushed,
	 * and receives in the new one: rq and error_seen speak of that.
	 */
	bool sq, rq;
	/* true if an error completion of this carrier was seen at all, or it was sealed */
	bool error_seen;
	/* good receive completions of the QP over all carriers, from its start */
	uint32_t recv_count;
	/*
	 * The first error completion of the active carrier that is not a flush; IBV_WC_SUCCESS:
	 * none. An error of class APPLICATION forbids to send anything again (P6): sp_qp_fail with
	 * it.
	 */
	enum ibv_wc_status status;
	uint32_t vendor_err;
};

struct sp_settled {
	uint32_t delivered;    /* number of requests completed in software */
	uint32_t resent;       /* number of requests laid again, doorbell rung */
	uint32_t published;    /* number of withheld requests that ran for the first time */
	uint64_t resent_bytes; /* bytes of the resent requests; of READs, too */
};

struct sp_move_ops {
	/*
	 * [shell] Notes that IBV_EVENT_QP_LAST_WQE_REACHED of the carrier of that epoch was read:
	 * the carrier takes nothing from its shared receive queue any more. Before the collect
	 * whose sp_qp_flushed is to count.
	 */
	void (*last_receive)(struct sp_qp *qp, uint32_t epoch);
	/*
	 * [shell] Leaves: from now on posted sends are written, doorbell withheld; error
	 * completions of all carriers of this QP are withheld. Idempotent.
	 */
	void (*withhold)(struct sp_qp *qp);
	/*
	 * [shell] Begins an ordered switch: lays a fence, that is a signaled request, at the end of
	 * the active send ring (the application's last one if it is signaled, else a hidden NOP;
	 * none if nothing is outstanding), and withholds the sends that are posted from now on.
	 * Receives go on. *atomics: something outstanding before it may not be repeated: atomics,
	 * or READs before a request with the fence flag. -EAGAIN: no room for the NOP yet, or the
	 * application is between wr_start and wr_complete; sends may be withheld already (else a
	 * ring that is kept full would never have room): collect from the send CQ and call again,
	 * or sp_qp_resume. -EINVAL: the carrier is given up. Idempotent.
	 */
	int (*fence)(struct sp_qp *qp, bool *atomics);
	/*
	 * [shell] True if all sends that were published are complete, after sp_cq_collect. (No
	 * error.) False without sp_qp_fence, and while the application is between wr_start and
	 * wr_complete.
	 */
	bool (*fenced)(struct sp_qp *qp);
	/*
	 * [shell] Calls the move off (CANCEL): what was withheld runs on the active carrier. Errors
	 * as of publish, -EAGAIN too. Not after sp_qp_flushed: that means the carrier is given up.
	 */
	int (*resume)(struct sp_qp *qp);
	/*
	 * [shell] Tells how far the real QP is flushed while it goes to ERR. Ask after every
	 * sp_cq_collect. in_error: the commands are through; then the engine may post a hidden NOP
	 * whose completion ends the flush of unsignaled requests.
	 */
	void (*flushed)(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
	/*
	 * [shell] Drops completions of older carriers from now on, such as a dead NIC's late CQE.
	 * Called when recv_count has been made final, before sp_qp_lay_receives.
	 */
	void (*seal)(struct sp_qp *qp);
	/*
	 * [shell] Copies the outstanding receives into the new carrier's ring with keys translated,
	 * and rings its record; new ones go there too. A receive whose key no region has any more
	 * is laid with a key that names nothing. -ENOENT: a key is missing (nothing laid).
	 */
	int (*lay_receives)(struct sp_qp *qp, struct sp_carrier *to);
	/*
	 * [shell] Recalls what the peer's NIC, which died, may not have put into memory although it
	 * had acknowledged it. After seal, before outstanding. All that the application has not
	 * seen complete is outstanding again, its completions are taken back; *seen: the last one
	 * that it has seen. -EIO: the ring does not tell any more. Again is harmless.
	 */
	int (*recall)(struct sp_qp *qp, enum sp_last_seen *seen);
	/*
	 * [shell] Lets only WRITEs run, for good; after recall, before settle. The first request
	 * that is not a WRITE is not published: key_missing, and publish answers -EPROTO.
	 */
	void (*writes_only)(struct sp_qp *qp);
	/*
	 * [shell] Lists the outstanding sends, published or not, oldest first. Returns their number
	 * (may exceed max: call again with more room; stable while withheld, except for new
	 * unpublished ones).
	 */
	uint32_t (*outstanding)(struct sp_qp *qp, struct sp_request *info, uint32_t max);
	/*
	 * [shell] Carries out fates[0..n) on the oldest n requests (n: exactly the published ones,
	 * else -EINVAL; what lies behind is withheld work that runs for the first time). Delivers
	 * in software, lays the rest into `to` with keys translated, makes it the active carrier,
	 * publishes, ends the withholding. Completions stay in posting order: behind a READ_AGAIN,
	 * a delivered request is laid as a NOP that completes with the original opcode. Withheld
	 * work with a missing key stays withheld (key_missing).
	 *
	 * -ENOENT: a key of one of the n is missing; -EACCES: an atomic of RESEND may not run yet
	 * (sp_qp_atomics); -EOPNOTSUPP: a request can run on its own NIC only; -EIO: a READ of
	 * DELIVERED may have lost its data with its completion. On any error nothing was done.
	 */
	int (*settle)(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates,
		      uint32_t n, struct sp_settled *out);
	/*
	 * [shell] Translates and publishes what is withheld; after key_missing. -ENOENT: still
	 * missing. -EACCES: sp_qp_atomics. -EPROTO: after writes_only. -EAGAIN, after sp_qp_resume:
	 * the fence's NOP is not complete and takes a place, so that a request of a full ring may
	 * have to wait for it. Polls of the application publish that request too, but it may never
	 * poll: call again (it collects from the send CQ) every few milliseconds until it is 0,
	 * however long that takes.
	 */
	int (*publish)(struct sp_qp *qp);
	/*
	 * [shell] Ends the QP: every outstanding request completes in order through the backlog,
	 * the first send with `first`, all else with WR_FLUSH_ERR; later posts complete with
	 * WR_FLUSH_ERR at once. The leading n_delivered complete with success first.
	 */
	void (*fail_all)(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			 uint32_t n_delivered);
};

#endif
