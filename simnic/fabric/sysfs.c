/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tree below <dir>/h<N>: sys/class/infiniband, sys/class/infiniband_verbs, sys/devices and
 * dev/infiniband. Plain files: what programs read of a real ConnectX-6 (board id, PCI address,
 * GID tables). Symlinks are relative, so that openat from a directory descriptor stays inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/pci_path.h"
#include "simnic/fabric/sysfs.h"
#include "simnic/fabric/tree.h"

static void tree_host(struct sn_tree *tree, const struct sn_fabric *fabric, uint32_t host)
{
	snprintf(tree->base, sizeof(tree->base), "%s/h%u", fabric->dir, host);
}

/* ---- PCI ------------------------------------------------------------------------------------ */

static void pci_link(struct sn_tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char link[64], target[256];

	snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", function);
	snprintf(target, sizeof(target), "../../../devices/%s", pci);
	sn_tree_link(tree, link, target);
}

#define DRIVER	 "mlx5_core"
#define MODALIAS "pci:v000015B3d0000101Bsv000015B3sd00000007bc02sc00i00"

#define CONFIG_HEADER 64 /* bytes that may be read without privileges */

/* Written in place, as whoever has it open reads the device, not a file. */
static void put_config(struct sn_tree *tree, const struct sn_nic *nic)
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
	sn_tree_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || pwrite(fd, config, sizeof(config), 0) != sizeof(config))
		tree->err = -EIO;
	if (fd >= 0)
		close(fd);
}

/* The kernel's driver of the NIC. Open MPI takes UCX for a device by its driver's name. */
static void put_driver(struct sn_tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char up[64] = "../../", target[256];

	for (const char *p = strchr(pci, '/'); p; p = strchr(p + 1, '/'))
		strcat(up, "../");
	snprintf(target, sizeof(target), "%sbus/pci", up);
	sn_tree_link(tree, "subsystem", target);
	snprintf(target, sizeof(target), "%sbus/pci/drivers/" DRIVER, up);
	sn_tree_link(tree, "driver", target);
	sn_tree_put(tree, "uevent",
		    "DRIVER=" DRIVER
		    "\nPCI_CLASS=20000\nPCI_ID=15B3:101B\nPCI_SUBSYS_ID=15B3:0007\n"
		    "PCI_SLOT_NAME=%s\nMODALIAS=" MODALIAS,
		    function);
}

static void driver_link(struct sn_tree *tree, const char *pci)
{
	const char *function = strrchr(pci, '/') + 1;
	char link[64], target[256];

	snprintf(link, sizeof(link), "sys/bus/pci/drivers/" DRIVER "/%s", function);
	snprintf(target, sizeof(target), "../../../../devices/%s", pci);
	sn_tree_link(tree, link, target);
}

static void put_pci_speed(struct sn_tree *tree, const struct sn_nic *nic)
{
	const struct sn_speed *speed = &nic->cable.speed;

	sn_tree_put(tree, "current_link_speed", "%s", sn_speed_pci_text(speed));
	sn_tree_put(tree, "current_link_width", "%u", atomic_load(&speed->pci_lanes));
}

static void put_rate(struct sn_tree *tree, const struct sn_nic *nic)
{
	char text[SN_SPEED_TEXT];

	sn_speed_rate_text(&nic->cable.speed, text);
	sn_tree_put(tree, "ports/1/rate", "%s", text);
}

static void tree_pci(struct sn_tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
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
	sn_tree_put(tree, "vendor", "0x15b3");
	sn_tree_put(tree, "device", "0x101b");
	sn_tree_put(tree, "subsystem_vendor", "0x15b3");
	sn_tree_put(tree, "subsystem_device", "0x0007");
	sn_tree_put(tree, "class", "0x020000");
	sn_tree_put(tree, "revision", "0x00");
	sn_tree_put(tree, "modalias", MODALIAS);
	sn_tree_put(tree, "numa_node", "%d", nic->numa);
	sn_tree_put(tree, "local_cpus", "ffffffff");
	sn_tree_put(tree, "local_cpulist", "0-31");
	sn_tree_put(tree, "max_link_speed", "16.0 GT/s PCIe");
	sn_tree_put(tree, "max_link_width", "16");
	put_pci_speed(tree, nic);
	sn_tree_put(tree, "enable", "1");
	sn_tree_put(tree, "../class", "0x060400");
	sn_tree_put(tree, "../max_link_speed", "16.0 GT/s PCIe");
	sn_tree_put(tree, "../max_link_width", "16");
}

