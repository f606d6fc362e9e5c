/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Verbs that are inline in applications and go through struct verbs_context. */
#ifndef LIBIBVERBS_CONTEXT_H
#define LIBIBVERBS_CONTEXT_H

#include <infiniband/verbs.h>

/* After the real open: points create_cq_ex, create_qp_ex and query_port at the hooks. A context
 * that cannot be recorded (no memory) stays as it is. */
void context_install(struct ibv_context *context);
/* Before the real close: as the provider left it. */
void context_restore(struct ibv_context *context);

#endif
