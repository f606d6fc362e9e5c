/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User contexts: opened and closed, and told of what happens to their NIC. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/srq.h"
#include "simnic/device/uar.h"
#include "simnic/fabric/nic.h"

void sn_async_event(const struct sn_dev *dev, int fd, uint64_t element, uint32_t type,
		    uint32_t *count)
{
	struct ib_uverbs_async_event_desc event = { .element = element, .event_type = type };

	if (dev->trapped) {
		dev->events.async(dev->events.ctx, element, type);
		return;
	}
	if (fd < 0)
		return;
	if (send(fd, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(event) && count)
		++*count;
}

/* ---- faults of the NIC ----------------------------------------------------------------------- */

static uint64_t dev_turn_ns(const struct sn_dev *dev)
{
	return sn_nic_turn_ns(dev->nic, dev->file);
}

static bool dev_other_life(const struct sn_dev *dev)
{
	return atomic_load(&dev->nic->incarnation) != dev->incarnation;
}

static bool dev_runs_on(const struct sn_dev *dev)
{
	return !atomic_load(&dev->nic->removal.still) && sn_clock_ns() < dev_turn_ns(dev);
}

bool sn_dev_stands_still(const struct sn_dev *dev)
{
	uint32_t state = atomic_load_explicit(&dev->nic->state, memory_order_relaxed);

	if (dev->fatal || dev->halted || dev_other_life(dev))
		return true;
	if (state == SN_NIC_INTERNAL_ERROR)
		return !atomic_load(&dev->nic->zombie);
	return state == SN_NIC_DISASSOCIATED ? !dev_runs_on(dev) : state != SN_NIC_OK;
}

static void dev_ud_dies(struct sn_dev *dev)
{
	struct sn_qp *qp;

	for (qp = dev->qps; qp; qp = qp->dev_next)
		if (qp->attr.type == IBV_QPT_UD)
			sn_qp_enter_error(qp);
}

/* Soft-RoCE (rxe_notify()) tells the state of its port again with each change of its netdev. */
static void dev_tell_port(struct sn_dev *dev, bool up)
{
	int times = sn_nic_quirk(dev->nic, SN_QUIRK_PORT_TWICE) ? 2 : 1;

	while (times--)
		sn_async_event(dev, dev->async_fd, 1,
			       up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, NULL);
}

static void dev_port_events(struct sn_dev *dev)
{
	uint32_t up = atomic_load(&dev->nic->port_up);

	if (up == dev->port_was_up)
		return;
	dev->port_was_up = up;
	if (!up && sn_nic_quirk(dev->nic, SN_QUIRK_UD_DIES))
		dev_ud_dies(dev);
	if (!dev->fatal && !sn_nic_quirk(dev->nic, SN_QUIRK_NO_PORT_EVENT))
		dev_tell_port(dev, up);
}

static void dev_gid_events(struct sn_dev *dev)
{
	uint32_t gen = atomic_load(&dev->nic->tenant.gid_gen);

	if (gen == dev->gid_gen)
		return;
	dev->gid_gen = gen;
	if (!dev->fatal)
		sn_async_event(dev, dev->async_fd, 1, IBV_EVENT_GID_CHANGE, NULL);
}

static void dev_pkey_events(struct sn_dev *dev)
{
	uint32_t gen = atomic_load(&dev->nic->tenant.pkey_gen);

	if (gen == dev->pkey_gen)
		return;
	dev->pkey_gen = gen;
	if (!dev->fatal)
		sn_async_event(dev, dev->async_fd, 1, IBV_EVENT_PKEY_CHANGE, NULL);
}

static void dev_says_fatal(const struct sn_dev *dev)
{
	sn_async_event(dev, dev->async_fd, 1, IBV_EVENT_DEVICE_FATAL, NULL);
}

static void dev_stops(struct sn_dev *dev)
{
	if (dev->fatal)
		return;
	dev->fatal = true;
	sn_posted_push(dev); /* payload that has left a NIC arrives without it */
}

/*
 * Ends the completion channels. The kernel destroys the objects of a file before it tells of the
 * file's end: a read of a channel, or a wait for it, gets an error (the kernel's is EIO; here the
 * end of a socket reads like the end of a file). Earlier events are read before.
 */
static void dev_channels_end(const struct sn_dev *dev)
{
	const struct sn_cq *cq;

	LIST_FOREACH (cq, &dev->cqs, link)
		if (cq->attr.channel_fd >= 0)
			shutdown(cq->attr.channel_fd, SHUT_WR);
}

/*
 * Tells an internal error at once, and the end of a file, whatever was told before, when it has
 * come.
 */
static void dev_state_events(struct sn_dev *dev)
{
	uint32_t state = atomic_load(&dev->nic->state);
	bool taken = state == SN_NIC_DISASSOCIATED || dev_other_life(dev);

	if (state == SN_NIC_INTERNAL_ERROR && !taken && !dev->broken) {
		dev->broken = true;
		if (!atomic_load(&dev->nic->zombie))
			dev_stops(dev);
		dev_says_fatal(dev);
	}
	if (taken && !dev->warned && atomic_load(&dev->nic->removal.fatal_first)) {
		dev->warned = true;
		dev_says_fatal(dev);
	}
	dev->leaving =
		taken && !dev->gone && !dev_other_life(dev) && sn_clock_ns() < dev_turn_ns(dev);
	if (!taken || dev->gone || dev->leaving)
		return;
	dev->gone = true;
	dev_stops(dev);
	dev_channels_end(dev);
	if (!dev->warned)
		dev_says_fatal(dev);
}

uint64_t sn_dev_next_turn_ns(void)
{
	uint64_t next = UINT64_MAX, turn;
	struct sn_dev *dev;

	for (dev = sn_engine.devs; dev; dev = dev->next) {
		turn = dev->leaving ? dev_turn_ns(dev) : UINT64_MAX;
		next = turn < next ? turn : next;
	}
	return next;
}

void sn_dev_raise_events(struct sn_dev *dev)
{
	uint32_t gen = atomic_load_explicit(&dev->nic->event_gen, memory_order_acquire);

	if (gen == dev->event_gen && !dev->leaving)
		return;
	dev->event_gen = gen;
	dev_state_events(dev);
	dev_port_events(dev);
	dev_gid_events(dev);
	dev_pkey_events(dev);
}

/* ---- open, close ---------------------------------------------------------------------------- */

static struct sn_dev *dev_new(uint32_t nic)
{
	struct sn_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->nic_index = nic;
	dev->nic = &sn_engine.fabric->nic[sn_engine.host][nic];
	dev->async_fd = -1;
	dev->event_gen = atomic_load(&dev->nic->event_gen);
	dev->port_was_up = atomic_load(&dev->nic->port_up);
	dev->gid_gen = atomic_load(&dev->nic->tenant.gid_gen);
	dev->pkey_gen = atomic_load(&dev->nic->tenant.pkey_gen);
	dev->incarnation = atomic_load(&dev->nic->incarnation);
	dev->file = atomic_fetch_add(&dev->nic->removal.files, 1);
	return dev;
}

static int dev_open(uint32_t nic, const struct sn_dev_events *events, struct sn_dev **out)
{
	struct sn_dev *dev;
	int rc;

	if (!sn_engine.attached || nic >= sn_engine.fabric->n_nics)
		return -ENODEV;
	dev = dev_new(nic);
	if (!dev)
		return -ENOMEM;
	if (events) {
		dev->trapped = true;
		dev->events = *events;
	}
	sn_lock();
	sn_engine.in_program |= dev->trapped;
	rc = sn_engine_serve(nic);
	if (!rc) {
		dev->next = sn_engine.devs;
		sn_engine.devs = dev;
	}
	sn_unlock();
	if (rc) {
		free(dev);
		return rc;
	}
	*out = dev;
	sn_engine_kick();
	return 0;
}

int sn_dev_open(uint32_t nic, struct sn_dev **out)
{
	return dev_open(nic, NULL, out);
}

int sn_dev_open_trapped(uint32_t nic, const struct sn_dev_events *events, struct sn_dev **out)
{
	return dev_open(nic, events, out);
}

void sn_dev_halt(struct sn_dev *dev, bool halt)
{
	sn_lock();
	dev->halted = halt;
	sn_unlock();
	sn_engine_kick();
}

void sn_dev_push(struct sn_dev *dev)
{
	sn_posted_push(dev);
}

void sn_dev_close(struct sn_dev *dev)
{
	struct sn_dev **link;

	sn_lock();
	for (link = &sn_engine.devs; *link && *link != dev; link = &(*link)->next)
		;
	if (*link)
		*link = dev->next;
	sn_qp_free_all(dev);
	sn_srq_free_all(dev);
	sn_ether_free_all(dev);
	sn_cq_free_all(dev);
	sn_mr_free_all(dev);
	sn_uar_free_all(dev);
	sn_unlock();
	free(dev);
}

int sn_dev_set_async_fd(struct sn_dev *dev, int async_fd)
{
	sn_lock();
	dev->async_fd = async_fd;
	sn_unlock();
	return 0;
}

void sn_dev_use_driver_gids(struct sn_dev *dev, bool use)
{
	sn_lock();
	sn_nic_use_driver_gids(dev->nic, use);
	sn_unlock();
}

int sn_dev_set_gid(struct sn_dev *dev, uint32_t index, const uint8_t gid[16], uint32_t type,
		   uint16_t vlan)
{
	int err;

	sn_lock();
	err = sn_nic_set_driver_gid(dev->nic, index, gid, type, vlan);
	sn_unlock();
	return err;
}

void sn_dev_switch_off(struct sn_dev *dev, bool off)
{
	sn_lock();
	sn_nic_switch_off(sn_engine.fabric, dev->nic, off);
	sn_unlock();
}
