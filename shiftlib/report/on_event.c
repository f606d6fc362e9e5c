/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "shiftlib/base/clone.h"
#include "shiftlib/base/date.h"
#include "shiftlib/report/on_event.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"

/* Stack of each of the two processes that share our memory. They make system calls. */
#define ON_EVENT_STACK	 65536
#define ON_EVENT_SIGNALS 64
#define ON_EVENT_VALUES	 24
#define ON_EVENT_VALUE	 160

struct on_event_pending {
	struct sh_event event; /* the newest */
	uint32_t count;	       /* 0: none */
	uint64_t since;	       /* the first of them: who has waited longest is next */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct sh_on_event_config config;
	uint32_t kinds;	    /* bits, by enum sh_event_kind */
	char **environment; /* the command's; ends with NULL */
	size_t n_environment;
	int nice; /* the application's */
	struct on_event_pending pending[SH_EVENT_KINDS];
	bool thread;   /* running, or about to */
	bool starting; /* an event was taken, and its command has not started yet */
} on_event = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- its environment ------------------------------------------------------------------------ */

static const char *on_event_library_folder(char out[PATH_MAX])
{
	Dl_info info;
	char *slash;

	if (!dladdr((void *)(uintptr_t)&on_event, &info) || !info.dli_fname)
		return NULL;
	snprintf(out, PATH_MAX, "%s", info.dli_fname);
	slash = strrchr(out, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	return out;
}

/* An item of LD_PRELOAD or LD_LIBRARY_PATH: our folder, or a file in it. */
static bool on_event_ours(const char *item, size_t length, const char *folder)
{
	size_t n = folder ? strlen(folder) : 0;

	return n && length >= n && !strncmp(item, folder, n) && (length == n || item[n] == '/');
}

/* "NAME=a:b" without what is ours. */
static char *on_event_without_us(const char *variable, const char *folder)
{
	char *out = malloc(strlen(variable) + 1);
	size_t used = strcspn(variable, "=") + 1, begin = used, length;
	const char *item = variable + used;

	if (!out)
		return NULL;
	memcpy(out, variable, used);
	for (; *item; item += length + !!item[length]) {
		length = strcspn(item, ": ");
		if (!length || on_event_ours(item, length, folder))
			continue;
		if (used > begin)
			out[used++] = ':';
		memcpy(out + used, item, length);
		used += length;
	}
	out[used] = 0;
	return out;
}

static bool on_event_named(const char *variable, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(variable, name, n) && variable[n] == '=';
}

static char *on_event_variable(const char *variable, const char *folder)
{
	if (on_event_named(variable, "LD_PRELOAD") || on_event_named(variable, "LD_LIBRARY_PATH"))
		return on_event_without_us(variable, folder);
	return strdup(variable);
}

/* Keeps SHIFT off in the command, wherever our library is. */
static const char on_event_off[] = "SHIFT_DISABLE=1";

static bool on_event_copy_environment(void)
{
	char buf[PATH_MAX];
	const char *folder = on_event_library_folder(buf);
	size_t i, n = 0;

	while (environ && environ[n])
		n++;
	on_event.environment = calloc(n + 2 + ON_EVENT_VALUES, sizeof(*on_event.environment));
	for (i = 0; on_event.environment && i < n; i++) {
		char *copy;

		if (on_event_named(environ[i], "SHIFT_DISABLE"))
			continue;
		copy = on_event_variable(environ[i], folder);
		if (!copy)
			return false;
		if (on_event_named(copy, "LD_PRELOAD") || on_event_named(copy, "LD_LIBRARY_PATH"))
			if (copy[strlen(copy) - 1] == '=') {
				free(copy); /* nothing else was in it */
				continue;
			}
		on_event.environment[on_event.n_environment++] = copy;
	}
	if (!on_event.environment)
		return false;
	on_event.environment[on_event.n_environment++] = strdup(on_event_off);
	return on_event.environment[on_event.n_environment - 1];
}

static uint32_t on_event_kinds(const char *text)
{
	static const uint32_t fallback =
		1u << SH_EVENT_SWITCH | 1u << SH_EVENT_RETURN | 1u << SH_EVENT_FAILED;
	uint32_t kinds;

	if (!text)
		return fallback;
	if (!sh_event_kinds(text, &kinds))
		return kinds;
	sh_log(SH_LOG_ERROR,
	       "SHIFT_ON_EVENT_KINDS='%s' is neither all nor kinds of events with commas between "
	       "them; using switch,return,failed",
	       text);
	return fallback;
}

void sh_on_event_setup(const struct sh_on_event_config *config)
{
	sh_cond_init(&on_event.changed);
	on_event.kinds = on_event_kinds(config->kinds);
	if (!config->command)
		return;
	if (getauxval(AT_SECURE)) {
		sh_log(SH_LOG_WARN, "SHIFT_ON_EVENT is not run: this program has more rights than "
				    "its user");
		return;
	}
	on_event.nice = getpriority(PRIO_PROCESS, 0);
	if (on_event_copy_environment())
		on_event.config = *config;
	else
		sh_log(SH_LOG_ERROR, "SHIFT_ON_EVENT is not run: out of memory");
}

/* ---- what the command is told --------------------------------------------------------------- */

struct on_event_values {
	char text[ON_EVENT_VALUES][ON_EVENT_VALUE];
	uint32_t n;
};

static void __attribute__((format(printf, 3, 4)))
on_event_value(struct on_event_values *values, const char *name, const char *format, ...)
{
	char *out = values->text[values->n++];
	int n = snprintf(out, ON_EVENT_VALUE, "SHIFT_EVENT_%s=", name);
	va_list args;

	va_start(args, format);
	vsnprintf(out + n, ON_EVENT_VALUE - (size_t)n, format, args);
	va_end(args);
}

static void on_event_number(struct on_event_values *values, const char *name, uint64_t value)
{
	on_event_value(values, name, "%llu", (unsigned long long)value);
}

static void on_event_share(struct on_event_values *values, const struct sh_event *event)
{
	char date[SH_DATE_MAX];

	sh_date_print(event->since_ns, date);
	on_event_value(values, "SINCE", "%s", date);
	on_event_value(values, "BANDWIDTH_LEFT", "%u.%03u", event->left / 1000,
		       event->left % 1000); /* not as the program's locale writes it */
}

static void on_event_describe(struct on_event_values *values,
			      const struct on_event_pending *pending)
{
	const struct sh_event *event = &pending->event;
	char date[SH_DATE_MAX];

	sh_date_print(event->wall_ns, date);
	on_event_value(values, "KIND", "%s", sh_event_kind_name(event->kind));
	on_event_value(values, "CAUSE", "%s", sh_event_cause_name(event->cause));
	on_event_value(values, "WHY", "%s", event->why ? event->why : "");
	on_event_value(values, "FROM", "%s", event->from);
	on_event_value(values, "TO", "%s", event->to);
	on_event_value(values, "TIME", "%s", date);
	if (event->peer)
		on_event_value(values, "PEER", "%016llx", (unsigned long long)event->peer);
	if (sh_event_has_share(event))
		on_event_share(values, event);
	on_event_number(values, "PID", (uint64_t)getpid());
	on_event_number(values, "NUMBER", event->number);
	on_event_number(values, "COUNT", pending->count);
	on_event_number(values, "QPS", event->qps);
	on_event_number(values, "DETECT_NS", event->detect_ns);
	on_event_number(values, "SWITCH_NS", event->switch_ns);
	on_event_number(values, "RESENT", event->resent);
	on_event_number(values, "RESENT_BYTES", event->resent_bytes);
	on_event_number(values, "SETTLED", event->settled);
	on_event_number(values, "UNKNOWN", event->unknown);
}

/* ---- started -------------------------------------------------------------------------------- */

/* The arguments and results of A and B, in memory that all three share. */
struct on_event_start {
	const char *command;
	char **environment;
	int null_fd, out_fd, nice;
	pid_t pid; /* B; 0: it could not be made, or could not execute the shell */
	int pidfd, error;
};

/*
 * A mark for what runs on the two stacks. None of these functions returns to where its frame is
 * cleaned up: what ASan has noted of a frame would be held against the next to use that stack.
 * TSan knows no such threads.
 */
#define ON_EVENT_UNSANITIZED __attribute__((no_sanitize("address", "thread")))

static _Alignas(64) char on_event_stacks[2][ON_EVENT_STACK];

ON_EVENT_UNSANITIZED static void on_event_signals_default(void)
{
	const uint64_t nothing[8] = { 0 }; /* the kernel's struct: SIG_DFL, no flags, no mask */
	int i;

	for (i = 1; i <= ON_EVENT_SIGNALS; i++)
		syscall(SYS_rt_sigaction, i, nothing, NULL, sizeof(uint64_t));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, NULL, sizeof(uint64_t));
}

