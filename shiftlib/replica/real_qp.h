/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Real QPs of SHIFT's own, on their way to where they send. On the worker of their NIC; lock not held. */
#ifndef SHIFTLIB_REPLICA_REAL_QP_H
#define SHIFTLIB_REPLICA_REAL_QP_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct sh_address;

/* Each returns 0 or a positive errno. From RTR, with the times and limits of app. */
int sh_real_qp_to_rts(struct ibv_qp *real, const struct ibv_qp_attr *app, uint32_t psn);
/* A loopback QP, from RESET, with the limits, times and rights of attr. */
int sh_real_qp_loop_back(struct ibv_qp *real, const struct sh_address *own,
			 const struct ibv_qp_attr *attr);

#endif
