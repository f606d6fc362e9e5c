/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process and its one background thread: what it waits for (file descriptors, timers, a
 * kick), the lock, and objects that jobs hold.
 *
 * Verbs that may block run without the lock, on the worker of their NIC (worker.h). An object with
 * a job under way has jobs > 0, and is not freed before that is 0 (sh_wait_idle).
 */
#ifndef SHIFTLIB_LOOP_H
#define SHIFTLIB_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/config.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/lock.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/shift.h"

/* A callback of the background thread, lock held, for a readable fd. */
struct sh_handler {
	void (*readable)(void *arg);
	void *arg;
};

/* Something that a worker's job may hold on to. Embedded first. */
struct sh_busy {
	uint32_t jobs;
};

/*
 * A part of shiftlib that the background thread serves. Each call has the lock held; NULL: there
 * is nothing to do. The order of a round: the handlers of fds, then `heard` of all modules, then
 * `run` of all; before the thread sleeps, `next_timer` and then `before_sleep`.
 */
struct sh_module {
	const char *name;
	/*
	 * Begins anew: at the start, and in the child of a fork, where nothing of the parent
	 * counts. No lock.
	 */
	void (*reset)(void);
	void (*started)(void); /* the thread is there */
	/* The handlers have run: no event that was read can name what was closed before. */
	void (*heard)(void);
	void (*run)(uint64_t now);
	uint64_t (*next_timer)(void); /* run is due then; 0: never */
	void (*before_sleep)(void);
	/* A thread begins to wait for jobs, which may hang with their NIC. */
	void (*waits)(void);
};

/* The state that every part needs of the process. */
struct sh_process {
	pthread_cond_t idle; /* some busy.jobs became 0 */
	/*
	 * The lock around the distribution's list of devices, whose own lock a child must not
	 * inherit from one of our threads. Taken behind sh_lock().
	 */
	pthread_mutex_t devices_lock;
	const struct shift_real *real;
	struct sh_config config;
	bool enabled;
	_Atomic bool stopping; /* workers ask without the lock */
	uint64_t instance;
};

extern struct sh_process sh;

/*
 * Called once, before any thread, with the modules in the order in which they run. The array
 * lives as long as the process.
 */
void sh_loop_register(const struct sh_module *const *modules, uint32_t n);
void sh_loop_reset(void);     /* the loop itself, and all modules: see sh_module.reset */
int sh_start(void) SH_LOCKED; /* starts the background thread at first use */
/*
 * Ends the thread, at exit, with sh.stopping set; lock not held. Waits for it, timeout_ns at
 * most.
 */
void sh_loop_end(uint64_t timeout_ns);

void sh_kick(void); /* makes the background thread look at its timers again */
/*
 * The thread looks at this time at the latest (0: never). The caller sets the alarm: to wake the
 * thread only for that costs both of them more.
 */
void sh_wake_at(uint64_t at) SH_LOCKED;
bool sh_awake(void) SH_LOCKED; /* true: the thread arms its alarm anew before it sleeps */
#define SH_RARE_NS (4 * 1000000000ull)
/*
 * Returns the next beat of the process's slow clock, later than now: looks that need no time of
 * their own take place then, so that they wake the thread together. Not the same for all processes
 * of a host.
 */
uint64_t sh_rare_next(uint64_t now);
/*
 * Returns for how long the background thread has not done what is due: it was kicked, its alarm
 * rang, or it has been in one round since then. Any thread, no lock.
 */
uint64_t sh_loop_late_ns(uint64_t now);
uint64_t sh_loop_rounds(void);			  /* number of rounds ended; any thread, no lock */
void sh_wait_idle(struct sh_busy *busy) SH_DROPS; /* waits until no job holds the object */
/* Somebody waits for those that hold it. */
void sh_jobs_hurry(const struct sh_busy *busy) SH_LOCKED;
/* Waits until some job has left its object, or for so long. */
void sh_wait_some(uint64_t ns) SH_DROPS;
void sh_job_begin(struct sh_busy *busy) SH_LOCKED;
void sh_job_end(struct sh_busy *busy) SH_LOCKED;
/* Take and release the lock in a job that is not urgent: whoever waits for the lock is. */
void sh_job_lock(void) SH_ACQUIRES;
void sh_job_unlock(void) SH_RELEASES;
int sh_loop_add(int fd, struct sh_handler *handler); /* waits for EPOLLIN */
int sh_loop_wait_output(int fd, struct sh_handler *handler);
void sh_loop_remove(int fd);
#define SH_LOOP_WORKERS 96
/* Workers whose jobs hold objects, so that sh_wait_idle() can hurry them: so many at most. */
void sh_loop_worker(struct sh_worker *worker) SH_LOCKED;

#endif
