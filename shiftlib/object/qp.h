/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: what the files of their verbs share. Lock held. */
#ifndef SHIFTLIB_OBJECT_QP_H
#define SHIFTLIB_OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "shiftlib/facade/comp_channel.h"

struct sh_qp;
struct sh_cq;

/* Of a queue pair that the engine does not drive, on a CQ that it does: the poll of that one merges it, and its events are that one's. */
struct sh_private_cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL: none */
	struct sh_cq_feed feed;
	bool merged; /* the engine polls it: until then it is nobody's */
};

/* Traffic is elsewhere: changes of a husk are recorded, and tried, but their failure is not told. */
bool sh_qp_hangs(const struct sh_qp *qp); /* its own NIC does, and its traffic is elsewhere */
bool sh_qp_moved(const struct sh_qp *qp);
/* It will be: its own NIC is dead, says its answer. */
bool sh_qp_leaves(const struct sh_qp *qp, int ret);
/*
 * The application stops it: when its verb has returned nothing more may come, of what is under way either, so the carrier in use
 * goes to ERR. Lock given up meanwhile.
 */
void sh_qp_ends(struct sh_qp *qp);
/* What stands in for its shared receive queue is not held any more. Lock given up meanwhile. */
void sh_qp_release_srq(struct sh_qp *qp);
/* One that was not made by the exported verbs, at its first modify. Lock given up meanwhile. */
struct sh_qp *sh_qp_adopt(struct ibv_qp *real);

/* qp_foreign.c. Lock given up where a NIC is reached. */
void sh_qp_foreign_count(
	struct sh_qp *qp); /* its CQs have one more that the engine does not drive */
/* Its completions must not enter driven rings: it gets CQs of its own. 0, or -errno and errno set. */
int sh_qp_foreign_prepare(struct sh_qp *qp);
void sh_qp_foreign_release(struct sh_qp *qp); /* the contrary of both */
void sh_qp_foreign_forget(struct sh_qp *qp); /* the engine lets go of them; its context is closed */
/* The program sees its own CQs in its queue pair, where it has others. */
void sh_qp_foreign_show(struct sh_qp *qp);
/*
 * Around verbs by which the provider takes completions of the QP out of its CQs (it is reset or destroyed): it looks into those that
 * it polls, and none of them becomes driven meanwhile. release() is the end of a destruction.
 */
void sh_qp_foreign_begin(struct sh_qp *qp);
void sh_qp_foreign_end(struct sh_qp *qp, bool reset);
/* The same around its making, where it has no private ones. */
void sh_qp_foreign_hold(struct sh_qp *qp);
void sh_qp_foreign_let_go(struct sh_qp *qp);
/*
 * Such queue pairs complete into a CQ that is to be driven. part: each gets a private one; the lock is given up meanwhile, and the CQ
 * may be driven by then. drive: behind that. 0, or -errno.
 */
int sh_qp_foreign_part(struct sh_cq *cq);
int sh_qp_foreign_drive(struct sh_cq *cq);
/* The application's CQ of which this is a private one; NULL: it is none. */
struct ibv_cq *sh_qp_foreign_cq_of(const struct ibv_cq *private_cq);
/* It takes receives from a queue that the engine fills, perhaps: the provider must, from now on. */
bool sh_qp_foreign_leave_srq(struct sh_qp *qp, const char *why);

#endif
