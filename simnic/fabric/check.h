/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Assertions of simnic, which hold in every build: a device that is not where it believes to be
 * must not go on writing a program's memory. They judge simnic's own state alone. Rings, records
 * and doorbells are the application's, and a process may die in the middle of anything: neither is
 * an invariant.
 */
#ifndef SIMNIC_FABRIC_CHECK_H
#define SIMNIC_FABRIC_CHECK_H

#define SN_ASSERT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

#endif
