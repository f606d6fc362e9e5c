/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NIC under test, opened with the distribution's libibverbs. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/probe/dev.h"
#include "tools/probe/probe.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static uint8_t pattern_byte(uint32_t i, uint32_t seed)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 13 ^ seed);
}

void pr_pattern_fill(uint8_t *at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		at[i] = pattern_byte(i, seed);
}

/* Compares from the end: the bytes that arrive last are looked at first. */
bool pr_pattern_is(const uint8_t *at, uint32_t len, uint32_t seed)
{
	const volatile uint8_t *seen = at;

	while (len--)
		if (seen[len] != pattern_byte(len, seed))
			return false;
	return true;
}

/* ---- finding and opening --------------------------------------------------------------------- */

static int no_such_device(struct ibv_device **list, const char *name)
{
	char names[PR_WHY_MAX / 2] = "";
	size_t used = 0;

	for (; *list && used < sizeof(names) - 32; list++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %.24s",
					 ibv_get_device_name(*list));
	if (!used)
		return pr_fail("no RDMA device here; is its driver loaded (such as mlx5_ib)?");
	if (!name)
		return pr_fail("choose a device with -d, of:%s", names);
	return pr_fail("no device %.32s here; there are:%s", name, names);
}

static struct ibv_device *find(struct ibv_device **list, int n, const char *name)
{
	struct ibv_device *found = NULL;

	for (int i = 0; i < n; i++)
		if (name ? !strcmp(ibv_get_device_name(list[i]), name) : n == 1)
			found = list[i];
	return found;
}

static int open_failed(const char *name, int err)
{
	if (err == EACCES || err == EPERM)
		return pr_fail(
			"no permission to open %.32s; your user needs read and write access to "
			"its /dev/infiniband/uverbsN",
			name);
	return pr_fail("cannot open %.32s: %s", name, strerror(err));
}

static int open_named(struct pr_dev *dev, const char *name)
{
	struct ibv_device **list, *found;
	int n, err;

	list = ibv_get_device_list(&n);
	if (!list)
		return pr_fail("no list of RDMA devices: %s",
			       errno == ENOSYS ? "this kernel has none" : strerror(errno));
	found = find(list, n, name);
	if (!found) {
		no_such_device(list, name);
		ibv_free_device_list(list);
		return -1;
	}
	snprintf(dev->name, sizeof(dev->name), "%s", ibv_get_device_name(found));
	dev->rings = mlx5dv_is_supported(found);
	errno = 0;
	dev->ctx = ibv_open_device(found);
	err = errno ? errno : EIO;
	ibv_free_device_list(list);
	return dev->ctx ? 0 : open_failed(dev->name, err);
}

/* ---- the port and its address ---------------------------------------------------------------- */

bool pr_dev_ethernet(const struct pr_dev *dev)
{
	return dev->port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB: return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
	default: return "unknown";
	}
}

static bool gid_set(const struct ibv_gid_entry *entry)
{
	static const union ibv_gid none;

	return memcmp(&entry->gid, &none, sizeof(none)) != 0;
}

static int use_gid(struct pr_dev *dev, int index)
{
	struct ibv_gid_entry entry;

	if (ibv_query_gid_ex(dev->ctx, 1, (uint32_t)index, &entry, 0) || !gid_set(&entry))
		return pr_fail(
			"GID index %d of %.32s is empty; ibv_devinfo -v shows those that are set",
			index, dev->name);
	dev->gid = entry.gid;
	dev->gid_index = index;
	dev->gid_type = gid_type_name(entry.gid_type);
	return 0;
}

/* An address that was configured routes farther than the link-local one. */
static int find_roce_v2(struct pr_dev *dev)
{
	struct ibv_gid_entry entry;
	int found = -1;

	for (int i = 0; i < dev->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(dev->ctx, 1, (uint32_t)i, &entry, 0) || !gid_set(&entry) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (found < 0 || entry.gid.raw[0] != 0xfe)
			found = i;
		if (entry.gid.raw[0] != 0xfe)
			break;
	}
	if (found < 0)
		return pr_fail("%.32s has no RoCE v2 GID: give its interface an address, or choose "
			       "another GID with -x",
			       dev->name);
	return use_gid(dev, found);
}

