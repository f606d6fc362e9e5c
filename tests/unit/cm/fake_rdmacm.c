/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/unit/cm/fake_rdmacm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct fake_event {
	struct rdma_cm_event event; /* first */
	struct fake_event *next;
};

struct fake_channel {
	struct rdma_event_channel channel; /* first */
	bool blocking;
	int waiters;
	struct fake_event *first, **last;
};

struct fake_id {
	struct rdma_cm_id id; /* first */
	int read, acknowledged;
};

atomic_bool fake_no_device;
atomic_int fake_ids;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct rdma_event_channel *fake_channel_make(bool blocking)
{
	struct fake_channel *c = calloc(1, sizeof(*c));

	c->blocking = blocking;
	c->last = &c->first;
	return &c->channel;
}

/* As the kernel does with a file that is closed: what nobody read is gone. */
void fake_channel_free(struct rdma_event_channel *channel)
{
	struct fake_channel *c = (struct fake_channel *)channel;

	for (struct fake_event *e = c->first, *next; e; e = next) {
		next = e->next;
		free(e);
	}
	free(c);
}

static int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  int port_space)
{
	struct fake_id *made = calloc(1, sizeof(*made));

	made->id.channel = channel;
	made->id.context = context;
	made->id.ps = (enum rdma_port_space)port_space;
	*id = &made->id;
	atomic_fetch_add(&fake_ids, 1);
	return 0;
}

struct rdma_cm_id *fake_id_make(struct rdma_event_channel *channel, struct ibv_qp *qp)
{
	struct rdma_cm_id *id;

	fake_create_id(channel, &id, NULL, RDMA_PS_TCP);
	id->qp = qp;
	return id;
}

void fake_raise(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct fake_channel *c = (struct fake_channel *)id->channel;
	struct fake_event *e = calloc(1, sizeof(*e));

	e->event.id = id;
	e->event.event = type;
	pthread_mutex_lock(&lock);
	*c->last = e;
	c->last = &e->next;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

bool fake_readable(struct rdma_event_channel *channel)
{
	bool readable;

	pthread_mutex_lock(&lock);
	readable = ((struct fake_channel *)channel)->first;
	pthread_mutex_unlock(&lock);
	return readable;
}

bool fake_waited(struct rdma_event_channel *channel)
{
	bool waited;

	pthread_mutex_lock(&lock);
	waited = ((struct fake_channel *)channel)->waiters;
	pthread_mutex_unlock(&lock);
	return waited;
}

bool fake_settled(struct rdma_cm_id *id, int events)
{
	bool settled;

	pthread_mutex_lock(&lock);
	settled = ((struct fake_id *)id)->acknowledged == events;
	pthread_mutex_unlock(&lock);
	return settled;
}

static int fake_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_channel *c = (struct fake_channel *)channel;
	struct fake_event *e;

	pthread_mutex_lock(&lock);
	c->waiters++;
	while (!c->first && c->blocking)
		pthread_cond_wait(&changed, &lock);
	c->waiters--;
	e = c->first;
	if (e) {
		c->first = e->next;
		if (!c->first)
			c->last = &c->first;
		((struct fake_id *)e->event.id)->read++;
	}
	pthread_mutex_unlock(&lock);
	if (!e) {
		errno = EAGAIN;
		return -1;
	}
	*event = &e->event;
	return 0;
}

static int fake_ack_cm_event(struct rdma_cm_event *event)
{
	pthread_mutex_lock(&lock);
	((struct fake_id *)event->id)->acknowledged++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	free(event);
	return 0;
}

static int fake_disconnect(struct rdma_cm_id *id)
{
	return 0;
}

/* Its events that nobody has read go with it. */
static void forget_events(struct fake_channel *c, const struct rdma_cm_id *id)
{
	struct fake_event **at = &c->first, *e;

	while ((e = *at)) {
		if (e->event.id == id) {
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
	c->last = at;
}

static int fake_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *fake = (struct fake_id *)id;

	pthread_mutex_lock(&lock);
	forget_events((struct fake_channel *)id->channel, id);
	while (fake->acknowledged < fake->read)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	free(fake);
	atomic_fetch_sub(&fake_ids, 1);
	return 0;
}

/* The kernel's events that nobody has read go along; those that were read are waited for. */
static int fake_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct fake_channel *from = (struct fake_channel *)id->channel;
	struct fake_channel *to = (struct fake_channel *)channel;
	struct fake_id *fake = (struct fake_id *)id;
	struct fake_event **at = &from->first, *e;

	pthread_mutex_lock(&lock);
	while (from != to && (e = *at)) {
		if (e->event.id != id) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = NULL;
		*to->last = e;
		to->last = &e->next;
	}
	if (from != to)
		from->last = at;
	while (fake->acknowledged < fake->read)
		pthread_cond_wait(&changed, &lock);
	__atomic_store_n(&id->channel, channel, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int fake_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	if (atomic_load(&fake_no_device)) {
		errno = ENODEV;
		return -1;
	}
	fake_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

const struct shift_cm_real fake_real = {
	.get_cm_event = fake_get_cm_event,
	.ack_cm_event = fake_ack_cm_event,
	.disconnect = fake_disconnect,
	.destroy_id = fake_destroy_id,
	.migrate_id = fake_migrate_id,
	.create_id = fake_create_id,
	.resolve_addr = fake_resolve_addr,
};
