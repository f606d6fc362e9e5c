/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs that make, change and destroy objects: what their files share. */
#ifndef SHIFTLIB_OBJECT_OBJECT_H
#define SHIFTLIB_OBJECT_OBJECT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/replica/memory.h"

struct sh_cq;
struct sh_ctx;
struct sh_module;
struct sh_mr;
struct sh_pd;
struct sh_qp;
struct sh_srq;

/* A fault of this context's NIC is being hidden from the application, or would be. Lock held. */
bool sh_ctx_masked(const struct sh_ctx *ctx);
/* gone: the device says so itself, maybe before its event was read. Lock held. */
bool sh_ctx_death_masked(const struct sh_ctx *ctx, bool gone);
/* What a destroy on this context answers: a NIC whose death is masked has nothing left to destroy. */
int sh_ctx_destroy_result(struct ibv_context *context, int ret);

/* ctx_events.c; lock held. Events that were held back, and are due, are told. ctx may be NULL. */
void sh_ctx_tell_owed(struct sh_ctx *ctx);
/* The program's last command for something new has failed as on a dead device, or it has not. */
void sh_ctx_met(struct sh_ctx *ctx, bool dead);
void sh_ctx_async_readable(void *ctx); /* the handler of its real descriptor */

/* cq_create.c: on a context of the application, for it; lock not held. like: of the same kind and size, for a queue pair
 * whose completions polls of cq hand out. */
struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector);
struct ibv_cq_ex *sh_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				  struct ibv_cq_ex *(*create)(struct ibv_context *,
							      struct ibv_cq_init_attr_ex *));
struct ibv_cq *sh_cq_create_like(const struct sh_cq *cq, void *cq_context,
				 struct ibv_comp_channel *real_channel);
int sh_cq_drive(struct sh_cq *cq);
/* A QP that the engine does not drive comes on it: it is left to the provider, if it still can be. */
int sh_srq_release(struct sh_srq *srq);

/* What uses this PD cannot be moved any more: its connections lose their protection. Lock held. */
void sh_pd_unprotect(struct sh_pd *pd, const char *why);
/* Lock held, given up meanwhile; on the path's worker, and nothing uses it there. How many went. */
uint32_t sh_pd_yield(struct sh_pd *pd, uint8_t path);
void sh_mr_forget(struct sh_mr *mr); /* no job holds it any more; lock given up meanwhile */
uint32_t sh_mr_drop_shadow(struct sh_mr *mr, uint8_t path); /* likewise. How many there were */
/* alone.c; lock held: the PD has such a region or key; or one less. */
void sh_alone_add(struct sh_pd *pd, enum sh_alone kind);
void sh_alone_remove(struct sh_pd *pd, enum sh_alone kind);
bool sh_alone_passes(const char *why); /* it is the reason of one of them, and not for good */
void sh_alone_forget(struct sh_pd *pd);

void sh_parents_forget(struct sh_pd *pd); /* lock held */
int sh_parent_destroy(
	struct ibv_pd *real); /* as ibv_dealloc_pd(); of any that pd.c does not know */

/* Of a context that is closed while they live; lock held, given up meanwhile. */
void sh_qp_forget(struct sh_qp *qp);
void sh_cq_forget(struct sh_cq *cq);
void sh_srq_forget(struct sh_srq *srq);
void sh_pd_forget(struct sh_pd *pd);

extern const struct sh_module sh_ctx_events_module;

#endif
