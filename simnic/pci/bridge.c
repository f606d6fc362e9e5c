/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The bridge: its NIC in the fabric, the NIC's events, and doorbells. */
#include "simnic/pci/bridge.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/bridge_own.h"
#include "simnic/pci/bridge_space.h"

#define EVENT_OF_NIC 1 /* element of the engine's events of a NIC; an object's is its address */

/* The process as the fabric knows it: a host, and one engine for all its NICs. */
static struct {
	struct sn_fabric *fabric;
	char name[64];
	uint32_t host;
} process;

/* ---- events --------------------------------------------------------------------------------- */

static void tell_completion(void *ctx, uint64_t element)
{
	const struct sn_bridge_object *cq = (const struct sn_bridge_object *)element;
	const struct sn_bridge_config *config = &((struct sn_bridge *)ctx)->config;

	config->tell(config->ctx, SN_BRIDGE_COMPLETION, cq->number, cq->user);
}

/* The event's name here; -1: the driver hears nothing of it. */
static int event_of(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR: return SN_BRIDGE_CQ_ERROR;
	case IBV_EVENT_QP_FATAL: return SN_BRIDGE_QP_FATAL;
	case IBV_EVENT_QP_REQ_ERR: return SN_BRIDGE_QP_REQUEST_ERROR;
	case IBV_EVENT_QP_ACCESS_ERR: return SN_BRIDGE_QP_ACCESS_ERROR;
	case IBV_EVENT_COMM_EST: return SN_BRIDGE_COMM_ESTABLISHED;
	case IBV_EVENT_SQ_DRAINED: return SN_BRIDGE_SQ_DRAINED;
	case IBV_EVENT_QP_LAST_WQE_REACHED: return SN_BRIDGE_LAST_WQE;
	case IBV_EVENT_SRQ_LIMIT_REACHED: return SN_BRIDGE_SRQ_LIMIT;
	case IBV_EVENT_PORT_ACTIVE: return SN_BRIDGE_PORT_UP;
	case IBV_EVENT_PORT_ERR: return SN_BRIDGE_PORT_DOWN;
	case IBV_EVENT_GID_CHANGE: return SN_BRIDGE_GIDS_CHANGED;
	case IBV_EVENT_PKEY_CHANGE: return SN_BRIDGE_PKEYS_CHANGED;
	case IBV_EVENT_DEVICE_FATAL: return SN_BRIDGE_FATAL;
	default: return -1;
	}
}

static void tell_async(void *ctx, uint64_t element, uint32_t type)
{
	const struct sn_bridge_object *of = (const struct sn_bridge_object *)element;
	const struct sn_bridge_config *config = &((struct sn_bridge *)ctx)->config;
	int event = event_of(type);

	if (event < 0)
		return;
	if (element == EVENT_OF_NIC)
		config->tell(config->ctx, (enum sn_bridge_event)event, 0, 0);
	else
		config->tell(config->ctx, (enum sn_bridge_event)event, of->number, of->user);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Joins the fabric, or finds that the process is there already. */
static int join(const char *name, uint32_t host)
{
	struct sn_fabric *fabric;
	int err;

	if (process.fabric)
		return !strcmp(process.name, name) && process.host == host ? 0 : -EXDEV;
	if (strlen(name) >= sizeof(process.name))
		return -EINVAL;
	err = sn_fabric_attach(name, &fabric);
	if (err)
		return err;
	err = host < fabric->n_hosts ? sn_device_start(fabric, host) : -ENODEV;
	if (err) {
		sn_fabric_detach(fabric);
		return err;
	}
	strcpy(process.name, name);
	process.fabric = fabric;
	process.host = host;
	return 0;
}

static uint64_t map_pages(void *ctx, const uint64_t *page, uint32_t n, uint32_t shift,
			  uint64_t offset, uint64_t bytes)
{
	const struct sn_bridge_pages pages = { page, n, shift, offset };

	return (uint64_t)sn_bridge_map_locked(ctx, &pages, bytes);
}

static void unmap_pages(void *ctx, uint64_t at, uint64_t bytes)
{
	sn_bridge_unmap_locked(ctx, (void *)at, bytes);
}

static bool is_unread(void *ctx)
{
	return sn_bridge_space_unread(ctx);
}

static int open_dev(struct sn_bridge *bridge)
{
	const struct sn_dev_events events = { .completion = tell_completion,
					      .async = tell_async,
					      .map = map_pages,
					      .unmap = unmap_pages,
					      .unread = is_unread,
					      .ctx = bridge };
	int err = sn_dev_open_trapped(bridge->config.nic, &events, &bridge->dev);

	if (!err && sn_bridge_is_ethernet(bridge))
		sn_dev_use_driver_gids(bridge->dev, true);
	return err;
}

static void keep_gids(struct sn_bridge *bridge)
{
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		bridge->gid_type[i] = atomic_load(&bridge->nic->gid_type[i]);
}

static void put_gids_back(struct sn_bridge *bridge)
{
	sn_dev_use_driver_gids(bridge->dev, false);
	for (uint32_t i = 0; i < SN_MAX_GIDS; i++)
		atomic_store(&bridge->nic->gid_type[i], bridge->gid_type[i]);
}

static void close_dev(struct sn_bridge *bridge)
{
	if (bridge->dev)
		sn_dev_close(bridge->dev);
	bridge->dev = NULL;
	sn_bridge_drop_all(bridge);
}

int sn_bridge_new(const struct sn_bridge_config *config, struct sn_bridge **out)
{
	struct sn_bridge *bridge;
	int err = join(config->fabric, config->host);

	if (!err && config->nic >= process.fabric->n_nics)
		err = -ENODEV;
	if (err)
		return err;
	bridge = calloc(1, sizeof(*bridge));
	if (!bridge)
		return -ENOMEM;
	bridge->config = *config;
	bridge->config.fabric = process.name;
	bridge->fabric = process.fabric;
	bridge->nic = &process.fabric->nic[config->host][config->nic];
	keep_gids(bridge);
	err = config->stray ? sn_bridge_space_new(bridge) : 0;
	if (!err)
		err = open_dev(bridge);
	if (err) {
		sn_bridge_space_free(bridge);
		free(bridge);
		return err;
	}
	*out = bridge;
	return 0;
}

void sn_bridge_free(struct sn_bridge *bridge)
{
	if (bridge->dev && sn_bridge_is_ethernet(bridge))
		put_gids_back(bridge);
	close_dev(bridge);
	sn_bridge_space_free(bridge);
	free(bridge);
}

int sn_bridge_reset(struct sn_bridge *bridge)
{
	close_dev(bridge);
	return open_dev(bridge);
}

void sn_bridge_stop(struct sn_bridge *bridge, bool stop)
{
	sn_dev_halt(bridge->dev, stop);
}

void sn_bridge_doorbell(struct sn_bridge *bridge, uint32_t uar, uint32_t offset, uint64_t bytes)
{
	sn_uar_ring(bridge->dev, uar, offset, bytes);
}
