/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The VLAN of an interface, found as the kernel does for a GID (rdma_read_gid_l2_fields): the
 * interface is a VLAN's, or lies directly on such an interface, as a macvlan does.
 */
#include "shiftlib/control/vlan.h"

#include <dirent.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOWER "lower_"
#define VID   "VID:"

static uint16_t vlan_read(const char *root, const char *interface)
{
	char path[512], line[256] = "";
	unsigned long vlan;
	const char *at;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/net/vlan/%s", root, interface);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	at = strstr(line, VID);
	vlan = at ? strtoul(at + sizeof(VID) - 1, NULL, 10) : 0;
	return vlan < 4095 ? (uint16_t)vlan : 0;
}

static bool vlan_lower(const char *root, const char *interface, char lower[IF_NAMESIZE])
{
	struct dirent *entry;
	char path[512];
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/class/net/%s", root, interface);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		found = !strncmp(entry->d_name, LOWER, sizeof(LOWER) - 1);
		if (found)
			snprintf(lower, IF_NAMESIZE, "%.15s", entry->d_name + sizeof(LOWER) - 1);
	}
	closedir(dir);
	return found;
}

uint16_t sh_vlan_of(const char *root, const char *interface)
{
	uint16_t vlan = vlan_read(root, interface);
	char lower[IF_NAMESIZE];

	return !vlan && vlan_lower(root, interface, lower) ? vlan_read(root, lower) : vlan;
}
