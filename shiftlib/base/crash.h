/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A crash in one of SHIFT's threads, or in its code, is said in the log before it takes its course, so
 * that nobody looks for it in the application.
 *
 * Dispositions of signals belong to the whole process, and to the application. So the handler writes its
 * line, gives the signal back the disposition that it found, and returns: the fault happens again, and
 * what follows (the application's own handler, a core dump) is as without SHIFT. A fault of the
 * application's own is passed on likewise, without a word. An application that sets a handler of its own
 * later has it. SHIFT_CRASH_NOTE=off: no disposition is touched.
 */
#ifndef SHIFTLIB_CRASH_H
#define SHIFTLIB_CRASH_H

#include <stdbool.h>

/* When the first of SHIFT's threads starts; a child of a fork has it already. */
void sh_crash_install(bool wanted);

/*
 * In each of SHIFT's threads, at its beginning and its end: it is one, and takes the signals of its own
 * faults. Nothing if they are not wanted.
 */
void sh_crash_thread_begin(void);
void sh_crash_thread_end(void);
void sh_crash_after_fork(void); /* in the child, which has none of the threads */

#endif
