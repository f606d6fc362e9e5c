/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Assertions of simnic, which hold in every build: a device that is not where it believes to be
 * must not go on writing a program's memory. They judge simnic's own state alone. Rings, records
 * and doorbells are the application's, and a process may die in the middle of anything: neither is
 * an invariant.
 *
 * A failed one ends the process by SIGABRT. A trap would not: cmocka catches SIGILL, and goes on
 * with the device's lock held.
 */
#ifndef SIMNIC_FABRIC_CHECK_H
#define SIMNIC_FABRIC_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define SN_ASSERT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			sn_assert_failed(#cond, __FILE__, __LINE__);                               \
	} while (0)

static inline __attribute__((noreturn, cold)) void sn_assert_failed(const char *what,
								    const char *file, int line)
{
	fprintf(stderr, "simnic: %s:%d: not so: %s\n", file, line, what);
	abort();
}

#endif
