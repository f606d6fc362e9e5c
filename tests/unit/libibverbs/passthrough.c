/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A shell that only forwards and counts, so that the hooks are tested without SHIFT. It is linked
 * into a libibverbs.so.1 of its own and never shipped. At exit the counts are written to the file
 * named by SHIFT_TEST_COUNTS, one "verb count" a line.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/shift.h"
#include "tests/unit/libibverbs/facades.h"

static const struct shift_real *real;

/* clang-format off: a list, one name a line */
#define VERBS(X)                                                                                   \
	X(init)                                                                                    \
	X(fini)                                                                                    \
	X(context_opened)                                                                          \
	X(close_device)                                                                            \
	X(async_real_begin)                                                                        \
	X(async_real_end)                                                                          \
	X(get_async_event)                                                                         \
	X(ack_async_event)                                                                         \
	X(query_port_cached)                                                                       \
	X(query_port_note)                                                                         \
	X(alloc_pd)                                                                                \
	X(dealloc_pd)                                                                              \
	X(reg_mr)                                                                                  \
	X(reg_mr_iova2)                                                                            \
	X(reg_dmabuf_mr)                                                                           \
	X(rereg_mr)                                                                                \
	X(dereg_mr)                                                                                \
	X(mr_made)                                                                                 \
	X(create_comp_channel)                                                                     \
	X(destroy_comp_channel)                                                                    \
	X(channel_real)                                                                            \
	X(get_cq_event)                                                                            \
	X(ack_cq_events)                                                                           \
	X(create_cq)                                                                               \
	X(create_cq_ex)                                                                            \
	X(resize_cq)                                                                               \
	X(destroy_cq)                                                                              \
	X(create_srq)                                                                              \
	X(create_srq_ex)                                                                           \
	X(create_wq)                                                                               \
	X(modify_srq)                                                                              \
	X(query_srq)                                                                               \
	X(destroy_srq)                                                                             \
	X(create_qp)                                                                               \
	X(create_qp_ex)                                                                            \
	X(modify_qp)                                                                               \
	X(query_qp)                                                                                \
	X(destroy_qp)                                                                              \
	X(drain_device)                                                                            \
	X(note_unknown_verb)                                                                       \
	X(cm_get_event)                                                                            \
	X(cm_ack_event)                                                                            \
	X(cm_leaves)                                                                               \
	X(cm_destroy_id)                                                                           \
	X(cm_migrate_id)
/* clang-format on */

enum verb {
#define X(name) VERB_##name,
	VERBS(X)
#undef X
		VERB_MAX,
};

static const char *const verb_names[VERB_MAX] = {
#define X(name) #name,
	VERBS(X)
#undef X
};

static atomic_uint counts[VERB_MAX];

#define COUNT(name) atomic_fetch_add_explicit(&counts[VERB_##name], 1, memory_order_relaxed)

bool shift_wanted(void)
{
	const char *disable = getenv("SHIFT_DISABLE");

	return !disable || !strcmp(disable, "0");
}

void shift_init(const struct shift_real *r)
{
	real = r;
	facades_init(r);
	COUNT(init);
}

void shift_uninit(void)
{
	const char *path = getenv("SHIFT_TEST_COUNTS");
	FILE *f = path ? fopen(path, "a") : NULL;

	COUNT(fini);
	if (!f)
		return;
	for (unsigned int v = 0; v < VERB_MAX; v++)
		fprintf(f, "%s %u\n", verb_names[v], atomic_load(&counts[v]));
	fclose(f);
}

void shift_context_opened(struct ibv_context *context)
{
	COUNT(context_opened);
	facades_context_opened(context);
}

bool shift_gives_way(void)
{
	return false; /* nothing was held */
}

int shift_close_device(struct ibv_context *context)
{
	COUNT(close_device);
	facades_context_closing(context);
	return real->close_device(context);
}

void shift_async_real_begin(struct ibv_context *context)
{
	COUNT(async_real_begin);
	facade_async_real_begin(context);
}

void shift_async_real_end(struct ibv_context *context)
{
	COUNT(async_real_end);
	facade_async_real_end(context);
}

int shift_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	COUNT(get_async_event);
	return facade_get_async_event(context, event);
}

void shift_ack_async_event(struct ibv_async_event *event)
{
	COUNT(ack_async_event);
	facade_ack_async_event(event);
}

int shift_query_port_cached(struct ibv_context *context, uint8_t port, void *attr, size_t length)
{
	COUNT(query_port_cached);
	return -ENOENT;
}

void shift_query_port_note(struct ibv_context *context, uint8_t port, const void *attr,
			   size_t length)
{
	COUNT(query_port_note);
}

struct ibv_pd *shift_alloc_parent_domain(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr,
	struct ibv_pd *(*alloc)(struct ibv_context *, struct ibv_parent_domain_init_attr *))
{
	return alloc(context, attr);
}

void shift_made(struct ibv_context *context, int err)
{
}

struct ibv_pd *shift_alloc_pd(struct ibv_context *context)
{
	COUNT(alloc_pd);
	return real->alloc_pd(context);
}

int shift_dealloc_pd(struct ibv_pd *pd)
{
	COUNT(dealloc_pd);
	return real->dealloc_pd(pd);
}

struct ibv_mr *shift_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access, bool iova2)
{
	if (iova2) {
		COUNT(reg_mr_iova2);
		return real->reg_mr_iova2(pd, addr, length, iova, access);
	}
	COUNT(reg_mr);
	return real->reg_mr(pd, addr, length, (int)access);
}

