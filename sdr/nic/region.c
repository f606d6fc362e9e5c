/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A device: its port, its address, its memory. */
#include "sdr/nic/nic.h"
#include "sdr/gid/gid.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

uint32_t sdr_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	errno = ENODEV;
	for (int i = 0; list && list[i]; i++) {
		if (name && strcmp(ibv_get_device_name(list[i]), name))
			continue;
		verbs = ibv_open_device(list[i]);
		break;
	}
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

static int look_at_port(struct sdr_nic *nic, int gid_index)
{
	struct ibv_port_attr port;

	if (ibv_query_port(nic->verbs, nic->port, &port))
		return -EINVAL;
	if (port.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	nic->lid = port.lid;
	nic->mtu = port.active_mtu;
	nic->roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	nic->gid_index = gid_index >= 0 ? gid_index
			 : nic->roce	? sdr_gid_choose(nic->verbs, nic->port, port.gid_tbl_len)
					: 0;
	if (nic->gid_index < 0 || ibv_query_gid(nic->verbs, nic->port, nic->gid_index, &nic->gid))
		return -EADDRNOTAVAIL;
	return 0;
}

static int look_at_device(struct sdr_nic *nic)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(nic->verbs, &attr))
		return -EIO;
	nic->max_wr = (uint32_t)attr.max_qp_wr;
	nic->max_cqe = (uint32_t)attr.max_cqe;
	nic->windows = attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW && attr.max_mw > 0;
	return 0;
}

/* Events are looked for, never waited for. */
static int quieten(const struct sdr_nic *nic)
{
	int flags = fcntl(nic->verbs->async_fd, F_GETFL);

	return flags < 0 || fcntl(nic->verbs->async_fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

int sdr_nic_open(struct sdr_nic *nic, const char *name, uint8_t port, int gid_index)
{
	int err;

	memset(nic, 0, sizeof(*nic));
	nic->port = port ? port : 1;
	nic->gid_asked = gid_index;
	nic->verbs = open_by_name(name);
	if (!nic->verbs)
		return errno ? -errno : -ENODEV;
	strncpy(nic->name, ibv_get_device_name(nic->verbs->device), SDR_NIC_NAME - 1);
	err = quieten(nic);
	if (!err)
		err = look_at_port(nic, gid_index);
	if (!err)
		err = look_at_device(nic);
	if (err)
		goto close_device;
	nic->pd = ibv_alloc_pd(nic->verbs);
	if (nic->pd)
		return 0;
	err = -errno;
close_device:
	ibv_close_device(nic->verbs);
	nic->verbs = NULL;
	return err;
}

void sdr_nic_close(struct sdr_nic *nic)
{
	if (!nic->verbs)
		return;
	ibv_dealloc_pd(nic->pd);
	ibv_close_device(nic->verbs);
	nic->verbs = NULL;
	nic->pd = NULL;
}

void sdr_nic_look(struct sdr_nic *nic)
{
	struct ibv_async_event e;

	while (!nic->gone && !ibv_get_async_event(nic->verbs, &e)) {
		if (e.event_type == IBV_EVENT_DEVICE_FATAL)
			nic->gone = true;
		if (e.event_type == IBV_EVENT_PORT_ERR && e.element.port_num == nic->port)
			nic->down = true;
		if (e.event_type == IBV_EVENT_PORT_ACTIVE && e.element.port_num == nic->port)
			nic->down = false;
		ibv_ack_async_event(&e);
	}
}

struct ibv_mr *sdr_region_reg(const struct sdr_nic *nic, void *addr, size_t length, bool bindable)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (bindable ? IBV_ACCESS_MW_BIND : 0);

	return ibv_reg_mr(nic->pd, addr, length, access);
}

void sdr_nic_address(const struct sdr_nic *nic, const struct sdr_peer *peer, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){ .dlid = peer->lid, .port_num = nic->port };
	if (!nic->roce)
		return;
	ah->is_global = 1;
	ah->grh.dgid = peer->gid;
	ah->grh.sgid_index = (uint8_t)nic->gid_index;
	ah->grh.hop_limit = 64;
}
