/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dirent.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"
#include "simnic/host/last_close.h"
#include "simnic/host/real.h"

/* Commands by which mlx5 gives back the context itself, as far as a NIC that hangs was seen. */
#define OF_THE_CONTEXT 2

static bool wanted(void)
{
	const char *value = getenv("SIMNIC_CLOSE_WAITS");

	return value && !strcmp(value, "1");
}

/* The NIC may come back meanwhile: then nothing waits. */
static void wait_for_commands(const struct sn_ctx *ctx, uint32_t n)
{
	while (n--)
		sn_gate_destroyed(ctx);
}

void sn_last_close(const struct sn_ctx *ctx)
{
	uint32_t n = OF_THE_CONTEXT;

	if (!wanted())
		return;
	for (uint32_t i = 0; i < ctx->n_objs; i++)
		if (ctx->objs[i])
			n += ctx->objs[i]->type == SN_OBJ_QP ? 2 : ctx->objs[i]->type != SN_OBJ_AH;
	wait_for_commands(ctx, n);
}

/* ---- the end of the process ----------------------------------------------------------------- */

static bool file_in(const char *folder, const struct stat *file)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	struct stat found;
	bool there = false;

	while (dir && !there && (entry = readdir(dir)))
		there = !fstatat(dirfd(dir), entry->d_name, &found, 0) &&
			found.st_ino == file->st_ino && found.st_dev == file->st_dev;
	if (dir)
		closedir(dir);
	return there;
}

/* The NIC's own process has this one's table of descriptors, and ends with it. */
static bool same_table(pid_t pid)
{
	return pid == getpid() || !syscall(SYS_kcmp, getpid(), pid, KCMP_FILES, 0, 0);
}

/* Has another process the file? */
static bool held_elsewhere(int fd)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char folder[64];
	struct stat file;
	bool held = false;
	pid_t pid;

	if (sn_real()->fstat(fd, &file))
		return true;
	while (proc && !held && (entry = readdir(proc))) {
		pid = atoi(entry->d_name);
		snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
		held = pid && !same_table(pid) && file_in(folder, &file);
	}
	if (proc)
		closedir(proc);
	return held;
}

static void wait_as_a_kernel(int status, void *arg)
{
	struct sn_ctx *ctx;

	for (int fd = 0; (fd = sn_ctx_next(fd, &ctx)) >= 0; fd++) {
		if (!held_elsewhere(fd))
			sn_last_close(ctx);
		sn_ctx_put(ctx);
	}
}

/* Behind all destructors, which may still find a holder for the file. */
static void __attribute__((destructor)) at_the_end(void)
{
	if (wanted())
		on_exit(wait_as_a_kernel, NULL);
}
