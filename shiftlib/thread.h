/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Priorities of SHIFT's own threads. An application that polls keeps every core busy, and a move must
 * not wait behind it: threads that move run before those that poll. They nap or wait, and never spin.
 */
#ifndef SHIFTLIB_THREAD_H
#define SHIFTLIB_THREAD_H

/*
 * The calling thread, one of SHIFT's own. urgent: the best nice value, where that is allowed (root,
 * CAP_SYS_NICE, RLIMIT_NICE); else nothing changes. Not a real-time policy: its throttling stops all
 * threads of that kind on a core for tens of milliseconds, and a move with them. ordinary: nice 0, for
 * long work such as registering memory. SHIFT_PRIORITY=normal: both do nothing.
 */
void sh_thread_urgent(void);
void sh_thread_ordinary(void);

#endif