struct ibv_mr *shift_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				   int fd, int access)
{
	COUNT(reg_dmabuf_mr);
	return real->reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

int shift_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access)
{
	COUNT(rereg_mr);
	return real->rereg_mr(mr, flags, pd, addr, length, access);
}

int shift_dereg_mr(struct ibv_mr *mr)
{
	COUNT(dereg_mr);
	return real->dereg_mr(mr);
}

struct ibv_comp_channel *shift_create_comp_channel(struct ibv_context *context)
{
	COUNT(create_comp_channel);
	return facades_create_comp_channel(context);
}

int shift_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	COUNT(destroy_comp_channel);
	return facades_destroy_comp_channel(channel);
}

struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel)
{
	COUNT(channel_real);
	return facade_channel_real(channel);
}

int shift_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	COUNT(get_cq_event);
	return facade_get_cq_event(channel, cq, cq_context);
}

void shift_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	COUNT(ack_cq_events);
	facade_ack_cq_events(cq, nevents);
}

struct ibv_cq *shift_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			       struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *cq;

	COUNT(create_cq);
	cq = real->create_cq(context, cqe, cq_context, facade_channel_real(channel), comp_vector);
	if (cq)
		facades_cq_created(cq, channel);
	return cq;
}

struct ibv_cq_ex *shift_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				     struct ibv_cq_ex *(*create)(struct ibv_context *,
								 struct ibv_cq_init_attr_ex *))
{
	struct ibv_comp_channel *channel = attr->channel;
	struct ibv_cq_ex *cq;

	COUNT(create_cq_ex);
	attr->channel = facade_channel_real(channel);
	cq = create(context, attr);
	attr->channel = channel;
	if (cq)
		facades_cq_created(ibv_cq_ex_to_cq(cq), channel);
	return cq;
}

/* What a provider registers by itself. */
void shift_mr_made(struct ibv_pd *pd, struct ibv_mr *mr, const struct shift_region *region)
{
	COUNT(mr_made);
}

void shift_command_done(struct ibv_context *context, const struct ib_uverbs_ioctl_hdr *command)
{
}

/* The real call above comes back here from the provider, while nothing is driven. */
void shift_cq_resized(struct ibv_cq *cq)
{
}

int shift_resize_cq(struct ibv_cq *cq, int cqe)
{
	COUNT(resize_cq);
	return real->resize_cq(cq, cqe);
}

int shift_destroy_cq(struct ibv_cq *cq)
{
	COUNT(destroy_cq);
	return facades_destroy_cq(cq);
}

struct ibv_srq *shift_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	COUNT(create_srq);
	return real->create_srq(pd, attr);
}

struct ibv_srq *shift_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
				    struct ibv_srq *(*create)(struct ibv_context *,
							      struct ibv_srq_init_attr_ex *))
{
	COUNT(create_srq_ex);
	return create(context, attr);
}

struct ibv_wq *shift_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
			       struct ibv_wq *(*create)(struct ibv_context *,
							struct ibv_wq_init_attr *))
{
	COUNT(create_wq);
	return create(context, attr);
}

int shift_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	COUNT(modify_srq);
	return real->modify_srq(srq, attr, mask);
}

int shift_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	COUNT(query_srq);
	return real->query_srq(srq, attr);
}

int shift_destroy_srq(struct ibv_srq *srq)
{
	COUNT(destroy_srq);
	return real->destroy_srq(srq);
}

struct ibv_qp *shift_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	COUNT(create_qp);
	return real->create_qp(pd, attr);
}

struct ibv_qp *shift_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				  struct ibv_qp *(*create)(struct ibv_context *,
							   struct ibv_qp_init_attr_ex *))
{
	COUNT(create_qp_ex);
	return create(context, attr);
}

int shift_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	COUNT(modify_qp);
	return real->modify_qp(qp, attr, mask);
}

int shift_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr)
{
	COUNT(query_qp);
	return real->query_qp(qp, attr, mask, init_attr);
}

int shift_destroy_qp(struct ibv_qp *qp)
{
	COUNT(destroy_qp);
	return facades_destroy_qp(qp);
}

int shift_drain_device(const char *device, bool on)
{
	COUNT(drain_device);
	return 0;
}

void shift_note_unknown_verb(const char *name)
{
	COUNT(note_unknown_verb);
}

int shift_cm_get_event(const struct shift_cm_real *cm, struct rdma_event_channel *channel,
		       struct rdma_cm_event **event)
{
	COUNT(cm_get_event);
	return cm->get_cm_event(channel, event);
}

int shift_cm_ack_event(const struct shift_cm_real *cm, struct rdma_cm_event *event)
{
	COUNT(cm_ack_event);
	return cm->ack_cm_event(event);
}

bool shift_cm_disconnects(struct rdma_cm_id *id)
{
	COUNT(cm_leaves);
	return false;
}

int shift_cm_destroy_id(const struct shift_cm_real *cm, struct rdma_cm_id *id)
{
	COUNT(cm_destroy_id);
	return cm->destroy_id(id);
}

int shift_cm_migrate_id(const struct shift_cm_real *cm, struct rdma_cm_id *id,
			struct rdma_event_channel *channel)
{
	COUNT(cm_migrate_id);
	return cm->migrate_id(id, channel);
}
