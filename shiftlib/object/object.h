/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs that make, change and destroy objects: what their files share. */
#ifndef SHIFTLIB_OBJECT_H
#define SHIFTLIB_OBJECT_H

#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/srq.h"

/* On a context of the application, for it; lock not held. */
struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector);
int sh_cq_drive(struct sh_cq *cq);
/* A QP that the engine does not drive comes on it: it is left to the provider, if it still can be. */
int sh_srq_leave(struct sh_srq *srq);

void sh_parents_forget(struct sh_pd *pd); /* lock held */
int sh_parent_destroy(
	struct ibv_pd *real); /* as ibv_dealloc_pd(); of any that mr.c does not know */

/* Of a context that is closed while they live; lock held, given up meanwhile. */
void sh_cq_forget(struct sh_cq *cq);
void sh_srq_forget(struct sh_srq *srq);
void sh_pd_forget(struct sh_pd *pd);

#endif
