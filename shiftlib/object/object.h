/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs that make, change and destroy objects: what their files share. */
#ifndef SHIFTLIB_OBJECT_OBJECT_H
#define SHIFTLIB_OBJECT_OBJECT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/replica/memory.h"

struct sh_cq;
struct sh_ctx;
struct sh_module;
struct sh_mr;
struct sh_pd;
struct sh_qp;
struct sh_srq;

/* True if a fault of this context's NIC is being hidden from the application, or would be. */
bool sh_ctx_masked(const struct sh_ctx *ctx) SH_LOCKED;
/*
 * True if that is the NIC's death. gone: the device says so itself, maybe before its event was
 * read.
 */
bool sh_ctx_death_masked(const struct sh_ctx *ctx, bool gone) SH_LOCKED;
/*
 * Returns the answer of a destroy on this context: a NIC whose death is masked has nothing left
 * to destroy.
 */
int sh_ctx_destroy_result(struct ibv_context *context, int ret);
/*
 * Takes the context's device as gone, and waits until the masked connections have left it; a few
 * times SHIFT_FLUSH_WAIT_MS at most. ctx_events.c.
 */
void sh_ctx_leave(struct ibv_context *context) SH_DROPS;

/* Tells events that were held back, and are due. ctx may be NULL. ctx_events.c. */
void sh_ctx_tell_owed(struct sh_ctx *ctx) SH_LOCKED;
/* Notes whether the program's last command for something new has failed as on a dead device. */
void sh_ctx_met(struct sh_ctx *ctx, bool dead) SH_LOCKED;
void sh_ctx_async_readable(void *ctx) SH_LOCKED; /* the handler of its real descriptor */

/*
 * Make a completion queue on a context of the application, for it. like: of the same kind and
 * size, for a queue pair whose completions polls of cq hand out. cq_create.c; lock not held.
 */
struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector);
struct ibv_cq_ex *sh_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				  struct ibv_cq_ex *(*create)(struct ibv_context *,
							      struct ibv_cq_init_attr_ex *));
struct ibv_cq *sh_cq_create_like(const struct sh_cq *cq, void *cq_context,
				 struct ibv_comp_channel *real_channel);
int sh_cq_drive(struct sh_cq *cq) SH_DROPS;
/*
 * Leaves the queue to the provider, if that is still possible, as a QP that the engine does not
 * drive comes on it.
 */
int sh_srq_release(struct sh_srq *srq);

/* Ends the protection of a PD's connections: what uses the PD cannot be moved any more. */
void sh_pd_unprotect(struct sh_pd *pd, const char *why) SH_LOCKED;
/* Gives back what nothing uses on the path, on its worker. Returns how many went. */
uint32_t sh_pd_yield(struct sh_pd *pd, uint8_t path) SH_DROPS;
/*
 * Drop a region, or one of its shadows, that no job holds any more. drop_shadow returns how many
 * there were.
 */
void sh_mr_forget(struct sh_mr *mr) SH_DROPS;
uint32_t sh_mr_drop_shadow(struct sh_mr *mr, uint8_t path) SH_DROPS;
/* Count such a region or key of a PD, or one less. alone.c. */
void sh_alone_add(struct sh_pd *pd, enum sh_alone kind) SH_LOCKED;
void sh_alone_remove(struct sh_pd *pd, enum sh_alone kind) SH_LOCKED;
bool sh_alone_passes(const char *why); /* true for the reason of one that may pass */
void sh_alone_forget(struct sh_pd *pd) SH_LOCKED;

void sh_parents_forget(struct sh_pd *pd) SH_LOCKED;
/* Destroys any domain that pd.c does not know. Returns as ibv_dealloc_pd(). */
int sh_parent_destroy(struct ibv_pd *real);

/* Forget an object whose context is closed while it lives. */
void sh_qp_forget(struct sh_qp *qp) SH_DROPS;
void sh_cq_forget(struct sh_cq *cq) SH_DROPS;
void sh_srq_forget(struct sh_srq *srq) SH_DROPS;
void sh_pd_forget(struct sh_pd *pd) SH_DROPS;

extern const struct sh_module sh_ctx_events_module;

#endif
