/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Events of the data path on their way to the driver. The bridge tells them with the engine's lock
 * held, from any thread; the machine delivers them later, with its own lock, as entries of event
 * queues.
 */
#include <pthread.h>
#include <stdlib.h>

#include "simnic/pci/data.h"
#include "simnic/pci/fault.h"
#include "simnic/pci/pci.h"

struct event {
	struct event *next;
	enum sn_bridge_event event;
	uint32_t number, user;
};

struct sn_events {
	struct sn_pci *pci;
	pthread_mutex_t lock; /* of the list; nothing else is taken under it */
	struct event *first, **last;
};

struct sn_events *sn_events_new(struct sn_pci *pci)
{
	struct sn_events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	events->pci = pci;
	events->last = &events->first;
	pthread_mutex_init(&events->lock, NULL);
	return events;
}

static struct event *take_all(struct sn_events *events)
{
	struct event *list;

	pthread_mutex_lock(&events->lock);
	list = events->first;
	events->first = NULL;
	events->last = &events->first;
	pthread_mutex_unlock(&events->lock);
	return list;
}

void sn_events_forget(struct sn_events *events)
{
	struct event *list = take_all(events);

	while (list) {
		struct event *next = list->next;

		free(list);
		list = next;
	}
}

void sn_events_free(struct sn_events *events)
{
	sn_events_forget(events);
	pthread_mutex_destroy(&events->lock);
	free(events);
}

static void append(struct sn_events *events, struct event *event)
{
	pthread_mutex_lock(&events->lock);
	*events->last = event;
	events->last = &event->next;
	pthread_mutex_unlock(&events->lock);
}

void sn_events_tell(void *ctx, enum sn_bridge_event what, uint32_t number, uint32_t user)
{
	struct sn_events *events = ctx;
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return;
	event->event = what;
	event->number = number;
	event->user = user;
	append(events, event);
	events->pci->host.wake(events->pci->host.self);
}

void sn_events_stray(void *ctx)
{
	const struct sn_pci *pci = ((struct sn_events *)ctx)->pci;

	pci->host.wake(pci->host.self);
}

static void tell_completion(struct sn_pci *pci, const struct event *event)
{
	uint8_t data[SN_EVENT_BYTES] = { 0 };

	sn_store32(data + SN_EVENT_BYTES - 4, event->number);
	sn_eq_tell(pci, event->user, SN_EVENT_COMPLETION, 0, data);
}

static void deliver(struct sn_pci *pci, const struct event *event)
{
	switch (event->event) {
	case SN_BRIDGE_COMPLETION: tell_completion(pci, event); break;
	case SN_BRIDGE_PORT_UP: sn_eq_port(pci, true); break;
	case SN_BRIDGE_PORT_DOWN: sn_eq_port(pci, false); break;
	case SN_BRIDGE_GIDS_CHANGED: sn_eq_tell_port(pci, SN_PORT_GUID); break;
	case SN_BRIDGE_PKEYS_CHANGED: sn_eq_tell_port(pci, SN_PORT_PKEY); break;
	case SN_BRIDGE_FATAL: sn_pci_fault(pci, "fatal"); break;
	default: sn_eq_tell_object(pci, event->event, event->number); break;
	}
}

void sn_events_deliver(struct sn_events *events)
{
	struct event *list = take_all(events);

	while (list) {
		struct event *next = list->next;

		deliver(events->pci, list);
		free(list);
		list = next;
	}
}
