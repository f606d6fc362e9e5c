/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* pthread_mutex_clocklock(), which glibc has since 2.30, by what it had before. Hidden, as stat.c. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define NS_PER_S 1000000000L

/*
 * The older function knows the wall clock alone: a step of that clock shortens or lengthens the
 * wait, which our callers only use to give up on somebody.
 */
int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	struct timespec now, wall;

	if (clock_gettime(clock, &now) || clock_gettime(CLOCK_REALTIME, &wall))
		return EINVAL;
	wall.tv_sec += until->tv_sec - now.tv_sec;
	wall.tv_nsec += until->tv_nsec - now.tv_nsec;
	if (wall.tv_nsec < 0) {
		wall.tv_sec--;
		wall.tv_nsec += NS_PER_S;
	} else if (wall.tv_nsec >= NS_PER_S) {
		wall.tv_sec++;
		wall.tv_nsec -= NS_PER_S;
	}
	return pthread_mutex_timedlock(mutex, &wall);
}
