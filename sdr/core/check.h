/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Assertions of core and rel. They hold in every build: to go on from a wrong state would be to
 * write into somebody's memory.
 */
#ifndef SDR_CORE_CHECK_H
#define SDR_CORE_CHECK_H

#define SDR_ASSERT(what)                                                                           \
	do {                                                                                       \
		if (!(what))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

#endif