static int look_at_port(struct pr_dev *dev, int gid_index)
{
	if (ibv_query_device(dev->ctx, &dev->attr) || ibv_query_port(dev->ctx, 1, &dev->port))
		return pr_fail("%.32s does not answer", dev->name);
	if (dev->port.state != IBV_PORT_ACTIVE)
		return pr_fail("port 1 of %.32s is %s; the checks begin with a link that is up",
			       dev->name, ibv_port_state_str(dev->port.state));
	dev->gid_index = -1;
	dev->gid_type = "InfiniBand";
	if (gid_index >= 0)
		return use_gid(dev, gid_index);
	return pr_dev_ethernet(dev) ? find_roce_v2(dev) : 0;
}

static int take_memory(struct pr_dev *dev)
{
	if (posix_memalign((void **)&dev->mem, 4096, PR_ARENA))
		return pr_fail("no memory");
	memset(dev->mem, 0, PR_ARENA);
	dev->pd = ibv_alloc_pd(dev->ctx);
	if (!dev->pd)
		return pr_fail("cannot make a protection domain: %s", strerror(errno));
	dev->mr = ibv_reg_mr(dev->pd, dev->mem, PR_ARENA,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ |
				     (dev->attr.atomic_cap ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	if (!dev->mr)
		return pr_fail("cannot register %u MiB: %s%s", PR_ARENA >> 20, strerror(errno),
			       errno == ENOMEM ? "; raise the limit on locked memory (ulimit -l)"
					       : "");
	return 0;
}

int pr_dev_open(struct pr_dev *dev, const char *name, int gid_index)
{
	memset(dev, 0, sizeof(*dev));
	if (open_named(dev, name))
		return -1;
	if (!look_at_port(dev, gid_index) && !take_memory(dev))
		return fcntl(dev->ctx->async_fd, F_SETFL, O_NONBLOCK) ? pr_fail("fcntl") : 0;
	pr_dev_close(dev);
	return -1;
}

void pr_dev_close(struct pr_dev *dev)
{
	if (dev->mr)
		ibv_dereg_mr(dev->mr);
	if (dev->pd)
		ibv_dealloc_pd(dev->pd);
	if (dev->ctx)
		ibv_close_device(dev->ctx);
	free(dev->mem);
	memset(dev, 0, sizeof(*dev));
}

/* ---- what is said of it ---------------------------------------------------------------------- */

/* libmlx5.so.1.24.44.0 is that of rdma-core 44.0; SHIFT never stands in for it. */
static void rdma_core_version(char *buf, size_t cap)
{
	unsigned abi, major, minor;
	char real[PATH_MAX];
	const char *name;
	Dl_info info;

	snprintf(buf, cap, "unknown");
	if (!dladdr((void *)(uintptr_t)mlx5dv_is_supported, &info) ||
	    !realpath(info.dli_fname, real))
		return;
	name = strrchr(real, '/');
	if (name && sscanf(name, "/libmlx5.so.1.%u.%u.%u", &abi, &major, &minor) == 3)
		snprintf(buf, cap, "%u.%u", major, minor);
}

json_t *pr_dev_describe(const struct pr_dev *dev)
{
	struct utsname system = { 0 };
	char rdma_core[32], device[32];

	uname(&system);
	rdma_core_version(rdma_core, sizeof(rdma_core));
	snprintf(device, sizeof(device), "%04x:%u", dev->attr.vendor_id, dev->attr.vendor_part_id);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:b}", "probe", SHIFT_VERSION,
			 "firmware", dev->attr.fw_ver, "device", device, "kernel", system.release,
			 "machine", system.machine, "rdma_core", rdma_core, "link_layer",
			 pr_dev_ethernet(dev) ? dev->gid_type : "InfiniBand", "mtu",
			 128 << dev->port.active_mtu, "atomics", dev->attr.atomic_cap != 0);
}
