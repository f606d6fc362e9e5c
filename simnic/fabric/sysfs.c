/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tree below <dir>/h<N>: sys/class/infiniband, sys/class/infiniband_verbs, sys/devices and
 * dev/infiniband. Plain files: what programs read of a real ConnectX-6 (board id, PCI address,
 * GID tables). Symlinks are relative, so that openat from a directory descriptor stays inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/pci_path.h"
#include "simnic/fabric/sysfs.h"

struct tree {
	char base[512]; /* where relative paths start */
	bool replace;	/* programs read it meanwhile: the old file or the new one, never a half */
	int err;	/* first failure; later calls do nothing */
};

static void make_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
}

static void put(struct tree *tree, const char *file, const char *format, ...)
{
	char path[1024], fresh[1100];
	va_list args;
	FILE *f;

	if (tree->err)
		return;
	snprintf(path, sizeof(path), "%s/%s", tree->base, file);
	make_parents(path);
	snprintf(fresh, sizeof(fresh), tree->replace ? "%s.%d" : "%s", path, getpid());
	f = fopen(fresh, "we");
	if (!f) {
		tree->err = -errno;
		return;
	}
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	if (fputc('\n', f) == EOF || fclose(f))
		tree->err = -EIO;
	else if (tree->replace && rename(fresh, path))
		tree->err = -errno;
}

static void drop(const struct tree *tree, const char *file)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", tree->base, file);
	remove(path);
}

static void put_link(struct tree *tree, const char *link, const char *target)
{
	char path[1024], fresh[1100];

	if (tree->err)
		return;
	snprintf(path, sizeof(path), "%s/%s", tree->base, link);
	make_parents(path);
	/* Readers of a folder of devices pass over names with a dot in front. */
	snprintf(fresh, sizeof(fresh), "%s/.link.%d", tree->base, getpid());
	if (symlink(target, fresh) || rename(fresh, path))
		tree->err = -errno;
}

