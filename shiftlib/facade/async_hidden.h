/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The events of an object in which libibverbs' count of acknowledged ones differs from the
 * application's. The count is a public field of the object (events_completed, of a CQ
 * async_events_completed). While the application has the object, the field is the application's
 * count, as on stock. Libibverbs waits for its own when the object is destroyed, so the field gets
 * that before. Guarded by the lock of the context's events.
 */
#ifndef SHIFTLIB_FACADE_ASYNC_HIDDEN_H
#define SHIFTLIB_FACADE_ASYNC_HIDDEN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sh_hidden_object;

struct sh_async_hidden {
	struct sh_hidden_object *objects;
	uint32_t n, room;
};

/*
 * An event from the kernel that the application does not see. False: libibverbs has to be told at
 * once.
 */
bool sh_hidden_drop(struct sh_async_hidden *hidden, const struct ibv_async_event *event);
/* The application has acknowledged an event that SHIFT made. */
void sh_hidden_acked(struct sh_async_hidden *hidden, const struct ibv_async_event *event);
/* The object is about to be destroyed, and then it is gone, or it lives on. */
void sh_hidden_settle(struct sh_async_hidden *hidden, const void *object);
void sh_hidden_settled(struct sh_async_hidden *hidden, const void *object, bool lives);
void sh_hidden_uninit(struct sh_async_hidden *hidden);

#endif