ON_EVENT_UNSANITIZED static void on_event_fds(const struct on_event_start *start)
{
	int fd;

	syscall(SYS_dup3, start->null_fd, STDIN_FILENO, 0);
	if (start->out_fd != STDERR_FILENO)
		syscall(SYS_dup3, start->out_fd, STDERR_FILENO, 0);
	syscall(SYS_dup3, STDERR_FILENO, STDOUT_FILENO, 0);
	if (!syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0))
		return;
	for (fd = STDERR_FILENO + 1; fd < 65536; fd++)
		syscall(SYS_close, fd);
}

/*
 * Process B. It makes system calls only: its memory is the application's. A group of its own can
 * be ended with all that it has started.
 */
ON_EVENT_UNSANITIZED static int on_event_run_b(void *arg)
{
	struct on_event_start *start = arg;
	const char *const argv[] = { "sh", "-c", start->command, NULL };

	syscall(SYS_setsid);
	on_event_fds(start);
	on_event_signals_default();
	syscall(SYS_execve, "/bin/sh", argv, start->environment);
	start->error = errno;
	syscall(SYS_exit, 127);
	return 0;
}

/*
 * Process A. It shares the table of fds with the application, for B's pidfd. The shell is
 * executed as urgently as SHIFT's threads are, or busy cores would delay it; the command itself
 * is not urgent.
 */