static void put_guid(struct tree *tree, const char *file, uint64_t guid)
{
	put(tree, file, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
	    (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
	    (unsigned)guid & 0xffff);
}

static void put_gid(struct tree *tree, const char *file, const uint8_t gid[16])
{
	char text[64], *p = text;

	for (int i = 0; i < 16; i += 2)
		p += sprintf(p, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
	put(tree, file, "%s", text);
}

static void tree_host(struct tree *tree, const struct sn_fabric *fabric, uint32_t host)
{
	snprintf(tree->base, sizeof(tree->base), "%s/h%u", fabric->dir, host);
}

/* ---- PCI ------------------------------------------------------------------------------------ */

static void pci_link(struct tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char link[64], target[256];

	snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", function);
	snprintf(target, sizeof(target), "../../../devices/%s", pci);
	put_link(tree, link, target);
}

#define DRIVER	 "mlx5_core"
#define MODALIAS "pci:v000015B3d0000101Bsv000015B3sd00000007bc02sc00i00"

#define CONFIG_HEADER 64 /* bytes that may be read without privileges */

/* Written in place, as whoever has it open reads the device, not a file. */
static void put_config(struct tree *tree, const struct sn_nic *nic)
{
	uint8_t config[CONFIG_HEADER] = { 0xb3, 0x15, 0x1b, 0x10, 0x46, 0x05, 0x10, 0x00,
					  0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00 };
	uint32_t pci = atomic_load(&nic->pci);
	char path[1024];
	int fd;

	if (tree->err)
		return;
	if (pci == SN_PCI_NO_MASTER)
		config[4] &= ~0x04;
	else if (pci == SN_PCI_ALL_ONES)
		memset(config, 0xff, sizeof(config));
	snprintf(path, sizeof(path), "%s/config", tree->base);
	make_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || pwrite(fd, config, sizeof(config), 0) != sizeof(config))
		tree->err = -EIO;
	if (fd >= 0)
		close(fd);
}

/* The kernel's driver of the NIC. Open MPI takes UCX for a device by its driver's name. */
static void put_driver(struct tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char up[64] = "../../", target[256];

	for (const char *p = strchr(pci, '/'); p; p = strchr(p + 1, '/'))
		strcat(up, "../");
	snprintf(target, sizeof(target), "%sbus/pci", up);
	put_link(tree, "subsystem", target);
	snprintf(target, sizeof(target), "%sbus/pci/drivers/" DRIVER, up);
	put_link(tree, "driver", target);
	put(tree, "uevent",
	    "DRIVER=" DRIVER "\nPCI_CLASS=20000\nPCI_ID=15B3:101B\nPCI_SUBSYS_ID=15B3:0007\n"
	    "PCI_SLOT_NAME=%s\nMODALIAS=" MODALIAS,
	    function);
}

static void driver_link(struct tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char link[64], target[256];

	snprintf(link, sizeof(link), "sys/bus/pci/drivers/" DRIVER "/%s", function);
	snprintf(target, sizeof(target), "../../../../devices/%s", pci);
	put_link(tree, link, target);
}

static void put_pci_speed(struct tree *tree, const struct sn_nic *nic)
{
	const struct sn_speed *speed = &nic->cable.speed;

	put(tree, "current_link_speed", "%s", sn_speed_pci_text(speed));
	put(tree, "current_link_width", "%u", atomic_load(&speed->pci_lanes));
}

static void put_rate(struct tree *tree, const struct sn_nic *nic)
{
	char text[SN_SPEED_TEXT];

	sn_speed_rate_text(&nic->cable.speed, text);
	put(tree, "ports/1/rate", "%s", text);
}

static void tree_pci(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	driver_link(tree, pci);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s", pci);
	put_config(tree, nic);
	put_driver(tree, pci);
	put(tree, "vendor", "0x15b3");
	put(tree, "device", "0x101b");
	put(tree, "subsystem_vendor", "0x15b3");
	put(tree, "subsystem_device", "0x0007");
	put(tree, "class", "0x020000");
	put(tree, "revision", "0x00");
	put(tree, "modalias", MODALIAS);
	put(tree, "numa_node", "%d", nic->numa);
	put(tree, "local_cpus", "ffffffff");
	put(tree, "local_cpulist", "0-31");
	put(tree, "max_link_speed", "16.0 GT/s PCIe");
	put(tree, "max_link_width", "16");
	put_pci_speed(tree, nic);
	put(tree, "enable", "1");
	put(tree, "../class", "0x060400");
	put(tree, "../max_link_speed", "16.0 GT/s PCIe");
	put(tree, "../max_link_width", "16");
}

static void put_port_state(struct tree *tree, const struct sn_nic *nic)
{
	bool up = atomic_load(&nic->port_up);

	put(tree, "ports/1/state", up ? "4: ACTIVE" : "1: DOWN");
	put(tree, "ports/1/phys_state", up ? "5: LinkUp" : "3: Disabled");
}

static void tree_gid(struct tree *tree, const struct sn_nic *nic, uint32_t index)
{
	static const char *const types[] = { [SN_GID_IB] = "IB/RoCE v1",
					     [SN_GID_ROCE_V1] = "IB/RoCE v1",
					     [SN_GID_ROCE_V2] = "RoCE v2" };
	static const uint8_t nothing[16];
	uint32_t type = atomic_load(&nic->gid_type[index]);
	uint16_t vlan = sn_nic_vlan_at(nic, index);
	char gid[64], kind[64], ndev[64], name[32];
	uint8_t own[16];

	snprintf(gid, sizeof(gid), "ports/1/gids/%u", index);
	snprintf(kind, sizeof(kind), "ports/1/gid_attrs/types/%u", index);
	snprintf(ndev, sizeof(ndev), "ports/1/gid_attrs/ndevs/%u", index);
	sn_nic_gid_at(nic, index, own);
	put_gid(tree, gid, type ? own : nothing);
	if (type)
		put(tree, kind, "%s", types[type]);
	else
		drop(tree, kind); /* the kernel's file of an empty entry cannot be read either */
	sn_nic_vlan_name(nic, vlan, name, sizeof(name));
	if (type && nic->netdev[0])
		put(tree, ndev, "%s", vlan ? name : nic->netdev);
	else
		drop(tree, ndev);
}

/*
 * Writes the kernel's files about VLAN interfaces. Those of former VLANs stay; no GID leads there.
 */
static void tree_vlans(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = { .replace = true };
	char file[64], name[32];
	uint16_t vlan;

	tree_host(&tree, fabric, nic->host);
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		vlan = sn_nic_vlan_at(nic, i);
		if (!vlan)
			continue;
		sn_nic_vlan_name(nic, vlan, name, sizeof(name));
		snprintf(file, sizeof(file), "proc/net/vlan/%s", name);
		put(&tree, file, "%s  VID: %u\t REORDER_HDR: 1  dev->priv_flags: 1021\nDevice: %s",
		    name, vlan, nic->netdev);
	}
}

