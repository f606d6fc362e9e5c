/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The background thread, its clock and its mailbox. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "shiftlib/base/crash.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/shell.h"
#include "shiftlib/base/thread.h"

#define SHELL_HANDS_PASSES 16 /* of the watch, for one look at whether a QP is still ours */
#define SHELL_EVENTS	   32
#define SHELL_AWAKE	   1 /* no timer is earlier */
#define SHELL_END_WAIT_S   1

struct sh_shell sh = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
	.devices_lock = PTHREAD_MUTEX_INITIALIZER,
	.epoll_fd = -1,
	.mail_fd = -1,
	.timer_fd = -1,
};

/* ---- objects that jobs hold ----------------------------------------------------------------- */

void sh_job_begin(struct sh_busy *busy)
{
	busy->jobs++;
}

void sh_job_end(struct sh_busy *busy)
{
	if (!--busy->jobs)
		pthread_cond_broadcast(&sh.idle);
}

void sh_job_lock(void)
{
	sh_thread_urgent();
	pthread_mutex_lock(&sh.lock);
}

void sh_job_unlock(void)
{
	pthread_mutex_unlock(&sh.lock);
	sh_thread_ordinary();
}

void sh_wait_idle(struct sh_busy *busy)
{
	uint32_t i;

	for (i = 0; busy->jobs && i < sh.n_nics; i++)
		if (sh.nics[i].worker)
			sh_worker_hurry(sh.nics[i].worker);
	while (busy->jobs)
		pthread_cond_wait(&sh.idle, &sh.lock);
}

/* ---- waking the thread ---------------------------------------------------------------------- */

/*
 * Async-signal-safe, called on the data path too (errors only). One write for many: the thread takes
 * the mark away before it looks, and both are read-modify-writes, so what came before a kick that
 * found the mark is seen by that look.
 */
