/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process in which a device runs: clone() without CLONE_THREAD, so that what stops the
 * program's threads does not stop it, but with the program's memory, descriptors and directory.
 *
 * The thread that makes it lends it its stack and its thread-local storage, and sleeps until it
 * ends: to the C library both are one thread. The sleeping thread must not touch what is
 * thread-local meanwhile; the kernel restarts its one system call, so not even errno is written.
 *
 * A program sees the process among its children by __WALL or __WCLONE only: its end sends no
 * signal. A tracer does not get it (CLONE_UNTRACED), nor does a signal to the program's process
 * group. When the program ends, in whichever way, the sleeping thread ends, and the kernel kills
 * the device (PR_SET_PDEATHSIG).
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simnic/device/apart.h"

/* bytes left to the sleeping thread: a system call, and the C library's own signals */
#define STACK_LEFT    (64 << 10)
#define STACK_ALIGN   64
#define NOT_A_CHILD   77 /* exit status of a device that cannot see its program */
#define KEEPS_SHARING (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED)

struct apart {
	void (*device)(void *);
	void *arg;
	pid_t program;
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED                                                                                  \
	true /* sanitizers' run times know each thread's stack, and stop all threads at the end */
#else
#define SANITIZED false
#endif

static bool under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

bool sn_apart_wanted(void)
{
	const char *stops = getenv("SIMNIC_STOPS");

	return !SANITIZED && !(stops && *stops == '1') && !under_valgrind();
}

static int apart_main(void *arg)
{
	const struct apart *apart = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != apart->program)
		_exit(NOT_A_CHILD);
	setpgid(0, 0);
	apart->device(apart->arg);
	_exit(NOT_A_CHILD);
}

static _Noreturn void program_ends(int status)
{
	fprintf(stderr, "simnic: the NIC's process ended (%s %d), and so does its program\n",
		WIFSIGNALED(status) ? "signal" : "exit status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	abort();
}

int sn_apart_run(void (*device)(void *), void *arg)
{
	struct apart apart = { .device = device, .arg = arg, .program = getpid() };
	uintptr_t top =
		((uintptr_t)__builtin_frame_address(0) - STACK_LEFT) & -(uintptr_t)STACK_ALIGN;
	pid_t pid = clone(apart_main, (void *)top, KEEPS_SHARING, &apart);
	int status;

	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, __WALL) < 0)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_A_CHILD)
		return -ESRCH;
	program_ends(status);
}
