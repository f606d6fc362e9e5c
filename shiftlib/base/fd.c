/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include "shiftlib/base/fd.h"

#define LEAF_SIZE (1 << SH_FDMAP_LEAF_BITS)

static void *_Atomic *leaf_make(struct sh_fdmap *map, int index)
{
	void *_Atomic *expected = NULL;
	void *_Atomic *leaf = calloc(LEAF_SIZE, sizeof(*leaf));

	if (!leaf)
		return NULL;
	/* Release: a reader that sees the leaf must see it empty. */
	if (atomic_compare_exchange_strong(&map->leaves[index], &expected, leaf))
		return leaf;
	free(leaf);
	return expected;
}

int sh_fdmap_set(struct sh_fdmap *map, int fd, void *object)
{
	int index = fd >> SH_FDMAP_LEAF_BITS;
	void *_Atomic *leaf;

	if (fd < 0 || index >= SH_FDMAP_LEAVES)
		return -EMFILE;
	leaf = atomic_load_explicit(&map->leaves[index], memory_order_acquire);
	if (!leaf && !object)
		return 0;
	if (!leaf)
		leaf = leaf_make(map, index);
	if (!leaf)
		return -ENOMEM;
	atomic_store_explicit(&leaf[fd & (LEAF_SIZE - 1)], object, memory_order_release);
	return 0;
}

void sh_fdmap_drop(struct sh_fdmap *map, int fd, void *object)
{
	void *_Atomic *slot = sh_fdmap_slot(map, fd);

	if (slot)
		atomic_compare_exchange_strong(slot, &object, NULL);
}

void sh_fdmap_uninit(struct sh_fdmap *map)
{
	for (int i = 0; i < SH_FDMAP_LEAVES; i++)
		free(atomic_load(&map->leaves[i]));
}

#ifdef __SANITIZE_THREAD__
ssize_t sh_fd_take(int fd, uint64_t *value)
{
	ssize_t ret;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = read(fd, value, sizeof(*value));
	pthread_setcancelstate(state, NULL);
	return ret;
}

ssize_t sh_fd_give(int fd, uint64_t value)
{
	ssize_t ret;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = write(fd, &value, sizeof(value));
	pthread_setcancelstate(state, NULL);
	return ret;
}
#endif

/* Raised by what the thread itself executes, so not while it waits; many libraries handle them. */
static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGSYS ||
	       sig == SIGTRAP || sig == SIGABRT;
}

/* Would the kernel have restarted a read() after whichever handler ran? */
static __attribute__((noinline)) bool handlers_restart(void)
{
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction action;

		if (is_fault(sig) || sigaction(sig, NULL, &action))
			continue; /* an error: glibc's own signal */
		if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
			continue;
		if (!(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

int sh_fd_wait(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	long flags =
		syscall(SYS_fcntl, fd, F_GETFL); /* fcntl(2), without what it does for others */
	int ret;

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		return -EAGAIN;
	/* poll, not epoll_wait: that one ends with EINTR also after a stop without a handler. */
	do {
		ret = poll(&wait, 1, -1);
	} while (ret < 0 && errno == EINTR && handlers_restart());
	if (ret < 0)
		return -errno;
	return wait.revents & POLLNVAL ? -EBADF : 0;
}

int sh_fd_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) ? -errno : 0;
}
