/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reader of events with a real-time priority waits for a thread that was preempted while it armed,
 * on the same core: it must not keep that thread from running. (The kernel gives others a twentieth
 * of each second; spinning until then costs most of a second of CPU time.)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "providers/mlx5/cq.h"

#define SKIPPED	      77
#define MOST_CPU_NS   (200 * 1000 * 1000)
#define ARMING_ROUNDS 20 /* of a millisecond: preempted for so long */

static struct sp_cq *cq;
static _Atomic int ready;
static uint64_t spent_ns;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void on_first_core(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}

static void *wait_for_armers(void *arg)
{
	uint64_t before;

	on_first_core();
	ready = 1;
	before = cpu_ns();
	ring_cq_wait_armers(cq);
	spent_ns = cpu_ns() - before;
	return NULL;
}

static int reader_start(pthread_t *thread)
{
	struct sched_param urgent = { .sched_priority = 10 };
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &urgent);
	err = pthread_create(thread, &attr, wait_for_armers, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

int main(void)
{
	pthread_t reader;
	int err;

	cq = aligned_alloc(64, (sizeof(*cq) + 63) & ~63ul);
	if (!cq)
		return 1;
	memset(cq, 0, sizeof(*cq));
	on_first_core();
	atomic_fetch_add(&cq->armings[RING_ARMED_ANY].count, RING_ARMER);
	err = reader_start(&reader);
	if (err) {
		printf("skipped: no real-time priority here: %s\n", strerror(err));
		return SKIPPED;
	}
	while (!ready)
		usleep(1000);
	for (int i = 0; i < ARMING_ROUNDS; i++)
		usleep(1000);
	atomic_fetch_sub(&cq->armings[RING_ARMED_ANY].count, RING_ARMER);
	pthread_join(reader, NULL);
	printf("the reader took %llu us of CPU time\n", (unsigned long long)(spent_ns / 1000));
	free(cq);
	return spent_ns < MOST_CPU_NS ? 0 : 1;
}
