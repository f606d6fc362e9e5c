/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sdr/nccl/interface.h"
#include "sdr/tests/e2e/nccl/handle.h"

#include <stdio.h>
#include <time.h>

#define HANDLE_NAME_MAX 512

static void handle_name(char *name, const char *dir, uint64_t number, const char *end)
{
	snprintf(name, HANDLE_NAME_MAX, "%s/handle-%llu%s", dir, (unsigned long long)number, end);
}

bool handle_give(const char *dir, uint64_t number, const uint8_t *handle)
{
	char name[HANDLE_NAME_MAX], temporary[HANDLE_NAME_MAX];
	FILE *file;

	handle_name(name, dir, number, "");
	handle_name(temporary, dir, number, ".new");
	file = fopen(temporary, "w");
	return file && fwrite(handle, NCCL_HANDLE_MAX, 1, file) == 1 && !fclose(file) &&
	       !rename(temporary, name);
}

bool handle_take(const char *dir, uint64_t number, uint8_t *handle)
{
	const struct timespec nap = { .tv_nsec = 2000000 };
	char name[HANDLE_NAME_MAX];
	FILE *file;
	bool read;

	handle_name(name, dir, number, "");
	while (!(file = fopen(name, "r")))
		nanosleep(&nap, NULL);
	read = fread(handle, NCCL_HANDLE_MAX, 1, file) == 1;
	fclose(file);
	return read;
}
