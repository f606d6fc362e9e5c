/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The background thread: what wakes it up, and the rounds that it goes. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "shiftlib/base/crash.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/base/fd.h"
#include "shiftlib/base/thread.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/starved.h"

#define LOOP_EVENTS 32
#define LOOP_AWAKE  1 /* no timer is earlier */

struct sh_process sh = {
	.devices_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
};

static struct {
	const struct sh_module *const *modules;
	uint32_t n_modules;
	struct sh_worker *workers[SH_LOOP_WORKERS];
	uint32_t n_workers;
	bool started;
	pthread_t thread;
	int epoll_fd, mail_fd, timer_fd;
	/*
	 * Time that the thread sleeps until. LOOP_AWAKE: it is awake, and arms anew before it
	 * sleeps. Written under the lock, as the next two.
	 */
	_Atomic uint64_t armed_at;
	_Atomic uint64_t awake_at; /* time since which it has been awake; 0: it sleeps */
	_Atomic uint64_t rounds;   /* number of rounds ended */
	uint64_t slept_at;	   /* time at which it fell asleep */
	_Atomic bool kicked;	   /* mail_fd was written to, and the thread has not looked since */
	_Atomic uint64_t kicked_at; /* when `kicked` was set */
} loop = { .epoll_fd = -1, .mail_fd = -1, .timer_fd = -1 };

/* ---- objects that jobs hold ----------------------------------------------------------------- */

void sh_job_begin(struct sh_busy *busy)
{
	sh_lock_assert_held();
	busy->jobs++;
}

void sh_job_end(struct sh_busy *busy)
{
	sh_lock_assert_held();
	if (!--busy->jobs)
		pthread_cond_broadcast(&sh.idle);
}

void sh_job_lock(void)
{
	sh_thread_urgent();
	sh_lock();
}

void sh_job_unlock(void)
{
	sh_unlock();
	sh_thread_ordinary();
}

void sh_loop_worker(struct sh_worker *worker)
{
	assert(loop.n_workers < SH_LOOP_WORKERS);
	loop.workers[loop.n_workers++] = worker;
}

void sh_jobs_hurry(const struct sh_busy *busy)
{
	uint32_t i;

	sh_lock_assert_held();
	for (i = 0; busy->jobs && i < loop.n_workers; i++)
		sh_worker_hurry(loop.workers[i]);
}

static void loop_waits(void)
{
	uint32_t i;

	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->waits)
			loop.modules[i]->waits();
}

void sh_wait_idle(struct sh_busy *busy)
{
	sh_jobs_hurry(busy);
	if (busy->jobs)
		loop_waits();
	while (busy->jobs)
		sh_lock_wait(&sh.idle);
}

void sh_wait_some(uint64_t ns)
{
	struct timespec until = sh_until(ns);

	loop_waits();
	sh_lock_wait_until(&sh.idle, &until);
}

/* ---- waking the thread ---------------------------------------------------------------------- */

/*
 * Async-signal-safe. Also called on the data path (errors only), with the engine's locks held:
 * not a cancellation point. One write serves many kicks. The thread clears the mark before it
 * looks, and both are read-modify-writes, so that look sees what came before a kick that found
 * the mark set.
 */
void sh_kick(void)
{
	if (loop.mail_fd < 0 || atomic_exchange_explicit(&loop.kicked, true, memory_order_acq_rel))
		return;
	atomic_store(&loop.kicked_at, sh_now_ns());
	if (sh_fd_give(loop.mail_fd, 1) < 0 && errno != EAGAIN)
		return; /* nothing better to do: the timer of the error check still comes */
}

int sh_loop_add(int fd, struct sh_handler *handler)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = handler };

	return epoll_ctl(loop.epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int sh_loop_wait_output(int fd, struct sh_handler *handler)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = handler };

	return epoll_ctl(loop.epoll_fd, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
}

void sh_loop_remove(int fd)
{
	epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void loop_arm_at(uint64_t at)
{
	struct itimerspec spec = {
		.it_value = { .tv_sec = (time_t)(at / SH_NS_PER_S),
			      .tv_nsec = (long)(at % SH_NS_PER_S) },
	};

	loop.armed_at = at;
	timerfd_settime(loop.timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void sh_wake_at(uint64_t at)
{
	sh_lock_assert_held();
	if (at && !sh_awake() && (!loop.armed_at || at < loop.armed_at))
		loop_arm_at(at);
}

bool sh_awake(void)
{
	return loop.armed_at == LOOP_AWAKE;
}

uint64_t sh_rare_next(uint64_t now)
{
	uint64_t phase = sh.instance % SH_RARE_NS;

	return (now + phase) / SH_RARE_NS * SH_RARE_NS + SH_RARE_NS - phase;
}

/* ---- is the thread late? -------------------------------------------------------------------- */

static uint64_t loop_since(uint64_t at, uint64_t now)
{
	return at && at != LOOP_AWAKE && at < now ? now - at : 0;
}

uint64_t sh_loop_late_ns(uint64_t now)
{
	uint64_t kicked =
		atomic_load(&loop.kicked) ? loop_since(atomic_load(&loop.kicked_at), now) : 0;
	uint64_t awake = loop_since(atomic_load(&loop.awake_at), now);
	uint64_t rang = loop_since(atomic_load(&loop.armed_at), now);
	uint64_t most = kicked > awake ? kicked : awake;

	return most > rang ? most : rang;
}

uint64_t sh_loop_rounds(void)
{
	return atomic_load(&loop.rounds);
}

/* ---- a round -------------------------------------------------------------------------------- */

static uint64_t loop_next_timer(void)
{
	uint64_t at = 0;
	uint32_t i;

	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->next_timer)
			at = sh_earlier_ns(at, loop.modules[i]->next_timer());
	return at;
}

static void loop_heard(void)
{
	uint32_t i;

	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->heard)
			loop.modules[i]->heard();
}

static void loop_run(void)
{
	uint64_t now = sh_now_ns();
	uint32_t i;

	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->run)
			loop.modules[i]->run(now);
}

