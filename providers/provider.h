/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between a data-path engine (providers/<name>/) and the shell (shiftlib/).
 *
 * Words as in docs/design: a *driven* QP is posted and polled by the engine. Its traffic is
 * carried by one *carrier* (a real QP) at a time; carrier 0 is the application's own QP. A
 * driven CQ is what the application polls: its own hardware ring, rings of shadow CQs on
 * other NICs, and a *backlog* of completions that were taken out of a ring by somebody else
 * than the application's poll.
 *
 * Locks. The engine has one spinlock per send queue, receive queue and CQ, as libmlx5 has.
 * Order: CQ lock before send-queue lock before receive-queue lock. Functions below take what
 * they need; those marked [shell] are called by the shell's background thread (or a control
 * verb under the connection's lock), never from the data path; they hold a lock for memory
 * operations only, but wait while the application is between wr_start and wr_complete.
 *
 * Errors are -errno unless a function is said to follow the verbs convention.
 */
#ifndef SHIFT_PROVIDER_H
#define SHIFT_PROVIDER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/request.h"

/*
 * The objects of an engine. Each has a pointer to its struct shift_provider, by which the shell
 * calls it (engine.h), at SP_ENGINE_AT: before that lies what the data path takes first.
 */
#define SP_ENGINE_AT 8
struct sp_dev;	    /* engine state of one ibv_context */
struct sp_cq;	    /* a driven CQ */
struct sp_cq_ring;  /* one hardware CQ whose completions a driven CQ delivers */
struct sp_qp;	    /* a driven QP, as the application sees it */
struct sp_carrier;  /* a real QP and its rings */
struct sp_srq;	    /* a driven shared receive queue, as the application sees it */
struct sp_reclaim;  /* SHIFT's own QP on such a queue */
struct sp_srq_ring; /* one hardware queue that carriers of its QPs take receives from */

/* What an error completion means to the shell. */
enum sp_error_class {
	SP_ERROR_TRANSPORT,   /* retry exceeded, flush without cause: another path may help */
	SP_ERROR_APPLICATION, /* protection, length, access, RNR: passed on, never retried (P6) */
};

/*
 * Called by the engine, on the data path, with CQ or queue locks held: must not block, must
 * not call back into the engine; typically pushes the cookie on a list and writes an eventfd.
 */
struct sp_callbacks {
	/* First error completion of a carrier since it was added. If the class is TRANSPORT
	 * and the QP is guarded (qp_guard), this and all later error completions of that
	 * carrier are withheld from the application (withheld); else they are passed on.
	 * Called once more, with class APPLICATION, if such an error comes behind a flush
	 * that was withheld (the cause lay on the other CQ): it is withheld too, and the
	 * shell ends the QP with qp_fail. */
	void (*qp_error)(void *qp_cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			 enum ibv_wc_status status, uint32_t vendor_err);
	/* A backlog entry was added to a CQ that the application had armed: hand it an event. */
	void (*cq_event)(void *cq_cookie);
	/* A post needed a key that could not be translated; the QP now withholds its doorbells. */
	void (*key_missing)(void *qp_cookie);
	/* Something was posted behind the gate (qp_gate). */
	void (*gated)(void *qp_cookie);
	/* First good send completion on a carrier that is not 0 was polled (for figures). */
	void (*qp_progress)(void *qp_cookie, uint32_t epoch);
	/* Translation for the carrier of that epoch; 0 or -ENOENT. Lock-free for readers. */
	int (*lkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	int (*rkey)(void *qp_cookie, uint32_t epoch, uint32_t key, uint32_t *out);
	/* The same for receives of a shared queue, by the path of its ring. */
	int (*srq_lkey)(void *srq_cookie, uint8_t path, uint32_t key, uint32_t *out);
	/* A receive of it could not be handed to a ring for want of a key: srq_feed tries again. Or
	 * a ring has far less than its share: srq_share tells. */
	void (*srq_stuck)(void *srq_cookie);
	/* Fewer receives are left than srq_limit said. Once. */
	void (*srq_limit)(void *srq_cookie);
};

/* A READ as it was posted, with the application's key. */
struct sp_read {
	uint64_t addr; /* that it reads from */
	uint32_t rkey; /* 0: the request is none */
};

struct sp_flushed {
	/* Nothing of this queue completes well any more: what was published is complete, or its
	 * flush was seen to begin. A flush must have been seen somewhere: an idle QP of a NIC
	 * that only says that it obeys is not flushed. (Without a send queue there is no way to
	 * make one be seen: look at error_seen if the NIC is not to be trusted.) After
	 * qp_lay_receives and before qp_settle, sends are in an old, sealed carrier, which
	 * counts as flushed, and receives in the new one: rq and error_seen speak of that. */
	bool sq, rq;
	/* an error completion of this carrier was seen at all, or it was sealed */
	bool error_seen;
	/* good receive completions of the QP over all carriers, from its start */
	uint32_t recv_count;
	/* First error completion of the active carrier that is not a flush; IBV_WC_SUCCESS:
	 * none. One of class APPLICATION forbids to send anything again (P6): qp_fail with
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

struct sp_srq_state {
	uint32_t users;	   /* carriers that take receives from this ring */
	uint32_t receives; /* in it: posted, not completed */
	bool spoiled;	   /* recovered: no carrier may use it any more */
	bool split;	   /* the whole queue's receives are spread over rings */
};

struct sp_qp_caps {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};

enum sp_sending {
	SP_SENDING_NONE,
	SP_SENDING_UNTOLD, /* the last one is not signaled: it may be complete, nothing tells */
	SP_SENDING_AWAITED,
};

struct shift_provider {
	const char *name;

