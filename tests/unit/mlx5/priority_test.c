/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reader of events with a real-time priority waits for a thread that was preempted while it armed,
 * on the same core: it must not keep that thread from running. (The kernel gives others a twentieth
 * of each second; who spins until then has the core for most of the time that it waits, however long others keep the
 * armer from it.)
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
#define MOST_PERCENT  75 /* of the time that it waits */
#define ARMING_ROUNDS 20 /* of a millisecond: preempted for so long */

static struct sp_cq *cq;
static _Atomic int ready;
static uint64_t spent_ns, waited_ns;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
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
	uint64_t cpu, wall;

	on_first_core();
	ready = 1;
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	ring_cq_wait_armers(cq);
	spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	waited_ns = clock_ns(CLOCK_MONOTONIC) - wall;
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
	printf("the reader took %llu us of CPU time in %llu us\n",
	       (unsigned long long)(spent_ns / 1000), (unsigned long long)(waited_ns / 1000));
	free(cq);
	return spent_ns * 100 < waited_ns * MOST_PERCENT ? 0 : 1;
}
