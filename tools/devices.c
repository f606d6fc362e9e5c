/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Devices through libibverbs, loaded at run time: shiftctl must start, and say something useful,
 * on a machine that has none.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "shiftlib/backup/auto.h"
#include "shiftlib/backup/room.h"
#include "shiftlib/base/settings.h"
#include "tools/shiftctl.h"

static struct {
	__typeof__(ibv_get_device_list) *get_device_list;
	__typeof__(ibv_free_device_list) *free_device_list;
	__typeof__(ibv_get_device_name) *get_device_name;
	__typeof__(ibv_open_device) *open_device;
	__typeof__(ibv_close_device) *close_device;
	__typeof__(ibv_port_state_str) *port_state_str;
	__typeof__(_ibv_query_gid_ex) *query_gid_ex; /* NULL before rdma-core 32 */
	bool (*mlx5_is_supported)(struct ibv_device *device);
} vb;

static int devices_load(const char *library, char err[CTL_ERR_MAX])
{
	void *handle = dlopen(library ? library : "libibverbs.so.1", RTLD_NOW);
	void *mlx5;

	if (!handle)
		return ctl_err(err, -ENOENT, "cannot load libibverbs: %s", dlerror());
	vb.get_device_list = dlsym(handle, "ibv_get_device_list");
	vb.free_device_list = dlsym(handle, "ibv_free_device_list");
	vb.get_device_name = dlsym(handle, "ibv_get_device_name");
	vb.open_device = dlsym(handle, "ibv_open_device");
	vb.close_device = dlsym(handle, "ibv_close_device");
	vb.port_state_str = dlsym(handle, "ibv_port_state_str");
	vb.query_gid_ex = dlsym(handle, "_ibv_query_gid_ex");
	if (!vb.get_device_list || !vb.free_device_list || !vb.get_device_name || !vb.open_device ||
	    !vb.close_device || !vb.port_state_str)
		return ctl_err(err, -ENOSYS, "%s lacks functions of libibverbs", library);
	mlx5 = dlopen("libmlx5.so.1", RTLD_NOW);
	vb.mlx5_is_supported = mlx5 ? dlsym(mlx5, "mlx5dv_is_supported") : NULL;
	return 0;
}

static const char *device_gid_type(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB: return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
	default: return "unknown type";
	}
}

static const char *device_layer_name(uint8_t layer)
{
	switch (layer) {
	case IBV_LINK_LAYER_INFINIBAND: return "InfiniBand";
	case IBV_LINK_LAYER_ETHERNET: return "Ethernet";
	default: return "unknown link layer";
	}
}

static void device_read_gids(struct ibv_context *ctx, struct device *dev, int table_len)
{
	static const uint8_t unset[16];
	struct ibv_gid_entry entry;
	struct device_gid *gid;

	if (!vb.query_gid_ex)
		return;
	for (int i = 0; i < table_len; i++) {
		if (vb.query_gid_ex(ctx, 1, (uint32_t)i, &entry, 0, sizeof(entry)) ||
		    !memcmp(entry.gid.raw, unset, sizeof(unset)))
			continue;
		if (dev->n_gids++ >= DEVICE_MAX_GIDS)
			continue;
		gid = &dev->gid[dev->n_gids - 1];
		gid->index = (unsigned)i;
		gid->type = device_gid_type(entry.gid_type);
		inet_ntop(AF_INET6, entry.gid.raw, gid->text, sizeof(gid->text));
	}
}

/* Straight to the provider: the inline ibv_query_port() would want a libibverbs to link with. */
static int device_query_port(struct ibv_context *ctx, struct ibv_port_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_port);

	memset(attr, 0, sizeof(*attr));
	return vctx ? vctx->query_port(ctx, 1, attr, sizeof(*attr)) : EOPNOTSUPP;
}

static void device_probe(struct ibv_device *ibdev, struct device *dev)
{
	struct ibv_port_attr port;
	struct ibv_context *ctx;

	errno = 0;
	ctx = vb.open_device(ibdev);
	if (!ctx) {
		dev->open_errno = errno ? errno : EIO;
		return;
	}
	dev->open_errno = device_query_port(ctx, &port);
	if (!dev->open_errno) {
		dev->active = port.state == IBV_PORT_ACTIVE;
		dev->state = vb.port_state_str(port.state);
		dev->layer_name = device_layer_name(port.link_layer ? port.link_layer
								    : IBV_LINK_LAYER_INFINIBAND);
		dev->lid = port.lid;
		device_read_gids(ctx, dev, port.gid_tbl_len);
	}
	vb.close_device(ctx);
}