	/* Is a device one of those that the engine is for? By its driver, not by its name. */
	bool (*serves)(struct ibv_device *device);
	/* Can this engine drive the QPs of this device? No side effect. */
	bool (*probe)(struct ibv_context *ctx, const char **why_not);

	/*
	 * dev_init: once per context, after open. install: also points
	 * ctx->ops.{post_send,post_recv,poll_cq,req_notify_cq} at the engine (the
	 * application's contexts; not SHIFT's own). Undriven objects of an installed context
	 * are handed to the saved functions.
	 */
	int (*dev_init)(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
			struct sp_dev **out);
	void (*dev_uninit)(struct sp_dev *dev);
	/*
	 * [shell] A translation that lkey or rkey gave may be wrong from now on: its key was taken
	 * away or stands for another. Behind the change of what they look up, and before the memory
	 * is given up. Queues remember translations; not a missing one, so a new key needs no call.
	 * Takes no lock.
	 */
	void (*keys_changed)(void);

	/*
	 * cq_drive: called after the real create, before the application sees the CQ. cq_ex:
	 * made by ibv_create_cq_ex (reader functions are replaced); wc_flags as asked. Final
	 * for this CQ. cq_undrive: before the real destroy. Fails with -EBUSY while QPs are
	 * bound to it.
	 */
	int (*cq_drive)(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
			void *cookie, struct sp_cq **out);
	int (*cq_undrive)(struct sp_cq *cq);
	/* [shell] Add a shadow CQ's ring (real CQ on another NIC); armed when a carrier comes on it,
	 * if the application's is. */
	int (*cq_ring_add)(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
			   struct sp_cq_ring **out);
	/* [shell] Before the shadow CQ is destroyed. Waits for threads that are arming through it. */
	void (*cq_ring_del)(struct sp_cq *cq, struct sp_cq_ring *ring);
	/* The ring of the application's own CQ. */
	struct sp_cq_ring *(*cq_own_ring)(struct sp_cq *cq);
	/* A completion event of this ring's CQ was read (moves the arm number). On the data path:
	 * takes no lock. Not behind cq_ring_del or cq_undrive. */
	void (*cq_event_read)(struct sp_cq_ring *ring);
	/* [shell] Move all that is in the hardware rings to the backlog, error completions
	 * into the carriers' accounts. A poller between start_poll and end_poll does not
	 * hinder it. -ENOMEM. */
	int (*cq_collect)(struct sp_cq *cq);
	/*
	 * Around a resize of one of its real CQs. reserve: before; -ENOMEM. begin: the kernel has
	 * done it, libmlx5 has not yet let go of the old ring: what is left there is taken into
	 * the backlog, and pollers wait until end: libmlx5 has, the engine goes on in the new one.
	 */
	int (*cq_resize_reserve)(struct sp_cq *cq, struct ibv_cq *real);
	int (*cq_resize_begin)(struct sp_cq *cq, struct ibv_cq *real);
	int (*cq_resize_end)(struct sp_cq *cq, struct ibv_cq *real);
	/* Merge a foreign CQ (a QP that the engine cannot drive): poll_cq hands out its
	 * completions. */
	int (*cq_foreign_add)(struct sp_cq *cq, struct ibv_cq *private_cq);
	int (*cq_foreign_del)(struct sp_cq *cq, struct ibv_cq *private_cq);