static void put_port_state(struct sn_tree *tree, const struct sn_nic *nic)
{
	bool up = atomic_load(&nic->port_up);

	sn_tree_put(tree, "ports/1/state", up ? "4: ACTIVE" : "1: DOWN");
	sn_tree_put(tree, "ports/1/phys_state", up ? "5: LinkUp" : "3: Disabled");
}

static void tree_gid(struct sn_tree *tree, const struct sn_nic *nic, uint32_t index)
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
	sn_tree_gid(tree, gid, type ? own : nothing);
	if (type)
		sn_tree_put(tree, kind, "%s", types[type]);
	else
		sn_tree_drop(tree,
			     kind); /* the kernel's file of an empty entry cannot be read either */
	sn_nic_vlan_name(nic, vlan, name, sizeof(name));
	if (type && nic->netdev[0])
		sn_tree_put(tree, ndev, "%s", vlan ? name : nic->netdev);
	else
		sn_tree_drop(tree, ndev);
}

/*
 * Writes the kernel's files about VLAN interfaces. Those of former VLANs stay; no GID leads there.
 */
static void tree_vlans(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = { .replace = true };
	char file[64], name[32];
	uint16_t vlan;

	tree_host(&tree, fabric, nic->host);
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		vlan = sn_nic_vlan_at(nic, i);
		if (!vlan)
			continue;
		sn_nic_vlan_name(nic, vlan, name, sizeof(name));
		snprintf(file, sizeof(file), "proc/net/vlan/%s", name);
		sn_tree_put(&tree, file,
			    "%s  VID: %u\t REORDER_HDR: 1  dev->priv_flags: 1021\nDevice: %s", name,
			    vlan, nic->netdev);
	}
}

static void tree_pkeys(struct sn_tree *tree, const struct sn_nic *nic)
{
	char file[32];

	for (uint32_t i = 0; i < sn_nic_pkeys(nic); i++) {
		snprintf(file, sizeof(file), "ports/1/pkeys/%u", i);
		sn_tree_put(tree, file, "0x%04x", atomic_load(&nic->tenant.pkey[i]));
	}
}

static void tree_gids(struct sn_tree *tree, const struct sn_nic *nic)
{
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		tree_gid(tree, nic, i);
}

/* Below the PCI function, where /sys/class/infiniband/<device>/device/net leads. */
static void tree_netdev(struct sn_tree *tree, const struct sn_fabric *fabric,
			const struct sn_nic *nic)
{
	char pci[128], file[256];

	if (!nic->netdev[0])
		return;
	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(file, sizeof(file), "sys/devices/%s/net/%s/dev_port", pci, nic->netdev);
	sn_tree_put(tree, file, "0");
	snprintf(file, sizeof(file), "sys/devices/%s/net/%s/dev_id", pci, nic->netdev);
	sn_tree_put(tree, file, "0x0");
}

/* Lists the counters: reads find the values of that moment (host/port_file.c). */
static void tree_counters(struct sn_tree *tree)
{
	char path[64];

	for (uint32_t i = 0; sn_counter_file(i); i++) {
		snprintf(path, sizeof(path), "ports/1/%s", sn_counter_file(i));
		sn_tree_put(tree, path, "0");
	}
}

static void tree_port(struct sn_tree *tree, const struct sn_nic *nic)
{
	bool eth = nic->link_layer == SN_LINK_ETH;

	put_port_state(tree, nic);
	sn_tree_put(tree, "ports/1/link_layer", eth ? "Ethernet" : "InfiniBand");
	sn_tree_put(tree, "ports/1/lid", "0x%x", nic->lid);
	sn_tree_put(tree, "ports/1/lid_mask_count", "0");
	sn_tree_put(tree, "ports/1/sm_lid", "0x%x", eth ? 0 : 1);
	sn_tree_put(tree, "ports/1/sm_sl", "0");
	put_rate(tree, nic);
	sn_tree_put(tree, "ports/1/cap_mask", eth ? "0x04010000" : "0x2651e848");
	tree_pkeys(tree, nic);
	tree_counters(tree);
	tree_gids(tree, nic);
}