ON_EVENT_UNSANITIZED static int on_event_run_a(void *arg)
{
	struct on_event_start *start = arg;
	pid_t pid = sh_clone(on_event_run_b, on_event_stacks[1] + ON_EVENT_STACK,
			     CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, start, &start->pidfd);

	if (pid < 0) {
		start->error = errno;
	} else {
		syscall(SYS_setpriority, PRIO_PGRP, pid, start->nice);
		start->pid = pid;
	}
	syscall(SYS_exit, 0);
	return 0;
}

static void on_event_clone(struct on_event_start *start)
{
	pid_t a = sh_clone(on_event_run_a, on_event_stacks[0] + ON_EVENT_STACK,
			   CLONE_VM | CLONE_VFORK | CLONE_FILES, start);

	if (a < 0) {
		start->error = errno;
		return;
	}
	while (waitpid(a, NULL, __WCLONE) < 0 && errno == EINTR)
		;
}

/* ---- its end -------------------------------------------------------------------------------- */

/*
 * Waits for B's end. A process that is nobody's child has no status for us: the log has what it
 * has to say.
 */
static void on_event_await(const struct on_event_start *start)
{
	struct pollfd pfd = { .fd = start->pidfd, .events = POLLIN };
	uint64_t ends_at = sh_now_ns() + on_event.config.timeout_ns, now;
	int n = 0;

	while (!n && (now = sh_now_ns()) < ends_at) {
		n = poll(&pfd, 1, (int)((ends_at - now) / SH_NS_PER_MS) + 1);
		if (n < 0 && errno == EINTR)
			n = 0;
	}
	if (n > 0)
		return;
	sh_log(SH_LOG_WARN, "SHIFT_ON_EVENT: process %d has not ended within %llu ms and is killed",
	       (int)start->pid, (unsigned long long)(on_event.config.timeout_ns / SH_NS_PER_MS));
	kill(-start->pid, SIGKILL); /* still there: its pidfd would tell its end */
}