	/*
	 * Shared receive queues. srq_drive: after the real create, before the application sees it;
	 * QPs on it are driven or on CQs that nobody drives. srq_undrive: before the real destroy;
	 * no QP is on it. srq_ring_add [shell]: a shadow queue on another NIC, whose QPs may become
	 * carriers; -EINVAL: it is smaller. srq_own: the application's.
	 * A receive is in one ring at a time. Carriers join a ring with qp_lay_receives (the
	 * application's own QP in RTR), and leave it when they are left for another one, destroyed,
	 * or have taken their last. srq_recover [shell]: a ring without users, whose QPs are all in
	 * ERR, destroyed or dead: its receives go to the rings that have users, now or later.
	 * Returns how many there were. The ring is spoiled: delete it when its carriers are gone.
	 * srq_feed [shell]: after srq_stuck; -ENOENT: a key is still missing. One that is missing for
	 * as long as patience, seen from the first feed that missed it, names no memory: the receive
	 * is handed out with a key that is none, and whoever takes it gets the error of that.
	 */
	int (*srq_drive)(struct sp_dev *dev, struct ibv_srq *srq, void *cookie,
			 struct sp_srq **out);
	void (*srq_undrive)(struct sp_srq *srq);
	int (*srq_ring_add)(struct sp_srq *srq, struct sp_dev *dev, struct ibv_srq *shadow,
			    uint8_t path, struct sp_srq_ring **out);
	void (*srq_ring_del)(struct sp_srq_ring *ring);
	struct sp_srq_ring *(*srq_own)(struct sp_srq *srq);
	void (*srq_look)(struct sp_srq_ring *ring, struct sp_srq_state *out);
	uint32_t (*srq_recover)(struct sp_srq_ring *ring);
	int (*srq_feed)(struct sp_srq *srq, uint64_t now_ns, uint64_t patience_ns);
	/* Before a QP that the engine does not drive comes on it: the provider posts from now on,
	 * and has what was posted. -EBUSY: receives were taken already, or driven QPs are on it. */
	int (*srq_hand_back)(struct sp_srq *srq);
	/* The application has armed the limit; a device tells of it while nothing is split. */
	void (*srq_limit)(struct sp_srq *srq, uint32_t limit);
	/* [shell] Has a ring far less than its share of the receives? Then which one has too many,
	 * and how many: a reclaim there should take them. NULL: no. */
	struct sp_srq_ring *(*srq_share)(struct sp_srq *srq, uint32_t *n);
	/*
	 * [shell] A reclaim: a QP of SHIFT's own on the ring's queue, in RTS, connected to itself; cq
	 * is its alone, for both directions. ask: it takes up to n receives; returns how many it
	 * can ask for now. collect: what it has got so far goes to the rings in want; returns how
	 * many are still to come, or -EIO: it is broken, free it.
	 */
	int (*reclaim_make)(struct sp_srq_ring *ring, struct ibv_qp *real, struct ibv_cq *cq,
			    struct sp_reclaim **out);
	void (*reclaim_free)(struct sp_reclaim *reclaim);
	uint32_t (*reclaim_ask)(struct sp_reclaim *reclaim, uint32_t n);
	int (*reclaim_collect)(struct sp_reclaim *reclaim);

