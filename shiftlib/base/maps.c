/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/maps.h"

/* Files below /dev that are memory: POSIX shared memory, pages without a file, huge pages. */
static bool maps_is_device(const char *file)
{
	static const char *const memory[] = { "/dev/shm/", "/dev/zero", "/dev/hugepages", NULL };
	int i;

	if (strncmp(file, "/dev/", 5))
		return false;
	for (i = 0; memory[i]; i++)
		if (!strncmp(file, memory[i], strlen(memory[i])))
			return false;
	return true;
}

bool sh_maps_line(const char *line, struct sh_map *map)
{
	char rights[5] = "";
	int file = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &map->start, &map->end,
		   rights, &file) < 3)
		return false;
	return rights[3] == 's' && !(file && maps_is_device(line + file));
}

static int maps_add(struct sh_maps *maps, const struct sh_map *map)
{
	size_t room = maps->room ? 2 * maps->room : 16;
	struct sh_map *ranges = maps->ranges;

	if (maps->n == maps->room) {
		ranges = realloc(ranges, room * sizeof(*ranges));
		if (!ranges)
			return -ENOMEM;
		maps->ranges = ranges;
		maps->room = room;
	}
	ranges[maps->n++] = *map;
	return 0;
}

int sh_maps_read(struct sh_maps *maps)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct sh_map map;
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	memset(maps, 0, sizeof(*maps));
	if (!f)
		return -errno;
	while (!ret && getline(&line, &room, f) > 0)
		if (sh_maps_line(line, &map))
			ret = maps_add(maps, &map);
	free(line);
	fclose(f);
	return ret;
}

void sh_maps_free(struct sh_maps *maps)
{
	free(maps->ranges);
	memset(maps, 0, sizeof(*maps));
}

/* A region of all memory (implicit paging on demand) ends where addresses do. */
bool sh_maps_have(const struct sh_maps *maps, uint64_t addr, uint64_t length)
{
	uint64_t end = addr + length < addr ? UINT64_MAX : addr + length;
	size_t i;

	for (i = 0; i < maps->n; i++)
		if (maps->ranges[i].start < end && addr < maps->ranges[i].end)
			return true;
	return false;
}
