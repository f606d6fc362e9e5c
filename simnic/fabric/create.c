/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Making and removing a fabric: hosts, NICs, addresses. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/room.h"
#include "simnic/fabric/sysfs.h"

#define CMD_TIMEOUT_NS	65000000000ull /* mlx5: 60 s, and 5 s for a completion that was not told */
#define REMOVAL_EACH_NS 1000000

/* A subnet per rail, as OpenSM is set up on multi-rail clusters; rail 0 has the default prefix. */
static void gid_ib(uint8_t gid[16], uint32_t rail, uint64_t guid)
{
	uint64_t prefix = htobe64(0xfe80000000000000ULL + rail);

	guid = htobe64(guid);
	memcpy(gid, &prefix, 8);
	memcpy(gid + 8, &guid, 8);
}

static void nic_init_eth(struct sn_nic *nic)
{
	sn_nic_gid(nic, false);
	atomic_init(&nic->gid_type[0], SN_GID_ROCE_V2);
	atomic_init(&nic->gid_type[1], SN_GID_ROCE_V1);
	/* A name that no real interface has: who asks the kernel about it learns nothing wrong. */
	snprintf(nic->netdev, sizeof(nic->netdev), "simnic%u", nic->index);
}

/* A rail is a subnet of its own, across which LIDs repeat; joined rails are one. */
static void nic_init_ib(struct sn_nic *nic, const struct sn_fabric_config *config)
{
	gid_ib(nic->gid, config->joined ? 0 : nic->rail, nic->node_guid);
	atomic_init(&nic->gid_type[0], SN_GID_IB);
	nic->lid = config->joined ? nic->host * config->n_nics + nic->index + 1 : nic->host + 1;
}

static uint64_t nic_guid(uint32_t host, uint32_t index)
{
	return 0x0c42a10300000000ULL | (uint64_t)host << 16 | index << 8;
}

/* Ports side by side are on one card, and cards side by side on one node. */
static void nic_place(struct sn_nic *nic, const struct sn_fabric_config *config)
{
	uint32_t ports = config->card_ports ? config->card_ports : 1;
	uint32_t cards = (config->n_nics + ports - 1) / ports;

	nic->slot.card = nic->index / ports;
	nic->slot.function = nic->index % ports;
	nic->slot.gpu_cards = config->gpu_cards;
	nic->image_guid = nic_guid(nic->host, nic->slot.card * ports);
	nic->numa =
		config->numa_nodes ? (int32_t)(nic->slot.card * config->numa_nodes / cards) : -1;
}

static void nic_init(struct sn_nic *nic, uint32_t host, uint32_t index,
		     const struct sn_fabric_config *config)
{
	snprintf(nic->ibdev, sizeof(nic->ibdev), "mlx5_%u", index);
	nic->host = host;
	nic->index = nic->rail = nic->uverbs_minor = index;
	nic->node_guid = nic_guid(host, index);
	nic->link_layer = config->link_layer;
	nic_place(nic, config);
	if (config->link_layer == SN_LINK_ETH)
		nic_init_eth(nic);
	else
		nic_init_ib(nic, config);
	atomic_init(&nic->port_up, 1);
	atomic_init(&nic->end.cable_up, 1);
	atomic_init(&nic->cmd_cost_ns, config->cmd_cost_ns);
	atomic_init(&nic->slow.timeout_ns, CMD_TIMEOUT_NS);
	atomic_init(&nic->slow.retry_percent, 100);
	atomic_init(&nic->removal.each_ns, REMOVAL_EACH_NS);
	atomic_init(&nic->max.qp_wr, SN_MAX_QP_WR);
	atomic_init(&nic->max.sge, SN_MAX_SGE);
	atomic_init(&nic->max.reads, SN_MAX_RD_ATOMIC);
	atomic_init(&nic->max.cqe, SN_MAX_CQE);
	atomic_init(&nic->max.resize, SN_MAX_CQE);
	atomic_init(&nic->mtu, SN_MTU_4096);
	sn_speed_begin(&nic->cable.speed);
	atomic_init(&nic->tenant.pkey[0], SN_PKEY_DEFAULT);
	sn_clock_begin(&nic->clock, host, index);
	sn_nic_begin(nic);
}

