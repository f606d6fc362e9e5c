/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verify: an application over plain verbs that checks every byte, completion and counter that it
 * is owed. It knows nothing of SHIFT: what it accepts is what RC promises to any application.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include "lane.h"
#include "options.h"
#include "qp.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct verify {
	struct options opt;
	int sock;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct vqp qps[MAX_QPS];
	struct lane lanes[MAX_LANES];
	int nlanes;
	uint64_t start_ns;
	uint64_t stop_ns;
	uint64_t idle_from_ns, idle_to_ns;
	_Atomic bool paused;
	_Atomic bool stopping;
	_Atomic uint64_t async_events;
	uint64_t teardown_errors;
};
extern struct verify *verify_instance;

/* Direction 0: client to server. */
static inline int dir_tx(void)
{
	return verify_instance->opt.server ? 1 : 0;
}

static inline int dir_rx(void)
{
	return !dir_tx();
}

#endif
