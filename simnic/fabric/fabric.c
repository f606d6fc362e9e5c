/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shared file: its name, mapping, and the hosts in it. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"

static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	if (!n || n >= sizeof(((struct sn_fabric *)0)->name) || name[0] == '.')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

int sn_fabric_dir(const char *name, char *buf, size_t len)
{
	if (!name_ok(name))
		return -EINVAL;
	return snprintf(buf, len, "/dev/shm/simnic-%s", name) < (int)len ? 0 : -ENAMETOOLONG;
}

int sn_fabric_path(const char *name, char *buf, size_t len)
{
	if (!name_ok(name))
		return -EINVAL;
	return snprintf(buf, len, "/dev/shm/simnic-%s/fabric", name) < (int)len ? 0 : -ENAMETOOLONG;
}

int sn_fabric_map(int fd, struct sn_fabric **out)
{
	void *mem = mmap(NULL, sizeof(struct sn_fabric), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (mem == MAP_FAILED)
		return -errno;
	/* A child must not keep writing into its parent's slot by accident, but it may attach. */
	*out = mem;
	return 0;
}

/* The size alone does not tell: a member may have another meaning, or another place. */
static bool is_our_layout(const struct sn_fabric *fabric)
{
	return fabric->magic == SN_MAGIC && fabric->version == SN_VERSION &&
	       fabric->size_check == sizeof(*fabric);
}

int sn_fabric_attach(const char *name, struct sn_fabric **out)
{
	char path[300];
	struct stat st;
	int fd, err;

	err = sn_fabric_path(name, path, sizeof(path));
	if (err)
		return err;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : 0;
	if (!err && (size_t)st.st_size != sizeof(struct sn_fabric))
		err = -EPROTO;
	if (!err)
		err = sn_fabric_map(fd, out);
	close(fd);
	if (err)
		return err;
	if (is_our_layout(*out))
		return 0;
	sn_fabric_detach(*out);
	return -EPROTO;
}

void sn_fabric_detach(struct sn_fabric *fabric)
{
	if (fabric)
		munmap(fabric, sizeof(*fabric));
}

int sn_fabric_find_host(const struct sn_fabric *fabric, const char *name)
{
	unsigned long host;
	char *end;

	if (name[0] != 'h' || !isdigit((unsigned char)name[1]))
		return -ENOENT;
	host = strtoul(name + 1, &end, 10);
	return *end || host >= fabric->n_hosts ? -ENOENT : (int)host;
}
