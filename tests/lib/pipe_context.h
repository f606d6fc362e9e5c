/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Verbs over pipes, for the tests of the facades: real fds that block, poll and fail as a device's
 * do, and acknowledgements counted as libibverbs counts them.
 */
#ifndef TESTS_LIB_PIPE_CONTEXT_H
#define TESTS_LIB_PIPE_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "shiftlib/shift.h"

/* ASan takes the frames that a cancelled thread left without returning for live ones. */
#ifdef __SANITIZE_ADDRESS__
#define CANCEL_UNTESTABLE true
#else
#define CANCEL_UNTESTABLE false
#endif

extern const struct shift_real pipe_verbs;

struct pipe_context {
	struct ibv_context ibv;
	int device_fd; /* the kernel's end of the asynchronous events */
	unsigned int asyncs_acked;
	int async_fd_seen; /* by the last call of libibverbs that took an asynchronous event */
};

void pipe_context_init(struct pipe_context *context);
void pipe_context_uninit(struct pipe_context *context);

/* The kernel's side: completion event of cq on a real channel; asynchronous event. */
void pipe_complete(struct ibv_comp_channel *real, struct ibv_cq *cq);
void pipe_device_gone(struct ibv_comp_channel *real);
void pipe_async(struct pipe_context *context, const struct ibv_async_event *event);

/* Each has a handle of its own. */
void pipe_cq_init(struct ibv_cq *cq, struct ibv_context *context, struct ibv_comp_channel *real,
		  void *cq_context);
void pipe_cq_uninit(struct ibv_cq *cq);
unsigned int pipe_cq_acked(struct ibv_cq *cq);
/* As ibv_destroy_cq does: returns when all events of it that were read are acknowledged. For a CQ
 * with n events in all, read or not; somebody reads. */
void pipe_cq_wait(struct ibv_cq *cq, unsigned int n);
/* Events that went through libibverbs' own call, which tells the provider. */
unsigned int pipe_events_read(void);

bool fd_readable(int fd);
void fd_nonblock(int fd);

/* A handler for SIGUSR1 that counts; flags as for sigaction(). */
void signal_count_install(int flags);
unsigned int signal_count(void);

#endif
