/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Dates for programs (RFC 3339, UTC, microseconds). They are made without gmtime_r() and
 * strftime(), which take a lock of the C library that a child must not inherit from one of
 * SHIFT's threads, and look at the locale.
 */
#ifndef SHIFTLIB_DATE_H
#define SHIFTLIB_DATE_H

#include <stdint.h>

#define SH_DATE_MAX 32 /* "2026-01-31T23:59:59.123456Z" and its end */

uint64_t sh_date_now_ns(void); /* since 1970, UTC; async-signal-safe, as the next */
void sh_date_print(uint64_t ns, char out[SH_DATE_MAX]);

#endif
