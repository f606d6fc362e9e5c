/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/base/clone.h"
#include "shiftlib/base/holder.h"

#define HOLDER_STACK 16384
#define HOLDER_MOST                                                                                \
	65536 /* descriptors that are gone through where the kernel has no call for it */
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* The arguments and results of A and B, in memory that all three share. */
struct holder_start {
	const int *fds;
	uint32_t n;
	int pipe_fd, null_fd;
	pid_t pid; /* B; 0: it could not be made */
	int error; /* B could not execute the shell, or could not be made */
};

/* No frame on these stacks returns: sanitizers would hold that against the next to use them. */
#define HOLDER_UNSANITIZED __attribute__((no_sanitize("address", "thread")))

static _Alignas(64) char holder_stacks[2][HOLDER_STACK];

/* Leaves to the shell its three first descriptors, and those that it holds. */
HOLDER_UNSANITIZED static void holder_fds(const struct holder_start *start)
{
	uint32_t i;
	int fd;

	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC))
		for (fd = STDERR_FILENO + 1; fd < HOLDER_MOST; fd++)
			syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
	syscall(SYS_dup3, start->pipe_fd, STDIN_FILENO, 0);
	syscall(SYS_dup3, start->null_fd, STDOUT_FILENO, 0);
	syscall(SYS_dup3, start->null_fd, STDERR_FILENO, 0);
	for (i = 0; i < start->n; i++)
		syscall(SYS_fcntl, start->fds[i], F_SETFD, 0);
}

/* Process B, with a table of descriptors of its own. Its memory is the application's. */
HOLDER_UNSANITIZED static int holder_run_b(void *arg)
{
	static const char *const argv[] = {
		"sh", "-c", "read -r end # SHIFT: holds NICs that hang, until the program ends",
		NULL
	};
	static const char *const environment[] = { NULL };
	struct holder_start *start = arg;

	syscall(SYS_setsid);
	holder_fds(start);
	syscall(SYS_execve, "/bin/sh", argv, environment);
	start->error = errno;
	syscall(SYS_exit, 127);
	return 0;
}

/* Process A. When it ends, B is nobody's child any more. */
HOLDER_UNSANITIZED static int holder_run_a(void *arg)
{
	struct holder_start *start = arg;
	pid_t pid = sh_clone(holder_run_b, holder_stacks[1] + HOLDER_STACK,
			     CLONE_VM | CLONE_VFORK | SIGCHLD, start);

	if (pid < 0)
		start->error = errno;
	else
		start->pid = pid;
	syscall(SYS_exit, 0);
	return 0;
}

int sh_holder_start(struct sh_holder *holder, const int *fds, uint32_t n)
{
	struct holder_start start = { .fds = fds, .n = n };
	int ends[2], err;

	if (!sh_clone_known())
		return -EAGAIN;
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	start.pipe_fd = ends[0];
	start.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	err = sh_clone_wait(holder_run_a, holder_stacks[0] + HOLDER_STACK, 0, &start);
	close(ends[0]);
	if (start.null_fd >= 0)
		close(start.null_fd);
	if (err || start.error) {
		close(ends[1]);
		return err ? err : -start.error;
	}
	sh_aside_one(&ends[1]);
	*holder = (struct sh_holder){ .fd = ends[1], .pid = start.pid };
	return 0;
}

void sh_holder_end(struct sh_holder *holder)
{
	if (holder->fd >= 0)
		close(holder->fd);
	holder->fd = -1;
}
