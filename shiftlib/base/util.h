/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shell's clock, its source of unguessable numbers, and errors. The core knows none of them. */
#ifndef SHIFTLIB_UTIL_H
#define SHIFTLIB_UTIL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define SH_NS_PER_US 1000ull
#define SH_NS_PER_MS 1000000ull
#define SH_NS_PER_S  1000000000ull

/* Monotonic, as time-outs must not jump with the date. Any thread. */
static inline uint64_t sh_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SH_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/*
 * Draws random bytes for instance numbers, nonces and queue keys: they must differ between
 * processes that start together, and not be guessed. Without getrandom() neither can be promised,
 * so the process ends.
 */
static inline void sh_random(void *buf, size_t length) /* 256 bytes at most, so never in part */
{
	ssize_t n;

	do {
		n = getrandom(buf, length, 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)length)
		abort();
}

static inline uint64_t sh_random_u64(void)
{
	uint64_t value;

	sh_random(&value, sizeof(value));
	return value;
}

/* Returns -errno behind a call that may fail without saying why. */
static inline int sh_errno_or(int fallback)
{
	return errno ? -errno : -fallback;
}

/*
 * True for the errors of a command on a dead device: EIO where it was taken away (uverbs); EIO
 * (mlx5 before Linux 5.17) or ENOLINK where it has an internal error, and ENXIO where its command
 * interface is down (mlx5: mlx5_internal_err_ret_value).
 */
static inline bool sh_dead_device_error(int err)
{
	return err == EIO || err == ENOLINK || err == ENXIO || err == ENODEV;
}

/* The earlier of two moments, where 0 means never. */
static inline uint64_t sh_earlier_ns(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static inline uint64_t sh_min_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
