/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Five functions of librdmacm, whose events a program must not see while SHIFT carries a
 * connection elsewhere, and must see where the kernel's cannot come. The loader binds by name and
 * version, so programs and librdmacm itself call them here; the rest of librdmacm is untouched.
 * Verbs that librdmacm calls meanwhile are the program's, so the mark of hook.h is not set.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "libibverbs/hook.h"

/* The installed library's name beside the companion (companion.c), which has the usual name. */
#define DISTRO	  "librdmacm-distro.so.1"
#define INSTALLED "librdmacm.so.1"
#define NODE	  "RDMACM_1.0"

static pthread_once_t resolved = PTHREAD_ONCE_INIT;
static struct shift_cm_real cm;
static bool found;

static void *loaded(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *function = handle ? dlvsym(handle, name, NODE) : NULL;

	if (handle)
		dlclose(handle);
	return function;
}

/*
 * Finds the program's function, in each way in which the program may have come to it, and never
 * our own.
 */
static void *function(const char *name, void *own)
{
	void *candidates[3];

	candidates[0] = loaded(DISTRO, name);
	candidates[1] = dlvsym(RTLD_NEXT, name, NODE);
	candidates[2] = loaded(INSTALLED, name);
	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		if (candidates[i] && candidates[i] != own)
			return candidates[i];
	found = false;
	return NULL;
}

static void resolve(void)
{
	found = true;
	*(void **)&cm.get_cm_event = function("rdma_get_cm_event", rdma_get_cm_event);
	*(void **)&cm.ack_cm_event = function("rdma_ack_cm_event", rdma_ack_cm_event);
	*(void **)&cm.disconnect = function("rdma_disconnect", rdma_disconnect);
	*(void **)&cm.destroy_id = function("rdma_destroy_id", rdma_destroy_id);
	*(void **)&cm.migrate_id = function("rdma_migrate_id", rdma_migrate_id);
	*(void **)&cm.create_id = function("rdma_create_id", NULL);
	*(void **)&cm.resolve_addr = function("rdma_resolve_addr", NULL);
}

/* NULL: librdmacm is not loaded, so the call is not for it. */
static const struct shift_cm_real *real_cm(void)
{
	pthread_once(&resolved, resolve);
	if (found)
		return &cm;
	errno = ENOSYS;
	return NULL;
}

HOOK_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	const struct shift_cm_real *real = real_cm();

	if (!real)
		return -1;
	return hook_wanted() ? shift_cm_get_event(real, channel, event)
			     : real->get_cm_event(channel, event);
}

HOOK_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	const struct shift_cm_real *real = real_cm();

	if (!real)
		return -1;
	return hook_wanted() ? shift_cm_ack_event(real, event) : real->ack_cm_event(event);
}

HOOK_EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	const struct shift_cm_real *real = real_cm();
	int ret;

	if (!real)
		return -1;
	if (!hook_wanted() || !shift_cm_disconnects(id))
		return real->disconnect(id);
	ret = id->qp ? ibv_modify_qp(id->qp, &error, IBV_QP_STATE) : 0;
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

HOOK_EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	const struct shift_cm_real *real = real_cm();

	if (!real)
		return -1;
	return hook_wanted() ? shift_cm_destroy_id(real, id) : real->destroy_id(id);
}

HOOK_EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	const struct shift_cm_real *real = real_cm();

	if (!real)
		return -1;
	return hook_wanted() ? shift_cm_migrate_id(real, id, channel)
			     : real->migrate_id(id, channel);
}