static void tree_ibdev(struct sn_tree *tree, const struct sn_fabric *fabric,
		       const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s/infiniband/%s", pci,
		 nic->ibdev);
	sn_tree_put(tree, "node_type", "1: CA");
	sn_tree_guid(tree, "node_guid", nic->node_guid);
	sn_tree_guid(tree, "sys_image_guid", nic->image_guid);
	sn_tree_put(tree, "node_desc", "h%u simnic", nic->host);
	sn_tree_put(tree, "fw_ver", "20.35.1012");
	sn_tree_put(tree, "hw_rev", "0");
	sn_tree_put(tree, "hca_type", "MT4123");
	sn_tree_put(tree, "board_id", "MT_0000000223");
	tree_port(tree, nic);
	sn_tree_link(tree, "device", "../..");
}

/* A class of devices that programs open: its name, that of its devices, its version, a file. */
struct node_class {
	const char *name, *device, *version, *file;
	uint32_t first_minor;
};

static const struct node_class classes[] = { { "infiniband_verbs", "uverbs", "6", "abi_version",
					       192 },
					     { "infiniband_mad", "umad", "5", "port", 0 } };
enum { CLASSES = sizeof(classes) / sizeof(classes[0]) };
#define EACH_CLASS(kind)                                                                           \
	for (const struct node_class *kind = classes; kind < classes + CLASSES; kind++)

/* Writes the path of a NIC's device of a class: below the class, or its node. */
static void class_path(char to[128], const struct node_class *kind, const struct sn_nic *nic)
{
	snprintf(to, 128, "sys/class/%s/%s%u", kind->name, kind->device, nic->uverbs_minor);
}

static void node_path(char to[128], const struct node_class *kind, const struct sn_nic *nic)
{
	snprintf(to, 128, "dev/infiniband/%s%u", kind->device, nic->uverbs_minor);
}

static void tree_class(struct sn_tree *tree, const struct sn_fabric *fabric,
		       const struct sn_nic *nic, const struct node_class *kind)
{
	char pci[128], file[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	snprintf(file, sizeof(file), "sys/class/%s/abi_version", kind->name);
	sn_tree_put(tree, file, "%s", kind->version);
	sn_pci_path(pci, sizeof(pci), nic);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s/%s/%s%u", pci, kind->name,
		 kind->device, nic->uverbs_minor);
	sn_tree_put(tree, "ibdev", "%s", nic->ibdev);
	sn_tree_put(tree, kind->file, "1");
	sn_tree_put(tree, "dev", "231:%u", kind->first_minor + nic->uverbs_minor);
	sn_tree_link(tree, "device", "../..");
}

/* Makes the device findable: its class links, and the nodes to open. */
static void tree_links(struct sn_tree *tree, const struct sn_fabric *fabric,
		       const struct sn_nic *nic)
{
	char pci[128], link[128], target[256];

	tree_host(tree, fabric, nic->host);
	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(target, sizeof(target), "../../devices/%s/infiniband/%s", pci, nic->ibdev);
	snprintf(link, sizeof(link), "sys/class/infiniband/%s", nic->ibdev);
	sn_tree_link(tree, link, target);
	EACH_CLASS(kind)
	{
		node_path(link, kind, nic);
		sn_tree_put(tree, link, "simnic");
		snprintf(target, sizeof(target), "../../devices/%s/%s/%s%u", pci, kind->name,
			 kind->device, nic->uverbs_minor);
		class_path(link, kind, nic);
		sn_tree_link(tree, link, target);
	}
}

/* The GPU beside the first port of a card. */
static void tree_gpu(struct sn_tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	char pci[128];
	size_t n;

	tree_host(tree, fabric, nic->host);
	sn_pci_gpu_path(pci, sizeof(pci), nic);
	pci_link(tree, pci);
	n = strlen(tree->base);
	snprintf(tree->base + n, sizeof(tree->base) - n, "/sys/devices/%s", pci);
	sn_tree_put(tree, "vendor", "0x10de");
	sn_tree_put(tree, "device", "0x2330");
	sn_tree_put(tree, "class", "0x030200");
	sn_tree_put(tree, "numa_node", "%d", nic->numa);
}

