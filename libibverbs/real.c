/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "libibverbs/hook.h"
#include "libibverbs/known.h"
#include "libibverbs/real.h"

#define DISTRO "libibverbs-distro.so.1"

static pthread_once_t resolved = PTHREAD_ONCE_INIT;
static void *distro;
static struct shift_real verbs;
static struct real_private private;

struct symbol {
	void **where;
	const char *name, *node;
	bool optional;
};

#define SYMBOL(field, node)                                                                        \
	{                                                                                          \
		(void **)&verbs.field, "ibv_" #field, node, false                                  \
	}
#define OPTIONAL(field, node)                                                                      \
	{                                                                                          \
		(void **)&verbs.field, "ibv_" #field, node, true                                   \
	}
#define PRIVATE(field, name)                                                                       \
	{                                                                                          \
		(void **)&private.field, name, NULL, true                                          \
	}

static const struct symbol symbols[] = {
	SYMBOL(get_device_list, "IBVERBS_1.1"),
	SYMBOL(free_device_list, "IBVERBS_1.1"),
	SYMBOL(get_device_name, "IBVERBS_1.1"),
	SYMBOL(open_device, "IBVERBS_1.1"),
	SYMBOL(close_device, "IBVERBS_1.1"),
	SYMBOL(get_async_event, "IBVERBS_1.1"),
	SYMBOL(ack_async_event, "IBVERBS_1.1"),
	SYMBOL(event_type_str, "IBVERBS_1.1"),
	SYMBOL(query_device, "IBVERBS_1.1"),
	SYMBOL(query_port, "IBVERBS_1.1"),
	SYMBOL(query_gid, "IBVERBS_1.1"),
	SYMBOL(query_pkey, "IBVERBS_1.1"),
	SYMBOL(alloc_pd, "IBVERBS_1.1"),
	SYMBOL(dealloc_pd, "IBVERBS_1.1"),
	SYMBOL(reg_mr, "IBVERBS_1.1"),
	SYMBOL(reg_mr_iova2, "IBVERBS_1.8"),
	OPTIONAL(reg_dmabuf_mr, "IBVERBS_1.12"),
	SYMBOL(rereg_mr, "IBVERBS_1.1"),
	SYMBOL(dereg_mr, "IBVERBS_1.1"),
	OPTIONAL(is_fork_initialized, "IBVERBS_1.13"),
	SYMBOL(create_comp_channel, "IBVERBS_1.0"),
	SYMBOL(destroy_comp_channel, "IBVERBS_1.0"),
	SYMBOL(create_cq, "IBVERBS_1.1"),
	SYMBOL(resize_cq, "IBVERBS_1.1"),
	SYMBOL(destroy_cq, "IBVERBS_1.1"),
	SYMBOL(get_cq_event, "IBVERBS_1.1"),
	SYMBOL(ack_cq_events, "IBVERBS_1.1"),
	SYMBOL(create_qp, "IBVERBS_1.1"),
	SYMBOL(modify_qp, "IBVERBS_1.1"),
	SYMBOL(query_qp, "IBVERBS_1.1"),
	SYMBOL(destroy_qp, "IBVERBS_1.1"),
	SYMBOL(qp_to_qp_ex, "IBVERBS_1.6"),
	SYMBOL(create_srq, "IBVERBS_1.1"),
	SYMBOL(modify_srq, "IBVERBS_1.1"),
	SYMBOL(query_srq, "IBVERBS_1.1"),
	SYMBOL(destroy_srq, "IBVERBS_1.1"),
	SYMBOL(create_ah, "IBVERBS_1.1"),
	SYMBOL(destroy_ah, "IBVERBS_1.1"),
	PRIVATE(open_device, "verbs_open_device"),
	PRIVATE(create_cq, "ibv_cmd_create_cq"),
	PRIVATE(create_cq_ex, "ibv_cmd_create_cq_ex"),
	PRIVATE(create_cq_ex2, "ibv_cmd_create_cq_ex2"),
	PRIVATE(create_qp, "ibv_cmd_create_qp"),
	PRIVATE(create_qp_ex, "ibv_cmd_create_qp_ex"),
	PRIVATE(create_qp_ex2, "ibv_cmd_create_qp_ex2"),
	PRIVATE(create_srq, "ibv_cmd_create_srq"),
	PRIVATE(create_srq_ex, "ibv_cmd_create_srq_ex"),
	PRIVATE(create_wq, "ibv_cmd_create_wq"),
	PRIVATE(resize_cq, "ibv_cmd_resize_cq"),
	PRIVATE(query_mr, "ibv_cmd_query_mr"),
	PRIVATE(reg_dm_mr, "ibv_cmd_reg_dm_mr"),
	PRIVATE(reg_dmabuf_mr, "ibv_cmd_reg_dmabuf_mr"),
	PRIVATE(reg_mr_ex, "ibv_cmd_reg_mr_ex"),
	PRIVATE(execute_ioctl, "execute_ioctl"),
};

static void thread_inside(void)
{
	hook_inside = true;
}

/* Says why and ends, as the loader would: nothing can be forwarded, so no verb can be answered. */
static void __attribute__((noreturn)) cannot_forward(const char *what, const char *why)
{
	fprintf(stderr,
		"shift: error: %s: %s; the symlink %s beside SHIFT's libibverbs.so.1 must lead to "
		"the installed libibverbs (rdma-core 26 or newer)\n",
		what, why, DISTRO);
	abort();
}

static void resolve(void)
{
	/* DT_NEEDED has loaded it already; its name there is the name to ask for. */
	distro = dlopen(DISTRO, RTLD_LAZY | RTLD_NOLOAD);
	if (!distro)
		cannot_forward(DISTRO, "not loaded");
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		const struct symbol *s = &symbols[i];

		*s->where = s->node ? dlvsym(distro, s->name, s->node) : dlsym(distro, s->name);
		if (!*s->where && !s->optional)
			cannot_forward(s->name, "not found in the installed library");
	}
	verbs.thread_inside = thread_inside;
}

const struct shift_real *real_verbs(void)
{
	pthread_once(&resolved, resolve);
	return &verbs;
}

const struct real_private *real_private(void)
{
	pthread_once(&resolved, resolve);
	return &private;
}

void real_note_unknown(void)
{
	pthread_once(&resolved, resolve);
	known_scan(distro, shift_note_unknown_verb);
}