void sh_kick(void)
{
	uint64_t one = 1;

	if (sh.mail_fd < 0 || atomic_exchange_explicit(&sh.kicked, true, memory_order_acq_rel))
		return;
	if (write(sh.mail_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return; /* nothing better to do: the watch timer still comes */
}

int sh_loop_add(int fd, struct sh_handler *handler)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = handler };

	return epoll_ctl(sh.epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void sh_loop_remove(int fd)
{
	epoll_ctl(sh.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void sh_mailbox_read(void)
{
	struct sh_qp *qp = atomic_exchange_explicit(&sh.mail, NULL, memory_order_acquire);

	sh_peers_hold();
	while (qp) {
		/* next before pending: with pending 0 the data path may push the QP again. */
		struct sh_qp *next = atomic_load_explicit(&qp->mail_next, memory_order_relaxed);
		uint32_t pending = atomic_exchange_explicit(&qp->pending, 0, memory_order_acq_rel);

		sh_conn_pending(qp, pending);
		qp = next;
	}
	sh_peers_release();
}

/* ---- timers --------------------------------------------------------------------------------- */

static uint64_t shell_next_timer(void)
{
	uint64_t at = sh_earlier_ns(sh_earlier_ns(sh.watch_at, sh.beat_at), sh_nics_next_timer());
	struct sh_peer *peer;

	at = sh_earlier_ns(at, sh_clock_next());
	list_for_each (&sh.peers, peer, struct sh_peer, link)
		at = sh_earlier_ns(at, sh_peer_next_timer(peer));
	at = sh_earlier_ns(at, sh_srq_next_timer());
	at = sh_earlier_ns(at, sh_incidents_next_timer());
	return sh_earlier_ns(at, sh_admin_next_timer());
}

static void shell_arm_at(uint64_t at)
{
	struct itimerspec spec = {
		.it_value = { .tv_sec = (time_t)(at / SH_NS_PER_S),
			      .tv_nsec = (long)(at % SH_NS_PER_S) },
	};

	sh.armed_at = at;
	timerfd_settime(sh.timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void shell_arm(void)
{
	shell_arm_at(shell_next_timer());
}

void sh_wake_at(uint64_t at)
{
	if (at && sh.armed_at != SHELL_AWAKE && (!sh.armed_at || at < sh.armed_at))
		shell_arm_at(at);
}

void sh_wake_for(struct sh_qp *qp)
{
	const struct sh_peer *peer = qp->peer;

	if (sh.armed_at == SHELL_AWAKE)
		return;
	/* Not by sh_clock_next(): the caller may change it again, and has touched it already. */
	sh_wake_at(sh_earlier_ns(sh_earlier_ns(sh.watch_at, sh.beat_at), sh_conn_next_timer(qp)));
	sh_wake_at(sh_srq_next_timer());
	if (peer)
		sh_wake_at(sh_peer_next_timer(peer));
}

/* An error lies in it: a connection that may move is there to be told, unless it is not ours. */
static void shell_collect_cq(struct sh_cq *cq)
{
	struct sh_qp *qp;

	list_for_each (&sh.qps, qp, struct sh_qp, link) {
		if (!qp->guarded || (qp->scq != cq && qp->rcq != cq) || sh_conn_hands_off(qp))
			continue;
		shift_provider_mlx5.cq_collect(cq->sp);
		return;
	}
}

static void shell_watch_cqs(void)
{
	struct sh_ctx *ctx;
	struct sh_cq *cq;

	list_for_each (&sh.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			if (cq->guarded && shift_provider_mlx5.cq_error_waiting(cq->sp))
				shell_collect_cq(cq);
}

/*
 * Error completions that no application thread comes to poll must be found all the same. And rings
 * that somebody else writes to, if only to say so: before each action it is looked for anyway.
 */
static void shell_watch(uint64_t now)
{
	uint32_t i;

	if (!sh.watch_at || sh.watch_at > now)
		return;
	for (i = sh.watch_pass++ % SHELL_HANDS_PASSES; i < sh.n_conns; i += SHELL_HANDS_PASSES)
		if (sh.conns[i] && sh.conns[i]->guarded)
			sh_conn_hands_off(sh.conns[i]);
	shell_watch_cqs();
	sh.watch_at = sh.guarded ? now + sh.config.watch_ns : 0;
}

static void shell_timers(void)
{
	uint64_t now = sh_now_ns();
	struct sh_peer *peer;

	shell_watch(now);
	sh_mailbox_read();
	sh_nics_timer(now);
	sh_detector_run(now);
	sh_srq_run(now);
	sh_clock_run(now);
	list_for_each (&sh.peers, peer, struct sh_peer, link)
		sh_peer_timer(peer, now);
	sh_peers_forget(now);
	sh_incidents_run(now);
	sh_admin_timer(now);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void loop_read_counter(void *fd)
{
	uint64_t count;

	if (fd == &sh.mail_fd)
		atomic_exchange_explicit(&sh.kicked, false, memory_order_acq_rel);
	while (read(*(int *)fd, &count, sizeof(count)) > 0)
		;
}

static struct sh_handler loop_mail_handler = { loop_read_counter, &sh.mail_fd };
static struct sh_handler loop_timer_handler = { loop_read_counter, &sh.timer_fd };

/*
 * A context closed between epoll_wait and the lock may still have its event in the array: closed
 * ones are freed here, when no event can name them any more.
 */
static void shell_bury(void)
{
	struct sh_ctx *ctx;

	list_for_each (&sh.dead_ctxs, ctx, struct sh_ctx, link) {
		list_del(&ctx->link);
		free(ctx);
	}
}

static void *shell_main(void *arg)
{
	struct epoll_event events[SHELL_EVENTS];
	int i, n;

	(void)arg;
	sh.real->thread_inside();
	sh_crash_thread_begin();
	sh_thread_urgent();
	pthread_mutex_lock(&sh.lock);
	while (!sh.stopping) {
		shell_arm();
		sh_peers_send_out();
		pthread_mutex_unlock(&sh.lock);
		sh_thread_fair();
		n = epoll_wait(sh.epoll_fd, events, SHELL_EVENTS, -1);
		pthread_mutex_lock(&sh.lock);
		sh.armed_at = SHELL_AWAKE;
		for (i = 0; i < n; i++) {
			struct sh_handler *handler = events[i].data.ptr;

			handler->readable(handler->arg);
		}
		shell_bury();
		sh_mailbox_read();
		shell_timers();
	}
	pthread_mutex_unlock(&sh.lock);
	sh_crash_thread_end();
	return NULL;
}

static void shell_close_fds(void)
{
	if (sh.epoll_fd >= 0)
		close(sh.epoll_fd);
	if (sh.mail_fd >= 0)
		close(sh.mail_fd);
	if (sh.timer_fd >= 0)
		close(sh.timer_fd);
	if (sh.netdevs)
		close(sh_netdev_fd(sh.netdevs));
	sh.epoll_fd = sh.mail_fd = sh.timer_fd = -1;
}

static int shell_open_fds(void)
{
	sh.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	sh.mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sh.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (sh.epoll_fd < 0 || sh.mail_fd < 0 || sh.timer_fd < 0)
		return -errno;
	if (sh_loop_add(sh.mail_fd, &loop_mail_handler) ||
	    sh_loop_add(sh.timer_fd, &loop_timer_handler))
		return -errno;
	return 0;
}

static int shell_thread_start(void)
{
	int ret;

	sh_crash_install(sh.config.crash_note);
	ret = sh_thread_create(&sh.thread, shell_main, NULL);
	if (!ret)
		pthread_setname_np(sh.thread, "shift");
	return -ret;
}

int sh_start(void)
{
	int ret;

	if (sh.started)
		return 0;
	ret = shell_open_fds();
	if (!ret)
		ret = shell_thread_start();
	if (ret) {
		shell_close_fds();
		sh_error_once("no background thread (%s): the job runs without protection",
			      strerror(-ret));
		return ret;
	}
	sh.started = true;
	sh_admin_start();
	return 0;
}

/* ---- life of the process -------------------------------------------------------------------- */

static void shell_lists_init(void)
{
	list_init(&sh.ctxs);
	list_init(&sh.dead_ctxs);
	list_init(&sh.peers);
	list_init(&sh.moves);
	list_init(&sh.ended);
	list_init(&sh.qps);
	list_init(&sh.touched);
	list_init(&sh.outs);
	list_init(&sh.intros.line);
	list_init(&sh.intros.withdrawals);
	sh_auths_init(&sh.auths, sh.instance);
}

/*
 * The child of a fork has none of our threads, and the parent's verbs objects are of no use in it:
 * it starts anew, so that fork-then-open works. Memory of the parent's objects stays as it is.
 */
static void shell_after_fork(void)
{
	const struct shift_real *real = sh.real;
	struct sh_config config = sh.config;
	bool enabled = sh.enabled;

	sh_admin_after_fork();
	sh_incidents_after_fork();
	sh_metrics_forget();
	sh_on_event_after_fork(true);
	sh_crash_after_fork();
	shell_close_fds();
	sh_timers_uninit(&sh.timers);
	memset(&sh, 0, sizeof(sh));
	pthread_mutex_init(&sh.lock, NULL);
	pthread_mutex_init(&sh.devices_lock, NULL);
	pthread_cond_init(&sh.idle, NULL);
	sh.epoll_fd = sh.mail_fd = sh.timer_fd = -1;
	sh.real = real;
	sh.config = config;
	sh.enabled = enabled;
	sh.instance = sh_random_u64();
	shell_lists_init();
}

static void shell_before_fork(void)
{
	pthread_mutex_lock(&sh.lock);
	pthread_mutex_lock(&sh.devices_lock);
	sh_on_event_before_fork();
}

static void shell_after_fork_parent(void)
{
	sh_on_event_after_fork(false);
	pthread_mutex_unlock(&sh.devices_lock);
	pthread_mutex_unlock(&sh.lock);
}

static void shell_settings_complain(void)
{
	const char *line, *end;
	bool was_read;

	sh_settings_file(&was_read, &line);
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		sh_log(SH_LOG_WARN, "%.*s", (int)(end - line), line);
	}
}

bool shift_wanted(void)
{
	return sh_settings_wanted();
}

void shift_init(const struct shift_real *real)
{
	shell_settings_complain();
	sh.real = real;
	sh_comp_channel_setup(real);
	sh_async_setup(real);
	sh_config_read(&sh.config);
	sh_on_event_setup(&sh.config.on_event);
	sh.enabled = true;
	sh.instance = sh_random_u64();
	shell_lists_init();
	pthread_atfork(shell_before_fork, shell_after_fork_parent, shell_after_fork);
}

/*
 * Somebody may hold the lock for ever at exit: a program that exits from a signal handler, in the
 * middle of a verb. It ends all the same, without figures.
 */
static bool shell_lock_timed(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SHELL_END_WAIT_S;
	return !pthread_mutex_timedlock(&sh.lock, &until);
}

static void shell_thread_end(void)
{
	struct timespec until;

	sh_kick();
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SHELL_END_WAIT_S;
	pthread_timedjoin_np(sh.thread, NULL, &until);
}

/*
 * The application's threads may run on while the process ends, and use what is left: nothing but the
 * background thread and the KV's worker goes.
 */
void shift_uninit(void)
{
	struct sh_worker *kv_worker;

	if (!sh.enabled || !shell_lock_timed())
		return;
	sh.stopping = true; /* nothing is given to the KV's worker any more */
	kv_worker = sh.kv_worker;
	sh.kv_worker = NULL;
	sh_incidents_end();
	sh_stats_write();
	sh_admin_stop();
	pthread_mutex_unlock(&sh.lock);
	sh_on_event_end(SHELL_END_WAIT_S * SH_NS_PER_S);
	if (sh.started)
		shell_thread_end();
	/* Entries that were not withdrawn yet end with their leases if the KV does not answer. */
	if (kv_worker)
		sh_worker_stop(kv_worker, 500 * SH_NS_PER_MS);
}

void shift_note_unknown_verb(const char *name)
{
	sh_log(SH_LOG_WARN,
	       "the installed libibverbs has %s, which this SHIFT does not know: what "
	       "it makes is not protected",
	       name);
}