/* The PCI bus shows NICs and GPUs where there are GPUs; else programs see the machine's own. */
static void tree_bus(struct sn_tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
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

static void tree_rdma_cm(struct sn_tree *tree, const struct sn_fabric *fabric, uint32_t host)
{
	tree_host(tree, fabric, host);
	sn_tree_put(tree, "sys/class/misc/rdma_cm/abi_version", "4");
	sn_tree_put(tree, "sys/class/misc/rdma_cm/dev", "10:122");
	sn_tree_put(tree, "dev/infiniband/rdma_cm", "simnic");
}

static void tree_nic(struct sn_tree *tree, const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	tree_pci(tree, fabric, nic);
	tree_netdev(tree, fabric, nic);
	tree_ibdev(tree, fabric, nic);
	EACH_CLASS(kind)
	tree_class(tree, fabric, nic, kind);
	tree_links(tree, fabric, nic);
	tree_bus(tree, fabric, nic);
}

int sn_sysfs_create(const struct sn_fabric *fabric)
{
	struct sn_tree tree = { .err = 0 };

	/* Last first: tmpfs lists the newest entry first, and tools take the first device. */
	for (uint32_t host = 0; host < fabric->n_hosts; host++) {
		tree_rdma_cm(&tree, fabric, host);
		for (uint32_t n = fabric->n_nics; n-- > 0;)
			tree_nic(&tree, fabric, &fabric->nic[host][n]);
	}
	return tree.err;
}

/* Programs read on while it changes; a device that is not in the classes has its tree still. */
static struct sn_tree tree_of_device(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = { .replace = true };
	char pci[128];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s/infiniband/%s", fabric->dir,
		 nic->host, pci, nic->ibdev);
	return tree;
}

void sn_sysfs_port_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = tree_of_device(fabric, nic);

	put_port_state(&tree, nic);
}

static struct sn_tree tree_of_function(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = { .replace = true };
	char pci[128];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s", fabric->dir, nic->host,
		 pci);
	return tree;
}

void sn_sysfs_pci_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = tree_of_function(fabric, nic);

	put_config(&tree, nic);
}

void sn_sysfs_speed_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree port = tree_of_device(fabric, nic), function = tree_of_function(fabric, nic);

	put_rate(&port, nic);
	put_pci_speed(&function, nic);
}

void sn_sysfs_gids_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = tree_of_device(fabric, nic);

	tree_gids(&tree, nic);
	tree_vlans(fabric, nic);
}

void sn_sysfs_pkeys_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = tree_of_device(fabric, nic);

	tree_pkeys(&tree, nic);
}

void sn_sysfs_netdev_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic,
			     const char *old)
{
	static const char *const parts[] = { "/dev_port", "/dev_id", "" };
	struct sn_tree tree = tree_of_device(fabric, nic);
	char file[128];

	for (size_t i = 0; old[0] && i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(file, sizeof(file), "../../net/%s%s", old, parts[i]);
		sn_tree_drop(&tree, file);
	}
	sn_tree_drop(&tree,
		     "../../net"); /* now as for a NIC without one; tree_netdev() makes it anew */
	tree_gids(&tree, nic);
	tree_netdev(&tree, fabric, nic);
}

void sn_sysfs_nic_renamed(const struct sn_fabric *fabric, const struct sn_nic *nic, const char *old)
{
	struct sn_tree tree = { .replace = true };
	char pci[128], from[1024], to[1024];

	sn_pci_path(pci, sizeof(pci), nic);
	snprintf(tree.base, sizeof(tree.base), "%s/h%u/sys/devices/%s", fabric->dir, nic->host,
		 pci);
	snprintf(from, sizeof(from), "%s/infiniband/%s", tree.base, old);
	snprintf(to, sizeof(to), "%s/infiniband/%s", tree.base, nic->ibdev);
	rename(from, to);
	EACH_CLASS(kind)
	{
		snprintf(to, sizeof(to), "%s/%s%u/ibdev", kind->name, kind->device,
			 nic->uverbs_minor);
		sn_tree_put(&tree, to, "%s", nic->ibdev);
	}
}

void sn_sysfs_nic_hide(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = { .replace = true };
	char file[128];

	tree_host(&tree, fabric, nic->host);
	snprintf(file, sizeof(file), "sys/class/infiniband/%s", nic->ibdev);
	sn_tree_drop(&tree, file);
	EACH_CLASS(kind)
	{
		class_path(file, kind, nic);
		sn_tree_drop(&tree, file);
		node_path(file, kind, nic);
		sn_tree_drop(&tree, file);
	}
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
	struct sn_tree tree = { .replace = true };

	while (n-- > 0)
		if (atomic_load(&fabric->nic[host][n].state) != SN_NIC_DISASSOCIATED)
			tree_links(&tree, fabric, &fabric->nic[host][n]);
}

void sn_sysfs_nic_show(const struct sn_fabric *fabric, const struct sn_nic *nic)
{
	struct sn_tree tree = { .replace = true };

	device_becomes_new(fabric, nic);
	tree_links(&tree, fabric, nic);
	/* Devices listed before it have to be newer than it. */
	sn_sysfs_links_renew(fabric, nic->host, nic->index);
}
