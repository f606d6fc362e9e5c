/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory of this process that other processes may have, too, from /proc/self/maps. */
#ifndef SHIFTLIB_MAPS_H
#define SHIFTLIB_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Ranges that are mapped shared, by rising addresses. Memory of devices (/dev/nvidia0) is left
 * out.
 */
struct sh_maps {
	struct sh_map {
		uint64_t start, end;
	} * ranges;
	size_t n, room;
};

/*
 * Reads the ranges: a millisecond for some thousand, of all kinds. 0, or -errno: what was read
 * counts.
 */
int sh_maps_read(struct sh_maps *maps);
void sh_maps_free(struct sh_maps *maps);
/* Has one of the ranges a byte in common with that? */
bool sh_maps_have(const struct sh_maps *maps, uint64_t addr, uint64_t length);
/* Reads one line of the file: is it such a range? */
bool sh_maps_line(const char *line, struct sh_map *map);

#endif