static void fabric_init(struct sn_fabric *fabric, const char *name,
			const struct sn_fabric_config *config)
{
	fabric->version = SN_VERSION;
	fabric->size_check = sizeof(*fabric);
	fabric->n_hosts = config->n_hosts;
	fabric->n_nics = config->n_nics;
	fabric->seed = config->seed;
	fabric->link_layer = config->link_layer;
	fabric->joined = config->joined;
	fabric->direct = config->direct;
	snprintf(fabric->name, sizeof(fabric->name), "%s", name);
	sn_fabric_dir(name, fabric->dir, sizeof(fabric->dir));
	for (uint32_t host = 0; host < config->n_hosts; host++)
		for (uint32_t nic = 0; nic < config->n_nics; nic++)
			nic_init(&fabric->nic[host][nic], host, nic, config);
}

static int config_check(const struct sn_fabric_config *config)
{
	if (config->n_hosts < 1 || config->n_hosts > SN_MAX_HOSTS)
		return -EINVAL;
	if (config->n_nics < 1 || config->n_nics > SN_MAX_NICS)
		return -EINVAL;
	if (config->link_layer != SN_LINK_ETH && config->link_layer != SN_LINK_IB)
		return -EINVAL;
	if (config->direct && (config->n_hosts != 2 || config->joined))
		return -EINVAL;
	if (config->gpu_cards > SN_MAX_GPU_CARDS)
		return -EINVAL;
	return config->card_ports > SN_MAX_NICS || config->numa_nodes > SN_MAX_NICS ? -EINVAL : 0;
}

/* All that processes touch without asking: the rest is taken when it is first used. */
static int file_room(int fd, const struct sn_fabric_config *config)
{
	int err = sn_room_take_fd(fd, 0, offsetof(struct sn_fabric, nic));

	for (uint32_t host = 0; host < config->n_hosts && !err; host++)
		err = sn_room_take_fd(fd, offsetof(struct sn_fabric, nic[host]),
				      config->n_nics * sizeof(struct sn_nic));
	for (uint32_t i = 0; i < SN_LINES && !err; i++)
		err = sn_room_take_fd(fd, offsetof(struct sn_fabric, line[i]),
				      offsetof(struct sn_line, slot));
	return err ? err
		   : sn_room_take_fd(fd, offsetof(struct sn_fabric, cm),
				     sizeof(struct sn_cm_binds));
}

static int file_create(const char *name, const struct sn_fabric_config *config,
		       struct sn_fabric **out)
{
	char path[300];
	int fd, err;

	err = sn_fabric_path(name, path, sizeof(path));
	if (err)
		return err;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = ftruncate(fd, sizeof(struct sn_fabric)) ? -errno : file_room(fd, config);
	if (!err)
		err = sn_fabric_map(fd, out);
	close(fd);
	return err;
}

int sn_fabric_create(const char *name, const struct sn_fabric_config *config)
{
	struct sn_fabric *fabric;
	char dir[256];
	int err;

	err = config_check(config);
	if (!err)
		err = sn_fabric_dir(name, dir, sizeof(dir));
	if (err)
		return err;
	if (mkdir(dir, 0700))
		return -errno;
	err = file_create(name, config, &fabric);
	if (err)
		goto destroy;
	fabric_init(fabric, name, config);
	err = sn_sysfs_create(fabric);
	if (!err)
		fabric->magic = SN_MAGIC; /* last: nobody attaches to half a fabric */
	sn_fabric_detach(fabric);
	if (!err)
		return 0;
destroy:
	sn_fabric_destroy(name);
	return err;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

int sn_fabric_destroy(const char *name)
{
	char dir[256];
	int err;

	err = sn_fabric_dir(name, dir, sizeof(dir));
	if (err)
		return err;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) ? -errno : 0;
}
