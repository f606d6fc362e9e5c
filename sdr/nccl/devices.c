/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "devices.h"
#include "log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plug_device devices[PLUG_DEVICES_MAX];
static uint32_t n_devices;

/* ---- what the verbs know --------------------------------------------------------------------- */

static int speed_of(const struct ibv_port_attr *port)
{
	static const int lane_mbps[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };
	static const int lanes[] = { 1, 4, 8, 12, 2 };
	int speed = lane_mbps[0], width = lanes[0];

	for (uint32_t i = 0; i < sizeof(lane_mbps) / sizeof(lane_mbps[0]); i++)
		if (port->active_speed & 1u << i)
			speed = lane_mbps[i];
	for (uint32_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (port->active_width & 1u << i)
			width = lanes[i];
	return speed * width;
}

/* False: the device has no port 1 that is active. */
static bool look(struct ibv_device *dev, int *speed_mbps)
{
	struct ibv_context *verbs = ibv_open_device(dev);
	struct ibv_port_attr port;
	bool active;

	if (!verbs)
		return false;
	active = !ibv_query_port(verbs, 1, &port) && port.state == IBV_PORT_ACTIVE;
	if (active)
		*speed_mbps = speed_of(&port);
	ibv_close_device(verbs);
	return active;
}

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	return NULL;
}

/* ---- the list -------------------------------------------------------------------------------- */

static char *pci_path_of(const struct ibv_device *dev)
{
	char link[PATH_MAX + 16];

	snprintf(link, sizeof(link), "%s/device", dev->ibdev_path);
	return realpath(link, NULL);
}

static int add(struct plug_device *d, struct ibv_device *dev, int speed_mbps)
{
	const char *name = ibv_get_device_name(dev);
	size_t length = strlen(d->name);

	if (d->n_nics == PLUG_NICS_MAX || strlen(name) >= PLUG_NAME_MAX)
		return -EINVAL;
	if (!d->n_nics) {
		d->pci_path = pci_path_of(dev);
		d->guid = ibv_get_device_guid(dev);
	}
	strcpy(d->nics[d->n_nics++], name);
	d->speed_mbps += speed_mbps;
	snprintf(d->name + length, sizeof(d->name) - length, "%s%s", length ? "+" : "", name);
	return 0;
}

/* All NICs whose port is active are one device. */
static int take_all(struct ibv_device **list)
{
	int err = 0, speed;

	for (int i = 0; list[i] && devices[0].n_nics < PLUG_NICS_MAX && !err; i++)
		if (look(list[i], &speed))
			err = add(&devices[0], list[i], speed);
	n_devices = devices[0].n_nics ? 1 : 0;
	return err;
}

/* The NICs of one device, "mlx5_0,mlx5_1". A NIC that is down now may be well later. */
static int take_group(struct ibv_device **list, char *group)
{
	char *at, *name = strtok_r(group, ",", &at);
	int err = name ? 0 : -EINVAL, speed;

	if (n_devices == PLUG_DEVICES_MAX)
		return -EINVAL;
	for (; name && !err; name = strtok_r(NULL, ",", &at)) {
		struct ibv_device *dev = find(list, name);

		speed = 0;
		if (!dev) {
			PLUG_WARN("NCCL_SDR_HCA names %s, which is no device here", name);
			return -EINVAL;
		}
		look(dev, &speed);
		err = add(&devices[n_devices], dev, speed);
	}
	n_devices += !err;
	return err;
}

static int take_named(struct ibv_device **list, const char *hca)
{
	char *copy = strdup(hca), *at, *group;
	int err = copy ? 0 : -ENOMEM;

	for (group = copy ? strtok_r(copy, ";", &at) : NULL; group && !err;
	     group = strtok_r(NULL, ";", &at))
		err = take_group(list, group);
	free(copy);
	return err;
}

/* What a list has that could not be made whole. */
static void forget(void)
{
	for (uint32_t i = 0; i < PLUG_DEVICES_MAX; i++)
		free(devices[i].pci_path);
	memset(devices, 0, sizeof(devices));
	n_devices = 0;
}

int plug_devices_find(const struct plug_settings *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err;

	if (!list)
		return -ENODEV;
	err = s->hca[0] ? take_named(list, s->hca) : take_all(list);
	ibv_free_device_list(list);
	for (uint32_t i = 0; i < n_devices; i++)
		PLUG_INFO("device %u is %s, %d Mbit/s", i, devices[i].name, devices[i].speed_mbps);
	if (err)
		forget();
	return err ? err : n_devices ? 0 : -ENODEV;
}

uint32_t plug_devices_count(void)
{
	return n_devices;
}

const struct plug_device *plug_device_at(int i)
{
	return i >= 0 && (uint32_t)i < n_devices ? &devices[i] : NULL;
}

static void append(char *names, size_t size, const char *name)
{
	size_t length = strlen(names);

	snprintf(names + length, size - length, "%s%s", length ? "," : "", name);
}

uint32_t plug_device_well(const struct plug_device *d, char *names, size_t size)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint32_t well = 0;
	int speed;

	names[0] = 0;
	for (uint32_t i = 0; i < d->n_nics; i++) {
		struct ibv_device *dev = find(list, d->nics[i]);

		if (!dev || !look(dev, &speed))
			continue;
		append(names, size, d->nics[i]);
		well++;
	}
	for (uint32_t i = 0; !well && i < d->n_nics; i++)
		append(names, size, d->nics[i]);
	if (list)
		ibv_free_device_list(list);
	return well;
}
