/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/host/gate.h"
#include "simnic/host/port_file.h"
#include "simnic/host/real.h"

#define PORT	      "/ports/1/"
#define PORT_FILE_MAX 768 /* bytes of a path; the stack may be small, as on the kernel's driver */

/* Files of the port that the driver answers by a command; of a folder, all. */
static const char *const asked[] = { "counters/",      "hw_counters/", "pkeys/",  "state",
				     "phys_state",     "rate",	       "lid",	  "sm_lid",
				     "lid_mask_count", "sm_sl",	       "cap_mask" };

static bool asks_the_nic(const char *file)
{
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		size_t n = strlen(asked[i]);

		if (asked[i][n - 1] == '/' ? !strncmp(file, asked[i], n) : !strcmp(file, asked[i]))
			return true;
	}
	return false;
}

/* True for a name that says so, or a folder that may be the port's. */
bool sn_port_file_named(int dir, const char *path)
{
	if (!path || path[0] == '/')
		return path && strstr(path, PORT) && !sn_host_init();
	return (dir != AT_FDCWD || strstr(path, "counters/")) && !sn_host_init();
}

/*
 * Takes <dir>/h0/sys/devices/.../infiniband/mlx5_0/ports/1/hw_counters/... apart: the NIC, and the
 * part behind ports/1.
 */
static const char *file_of(const char *path, const struct sn_nic **nic)
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
		sn_fd_close_own(fd);
		return -1;
	}
	return fd;
}

/* The file below ports/1, and its NIC; NULL: it is none. */
static const char *file_of_fd(int fd, char path[PORT_FILE_MAX], const struct sn_nic **nic)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = sn_real()->readlink(link, path, PORT_FILE_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return file_of(path, nic);
}

static int refused(int fd, int err)
{
	sn_fd_close_own(fd);
	errno = -err;
	return -1;
}

int sn_port_file_opened(int fd)
{
	int saved = errno, number, fresh, err;
	const struct sn_nic *nic;
	char path[PORT_FILE_MAX];
	const char *file;

	if (fd < 0)
		return fd;
	file = file_of_fd(fd, path, &nic);
	err = file && asks_the_nic(file) ? sn_gate_file(nic) : 0;
	if (err)
		return refused(fd, err);
	number = file ? sn_counter_find(file) : -ENOENT;
	fresh = number < 0 ? -1 : with_value(sn_counter_read(sn_host_fabric(), nic, number));
	errno = saved;
	if (fresh < 0)
		return fd;
	sn_fd_close_own(fd);
	return fresh;
}