static void loop_before_sleep(void)
{
	uint32_t i;

	loop_arm_at(loop_next_timer());
	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->before_sleep)
			loop.modules[i]->before_sleep();
	loop.slept_at = sh_now_ns();
	atomic_fetch_add(&loop.rounds, 1);
	atomic_store(&loop.awake_at, 0);
}

static void loop_read_counter(void *fd)
{
	uint64_t count;

	if (fd == &loop.mail_fd)
		atomic_exchange_explicit(&loop.kicked, false, memory_order_acq_rel);
	while (read(*(int *)fd, &count, sizeof(count)) > 0)
		;
}

static struct sh_handler loop_mail_handler = { loop_read_counter, &loop.mail_fd };
static struct sh_handler loop_timer_handler = { loop_read_counter, &loop.timer_fd };

static void loop_note_late(uint64_t now) SH_LOCKED
{
	if (loop.armed_at && loop.armed_at != LOOP_AWAKE && now > loop.armed_at)
		sh_starved_note(loop.slept_at, loop.armed_at, now);
}

static void loop_wake(uint64_t now) SH_LOCKED
{
	loop_note_late(now);
	atomic_store(&loop.awake_at, now);
	loop.armed_at = LOOP_AWAKE;
}

static void *loop_main(void *arg)
{
	struct epoll_event events[LOOP_EVENTS];
	int i, n;

	(void)arg;
	sh.real->thread_inside();
	sh_crash_thread_begin();
	sh_thread_urgent();
	sh_lock();
	while (!sh.stopping) {
		loop_before_sleep();
		sh_unlock();
		sh_thread_fair();
		n = epoll_wait(loop.epoll_fd, events, LOOP_EVENTS, -1);
		sh_lock();
		loop_wake(sh_now_ns());
		for (i = 0; i < n; i++) {
			struct sh_handler *handler = events[i].data.ptr;

			handler->readable(handler->arg);
		}
		loop_heard();
		loop_run();
	}
	loop_heard(); /* results that workers left before they could see sh.stopping */
	sh_unlock();
	sh_crash_thread_end();
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void loop_close_fds(void)
{
	if (loop.epoll_fd >= 0)
		close(loop.epoll_fd);
	if (loop.mail_fd >= 0)
		close(loop.mail_fd);
	if (loop.timer_fd >= 0)
		close(loop.timer_fd);
	loop.epoll_fd = loop.mail_fd = loop.timer_fd = -1;
}

static int loop_open_fds(void)
{
	loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop.mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop.epoll_fd < 0 || loop.mail_fd < 0 || loop.timer_fd < 0)
		return -errno;
	sh_aside((int *[]){ &loop.epoll_fd, &loop.mail_fd, &loop.timer_fd }, 3);
	if (sh_loop_add(loop.mail_fd, &loop_mail_handler) ||
	    sh_loop_add(loop.timer_fd, &loop_timer_handler))
		return -errno;
	return 0;
}

static int loop_thread_start(void)
{
	int ret;

	sh_crash_install(sh.config.crash_note);
	ret = sh_thread_create(&loop.thread, loop_main, NULL);
	if (!ret)
		pthread_setname_np(loop.thread, "shift");
	return -ret;
}

int sh_start(void)
{
	uint32_t i;
	int ret;

	if (loop.started)
		return 0;
	ret = loop_open_fds();
	if (!ret)
		ret = loop_thread_start();
	if (ret) {
		loop_close_fds();
		sh_error_once("no background thread (%s): the job runs without protection",
			      strerror(-ret));
		return ret;
	}
	loop.started = true;
	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->started)
			loop.modules[i]->started();
	return 0;
}

void sh_loop_register(const struct sh_module *const *modules, uint32_t n)
{
	loop.modules = modules;
	loop.n_modules = n;
}

void sh_loop_reset(void)
{
	uint32_t i;

	loop_close_fds(); /* the parent's fds, in the child of a fork */
	sh_cond_init(&sh.idle);
	loop.n_workers = 0;
	loop.started = false;
	loop.armed_at = loop.slept_at = 0;
	atomic_store(&loop.awake_at, 0);
	atomic_store(&loop.kicked_at, 0);
	sh_starved_reset();
	atomic_store(&loop.kicked, false);
	for (i = 0; i < loop.n_modules; i++)
		if (loop.modules[i]->reset)
			loop.modules[i]->reset();
}

void sh_loop_end(uint64_t timeout_ns)
{
	if (!loop.started)
		return;
	sh_kick();
	(void)sh_join_within(loop.thread, timeout_ns);
}
