/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shared parts of all files of the probe: the reason of a failure, and the time. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "tools/probe/probe.h"

/* Reason, kept for the thread that failed. */
static _Thread_local char why[PR_WHY_MAX];

int pr_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return -1;
}

const char *pr_why(void)
{
	return why;
}

uint64_t pr_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void pr_nap_us(uint64_t us)
{
	struct timespec ts = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	nanosleep(&ts, NULL);
}
