/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths of the simulated host. Everything else passes untouched. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/host/ctx.h"
#include "simnic/host/path.h"

static bool below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return !strncmp(path, prefix, n) && (!path[n] || path[n] == '/');
}

static bool is_ours(const char *path)
{
	if (path[0] != '/' || (path[1] != 's' && path[1] != 'd' && path[1] != 'p'))
		return false;
	if (path[1] == 'p')
		return below(path, "/proc/net/vlan");
	return below(path, "/sys/class/infiniband") || below(path, "/sys/class/infiniband_verbs") ||
	       below(path, "/sys/class/infiniband_mad") ||
	       below(path, "/sys/class/infiniband_cm") || below(path, "/sys/class/misc/rdma_cm") ||
	       below(path, "/dev/infiniband");
}

/* The PCI bus is the machine's own, but where hosts have GPUs. */
static bool is_bus_of_gpus(const char *path)
{
	return path[0] == '/' && path[1] == 's' && below(path, "/sys/bus/pci/devices") &&
	       !sn_host_init() && sn_host_fabric()->nic[sn_host_number()][0].slot.gpu_cards;
}

const char *sn_path_map(const char *path, char *buf, size_t len)
{
	int saved = errno;

	if (path && (is_ours(path) || is_bus_of_gpus(path)) && !sn_host_init() &&
	    snprintf(buf, len, "%s/h%u%s", sn_host_fabric()->dir, sn_host_number(), path) <
		    (int)len)
		path = buf;
	errno = saved;
	return path;
}

/* A device of a NIC: the prefix, and the number of the NIC. */
static bool device_named(const char *path, const char *prefix, unsigned int *minor)
{
	size_t n = strlen(prefix);
	char *end;

	if (!path || strncmp(path, prefix, n) || !isdigit((unsigned char)path[n]) || sn_host_init())
		return false;
	*minor = strtoul(path + n, &end, 10);
	return !*end && *minor < sn_host_fabric()->n_nics;
}

bool sn_path_uverbs(const char *path, unsigned int *minor)
{
	return device_named(path, "/dev/infiniband/uverbs", minor);
}

bool sn_path_umad(const char *path, unsigned int *minor)
{
	return device_named(path, "/dev/infiniband/umad", minor);
}

bool sn_path_rdma_cm(const char *path)
{
	return path && !strcmp(path, "/dev/infiniband/rdma_cm") && !sn_host_init();
}
