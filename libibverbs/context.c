/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "libibverbs/context.h"
#include "libibverbs/hook.h"

/* The provider's own functions of one context. */
struct saved {
	struct saved *next;
	struct ibv_context *context;
	__typeof__(((struct verbs_context *)0)->create_cq_ex) create_cq_ex;
	__typeof__(((struct verbs_context *)0)->create_qp_ex) create_qp_ex;
	__typeof__(((struct verbs_context *)0)->create_srq_ex) create_srq_ex;
	__typeof__(((struct verbs_context *)0)->create_wq) create_wq;
	__typeof__(((struct verbs_context *)0)->query_port) query_port;
	__typeof__(((struct verbs_context *)0)->alloc_parent_domain) alloc_parent_domain;
};

/*
 * This lock names its owner, who may fork in a signal handler. A fork waits for the lock, but not
 * for ever. No other function is called with the lock held.
 */
#define FORK_WAIT_S 1
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static struct saved *contexts; /* guarded by lock; entries do not change while they are in it */
static bool fork_without;      /* guarded by lock: the fork under way does not hold it */

/* ---- forks wait for the lock: the child asks about the contexts that it opens ---------------- */

static void contexts_before_fork(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += FORK_WAIT_S;
	fork_without = pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &until);
}

static void contexts_after_fork_parent(void)
{
	if (!fork_without)
		pthread_mutex_unlock(&lock);
}

static void contexts_after_fork(void)
{
	static const pthread_mutex_t anew = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	lock = anew;
}

/*
 * Runs at load, so that a fork takes this lock after those of shiftlib (process.c), whose holders
 * may call verbs.
 */
static void __attribute__((constructor)) contexts_mind_forks(void)
{
	pthread_atfork(contexts_before_fork, contexts_after_fork_parent, contexts_after_fork);
}

/* ---------------------------------------------------------------------------------------------- */

static struct saved **saved_slot(struct ibv_context *context)
{
	struct saved **slot = &contexts;

	while (*slot && (*slot)->context != context)
		slot = &(*slot)->next;
	return slot;
}

static const struct saved *saved_find(struct ibv_context *context)
{
	struct saved *saved;

	pthread_mutex_lock(&lock);
	saved = *saved_slot(context);
	pthread_mutex_unlock(&lock);
	return saved;
}

static struct ibv_cq_ex *hook_create_cq_ex(struct ibv_context *context,
					   struct ibv_cq_init_attr_ex *attr)
{
	const struct saved *saved = saved_find(context);

	return HOOK_MAKE(context, shift_create_cq_ex(context, attr, saved->create_cq_ex),
			 saved->create_cq_ex(context, attr));
}

static struct ibv_qp *hook_create_qp_ex(struct ibv_context *context,
					struct ibv_qp_init_attr_ex *attr)
{
	const struct saved *saved = saved_find(context);

	return HOOK_MAKE(context, shift_create_qp_ex(context, attr, saved->create_qp_ex),
			 saved->create_qp_ex(context, attr));
}

static struct ibv_srq *hook_create_srq_ex(struct ibv_context *context,
					  struct ibv_srq_init_attr_ex *attr)
{
	const struct saved *saved = saved_find(context);

	return HOOK_MAKE(context, shift_create_srq_ex(context, attr, saved->create_srq_ex),
			 saved->create_srq_ex(context, attr));
}

static struct ibv_wq *hook_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	const struct saved *saved = saved_find(context);

	return HOOK_MAKE(context, shift_create_wq(context, attr, saved->create_wq),
			 saved->create_wq(context, attr));
}

static struct ibv_pd *hook_alloc_parent_domain(struct ibv_context *context,
					       struct ibv_parent_domain_init_attr *attr)
{
	const struct saved *saved = saved_find(context);

	return HOOK_CALL(shift_alloc_parent_domain(context, attr, saved->alloc_parent_domain),
			 saved->alloc_parent_domain(context, attr));
}

static int query_port(const struct saved *saved, uint8_t port, struct ibv_port_attr *attr,
		      size_t length)
{
	int ret;

	if (!shift_query_port_cached(saved->context, port, attr, length))
		return 0;
	ret = saved->query_port(saved->context, port, attr, length);
	if (!ret)
		shift_query_port_note(saved->context, port, attr, length);
	return ret;
}

static int hook_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			   size_t length)
{
	const struct saved *saved = saved_find(context);

	return HOOK_CALL(query_port(saved, port, attr, length),
			 saved->query_port(context, port, attr, length));
}

/* verbs_get_ctx_op says whether this library's struct reaches as far as the member. */
void context_install(struct ibv_context *context)
{
	struct saved *saved = calloc(1, sizeof(*saved));
	struct verbs_context *vctx;

	if (!saved)
		return;
	saved->context = context;
	pthread_mutex_lock(&lock);
	saved->next = contexts;
	contexts = saved;
	pthread_mutex_unlock(&lock);

	vctx = verbs_get_ctx_op(context, create_cq_ex);
	if (vctx) {
		saved->create_cq_ex = vctx->create_cq_ex;
		vctx->create_cq_ex = hook_create_cq_ex;
	}
	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (vctx) {
		saved->create_qp_ex = vctx->create_qp_ex;
		vctx->create_qp_ex = hook_create_qp_ex;
	}
	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (vctx) {
		saved->create_srq_ex = vctx->create_srq_ex;
		vctx->create_srq_ex = hook_create_srq_ex;
	}
	vctx = verbs_get_ctx_op(context, create_wq);
	if (vctx) {
		saved->create_wq = vctx->create_wq;
		vctx->create_wq = hook_create_wq;
	}
	vctx = verbs_get_ctx_op(context, query_port);
	if (vctx) {
		saved->query_port = vctx->query_port;
		vctx->query_port = hook_query_port;
	}
	vctx = verbs_get_ctx_op(context, alloc_parent_domain);
	if (vctx) {
		saved->alloc_parent_domain = vctx->alloc_parent_domain;
		vctx->alloc_parent_domain = hook_alloc_parent_domain;
	}
}

void context_restore(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);
	struct saved **slot, *saved;

	pthread_mutex_lock(&lock);
	slot = saved_slot(context);
	saved = *slot;
	if (saved)
		*slot = saved->next;
	pthread_mutex_unlock(&lock);
	if (!saved)
		return;
	if (saved->create_cq_ex)
		vctx->create_cq_ex = saved->create_cq_ex;
	if (saved->create_qp_ex)
		vctx->create_qp_ex = saved->create_qp_ex;
	if (saved->create_srq_ex)
		vctx->create_srq_ex = saved->create_srq_ex;
	if (saved->create_wq)
		vctx->create_wq = saved->create_wq;
	if (saved->query_port)
		vctx->query_port = saved->query_port;
	if (saved->alloc_parent_domain)
		vctx->alloc_parent_domain = saved->alloc_parent_domain;
	free(saved);
}
