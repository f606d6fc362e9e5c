/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Short-lived processes in the memory of this one. They run on the caller's thread-local storage,
 * so they make system calls only, and their functions return to nobody: each ends by SYS_exit.
 */
#ifndef SHIFTLIB_CLONE_H
#define SHIFTLIB_CLONE_H

#include <sched.h>
#include <stdbool.h>

/*
 * clone(2). ThreadSanitizer takes it for a fork, and sees races everywhere in a program with
 * threads behind it; so its builds call the C library's other name.
 */
#ifdef __SANITIZE_THREAD__
extern __typeof__(clone) __clone;
#define sh_clone __clone
#else
#define sh_clone clone
#endif

/* False under valgrind, which knows no such processes, and ends the program. */
bool sh_clone_known(void);

/*
 * Runs fn(arg) on a stack that ends at stack_end, with CLONE_VM, CLONE_VFORK and more flags, and
 * waits for its end. It handles no signal, and no wait() of the program finds it: no signal tells
 * of its end. Any thread. Returns 0 or -errno.
 */
int sh_clone_wait(int (*fn)(void *), char *stack_end, int flags, void *arg);

#endif
