/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A worker: a thread per NIC for verbs that may block. A command on a sick NIC can hang for a
 * minute, and only that NIC's worker may wait for it.
 */
#ifndef SHIFTLIB_WORKER_H
#define SHIFTLIB_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#define SH_WORKER_NAP_NS 1000000ull

struct sh_worker;

/*
 * The caller's memory, from submit until done() was called; done() may free or submit it again.
 * Each job's done() is called exactly once, but for a job that hangs in a worker that was left
 * behind (sh_worker_stop): what such a job points to must live for ever.
 */
struct sh_job {
	void (*fn)(struct sh_job *job);	  /* run on the worker; may block */
	void (*done)(struct sh_job *job); /* run on the worker after fn; NULL: nothing to do */
	bool urgent; /* before all that are not; first come first served each */
	/*
	 * A patient job may wait SH_WORKER_NAP_NS, so that a thread that gives many of them away
	 * one by one does not wake the worker, by a system call of its own, for each; and for an
	 * urgent job that may come meanwhile. Among those that are not urgent it keeps its place.
	 */
	bool patient;
	bool canceled;	     /* out: fn was not run, as the worker is stopping */
	struct sh_job *next; /* the worker's */
};

/* No thread yet: it comes with the first job, all signals blocked. NULL: out of memory. */
struct sh_worker *sh_worker_start(const char *name);

/*
 * Any thread, also from fn and done. 0; -ESHUTDOWN: stopping; -EAGAIN: no thread could be made. On
 * an error the job stays the caller's, and done() is not called.
 */
int sh_worker_submit(struct sh_worker *worker, struct sh_job *job);

/* False: it has begun, or is done. True: it never will, and is the caller's again, not done(). */
bool sh_worker_withdraw(struct sh_worker *worker, struct sh_job *job);

/* Somebody waits for jobs that were patient. Any thread. */
void sh_worker_hurry(struct sh_worker *worker);

/* Nothing is queued behind the present job. Any thread. */
bool sh_worker_empty(struct sh_worker *worker);

/*
 * Returns since when the worker's present command is under way (sh_now_ns clock); 0: none is. A
 * job's fn() counts as one; where it gives several, or done() gives some, it says so. Any thread,
 * no lock.
 */
uint64_t sh_worker_busy_since_ns(const struct sh_worker *worker);
/* When the fn() of a job returned last; 0: none has. Any thread, no lock. */
uint64_t sh_worker_returned_ns(const struct sh_worker *worker);

/*
 * Say, on a worker in a job, that a command begins now, or has returned. They do nothing in other
 * threads.
 */
void sh_worker_command_begin(void);
void sh_worker_command_end(void);

/*
 * Runs what is queued, then ends and frees the worker: 0. If that takes longer than timeout_ns,
 * the queued jobs are canceled on this thread (done() with canceled set), and the thread is left
 * behind: -ETIMEDOUT. Should its command ever return, it ends without calling done(), unless it
 * was in done() already. Not from the worker itself. Either way the worker must not be used
 * again.
 */
int sh_worker_stop(struct sh_worker *worker, uint64_t timeout_ns);

#endif
