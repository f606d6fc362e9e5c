/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of the application: what the files of their verbs share. Lock held. */
#ifndef SHIFTLIB_OBJECT_QP_H
#define SHIFTLIB_OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct sh_qp;

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
/* It takes receives from a queue that the engine fills, perhaps: the provider must, from now on. */
bool sh_qp_foreign_leave_srq(struct sh_qp *qp, const char *why);

#endif
