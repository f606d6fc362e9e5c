/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Verbs that are inline in applications and go through struct verbs_context. */
#ifndef LIBIBVERBS_CONTEXT_H
#define LIBIBVERBS_CONTEXT_H

#include <infiniband/verbs.h>

/*
 * Points create_cq_ex, create_qp_ex, query_port and the like at the hooks, after the real open. A
 * context that cannot be recorded (no memory) stays as it is.
 */
void context_install(struct ibv_context *context);
/* Undoes context_install(), before the real close. */
void context_restore(struct ibv_context *context);

#endif
