/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Real QPs of SHIFT's own, on their way to where they send. Called on the worker of their NIC;
 * lock not held.
 */
#ifndef SHIFTLIB_REPLICA_REAL_QP_H
#define SHIFTLIB_REPLICA_REAL_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sh_address;

/* Each returns 0 or a positive errno. From RTR, with the times and limits of app. */
int sh_real_qp_to_rts(struct ibv_qp *real, const struct ibv_qp_attr *app, uint32_t psn);
/* A loopback QP, from RESET, with the limits, times and rights of attr. */
int sh_real_qp_loop_back(struct ibv_qp *real, const struct sh_address *own,
			 const struct ibv_qp_attr *attr);

/* A loopback QP with memory of its own, which it reaches with the rights that it was made with. */
struct sh_looped {
	struct ibv_pd *pd; /* its own domain; NULL: another's */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	void *memory; /* zeros at first */
};

/*
 * Makes it in pd, for so many requests at a time; limits: those of sh_real_qp_loop_back(). False:
 * something is missing, and what there is goes with sh_looped_destroy(), which leaves *looped as
 * it is. An engine that drives QPs of this context must hear of the QP (sp_qp_foreign) before
 * something is posted.
 */
bool sh_looped_make(struct sh_looped *looped, struct ibv_pd *pd, size_t bytes, uint32_t depth,
		    const struct sh_address *own, const struct ibv_qp_attr *limits);
void sh_looped_destroy(const struct sh_looped *looped);

#endif
