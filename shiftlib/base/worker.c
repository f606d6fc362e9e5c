/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/base/apart.h"
#include "shiftlib/base/crash.h"
#include "shiftlib/base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"

struct job_queue {
	struct sh_job *first, **last;
};

enum worker_state {
	WORKER_RUNNING,
	WORKER_STOPPING, /* no new jobs; the queued ones are run */
	WORKER_LEFT,	 /* the thread owns the struct and frees it */
};

struct sh_worker {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job came, or the state changed */
	pthread_cond_t ended;	/* has_thread became false */
	/* guarded by lock: */
	enum worker_state state;
	bool has_thread;
	bool napping; /* looking by itself soon: a patient job need not wake it */
	struct job_queue urgent, background;
	struct job_queue patient; /* jobs behind those in the background, once it has napped */
	pthread_t thread;
	char name[16];
	/* Written by the thread, read by any. */
	_Atomic uint64_t busy_since_ns, returned_ns;
};

static void queue_init(struct job_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void queue_put(struct job_queue *queue, struct sh_job *job)
{
	job->next = NULL;
	*queue->last = job;
	queue->last = &job->next;
}

static struct sh_job *queue_take(struct job_queue *queue)
{
	struct sh_job *job = queue->first;

	if (job) {
		queue->first = job->next;
		if (!queue->first)
			queue->last = &queue->first;
	}
	return job;
}

static void queue_append(struct job_queue *queue, struct job_queue *from)
{
	if (!from->first)
		return;
	*queue->last = from->first;
	queue->last = from->last;
	queue_init(from);
}

static bool queue_remove(struct job_queue *queue, const struct sh_job *job)
{
	struct sh_job **at = &queue->first;

	while (*at && *at != job)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = job->next;
	if (!*at)
		queue->last = at;
	return true;
}

static struct sh_job *worker_take_locked(struct sh_worker *worker)
{
	struct sh_job *job = queue_take(&worker->urgent);

	return job ? job : queue_take(&worker->background);
}

struct sh_worker *sh_worker_start(const char *name)
{
	struct sh_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	if (pthread_mutex_init(&worker->lock, NULL))
		goto free_worker;
	if (sh_cond_init(&worker->changed))
		goto destroy_lock;
	if (sh_cond_init(&worker->ended))
		goto destroy_changed;
	queue_init(&worker->urgent);
	queue_init(&worker->background);
	queue_init(&worker->patient);
	snprintf(worker->name, sizeof(worker->name), "%s", name);
	return worker;

destroy_changed:
	pthread_cond_destroy(&worker->changed);
destroy_lock:
	pthread_mutex_destroy(&worker->lock);
free_worker:
	free(worker);
	return NULL;
}

static void worker_free(struct sh_worker *worker)
{
	pthread_cond_destroy(&worker->ended);
	pthread_cond_destroy(&worker->changed);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

static void worker_nap_locked(struct sh_worker *worker)
{
	struct timespec until = sh_until(SH_WORKER_NAP_NS);
	int ret = 0;

	worker->napping = true;
	while (!ret && worker->napping && worker->state == WORKER_RUNNING)
		ret = pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
	worker->napping = false;
}

#define REST_NS (100 * SH_NS_PER_MS) /* a thread that slept for so long is an idle process's */

/* What the thread has just run: a job that patient ones are likely to follow, or a lone one. */
enum worker_ran { RAN_NONE, RAN_LONE, RAN_BUSY };

static void worker_sleep_locked(struct sh_worker *worker, bool *rested)
{
	uint64_t since = sh_now_ns();

	pthread_cond_wait(&worker->changed, &worker->lock);
	*rested |= sh_now_ns() - since >= REST_NS;
}

/*
 * Returns the next job; NULL: the thread shall end. Patient jobs do not follow another at once,
 * even if they are there: an application that destroys things in turns sends an urgent one next,
 * which would wait for them. Behind a lone job the thread sleeps without a nap, whose end would
 * wake it for nothing. *rested: it has slept for long before this job.
 */
static struct sh_job *worker_wait(struct sh_worker *worker, enum worker_ran ran, bool *rested)
{
	struct sh_job *job;
	bool nap;

	*rested = false;
	pthread_mutex_lock(&worker->lock);
	nap = ran == RAN_BUSY || (ran == RAN_LONE && worker->patient.first);
	while (!(job = worker_take_locked(worker))) {
		if (nap)
			worker_nap_locked(worker);
		else if (worker->state == WORKER_RUNNING && !worker->patient.first)
			worker_sleep_locked(worker, rested);
		else if (!worker->patient.first)
			break;
		queue_append(&worker->background, &worker->patient);
		nap = false;
	}
	pthread_mutex_unlock(&worker->lock);
	return job;
}

static bool worker_left(struct sh_worker *worker)
{
	bool left;

	pthread_mutex_lock(&worker->lock);
	left = worker->state == WORKER_LEFT;
	pthread_mutex_unlock(&worker->lock);
	return left;
}

static _Thread_local struct sh_worker *worker_self;

static void worker_clock(struct sh_worker *worker, uint64_t since_ns)
{
	if (worker)
		atomic_store_explicit(&worker->busy_since_ns, since_ns, memory_order_relaxed);
}

void sh_worker_command_begin(void)
{
	worker_clock(worker_self, sh_now_ns());
}

void sh_worker_command_end(void)
{
	worker_clock(worker_self, 0);
}

/* A job without done() is its owner's again when fn() says so: it may be in line anew by now. */
static void worker_run(struct sh_worker *worker, struct sh_job *job)
{
	void (*done)(struct sh_job * job) = job->done;
	bool urgent = job->urgent;

	if (!urgent)
		sh_thread_ordinary();
	sh_worker_command_begin();
	job->fn(job);
	sh_worker_command_end();
	atomic_store_explicit(&worker->returned_ns, sh_now_ns(), memory_order_relaxed);
	if (!urgent)
		sh_thread_urgent();
	if (!worker_left(worker) && done)
		done(job);
	sh_worker_command_end();
}

static void worker_end(struct sh_worker *worker)
{
	bool left;

	pthread_mutex_lock(&worker->lock);
	left = worker->state == WORKER_LEFT;
	worker->has_thread = false;
	pthread_cond_signal(&worker->ended);
	pthread_mutex_unlock(&worker->lock);
	if (left)
		worker_free(worker);
}

static void *worker_main(void *arg)
{
	struct sh_worker *worker = arg;
	enum worker_ran ran = RAN_NONE;
	bool rested, lone;
	struct sh_job *job;

	worker_self = worker;
	pthread_setname_np(pthread_self(), worker->name);
	sh_apart_thread();
	sh_crash_thread_begin();
	sh_thread_urgent();
	while ((job = worker_wait(worker, ran, &rested))) {
		lone = rested && !job->patient;
		worker_run(worker, job);
		ran = lone ? RAN_LONE : RAN_BUSY;
	}
	sh_crash_thread_end();
	worker_end(worker);
	return NULL;
}

static int worker_create_thread_locked(struct sh_worker *worker)
{
	int ret = sh_thread_create(&worker->thread, worker_main, worker);

	worker->has_thread = !ret;
	return ret ? -EAGAIN : 0;
}

static void worker_put_locked(struct sh_worker *worker, struct sh_job *job)
{
	if (job->urgent) {
		queue_put(&worker->urgent, job);
	} else if (job->patient) {
		queue_put(&worker->patient, job);
	} else {
		queue_append(&worker->background, &worker->patient);
		queue_put(&worker->background, job);
	}
}

/* The thread is woken without the lock, which it needs at once. */
int sh_worker_submit(struct sh_worker *worker, struct sh_job *job)
{
	bool wake = false;
	int ret = 0;

	pthread_mutex_lock(&worker->lock);
	if (worker->state != WORKER_RUNNING)
		ret = -ESHUTDOWN;
	else if (!worker->has_thread)
		ret = worker_create_thread_locked(worker);
	if (!ret) {
		job->canceled = false;
		worker_put_locked(worker, job);
		wake = !job->patient || !worker->napping;
		worker->napping &= !wake;
	}
	pthread_mutex_unlock(&worker->lock);
	if (wake)
		pthread_cond_signal(&worker->changed);
	return ret;
}

bool sh_worker_withdraw(struct sh_worker *worker, struct sh_job *job)
{
	bool found;

	pthread_mutex_lock(&worker->lock);
	found = queue_remove(&worker->urgent, job) || queue_remove(&worker->background, job) ||
		queue_remove(&worker->patient, job);
	pthread_mutex_unlock(&worker->lock);
	return found;
}

void sh_worker_hurry(struct sh_worker *worker)
{
	bool wake;

	pthread_mutex_lock(&worker->lock);
	queue_append(&worker->background, &worker->patient);
	wake = worker->napping && worker->background.first;
	worker->napping &= !wake;
	pthread_mutex_unlock(&worker->lock);
	if (wake)
		pthread_cond_signal(&worker->changed);
}

bool sh_worker_empty(struct sh_worker *worker)
{
	bool empty;

	pthread_mutex_lock(&worker->lock);
	empty = !worker->urgent.first && !worker->background.first && !worker->patient.first;
	pthread_mutex_unlock(&worker->lock);
	return empty;
}

uint64_t sh_worker_busy_since_ns(const struct sh_worker *worker)
{
	return atomic_load_explicit(&worker->busy_since_ns, memory_order_relaxed);
}

uint64_t sh_worker_returned_ns(const struct sh_worker *worker)
{
	return atomic_load_explicit(&worker->returned_ns, memory_order_relaxed);
}

static bool worker_wait_end_locked(struct sh_worker *worker, uint64_t timeout_ns)
{
	struct timespec until = sh_until(timeout_ns);
	int ret = 0;

	while (worker->has_thread && !ret)
		ret = pthread_cond_timedwait(&worker->ended, &worker->lock, &until);
	return !worker->has_thread;
}

static void jobs_cancel(struct sh_job *job)
{
	struct sh_job *next;

	for (; job; job = next) {
		next = job->next;
		job->canceled = true;
		if (job->done)
			job->done(job);
	}
}

/* The thread may free the worker as soon as the lock is free: take all from it before. */
static int worker_leave_locked(struct sh_worker *worker)
{
	struct sh_job *urgent = worker->urgent.first, *background;

	queue_append(&worker->background, &worker->patient);
	background = worker->background.first;
	queue_init(&worker->urgent);
	queue_init(&worker->background);
	worker->state = WORKER_LEFT;
	pthread_detach(worker->thread);
	pthread_mutex_unlock(&worker->lock);
	jobs_cancel(urgent);
	jobs_cancel(background);
	return -ETIMEDOUT;
}

int sh_worker_stop(struct sh_worker *worker, uint64_t timeout_ns)
{
	bool had_thread;

	pthread_mutex_lock(&worker->lock);
	worker->state = WORKER_STOPPING;
	had_thread = worker->has_thread;
	pthread_cond_signal(&worker->changed);
	if (!worker_wait_end_locked(worker, timeout_ns))
		return worker_leave_locked(worker);
	pthread_mutex_unlock(&worker->lock);
	if (had_thread)
		pthread_join(worker->thread, NULL);
	worker_free(worker);
	return 0;
}