static void tree_pkeys(struct tree *tree, const struct sn_nic *nic)
{
	char file[32];

	for (uint32_t i = 0; i < sn_nic_pkeys(nic); i++) {
		snprintf(file, sizeof(file), "ports/1/pkeys/%u", i);
		put(tree, file, "0x%04x", atomic_load(&nic->tenant.pkey[i]));
	}
}

static void tree_gids(struct tree *tree, const struct sn_nic *nic)
{
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		tree_gid(tree, nic, i);
}

/* Below the PCI function, where /sys/class/infiniband/<device>/device/net leads. */
static void tree_netdev(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128], file[256];

	if (!nic->netdev[0])
		return;
	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(file, sizeof(file), "sys/devices/%s/net/%s/dev_port", pci, nic->netdev);
	put(tree, file, "0");
	snprintf(file, sizeof(file), "sys/devices/%s/net/%s/dev_id", pci, nic->netdev);
	put(tree, file, "0x0");
}

/* Lists the counters: reads find the values of that moment (host/port_file.c). */
static void tree_counters(struct tree *tree)
{
	char path[64];

	for (uint32_t i = 0; sn_counter_file(i); i++) {
		snprintf(path, sizeof(path), "ports/1/%s", sn_counter_file(i));
		put(tree, path, "0");
	}
}

static void tree_port(struct tree *tree, const struct sn_nic *nic)
{
	bool eth = nic->link_layer == SN_LINK_ETH;

	put_port_state(tree, nic);
	put(tree, "ports/1/link_layer", eth ? "Ethernet" : "InfiniBand");
	put(tree, "ports/1/lid", "0x%x", nic->lid);
	put(tree, "ports/1/lid_mask_count", "0");
	put(tree, "ports/1/sm_lid", "0x%x", eth ? 0 : 1);
	put(tree, "ports/1/sm_sl", "0");
	put_rate(tree, nic);
	put(tree, "ports/1/cap_mask", eth ? "0x04010000" : "0x2651e848");
	tree_pkeys(tree, nic);
	tree_counters(tree);
	tree_gids(tree, nic);
}

static void tree_ibdev(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s/infiniband/%s", pci,
		 nic->ibdev);
	put(tree, "node_type", "1: CA");
	put_guid(tree, "node_guid", nic->node_guid);
	put_guid(tree, "sys_image_guid", nic->image_guid);
	put(tree, "node_desc", "h%u simnic", nic->host);
	put(tree, "fw_ver", "20.35.1012");
	put(tree, "hw_rev", "0");
	put(tree, "hca_type", "MT4123");
	put(tree, "board_id", "MT_0000000223");
	tree_port(tree, nic);
	put_link(tree, "device", "../..");
}

static void tree_uverbs(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	put(tree, "sys/class/infiniband_verbs/abi_version", "6");
	sn_pci_path(pci, sizeof(pci), nic);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n,
		 "/sys/devices/%s/infiniband_verbs/uverbs%u", pci, nic->uverbs_minor);
	put(tree, "ibdev", "%s", nic->ibdev);
	put(tree, "abi_version", "1");
	put(tree, "dev", "231:%u", 192 + nic->uverbs_minor);
	put_link(tree, "device", "../..");
}

