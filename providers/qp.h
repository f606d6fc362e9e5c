/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The queue pair's part of an engine (struct sp_qp_ops and sp_carrier_ops), without the move. */
#ifndef SHIFT_QP_H
#define SHIFT_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/object.h"

enum sp_sending {
	SP_SENDING_NONE,
	/* the last one is not signaled: it may be complete, and nothing shows it */
	SP_SENDING_UNTOLD,
	SP_SENDING_AWAITED,
};

/*
 * Counts of requests (mod 2^32). The peer's NIC has answered since, if later more are complete than
 * were posted now; or more than are complete now, if none of those lay unseen.
 */
struct sp_sent {
	uint32_t posted, done;
	bool posted_known, done_known; /* false: a queue is busy just now; done may be more */
};

/* A READ as it was posted, with the application's key. */
struct sp_read {
	uint64_t addr; /* address that it reads from */
	uint32_t rkey; /* 0: the request is no READ */
};

/* A memory key as the application uses it. */
struct sp_key {
	uint32_t key;
	bool remote;
};

/*
 * A carrier's log: the place of its word at the peer. The word is written behind each `every`th
 * WRITE or atomic.
 */
struct sp_log {
	uint64_t addr;
	uint32_t rkey, tag, every;
};

struct sp_qp_ops {
	/*
	 * Drives a QP after the real create. RC and UD. attr: as the application passed it, caps as
	 * returned. Carrier 0 (epoch 0) is made with it. Function pointers of ibv_qp_ex are
	 * replaced. -EOPNOTSUPP with *why_not when this QP must stay foreign.
	 */
	int (*drive)(struct sp_dev *dev, struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		     struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		     const char **why_not);
	/*
	 * Returns why drive would refuse this QP, whatever its CQs are; NULL: it would not. The
	 * shell has to know before it gives CQs to the engine, for good.
	 */
	const char *(*drivable)(struct sp_dev *dev, struct ibv_qp *qp,
				const struct ibv_qp_init_attr_ex *attr);
	/*
	 * Notes a QP of this context that the engine does not drive (XRC, made by direct verbs,
	 * ...): the doorbell register that it shares with driven ones is then used as the provider
	 * can stand. sp_qp_drive does so itself when it refuses.
	 */
	void (*foreign)(struct sp_dev *dev, struct ibv_qp *qp);
	/* True if the application has posted to it by the verbs; false while it is at it. */
	bool (*posted)(struct sp_qp *qp);
	/*
	 * Returns why a driven QP cannot be moved, or NULL: somebody else writes to its rings or
	 * takes its completions (direct verbs), or it uses memory windows. Looks each time at the
	 * records that such a hand moves: ask before any action on the QP that its application did
	 * not order. The answer never goes back to NULL. *intruder: that hand came to rings that
	 * the engine posted to already. Before that the rings are left to it, and at the first post
	 * the engine hands what is posted to the provider.
	 */
	const char *(*reason)(struct sp_qp *qp, bool *intruder);
	/*
	 * [shell] Lists keys of receives that are outstanding, others at each turn, and behind them
	 * keys of the latest requests, if sends; none of a queue that is busy just now. Returns
	 * their number.
	 */
	uint32_t (*keys)(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
			 uint32_t room);
	/*
	 * Ends the driving, before the real destroy: no completion of the QP is delivered any more.
	 */
	void (*undrive)(struct sp_qp *qp);
	/*
	 * Called after a successful real modify of carrier 0 by the application. RESET empties the
	 * rings. A modify to ERR wants sp_qp_guard(off) before it, or its flush completions are
	 * withheld.
	 */
	void (*modified)(struct sp_qp *qp, enum ibv_qp_state state);
	/*
	 * [shell] Tells the PSN of the carrier's first packet (24 bits), and the bytes of a packet:
	 * known when the real QP gets to RTS, before anything is posted there. From then on
	 * sp_request.psn is known for what is published on it.
	 */
	void (*number)(struct sp_qp *qp, uint32_t epoch, uint32_t psn, uint32_t mtu);
	uint32_t (*recv_count)(struct sp_qp *qp);
	/* Counts two-sided requests posted and completed (over all carriers, mod 2^32). */
	void (*send_counts)(struct sp_qp *qp, uint32_t *two_sided_posted, uint32_t *two_sided_done);
	/*
	 * Tells whether sends are outstanding, withheld ones too. *number changes with each that is
	 * posted. Never waits: SP_SENDING_AWAITED, *number left alone, while one is being posted.
	 */
	enum sp_sending (*sending)(struct sp_qp *qp, uint32_t *number);
	/*
	 * [shell] Has the next post of a send told, once (posted). number: as of `sending`. False:
	 * more were posted meanwhile, or the end of one is awaited; then nothing is told. Never
	 * waits. A queue whose posts the engine does not see answers true.
	 */
	bool (*tell)(struct sp_qp *qp, uint32_t number);
	/* [shell] Tells how far the sends of the carrier in use are. Never waits. */
	void (*sent)(struct sp_qp *qp, struct sp_sent *sent);
	/*
	 * [shell] on: transport errors of this QP are withheld and reported by qp_error. off:
	 * passed on. Errors withheld so far are not affected.
	 */
	void (*guard)(struct sp_qp *qp, bool on);
	/*
	 * [shell] Counts the completions seen so far on both queues (mod 2^64), for "does it make
	 * progress". Those that lie in a ring unseen do not count: collect first. Takes no lock.
	 */
	uint64_t (*progressed)(struct sp_qp *qp);
	/*
	 * [shell] gate on: sends that are posted from now on wait behind a gate, also through a
	 * move, and each post is told (gated); off: they run. For sends that must not run before
	 * something else has happened. gated: the oldest that wait, withheld ones too; returns how
	 * many were written. pass: the oldest n run; returns how many do, or if none does an error
	 * as of sp_qp_publish, -EAGAIN also while they are withheld.
	 */
	int (*gate)(struct sp_qp *qp, bool on);
	uint32_t (*gated)(struct sp_qp *qp, struct sp_read *reads, uint32_t max);
	int (*pass)(struct sp_qp *qp, uint32_t n);
	/*
	 * [shell] may not: atomics are not shown to the NIC from now on, also not after a move; the
	 * first one that waits, with all behind it, is told as a key that is missing (key_missing;
	 * publish answers -EACCES). Atomics shown before go on. may: they run; errors as of
	 * publish. *used: some have been posted since the start, or may have been.
	 */
	int (*atomics)(struct sp_qp *qp, bool may, bool *used);
	/*
	 * [shell] Logs the sends of that carrier from now on: a hidden unsignaled WRITE of
	 * sp_log_word() behind each log->every'th. NULL, or why they cannot be logged; log NULL:
	 * only that is asked. The queue must have room for the WRITEs (sp_log_room).
	 */
	const char *(*log)(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log);
	/*
	 * [shell] Returns how many of sp_qp_outstanding are among the requests that the word
	 * counts. Below 0: not even all before them. While withheld.
	 */
	int32_t (*logged)(struct sp_qp *qp, uint32_t number);
};

/*
 * Returns how many more places a queue of so many requests needs for its log. The log WQE behind a
 * complete request may still lie there; and after a refusal one comes early.
 */
static inline uint32_t sp_log_room(uint32_t requests, uint32_t every)
{
	return requests / every + 2;
}

struct sp_carrier_ops {
	/*
	 * [shell] Adds a standby: a real QP on dev (SHIFT's own context there) in state RTS, its
	 * CQs being rings of the driven CQs; caps: as its create returned them. -EINVAL if it
	 * cannot hold the outstanding work, -EOPNOTSUPP if its device does not tell what the engine
	 * must know.
	 */
	int (*add)(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		   const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		   struct sp_cq_ring *rring, struct sp_carrier **out);
	/*
	 * Removes a carrier that is not the active one: its completions that are still in a ring
	 * are skipped silently from now on. Carrier 0 becomes a husk instead: stays known, its
	 * completions are skipped.
	 */
	void (*del)(struct sp_carrier *carrier);
};

#endif
