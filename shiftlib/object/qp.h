/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: what the files of their verbs share. */
#ifndef SHIFTLIB_OBJECT_QP_H
#define SHIFTLIB_OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/facade/comp_channel.h"

struct sh_qp;
struct sh_cq;

/*
 * A completion queue for a queue pair that the engine does not drive, on a CQ that it does: the
 * poll of that CQ merges it, and its events are that CQ's.
 */
struct sh_private_cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL: none */
	struct sh_cq_feed feed;
	bool merged; /* true once the engine polls it: until then it is nobody's */
};

/*
 * moved: traffic is elsewhere; changes of the husk are recorded, and tried, but their failure is
 * not told. hangs: its own NIC does, and its traffic is elsewhere.
 */
bool sh_qp_hangs(const struct sh_qp *qp) SH_LOCKED;
bool sh_qp_moved(const struct sh_qp *qp) SH_LOCKED;
/* True if its own NIC is dead by this answer, so that it will move. */
bool sh_qp_leaves(const struct sh_qp *qp, int ret) SH_LOCKED;
/*
 * Stops it for the application: when its verb has returned nothing more may come, of what is
 * under way either, so the carrier in use goes to ERR.
 */
void sh_qp_ends(struct sh_qp *qp) SH_DROPS;
/* Gives back what stands in for its shared receive queue. */
void sh_qp_release_srq(struct sh_qp *qp) SH_DROPS;
/* Records a QP that was not made by the exported verbs, at its first modify. */
struct sh_qp *sh_qp_adopt(struct ibv_qp *real) SH_DROPS;

/* qp_foreign.c. Lock given up where a NIC is reached. */
/* Counts a QP more that the engine does not drive on its CQs. */
void sh_qp_foreign_count(struct sh_qp *qp) SH_LOCKED;
/*
 * Gives the QP CQs of its own, as its completions must not enter driven rings. 0, or -errno and
 * errno set.
 */
int sh_qp_foreign_prepare(struct sh_qp *qp) SH_DROPS;
void sh_qp_foreign_release(struct sh_qp *qp) SH_DROPS; /* the contrary of both */
/* The engine lets go of them; its context is closed. */
void sh_qp_foreign_forget(struct sh_qp *qp) SH_LOCKED;
/* Shows the program its own CQs in its queue pair, where that has others. */
void sh_qp_foreign_show(struct sh_qp *qp) SH_LOCKED;
/*
 * Stand around verbs by which the provider takes completions of the QP out of its CQs (it is
 * reset or destroyed): the provider looks into those that it polls, and none of them becomes
 * driven meanwhile. release() is the end of a destruction.
 */
void sh_qp_foreign_begin(struct sh_qp *qp) SH_LOCKED;
void sh_qp_foreign_end(struct sh_qp *qp, bool reset) SH_LOCKED;
/* Stand around its making in the same way, where it has no private ones. */
void sh_qp_foreign_hold(struct sh_qp *qp) SH_LOCKED;
void sh_qp_foreign_let_go(struct sh_qp *qp) SH_LOCKED;
/*
 * Part or drive the queue pairs that complete into a CQ that is to be driven. part: each gets a
 * private one; the lock is given up meanwhile, and the CQ may be driven by then. drive: behind
 * that. 0, or -errno.
 */
int sh_qp_foreign_part(struct sh_cq *cq) SH_DROPS;
int sh_qp_foreign_drive(struct sh_cq *cq) SH_LOCKED;
/* Returns the application's CQ of which this is a private one; NULL: it is none. */
struct ibv_cq *sh_qp_foreign_cq_of(const struct ibv_cq *private_cq) SH_LOCKED;
/*
 * Leaves the shared receive queue to the provider, which must fill it from now on. False: the
 * engine cannot let go of it.
 */
bool sh_qp_foreign_leave_srq(struct sh_qp *qp, const char *why) SH_LOCKED;

#endif