static void tree_umad(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	put(tree, "sys/class/infiniband_mad/abi_version", "5");
	sn_pci_path(pci, sizeof(pci), nic);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s/infiniband_mad/umad%u",
		 pci, nic->uverbs_minor);
	put(tree, "ibdev", "%s", nic->ibdev);
	put(tree, "port", "1");
	put(tree, "dev", "231:%u", nic->uverbs_minor);
	put_link(tree, "device", "../..");
}

/* Makes the device findable: its class links, and the node to open. */
static void tree_links(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128], link[128], target[256];

	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(link, sizeof(link), "dev/infiniband/uverbs%u", nic->uverbs_minor);
	put(tree, link, "simnic");
	snprintf(target, sizeof(target), "../../devices/%s/infiniband/%s", pci, nic->ibdev);
	snprintf(link, sizeof(link), "sys/class/infiniband/%s", nic->ibdev);
	put_link(tree, link, target);
	snprintf(target, sizeof(target), "../../devices/%s/infiniband_verbs/uverbs%u", pci,
		 nic->uverbs_minor);
	snprintf(link, sizeof(link), "sys/class/infiniband_verbs/uverbs%u", nic->uverbs_minor);
	put_link(tree, link, target);
	snprintf(link, sizeof(link), "dev/infiniband/umad%u", nic->uverbs_minor);
	put(tree, link, "simnic");
	snprintf(target, sizeof(target), "../../devices/%s/infiniband_mad/umad%u", pci,
		 nic->uverbs_minor);
	snprintf(link, sizeof(link), "sys/class/infiniband_mad/umad%u", nic->uverbs_minor);
	put_link(tree, link, target);
}

/* The GPU beside the first port of a card. */
static void tree_gpu(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	sn_pci_gpu_path(pci, sizeof(pci), nic);
	pci_link(tree, pci);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s", pci);
	put(tree, "vendor", "0x10de");
	put(tree, "device", "0x2330");
	put(tree, "class", "0x030200");
	put(tree, "numa_node", "%d", nic->numa);
}

/* The PCI bus shows NICs and GPUs where there are GPUs; else programs see the machine's own. */
static void tree_bus(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];

	if (!nic->slot.gpu_cards)
		return;
	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	pci_link(tree, pci);
	if (!nic->slot.function)
		tree_gpu(tree, fabric, nic);
}

static void tree_rdma_cm(struct tree *tree, const struct sn_fabric *fabric, uint32_t host)
{
	tree_host(tree, fabric, host);
	put(tree, "sys/class/misc/rdma_cm/abi_version", "4");
	put(tree, "sys/class/misc/rdma_cm/dev", "10:122");
	put(tree, "dev/infiniband/rdma_cm", "simnic");
	put(tree, "mad/README", "Sockets of programs that opened umad.");
}

static void tree_nic(struct tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	tree_pci(tree, fabric, nic);
	tree_netdev(tree, fabric, nic);
	tree_ibdev(tree, fabric, nic);
	tree_uverbs(tree, fabric, nic);
	tree_umad(tree, fabric, nic);
	tree_links(tree, fabric, nic);
	tree_bus(tree, fabric, nic);
}

int sn_sysfs_create(const struct sn_fabric *fabric)
{
	struct tree tree = { .err = 0 };

	/* Last first: tmpfs lists the newest entry first, and tools take the first device. */
	for (uint32_t host = 0; host < fabric->n_hosts; host++) {
		tree_rdma_cm(&tree, fabric, host);
		for (uint32_t n = fabric->n_nics; n-- > 0;)
			tree_nic(&tree, fabric, &fabric->nic[host][n]);
	}
	return tree.err;
}

/* Programs read on while it changes; a device that is not in the classes has its tree still. */
static struct tree tree_of_device(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = { .replace = true };
	char pci[128];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s/infiniband/%s", fabric->dir,
		 nic->host, pci, nic->ibdev);
	return tree;
}

void sn_sysfs_port_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = tree_of_device(fabric, nic);

	put_port_state(&tree, nic);
}

static struct tree tree_of_function(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = { .replace = true };
	char pci[128];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s", fabric->dir, nic->host,
		 pci);
	return tree;
}

