/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/base/clone.h"

#define ASIDE_STACK 32768 /* the helper's, in the program's memory for as long as it runs */
#define ASIDE_ROOM  4096  /* numbers above the program's limit, for SHIFT */

/* The lowest number that SHIFT has ever kept a descriptor under. */
static _Atomic int aside_lowest = INT_MAX;

struct aside_task {
	struct rlimit limit; /* of the helper */
	int from, moved[SH_ASIDE_MOST];
	int *const *fds;
	uint32_t n;
	int below; /* a number that is not smaller than this is given back */
};

/*
 * The helper. It runs in the program's memory and on the caller's thread-local storage, so it
 * makes system calls only. fcntl() is the library's, which is no more than a system call, as
 * whoever stands for the library must hear of new numbers. No frame of the helper is ever left,
 * which sanitizers would hold against the next user of that stack.
 */
__attribute__((no_sanitize("address", "thread"))) static int aside_run(void *arg)
{
	struct aside_task *task = arg;
	uint32_t i;

	if (!syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &task->limit, NULL))
		for (i = 0; i < task->n; i++)
			if (*task->fds[i] >= 0 && *task->fds[i] < task->from)
				task->moved[i] = fcntl(*task->fds[i], F_DUPFD_CLOEXEC, task->from);
	syscall(SYS_exit, 0);
	return 0;
}

static bool aside_room(struct aside_task *task)
{
	struct rlimit *limit = &task->limit;
	rlim_t most;

	if (getrlimit(RLIMIT_NOFILE, limit) || limit->rlim_cur > SH_ASIDE_LIMIT ||
	    limit->rlim_max <= limit->rlim_cur)
		return false;
	task->from = (int)limit->rlim_cur;
	most = limit->rlim_cur + ASIDE_ROOM;
	limit->rlim_cur = limit->rlim_max < most ? limit->rlim_max : most;
	return sh_clone_known();
}

static void aside_note(int fd)
{
	int lowest = atomic_load(&aside_lowest);

	while (fd >= 0 && fd < lowest && !atomic_compare_exchange_weak(&aside_lowest, &lowest, fd))
		;
}

static void aside_move(struct aside_task *task)
{
	char *stack = mmap(NULL, ASIDE_STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	uint32_t i;

	if (stack == MAP_FAILED)
		return;
	(void)sh_clone_wait(aside_run, stack + ASIDE_STACK, CLONE_FILES, task);
	munmap(stack, ASIDE_STACK);
	for (i = 0; i < task->n; i++) {
		if (task->moved[i] < 0)
			continue;
		if (task->moved[i] >= task->below) {
			close(task->moved[i]);
			continue;
		}
		close(*task->fds[i]);
		*task->fds[i] = task->moved[i];
	}
}

static void aside(int *const fds[], uint32_t n, int below)
{
	struct aside_task task = { .fds = fds, .n = n, .below = below };
	int saved = errno;
	uint32_t i;

	memset(task.moved, 0xff, sizeof(task.moved));
	if (aside_room(&task))
		aside_move(&task);
	for (i = 0; i < n; i++)
		aside_note(*fds[i]);
	errno = saved;
}

void sh_aside(int *const fds[], uint32_t n)
{
	aside(fds, n, INT_MAX);
}

void sh_aside_shown(int *const fds[], uint32_t n)
{
	aside(fds, n, FD_SETSIZE);
}

bool sh_aside_works(void)
{
	struct aside_task task = { .n = 1, .below = INT_MAX };
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), *fds[] = { &fd };
	bool works;

	if (fd < 0)
		return false;
	task.fds = fds;
	task.moved[0] = -1;
	if (aside_room(&task))
		aside_move(&task);
	works = task.moved[0] >= 0;
	close(fd);
	return works;
}

bool sh_aside_takes_any(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ||
	       limit.rlim_cur > (rlim_t)atomic_load(&aside_lowest);
}
