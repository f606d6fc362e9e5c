/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Devices, ports, asynchronous events; starting and ending SHIFT. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "libibverbs/context.h"
#include "libibverbs/hook.h"
#include "libibverbs/private.h"

#undef ibv_query_port

__thread bool hook_inside;
__thread int hook_cancel_state;
atomic_bool hook_on;

static pthread_once_t started = PTHREAD_ONCE_INIT;

static void start(void)
{
	bool was_inside = hook_inside;
	int cancel_state;

	if (!shift_wanted())
		return;
	hook_inside = true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	shift_init(real_verbs());
	real_note_unknown();
	pthread_setcancelstate(cancel_state, NULL);
	hook_inside = was_inside;
	atomic_store_explicit(&hook_on, true, memory_order_release);
}

/* Not a constructor: a program that was preloaded with this library and opens no device must not
 * notice. */
bool hook_start(void)
{
	pthread_once(&started, start);
	return atomic_load_explicit(&hook_on, memory_order_acquire);
}

__attribute__((destructor)) static void end(void)
{
	if (!atomic_load_explicit(&hook_on, memory_order_acquire))
		return;
	hook_inside = true;
	shift_uninit();
	hook_inside = false;
}

static struct ibv_context *opened(struct ibv_context *context)
{
	if (context) {
		context_install(context);
		shift_context_opened(context);
	}
	return context;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *context = real_verbs()->open_device(device);

	if (!context && shift_gives_way())
		context = real_verbs()->open_device(device);
	return opened(context);
}

HOOK_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	hook_start();
	return HOOK_CALL(open_device(device), real_verbs()->open_device(device));
}

/* What mlx5dv_open_device() calls. */
HOOK_EXPORT struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data)
{
	hook_start();
	return HOOK_CALL(opened(real_private()->open_device(device, private_data)),
			 real_private()->open_device(device, private_data));
}

static int close_device(struct ibv_context *context)
{
	int ret;

	context_restore(context);
	ret = shift_close_device(context);
	if (ret)
		context_install(context);
	return ret;
}

HOOK_EXPORT int ibv_close_device(struct ibv_context *context)
{
	return HOOK_CALL(close_device(context), real_verbs()->close_device(context));
}

/* The exported form writes the struct as it was when that symbol was made; this came later. */
#define COMPAT_PORT_ATTR_LENGTH offsetof(struct ibv_port_attr, port_cap_flags2)

static int query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	int ret;

	if (!shift_query_port_cached(context, port, attr, COMPAT_PORT_ATTR_LENGTH))
		return 0;
	ret = real_verbs()->query_port(context, port, attr);
	if (!ret)
		shift_query_port_note(context, port, attr, COMPAT_PORT_ATTR_LENGTH);
	return ret;
}

HOOK_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			       struct _compat_ibv_port_attr *attr)
{
	return HOOK_CALL(query_port(context, port, attr),
			 real_verbs()->query_port(context, port, attr));
}

/*
 * Blocks for long and calls no other verb, so the mark is not set: a thread that leaves by
 * longjmp, or by cancellation, as it may here on stock too, leaves no mark behind. The same holds
 * for completion events.
 */
HOOK_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!hook_wanted())
		return real_verbs()->get_async_event(context, event);
	return shift_get_async_event(context, event);
}

HOOK_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (!hook_enter()) {
		real_verbs()->ack_async_event(event);
		return;
	}
	shift_ack_async_event(event);
	hook_leave();
}
