/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that crashes, or that only has SHIFT under it when that crashes: with a handler of its own set
 * "before" or "after" it opens a device, or with "none". A line of its standard input makes it crash.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDLED 42

static void on_fault(int number, siginfo_t *info, void *context)
{
	static const char right[] = "handler: address 16\n", wrong[] = "handler: another address\n";
	int written = info->si_addr == (void *)16 ? write(1, right, sizeof(right) - 1)
						  : write(1, wrong, sizeof(wrong) - 1);

	(void)number;
	(void)context;
	_exit(written > 0 ? HANDLED : 1);
}

static int set_handler(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	return sigaction(SIGSEGV, &action, NULL);
}

static int open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	return !list || !list[0] || !ibv_open_device(list[0]);
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "none";
	volatile char *volatile nowhere = (char *)16;
	char line[16];

	if (!strcmp(when, "before") && set_handler())
		return 1;
	if (open_first())
		return 1;
	if (!strcmp(when, "after") && set_handler())
		return 1;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	*nowhere = 1;
	return 1;
}
