/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC apart from its program. A NIC goes on when the program on its host is halted (SIGSTOP, a
 * debugger, ^Z): so the device runs in a process of its own, which shares the program's memory.
 */
#ifndef SIMNIC_DEVICE_APART_H
#define SIMNIC_DEVICE_APART_H

#include <stdbool.h>

/* False where the device has to be a thread: SIMNIC_STOPS=1, valgrind, a build with a sanitizer. */
bool sn_apart_wanted(void);

/*
 * Runs device(arg), which never returns, in such a process, on the caller's stack and with the
 * caller's thread-local storage. The caller is a thread that does nothing else, with all signals
 * blocked. Returns -errno where that is not possible, else never: the device ends with the program,
 * and the program with its device.
 */
int sn_apart_run(void (*device)(void *), void *arg);

#endif