const char *devices_engine_choice(void)
{
	const char *choice = sh_setting("SHIFT_ENGINE");

	return choice && *choice ? choice : "auto";
}

bool devices_engine_known(void)
{
	const char *choice = devices_engine_choice();

	return !strcmp(choice, "auto") || !strcmp(choice, "mlx5") || !strcmp(choice, "ledger");
}

static bool device_is_auto(void)
{
	return !strcmp(devices_engine_choice(), "auto");
}

/* Decides like sp_engine_choose(), which asks the engines. */
static bool device_ring(const struct device *dev)
{
	return dev->mlx5 && (device_is_auto() || !strcmp(devices_engine_choice(), "mlx5"));
}

static bool device_ledger(const struct device *dev)
{
	return dev->plain &&
	       (device_is_auto() ? dev->place.tried : !strcmp(devices_engine_choice(), "ledger"));
}

const char *device_engine(const struct device *nic, const struct device *const *backups, unsigned n)
{
	bool ring = device_ring(nic), ledger = device_ledger(nic);

	for (unsigned i = 0; i < n; i++) {
		ring &= device_ring(backups[i]);
		ledger &= device_ledger(backups[i]);
	}
	if (ring)
		return "mlx5";
	return ledger ? "ledger" : NULL;
}

const char *device_no_engine(const struct device *nic, const struct device *const *backups,
			     unsigned n)
{
	if (!nic->plain && !nic->mlx5)
		return nic->iwarp
			       ? "iWARP: its queue pairs are connected by rdma_cm only"
			       : "it is not a NIC with reliable connections (RoCE or InfiniBand)";
	if (!devices_engine_known())
		return "SHIFT_ENGINE names no engine";
	for (unsigned i = 0; i < n; i++)
		if (!backups[i]->plain && !backups[i]->mlx5)
			return "a backup of it has no reliable connections (RoCE or InfiniBand)";
	if (!device_is_auto())
		return nic->mlx5 ? "a backup of it is no ConnectX, and SHIFT_ENGINE=mlx5 drives no "
				   "other"
				 : "it is no ConnectX, and SHIFT_ENGINE=mlx5 drives no other";
	return nic->place.tried ? "a backup of it is of a kind not tried yet: only "
				  "SHIFT_ENGINE=ledger drives it"
				: "its kind was not tried yet: only SHIFT_ENGINE=ledger drives it";
}

int devices_list(const char *library, bool probe, struct device_list *list, char err[CTL_ERR_MAX])
{
	struct ibv_device **all;
	struct device *dev;
	int rc, n;

	memset(list, 0, sizeof(*list));
	rc = devices_load(library, err);
	if (rc)
		return rc;
	all = vb.get_device_list(&n);
	if (!all)
		return ctl_err(err, -errno, "no list of RDMA devices: %s",
			       errno == ENOSYS ? "this kernel has none" : strerror(errno));
	for (int i = 0; i < n && list->n < BACKUP_MAP_MAX_NICS; i++) {
		dev = &list->dev[list->n++];
		snprintf(dev->name, sizeof(dev->name), "%s", vb.get_device_name(all[i]));
		dev->mlx5 = vb.mlx5_is_supported && vb.mlx5_is_supported(all[i]);
		dev->plain = all[i]->transport_type == IBV_TRANSPORT_IB &&
			     all[i]->node_type == IBV_NODE_CA;
		dev->iwarp = all[i]->transport_type == IBV_TRANSPORT_IWARP;
		backup_nic_read("/sys", dev->name, &dev->place);
		if (dev->mlx5)
			backup_nic_is_mlx5(&dev->place);
		dev->place.foreign = !device_engine(dev, NULL, 0);
		if (probe)
			device_probe(all[i], dev);
	}
	vb.free_device_list(all);
	return 0;
}

static void devices_places(const struct device_list *list,
			   struct backup_nic nics[BACKUP_MAP_MAX_NICS])
{
	for (unsigned i = 0; i < list->n; i++)
		nics[i] = list->dev[i].place;
}

int devices_backup_map(const char *text, const struct device_list *list, struct backup_map *map,
		       char err[CTL_ERR_MAX])
{
	struct backup_nic nics[BACKUP_MAP_MAX_NICS];

	devices_places(list, nics);
	text = backup_auto(text, backup_auto_wants(nics, list->n), backup_lockable());
	return backup_map_parse(text, nics, list->n, map, err, CTL_ERR_MAX);
}

uint64_t devices_backup_wants(const struct device_list *list)
{
	struct backup_nic nics[BACKUP_MAP_MAX_NICS];

	devices_places(list, nics);
	return backup_auto_wants(nics, list->n);
}
