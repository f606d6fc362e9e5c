/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The object that an asynchronous event names, and where libibverbs counts its acknowledgements. */
#ifndef SHIFTLIB_FACADE_EVENT_ABOUT_H
#define SHIFTLIB_FACADE_EVENT_ABOUT_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "shiftlib/base/util.h"

struct sh_event_about {
	/* NULL: a port, the device, or a type newer than this release; nobody counts these. */
	const void *object;
	struct ibv_context *context;
	pthread_mutex_t *mutex; /* held while libibverbs counts */
	uint32_t *completed;	/* number of events that were acknowledged */
};

struct sh_event_about sh_event_about(const struct ibv_async_event *event);

#endif
