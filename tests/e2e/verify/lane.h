/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A lane is one thread with one CQ and the QPs on it. */
#ifndef VERIFY_LANE_H
#define VERIFY_LANE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct verify;
struct vqp;

enum { MAX_QPS = 32, MAX_LANES = 3 };

enum lane_kind { LANE_POLLED, LANE_BLOCKING, LANE_NONBLOCKING };

struct lane {
	int index;
	enum lane_kind kind;
	bool extended;
	struct verify *v;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cqx;
	struct vqp *qps[MAX_QPS];
	int nqps;
	unsigned int unacked;
	unsigned int idle_polls;
	pthread_t thread;
	_Atomic uint64_t progress;
	const char *_Atomic where; /* what the thread does: says where it hangs */
	_Atomic bool done;
	uint64_t events;
};

void *lane_run(void *arg);
bool lane_poll(struct lane *l);

#endif
