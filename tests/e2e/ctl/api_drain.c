/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that asks SHIFT to drain a NIC where it runs with SHIFT, and prints what it is answered.
 * With "fork", a child opens the device, too; each ends at its line of the standard input.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <shift/shift_api.h>

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static int wait_line(void)
{
	char c = 0;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return c == '\n' ? 0 : 1;
}

static int run_forked(const char *device)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return 1;
	if (!pid) {
		struct ibv_context *ctx = open_device(device);

		return !ctx || wait_line() || ibv_close_device(ctx);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	return wait_line();
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx;
	int ret = 0;

	if (argc < 2)
		return 2;
	ctx = open_device(argv[1]);
	if (!ctx)
		return 1;
	if (argc > 2)
		ret = run_forked(argv[1]);
	else if (!shift_drain)
		puts("absent");
	else
		printf("%d %d %d %d\n", shift_drain(argv[1], 1), shift_drain("no_such", 1),
		       shift_drain("", 1), shift_drain(NULL, 0));
	return ibv_close_device(ctx) || ret;
}
