/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SP_ASSERT: an invariant of an engine. An engine that is not where it believes to be must not go
 * on moving memory. Test builds check it (SP_ASSERTIONS: CMake's SHIFT_ASSERT, the sanitizers). In
 * other builds it costs nothing, as the condition is compiled and never evaluated.
 */
#ifndef SHIFT_ASSERT_H
#define SHIFT_ASSERT_H

#ifdef SP_ASSERTIONS
#define SP_ASSERT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			__builtin_trap();                                                          \
	} while (0)
#else
#define SP_ASSERT(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

#endif
