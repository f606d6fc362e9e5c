/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way of an event from the device's file to libibverbs, which reads it at context->async_fd
 * and shows it to the provider. The application may look at that field at any time. If it found
 * the device's file there, it would wait where SHIFT takes all events away. So SHIFT reads the
 * event, and libibverbs finds it in a pipe. The pipe is readable while the facade is: an
 * application that takes the pipe for its descriptor of events misses nothing.
 */
#ifndef SHIFTLIB_FACADE_ASYNC_HAND_H
#define SHIFTLIB_FACADE_ASYNC_HAND_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct sh_async_hand {
	int out, in;   /* ends of the pipe: libibverbs reads, SHIFT writes */
	bool readable; /* true while the facade is */
};

/* 0 or -errno. All of these under one lock of the caller's. */
int sh_hand_open(struct sh_async_hand *hand);
void sh_hand_close(struct sh_async_hand *hand);
void sh_hand_show(struct sh_async_hand *hand, bool readable);
/*
 * Reads one event from real_fd, and hands it to `get`, libibverbs' ibv_get_async_event(), with
 * async_fd of the context set to the pipe meanwhile. 0, or -errno: -EAGAIN if real_fd, which does
 * not block, has none.
 */
int sh_hand_read(struct sh_async_hand *hand, struct ibv_context *context, int real_fd,
		 int (*get)(struct ibv_context *context, struct ibv_async_event *event),
		 struct ibv_async_event *event);

#endif
