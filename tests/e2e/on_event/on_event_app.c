/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that minds its children: it opens a device, has memory (MiB), fds and ignored signals, counts
 * every SIGCHLD, takes whatever waitpid(-1) has for it, and at "child" starts one of its own. At the end of
 * its standard input it prints what it saw.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS 20

static atomic_int signals;

static void on_child(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static int expect_signals(void)
{
	struct sigaction action = { .sa_handler = on_child };
	sigset_t blocked;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGTERM);
	return sigprocmask(SIG_BLOCK, &blocked, NULL) || sigaction(SIGCHLD, &action, NULL);
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static int start_child(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(7);
	return pid < 0;
}

/* The children that ended, one by one: without waiting. */
static int take_children(int *mine, int *others)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		*(WIFEXITED(status) && WEXITSTATUS(status) == 7 ? mine : others) += 1;
	return pid < 0 && errno != ECHILD;
}

/* Until its input has ended, and its own children have. */
static int serve(int *mine, int *others)
{
	struct pollfd pfd = { .fd = 0, .events = POLLIN };
	int started = 0;
	char line[64];
	ssize_t n;

	while (pfd.fd == 0 || *mine < started) {
		if (take_children(mine, others))
			return 1;
		if (poll(&pfd, 1, 5) < 1)
			continue;
		n = read(0, line, sizeof(line));
		if (n <= 0)
			pfd.fd = -1;
		else if (start_child())
			return 1;
		else
			started++;
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0, at;
	int i, mine = 0, others = 0, ret;
	volatile char *memory = malloc(bytes + 1);
	struct ibv_context *ctx;

	if (!memory || expect_signals())
		return 1;
	for (at = 0; at < bytes; at += 4096)
		memory[at] = 1;
	for (i = 0; i < FDS; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			return 1;
	ctx = open_device();
	if (!ctx)
		return 1;
	puts("ready");
	fflush(stdout);
	ret = serve(&mine, &others);
	while (mine && atomic_load(&signals) < 1)
		;
	printf("signals %d mine %d others %d\n", atomic_load(&signals), mine, others);
	return ret || ibv_close_device(ctx);
}