	/*
	 * qp_drive: after the real create. RC and UD. attr: as the application passed it,
	 * caps as returned. Carrier 0 (epoch 0) is made with it. Function pointers of
	 * ibv_qp_ex are replaced. -EOPNOTSUPP with *why_not when this QP must stay foreign.
	 */
	int (*qp_drive)(struct sp_dev *dev, struct ibv_qp *qp,
			const struct ibv_qp_init_attr_ex *attr, struct sp_cq *scq,
			struct sp_cq *rcq, void *cookie, struct sp_qp **out, const char **why_not);
	/* A QP that the engine does not drive lives in this context (XRC, mlx5dv_create_qp,
	 * ...): the doorbell register that it shares with driven ones is then used as libmlx5
	 * can stand. qp_drive does so itself when it refuses. */
	void (*qp_foreign)(struct sp_dev *dev, struct ibv_qp *qp);
	/* NULL, or why a driven QP turned out to be one that cannot be moved: somebody else writes
	 * to its rings or takes its completions (direct verbs), or it uses memory windows. Looks
	 * each time at the records that such a hand moves: ask before any action on the QP that
	 * its application did not order; it never goes back. *intruder: that hand came to rings
	 * that the engine posted to already. Before that the rings are left to it, and at the
	 * first post the engine hands what is posted to the provider. */
	const char *(*qp_reason)(struct sp_qp *qp, bool *intruder);
	/* After this no completion of the QP is delivered any more. Before the real destroy. */
	void (*qp_undrive)(struct sp_qp *qp);
	/* After a successful real modify of carrier 0 by the application. RESET empties the
	 * rings. A modify to ERR wants qp_guard(off) before it, or its flush completions are
	 * withheld. */
	void (*qp_modified)(struct sp_qp *qp, enum ibv_qp_state state);
	uint32_t (*qp_recv_count)(struct sp_qp *qp);
	/* Cumulative two-sided requests posted and completed (over all carriers, mod 2^32). */
	void (*qp_send_counts)(struct sp_qp *qp, uint32_t *two_sided_posted,
			       uint32_t *two_sided_done);
	/* Anything posted and not completed, on either queue? Cheap, racy. */
	bool (*qp_busy)(struct sp_qp *qp);
	/* Are sends outstanding, withheld ones too? *number changes with each that is posted.
	 * Never waits: SP_SENDING_AWAITED, *number left alone, while one is being posted. */
	enum sp_sending (*qp_sending)(struct sp_qp *qp, uint32_t *number);

	/* [shell] on: transport errors of this QP are withheld and reported by qp_error.
	 * off: passed on. Errors withheld so far are not affected. */
	void (*qp_guard)(struct sp_qp *qp, bool on);

	/* [shell] A standby: real QP on dev (SHIFT's own context there) in state RTS, its CQs being
	 * rings of the driven CQs. -EINVAL if its geometry cannot hold the outstanding work. */
	int (*carrier_add)(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev,
			   struct ibv_qp *real, const struct sp_qp_caps *caps,
			   struct sp_cq_ring *sring, struct sp_cq_ring *rring,
			   struct sp_carrier **out);
	/* Completions of it that are still in a ring are skipped silently from now on. Not
	 * the active one. Carrier 0 becomes a husk instead: stays known, its completions are
	 * skipped. */
	void (*carrier_del)(struct sp_carrier *carrier);
	/* [shell] IBV_EVENT_QP_LAST_WQE_REACHED of the carrier of that epoch was read: it takes
	 * nothing from its shared receive queue any more. Before the drain whose qp_flushed is to
	 * count. */
	void (*qp_last_receive)(struct sp_qp *qp, uint32_t epoch);

	/* -- the move, in the order in which the shell calls it --------------------------------------- */