static void on_event_started(const struct on_event_pending *pending,
			     const struct on_event_start *start)
{
	const struct sh_event *event = &pending->event;
	uint64_t now = sh_now_ns(), flows = event->decided_ns + event->switch_ns;

	if (!start->pid || start->error)
		sh_log(SH_LOG_ERROR, "SHIFT_ON_EVENT: /bin/sh cannot be run: %s",
		       strerror(start->error));
	else if (event->decided_ns)
		sh_log(SH_LOG_INFO,
		       "SHIFT_ON_EVENT: process %d runs for event %llu, %llu us after the traffic "
		       "of its connections moved, %llu us after it was recorded",
		       (int)start->pid, (unsigned long long)event->number,
		       (unsigned long long)(now - flows) / SH_NS_PER_US,
		       (unsigned long long)(now - event->at_ns) / SH_NS_PER_US);
	else
		sh_log(SH_LOG_INFO,
		       "SHIFT_ON_EVENT: process %d runs for event %llu, %llu us after it was "
		       "recorded",
		       (int)start->pid, (unsigned long long)event->number,
		       (unsigned long long)(now - event->at_ns) / SH_NS_PER_US);
}

static void on_event_run(const struct on_event_pending *pending)
{
	static struct on_event_values values; /* used by the one thread */
	struct on_event_start start = { .command = on_event.config.command,
					.environment = on_event.environment,
					.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
					.out_fd = sh_log_fd(),
					.nice = on_event.nice,
					.pidfd = -1 };
	uint32_t i;

	values.n = 0;
	on_event_describe(&values, pending);
	for (i = 0; i < values.n; i++)
		on_event.environment[on_event.n_environment + i] = values.text[i];
	on_event.environment[on_event.n_environment + i] = NULL;
	on_event_clone(&start);
	if (start.null_fd >= 0)
		close(start.null_fd);
	on_event_started(pending, &start);
	pthread_mutex_lock(&on_event.lock);
	on_event.starting = false;
	pthread_cond_broadcast(&on_event.changed);
	pthread_mutex_unlock(&on_event.lock);
	if (start.pidfd < 0)
		return;
	on_event_await(&start);
	close(start.pidfd);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static struct on_event_pending *on_event_next(void)
{
	struct on_event_pending *next = NULL;
	uint32_t i;

	for (i = 0; i < SH_EVENT_KINDS; i++)
		if (on_event.pending[i].count && (!next || on_event.pending[i].since < next->since))
			next = &on_event.pending[i];
	return next;
}

static void *on_event_main(void *arg)
{
	struct on_event_pending taken, *next;

	(void)arg;
	sh_thread_urgent(); /* short and rare; the command is not urgent */
	for (;;) {
		pthread_mutex_lock(&on_event.lock);
		while (!(next = on_event_next()))
			pthread_cond_wait(&on_event.changed, &on_event.lock);
		taken = *next;
		next->count = 0;
		on_event.starting = true;
		pthread_mutex_unlock(&on_event.lock);
		on_event_run(&taken);
	}
	return NULL;
}

static bool on_event_thread_start(void)
{
	pthread_t thread;
	int ret = sh_thread_create(&thread, on_event_main, NULL);

	if (ret) {
		sh_error_once("SHIFT_ON_EVENT is not run: no thread: %s", strerror(ret));
		return false;
	}
	pthread_setname_np(thread, "shift-on-event");
	pthread_detach(thread);
	return true;
}

void sh_on_event_run(const struct sh_event *event)
{
	struct on_event_pending *pending = &on_event.pending[event->kind];

	if (!on_event.config.command || !(on_event.kinds >> event->kind & 1))
		return;
	pthread_mutex_lock(&on_event.lock);
	if (!on_event.thread)
		on_event.thread = on_event_thread_start();
	if (!pending->count++)
		pending->since = event->at_ns;
	pending->event = *event;
	pthread_cond_broadcast(&on_event.changed);
	pthread_mutex_unlock(&on_event.lock);
}

void sh_on_event_end(uint64_t timeout_ns)
{
	struct timespec until = sh_until(timeout_ns);
	int ret = 0;

	pthread_mutex_lock(&on_event.lock);
	while (!ret && on_event.thread && (on_event.starting || on_event_next()))
		ret = pthread_cond_timedwait(&on_event.changed, &on_event.lock, &until);
	pthread_mutex_unlock(&on_event.lock);
}

/* The child has no thread of ours, and nothing has happened in it. */
void sh_on_event_after_fork(void)
{
	pthread_mutex_init(&on_event.lock, NULL);
	sh_cond_init(&on_event.changed);
	memset(on_event.pending, 0, sizeof(on_event.pending));
	on_event.thread = on_event.starting = false;
}
