/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The note of a crash in one of SHIFT's threads, or in its code: a line in the log before the
 * crash takes its course, so that nobody looks for it in the application.
 *
 * Dispositions of signals belong to the whole process, and to the application. So the handler
 * writes its line, gives the signal back the disposition that it found, and returns: the fault
 * happens again, and what follows (the application's own handler, a core dump) is as without
 * SHIFT. A fault of the application's own is passed on in the same way, without a word. If the
 * application sets a handler later, that one counts. SHIFT_CRASH_NOTE=off: no disposition is
 * touched.
 */
#ifndef SHIFTLIB_CRASH_H
#define SHIFTLIB_CRASH_H

#include <stdbool.h>

/*
 * Installs the handler, when the first of SHIFT's threads starts; a child of a fork has it
 * already.
 */
void sh_crash_install(bool wanted);

/*
 * Called at the beginning and the end of each of SHIFT's threads, which then takes the signals of
 * its own faults. Does nothing if notes are not wanted.
 */
void sh_crash_thread_begin(void);
void sh_crash_thread_end(void);
void sh_crash_after_fork(void); /* called in the child, which has none of the threads */

#endif
