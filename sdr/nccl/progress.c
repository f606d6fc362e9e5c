/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The plugin's own thread. NCCL moves a connection only while requests wait in it, yet the other
 * end may need an answer later. The thread lives as long as there are connections: NCCL may unload
 * the plugin after that.
 */
#include "comm.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define NAP_NS	250000ull  /* while connections have work */
#define REST_NS 4000000ull /* while none has */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* guards the thread's begin and end */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct plug_comm *comms;
static pthread_t thread;
static _Atomic bool stops;

static bool tend_all(void)
{
	uint64_t now = plug_now();
	bool busy = false;

	pthread_mutex_lock(&lock);
	for (struct plug_comm *c = comms; c; c = c->next)
		busy |= plug_comm_tend(c, now);
	pthread_mutex_unlock(&lock);
	return busy;
}

static void *run(void *arg)
{
	struct timespec nap = { 0 };

	while (!atomic_load(&stops)) {
		nap.tv_nsec = (long)(tend_all() ? NAP_NS : REST_NS);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* Signals are for the program's own threads. */
static int begin(void)
{
	sigset_t all, before;
	int err;

	atomic_store(&stops, false);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int plug_progress_add(struct plug_comm *c)
{
	int err = 0;

	pthread_mutex_lock(&life);
	if (!comms)
		err = begin();
	if (!err) {
		pthread_mutex_lock(&lock);
		c->next = comms;
		comms = c;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_unlock(&life);
	return err;
}

void plug_progress_remove(struct plug_comm *c)
{
	struct plug_comm **link = &comms;

	pthread_mutex_lock(&life);
	pthread_mutex_lock(&lock);
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	pthread_mutex_unlock(&lock);
	if (!comms) {
		atomic_store(&stops, true);
		pthread_join(thread, NULL);
	}
	pthread_mutex_unlock(&life);
}
