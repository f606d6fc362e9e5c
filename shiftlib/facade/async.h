/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Asynchronous events as the application sees them.
 *
 * context->async_fd becomes an eventfd that is readable exactly while an event waits to be read.
 * The shell's background thread is the only reader of the real fd; it hands on what the application
 * shall see (sh_async_push) and acknowledges the rest (sh_async_drop).
 *
 * libibverbs counts the events of an object that were read from the kernel against those that were
 * acknowledged, and destroy waits until both are equal. So before an object is destroyed, its
 * events that nobody will read any more must be acknowledged: sh_async_forget_begin/_end.
 *
 * Any thread; one lock per context, a leaf but that the acknowledged object's mutex nests in it.
 */
#ifndef SHIFTLIB_ASYNC_H
#define SHIFTLIB_ASYNC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "shiftlib/shift.h"

/*
 * Unread events of a context, and unacknowledged ones that SHIFT made itself; further ones are
 * dropped.
 */
#define SH_ASYNC_QUEUE_MAX (1 << 14)
#define SH_ASYNC_DYING_MAX 64 /* objects of a context being destroyed at the same time */

struct sh_async;

/* Once, before any other call. */
void sh_async_setup(const struct shift_real *real);

/*
 * init swaps context->async_fd; NULL with errno leaves the context as it was. uninit puts the
 * real fd back and acknowledges what was not read; called before the real close.
 */
struct sh_async *sh_async_init(struct ibv_context *context);
void sh_async_uninit(struct sh_async *async);
struct sh_async *sh_async_of(struct ibv_context *context); /* NULL: none */

/*
 * The background thread's calls: the fd to wait on, and one event from it: 0, -EAGAIN, or another
 * -errno (-EIO: the device is gone: stop reading the fd).
 */
int sh_async_real_fd(const struct sh_async *async);
int sh_async_read_real(struct sh_async *async, struct ibv_async_event *event);

/*
 * push: the application shall read this event. read_from_real: it came from sh_async_read_real();
 * false: SHIFT made it, and its acknowledgement is not handed to libibverbs. -ENOSPC: too many
 * unread, or no memory (dropped; acknowledged if it was real).
 *
 * drop, hide: mask an event that came from sh_async_read_real(). drop: the application does not
 * have its object any more, or never had; hide: it has, and libibverbs' count of
 * acknowledgements, which it can see, stays as it is until the end.
 */
int sh_async_push(struct sh_async *async, const struct ibv_async_event *event, bool read_from_real);
void sh_async_drop(struct sh_async *async, const struct ibv_async_event *event);
void sh_async_hide(struct sh_async *async, const struct ibv_async_event *event);

/*
 * Stand around the real destroy of a CQ, QP, SRQ or WQ: its unread events are taken back, and
 * those that are still to come from the kernel are dropped. The real destroy waits for what the
 * application has read and not acknowledged, as on stock. async may be NULL. lives: it was not
 * destroyed.
 */
void sh_async_forget_begin(struct sh_async *async, const void *object);
void sh_async_forget_end(struct sh_async *async, const void *object, bool lives);

#endif
