/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that is linked as those that are shipped, for an old glibc: its constructors and
 * destructors run once each, variables of libc are the same for both, and what the floor lacks
 * does what the later function does. Needs nothing but libc, so it also runs on that old system.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int constructed;

static void __attribute__((constructor)) construct(void)
{
	constructed++;
}

/* The last word: a program without it did not run its destructors. */
static void __attribute__((destructor)) destruct(void)
{
	static const char word[] = "destructed\n";

	if (write(STDOUT_FILENO, word, sizeof(word) - 1) < 0)
		_exit(3);
}

static bool stats(void)
{
	struct stat by_path, by_fd, at, link;
	int fd = open("/proc/self/cwd", O_RDONLY | O_CLOEXEC);
	bool well = fd >= 0 && !stat("/proc/self/cwd", &by_path) && !fstat(fd, &by_fd) &&
		    !fstatat(AT_FDCWD, "/proc/self/cwd", &at, 0) && !lstat("/proc/self/cwd", &link);

	return well && by_path.st_ino == by_fd.st_ino && by_path.st_size == by_fd.st_size &&
	       by_path.st_mtim.tv_nsec == by_fd.st_mtim.tv_nsec && at.st_ino == by_fd.st_ino &&
	       S_ISDIR(by_path.st_mode) && S_ISLNK(link.st_mode) &&
	       stat("/nonexistent", &at) == -1 && errno == ENOENT;
}

static void *try_lock(void *arg)
{
	struct timespec until;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	rc = pthread_mutex_clocklock(arg, CLOCK_MONOTONIC, &until);
	return rc == ETIMEDOUT ? arg : NULL;
}

static bool locks(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	void *timed_out = NULL;

	pthread_mutex_lock(&mutex);
	if (pthread_create(&thread, NULL, try_lock, &mutex) || pthread_join(thread, &timed_out))
		return false;
	pthread_mutex_unlock(&mutex);
	return timed_out && !try_lock(&mutex); /* and now it is to be had */
}

int main(void)
{
	const char *said = NULL;

	setenv("SHIFT_TEST_FLOOR", "x", 1);
	if (constructed != 1)
		said = "constructors ran another number of times than once";
	else if (!environ || !getenv("SHIFT_TEST_FLOOR") || !environ[0])
		said = "environ is not that of libc";
	else if (!stats())
		said = "stat(), lstat(), fstat() or fstatat()";
	else if (!locks())
		said = "pthread_mutex_clocklock()";
	if (said)
		fprintf(stderr, "wrong: %s\n", said);
	return said ? 1 : 0;
}
