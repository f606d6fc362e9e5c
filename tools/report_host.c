/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The parts of a report about this machine: versions, and what sysfs says of its NICs. */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/report.h"

#define HOST_SYSFS "/sys/class/infiniband"
#define HOST_PKEYS "pkeys"

static void host_distribution(void)
{
	FILE *file = fopen("/etc/os-release", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "PRETTY_NAME=", strlen("PRETTY_NAME=")))
			printf("distribution %s", line + strlen("PRETTY_NAME="));
	if (file)
		fclose(file);
}

void report_versions(struct report *report)
{
	char *argv[] = { "version", NULL };
	struct utsname name;

	optind = 0;
	cmd_version(1, argv);
	if (!uname(&name)) /* without the name of the host */
		printf("kernel      %s %s %s\n", name.sysname, name.release, name.machine);
	host_distribution();
}

/* ---- NICs ------------------------------------------------------------------------------------ */

/* Files of a device, below its folder; numbers of the hardware, such as GUIDs, are not told. */
static const char *const host_files[] = { "node_type",
					  "fw_ver",
					  "hca_type",
					  "hw_rev",
					  "board_id",
					  "device/vendor",
					  "device/device",
					  "device/subsystem_device",
					  "device/class",
					  "device/numa_node",
					  "device/current_link_speed",
					  "device/current_link_width" };

static const char *const host_port_files[] = { "state",	     "phys_state", "rate",
					       "link_layer", "lid",	   "cap_mask" };

/* Writes "folder/name"; "" if that is too long. */
static void host_join(char out[PATH_MAX], const char *folder, const char *name)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);

	if (n < 0 || n >= PATH_MAX)
		out[0] = '\0';
}

static void host_file(const char *device, const char *name)
{
	char below[PATH_MAX], path[PATH_MAX], text[256];
	ssize_t n;
	int fd;

	host_join(below, device, name);
	host_join(path, HOST_SYSFS, below);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	/* an index of no partition says nothing */
	if (!strstr(name, "/" HOST_PKEYS "/") || strtol(text, NULL, 0))
		printf("%s/%s: %s\n", device, name, text);
}

static int host_is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Calls fn for each name in a folder below HOST_SYSFS. */
static void host_each(const char *folder, void (*fn)(const char *folder, const char *name))
{
	struct dirent **names = NULL;
	char path[PATH_MAX];
	int n;

	host_join(path, HOST_SYSFS, folder);
	n = scandir(path, &names, host_is_name, alphasort);
	for (int i = 0; i < n; i++) {
		fn(folder, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

/* @folder is "mlx5_0/ports/1/counters" */
static void host_counter(const char *folder, const char *name)
{
	size_t device = strcspn(folder, "/");
	char of[64], below[PATH_MAX];

	snprintf(of, sizeof(of), "%.*s", (int)device, folder);
	host_join(below, folder + device + 1, name);
	host_file(of, below);
}

static void host_port(const char *folder, const char *port)
{
	static const char *const folders[] = { "counters", "hw_counters", HOST_PKEYS,
					       "gid_attrs/types" };
	char of_port[PATH_MAX], below[PATH_MAX];

	host_join(of_port, folder, port);
	for (size_t i = 0; i < sizeof(host_port_files) / sizeof(*host_port_files); i++)
		host_counter(of_port, host_port_files[i]);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		host_join(below, of_port, folders[i]);
		host_each(below, host_counter);
	}
}

static void host_device(const char *folder, const char *device)
{
	char below[PATH_MAX];

	for (size_t i = 0; i < sizeof(host_files) / sizeof(*host_files); i++)
		host_file(device, host_files[i]);
	host_join(below, device, "ports");
	host_each(below, host_port);
	host_join(below, device, "hw_counters");
	host_each(below, host_counter);
}

void report_nics(struct report *report)
{
	host_each("", host_device);
}