	/* [shell] leave: from now on posted sends are written, doorbell withheld; error completions
	 * of all carriers of this QP are withheld. Idempotent. */
	void (*qp_withhold)(struct sp_qp *qp);
	/*
	 * [shell] Ordered switch: lay a fence, that is a signaled request, at the end of the
	 * active send ring (the application's last one if it is signaled, else a hidden NOP;
	 * none if nothing is outstanding), and withhold the sends that are posted from now on.
	 * Receives go on. *atomics: something outstanding before it may not be repeated, as
	 * atomics, or READs before a fenced request. -EAGAIN: no room for the
	 * NOP yet, or the application is between wr_start and wr_complete; sends may be
	 * withheld already (else a ring that is kept full would never have room): drain the
	 * send CQ and call again, or qp_resume. -EINVAL: the carrier is given up. Idempotent.
	 */
	int (*qp_fence)(struct sp_qp *qp, bool *atomics);
	/* [shell] After cq_collect: are all sends that were published complete? (No error.) False
	 * without qp_fence, and while the application is between wr_start and wr_complete. */
	bool (*qp_fenced)(struct sp_qp *qp);
	/* [shell] Completions seen so far on both queues (mod 2^64), for "does it make progress".
	 * Those that lie in a ring unseen do not count: drain first. Takes no lock. */
	uint64_t (*qp_progressed)(struct sp_qp *qp);
	/* [shell] The move is off (CANCEL): what was withheld runs on the active carrier. As
	 * publish, -EAGAIN too. Not after qp_flushed: that means the carrier is given up. */
	int (*qp_resume)(struct sp_qp *qp);
	/* [shell] While the real QP goes to ERR, after cq_collect: how far is it flushed? Ask after
	 * every drain. in_error: the commands are through; then it may post a hidden NOP whose
	 * completion ends the flush of unsignaled requests. */
	void (*qp_flushed)(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
	/* [shell] No more completions of older carriers count: a dead NIC's late CQE is dropped.
	 * Called when recv_count has been made final, before qp_lay_receives. */
	void (*qp_seal)(struct sp_qp *qp);
	/* [shell] Copy the outstanding receives into the new carrier's ring with keys
	 * translated, ring its record; new ones go there too. -ENOENT: a key is missing
	 * (nothing laid). */
	int (*qp_lay_receives)(struct sp_qp *qp, struct sp_carrier *to);
	/* [shell] The outstanding sends, published or not, oldest first. Returns their number (may
	 * exceed max: call again with more room; stable while withheld but for new unpublished). */
	uint32_t (*qp_outstanding)(struct sp_qp *qp, struct sp_request *info, uint32_t max);
	/* [shell] Carry out fates[0..n) on the oldest n requests (n: exactly the published
	 * ones, else -EINVAL; what lies behind is withheld work that runs for the first
	 * time): deliver in software, lay the rest into `to` with keys translated, make it
	 * the active carrier, publish, end the withholding. Completions stay in posting
	 * order: behind a READ_AGAIN, a delivered request is laid as a NOP that completes
	 * with the original opcode. -ENOENT: a key is missing; -EOPNOTSUPP: a request can run
	 * on its own NIC only; -EIO: a READ of DELIVERED may have lost its data with its
	 * completion. On any error nothing was done. */
	int (*qp_settle)(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates,
			 uint32_t n, struct sp_settled *out);
	/* [shell] After key_missing: translate and publish what is withheld. -ENOENT: still
	 * missing. After qp_resume: -EAGAIN: the fence's NOP is not complete and takes a place,
	 * so that a request of a full ring may have to wait for it. Polls of the application
	 * publish that request too, but it may never poll: call again (it drains the send CQ)
	 * every few milliseconds until it is 0, however long that takes. */
	int (*qp_publish)(struct sp_qp *qp);
	/*
	 * [shell] on: sends that are posted from now on wait behind a gate, also through a move, and
	 * each post is told (gated). off: they run. For what must not run before something else has
	 * happened. qp_gated: the oldest that wait, withheld ones too; returns how many were written.
	 * qp_pass: the oldest n run; returns how many do, or if none does an error as of qp_publish,
	 * -EAGAIN also while they are withheld.
	 */
	int (*qp_gate)(struct sp_qp *qp, bool on);
	uint32_t (*qp_gated)(struct sp_qp *qp, struct sp_read *reads, uint32_t max);
	int (*qp_pass)(struct sp_qp *qp, uint32_t n);
	/* [shell] The end: every outstanding request completes in order through the backlog,
	 * the first send with `first`, all else with WR_FLUSH_ERR; later posts complete with
	 * WR_FLUSH_ERR at once. With fates (may be NULL): the leading n_delivered complete
	 * with success first. */
	void (*qp_fail)(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
			uint32_t n_delivered);

	/* Read-only watch, by the shell's timer: is there an error completion waiting at the
	 * head of a ring that nobody polls? Takes the CQ lock by trylock; true: the shell
	 * should drain. */
	bool (*cq_error_waiting)(struct sp_cq *cq);
};

#endif
