/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "shiftlib/log.h"
#include "shiftlib/thread.h"

#define THREAD_NICE_URGENT -20

static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_priorities;

static void thread_configure(void)
{
	const char *value = secure_getenv("SHIFT_PRIORITY");

	thread_priorities = !value || !*value || !strcmp(value, "urgent");
	if (!thread_priorities && strcmp(value, "normal"))
		sh_log(SH_LOG_WARN, "SHIFT_PRIORITY=%s is neither urgent nor normal; using normal",
		       value);
}

static void thread_nice(int value)
{
	pthread_once(&thread_once, thread_configure);
	if (thread_priorities)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), value);
}

void sh_thread_urgent(void)
{
	thread_nice(THREAD_NICE_URGENT);
}

void sh_thread_ordinary(void)
{
	thread_nice(0);
}
