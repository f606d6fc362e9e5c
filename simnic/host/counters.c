/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/host/counters.h"
#include "simnic/host/ctx.h"
#include "simnic/host/real.h"

#define PORT "/ports/1/"

/* True for a name that says so, or a folder that may be the counters'. */
bool sn_counters_named(int dir, const char *path)
{
	if (!path || path[0] == '/')
		return path && strstr(path, "counters/") && !sn_host_init();
	return (dir != AT_FDCWD || strstr(path, "counters/")) && !sn_host_init();
}

/*
 * Takes <dir>/h0/sys/devices/.../infiniband/mlx5_0/ports/1/hw_counters/... apart: the NIC, and the
 * part behind ports/1.
 */
static const char *counter_of(const char *path, const struct sn_nic **nic)
{
	const struct sn_fabric *fabric = sn_host_fabric();
	const char *port = strstr(path, PORT), *device;
	uint32_t host = (uint32_t)sn_host_number();
	char tree[300];
	int n = snprintf(tree, sizeof(tree), "%s/h%u/sys/", fabric->dir, host);

	if (!port || strncmp(path, tree, (size_t)n))
		return NULL;
	device = memrchr(path, '/', (size_t)(port - path));
	for (uint32_t i = 0; device && i < fabric->n_nics; i++) {
		*nic = &fabric->nic[host][i];
		if (strlen((*nic)->ibdev) == (size_t)(port - device - 1) &&
		    !strncmp((*nic)->ibdev, device + 1, (size_t)(port - device - 1)))
			return port + sizeof(PORT) - 1;
	}
	return NULL;
}

static int with_value(uint64_t value)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
	int fd = memfd_create("counter", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET))) {
		sn_real()->close(fd);
		return -1;
	}
	return fd;
}

int sn_counters_open(int fd)
{
	char link[64], path[PATH_MAX];
	const struct sn_nic *nic;
	const char *file;
	int saved = errno, number, fresh;
	ssize_t n;

	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = sn_real()->readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	file = counter_of(path, &nic);
	number = file ? sn_counter_find(file) : -ENOENT;
	fresh = number < 0 ? -1 : with_value(sn_counter_read(sn_host_fabric(), nic, number));
	errno = saved;
	if (fresh < 0)
		return fd;
	sn_real()->close(fd);
	return fresh;
}
