/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands to devices by processes that the program's end does not wait for. A thread that waits
 * in the kernel for a NIC that hangs cannot be ended, and a program is not over before its last
 * thread is. So the thread has the command given by a process in this one's memory, which runs on
 * the thread's local storage while the thread waits; of the program's descriptors it has that of
 * the device alone. The program's end is the end of the waiting thread, and of the process as soon
 * as the kernel lets go of it. Until then the process keeps the program's memory.
 */
#ifndef SHIFTLIB_APART_H
#define SHIFTLIB_APART_H

#include <stdbool.h>

/*
 * Runs fn(arg), which gives commands to the device that has this descriptor, and may use no other
 * descriptor but such as it opens and closes itself. fn(arg) runs in the caller's thread where
 * that is not one of sh_apart_thread(), where the device is none of the kernel's, and where the
 * system knows no such processes.
 */
void sh_apart(int device, void (*fn)(void *arg), void *arg);
/* As sh_apart(), where thousands of commands follow each other: here if the last returned now. */
void sh_apart_next(int device, void (*fn)(void *arg), void *arg);
/* The calling thread is SHIFT's own, and has SH_APART_STACK bytes to spare. */
void sh_apart_thread(void);

#define SH_APART_STACK (256 << 10)

/* No process is made from now on: SHIFT_HOLD_HUNG=off. */
void sh_apart_off(void);

#endif