void sn_sysfs_pci_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = tree_of_function(fabric, nic);

	put_config(&tree, nic);
}

void sn_sysfs_speed_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree port = tree_of_device(fabric, nic), function = tree_of_function(fabric, nic);

	put_rate(&port, nic);
	put_pci_speed(&function, nic);
}

void sn_sysfs_gids_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = tree_of_device(fabric, nic);

	tree_gids(&tree, nic);
	tree_vlans(fabric, nic);
}

void sn_sysfs_pkeys_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = tree_of_device(fabric, nic);

	tree_pkeys(&tree, nic);
}

void sn_sysfs_netdev_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic,
			     const char *old)
{
	static const char *const parts[] = { "/dev_port", "/dev_id", "" };
	struct tree tree = tree_of_device(fabric, nic);
	char file[128];

	for (size_t i = 0; old[0] && i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(file, sizeof(file), "../../net/%s%s", old, parts[i]);
		drop(&tree, file);
	}
	drop(&tree, "../../net"); /* now as for a NIC without one; tree_netdev() makes it anew */
	tree_gids(&tree, nic);
	tree_netdev(&tree, fabric, nic);
}

void sn_sysfs_nic_renamed(const struct sn_fabric *fabric, const struct sn_nic *nic, const char *old)
{
	struct tree tree = { .replace = true };
	char pci[128], from[1024], to[1024];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s", fabric->dir, nic->host,
		 pci);
	snprintf(from, sizeof(from), "%s/infiniband/%s", tree.base, old);
	snprintf(to, sizeof(to), "%s/infiniband/%s", tree.base, nic->ibdev);
	rename(from, to);
	snprintf(to, sizeof(to), "infiniband_verbs/uverbs%u/ibdev", nic->uverbs_minor);
	put(&tree, to, "%s", nic->ibdev);
	snprintf(to, sizeof(to), "infiniband_mad/umad%u/ibdev", nic->uverbs_minor);
	put(&tree, to, "%s", nic->ibdev);
}

void sn_sysfs_nic_hide(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = { .replace = true };
	char file[128];

	tree_host(&tree, fabric, nic->host);
	snprintf(file, sizeof(file), "sys/class/infiniband_verbs/uverbs%u", nic->uverbs_minor);
	drop(&tree, file);
	snprintf(file, sizeof(file), "sys/class/infiniband/%s", nic->ibdev);
	drop(&tree, file);
	snprintf(file, sizeof(file), "dev/infiniband/uverbs%u", nic->uverbs_minor);
	drop(&tree, file);
	snprintf(file, sizeof(file), "sys/class/infiniband_mad/umad%u", nic->uverbs_minor);
	drop(&tree, file);
	snprintf(file, sizeof(file), "dev/infiniband/umad%u", nic->uverbs_minor);
	drop(&tree, file);
}

/* libibverbs takes folders of another age for another device. */
static void device_becomes_new(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128], path[1024];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(path, sizeof(path), "%s/h%u/sys/devices/%s/infiniband_verbs/uverbs%u", fabric->dir,
		 nic->host, pci, nic->uverbs_minor);
	utimensat(AT_FDCWD, path, NULL, 0);
	snprintf(path, sizeof(path), "%s/h%u/sys/devices/%s/infiniband/%s", fabric->dir, nic->host,
		 pci, nic->ibdev);
	utimensat(AT_FDCWD, path, NULL, 0);
}

void sn_sysfs_links_renew(const struct sn_fabric *fabric, uint32_t host, uint32_t n)
{
	struct tree tree = { .replace = true };

	while (n-- > 0)
		if (atomic_load(&fabric->nic[host][n].state) != SN_NIC_DISASSOCIATED)
			tree_links(&tree, fabric, &fabric->nic[host][n]);
}

void sn_sysfs_nic_show(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct tree tree = { .replace = true };

	device_becomes_new(fabric, nic);
	tree_links(&tree, fabric, nic);
	/* Devices listed before it have to be newer than it. */
	sn_sysfs_links_renew(fabric, nic->host, nic->index);
}
