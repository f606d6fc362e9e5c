/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Real devices in a host's tree. A device is three links: its class folders, and the node that
 * programs open. They lead out of the tree to resolved names, which no interposer maps, so the
 * kernel serves all access to them.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/machine.h"
#include "simnic/fabric/sysfs.h"

#define LINK_MAX_LEN 512

static bool name_is_ours(const struct sn_fabric *fabric, uint32_t host, const char *device)
{
	for (uint32_t n = 0; n < fabric->n_nics; n++)
		if (!strcmp(fabric->nic[host][n].ibdev, device))
			return true;
	return false;
}

/* Does the file uverbs<n>/ibdev name the device? */
static bool is_of_device(const char *root, unsigned int minor, const char *device)
{
	char path[PATH_MAX], name[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/class/infiniband_verbs/uverbs%u/ibdev", root, minor);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	name[strcspn(name, "\n")] = '\0';
	return !strcmp(name, device);
}

static int find_uverbs(const char *root, const char *device, unsigned int *minor)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	int err = -ENOENT, end;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/sys/class/infiniband_verbs", root);
	dir = opendir(folder);
	if (!dir)
		return err;
	while (err && (entry = readdir(dir))) {
		end = 0;
		if (sscanf(entry->d_name, "uverbs%u%n", minor, &end) == 1 && end &&
		    !entry->d_name[end] && is_of_device(root, *minor, device))
			err = 0;
	}
	closedir(dir);
	return err;
}

/* @link is below the host's tree; the new one or the old one is there at any time. */
static int link_put(const struct sn_fabric *fabric, uint32_t host, const char *link,
		    const char *target)
{
	char path[LINK_MAX_LEN], fresh[LINK_MAX_LEN];

	snprintf(path, sizeof(path), "%s/h%u/%s", fabric->dir, host, link);
	snprintf(fresh, sizeof(fresh), "%s/h%u/.machine.%d", fabric->dir, host, getpid());
	return symlink(target, fresh) || rename(fresh, path) ? -errno : 0;
}

/* The resolved name of what is at <root>/<path>. */
static int resolve(char target[PATH_MAX], const char *root, const char *path)
{
	char name[PATH_MAX];

	if (snprintf(name, sizeof(name), "%s/%s", root, path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	return realpath(name, target) ? 0 : -errno;
}

static int link_resolved(const struct sn_fabric *fabric, uint32_t host, const char *root,
			 const char *path, const char *link)
{
	char target[PATH_MAX];
	int err = resolve(target, root, path);

	return err ? err : link_put(fabric, host, link, target);
}

int sn_machine_add(const struct sn_fabric *fabric, uint32_t host, const char *root,
		   const char *device)
{
	char ibdev[128], uverbs[64], link[64], node[64], node_link[64], unused[PATH_MAX];
	unsigned int minor;
	int err;

	if (!*device || *device == '.' || strchr(device, '/') || strlen(device) > 63)
		return -ENODEV;
	snprintf(ibdev, sizeof(ibdev), "sys/class/infiniband/%s", device);
	if (resolve(unused, root, ibdev))
		return -ENODEV;
	if (name_is_ours(fabric, host, device))
		return -EEXIST;
	err = find_uverbs(root, device, &minor);
	if (err)
		return err;
	snprintf(uverbs, sizeof(uverbs), "sys/class/infiniband_verbs/uverbs%u", minor);
	snprintf(link, sizeof(link), "sys/class/infiniband_verbs/uverbs%u", SN_MAX_NICS + minor);
	snprintf(node, sizeof(node), "dev/infiniband/uverbs%u", minor);
	snprintf(node_link, sizeof(node_link), "dev/infiniband/uverbs%u", SN_MAX_NICS + minor);
	err = link_resolved(fabric, host, root, node, node_link);
	if (!err)
		err = link_resolved(fabric, host, root, ibdev, ibdev);
	if (!err)
		err = link_resolved(fabric, host, root, uverbs, link);
	/*
	 * Tools take the first device, and the newest is listed first: renew the software ones, to
	 * be first as before.
	 */
	if (!err)
		sn_sysfs_links_renew(fabric, host, fabric->n_nics);
	return err;
}
