/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <pthread.h>
#include <stdlib.h>

#include "shiftlib/facade/async_hidden.h"

#define HIDDEN_ROOM 64
#define HIDDEN_MAX  (1 << 20)

struct sh_hidden_object {
	const void *object;
	pthread_mutex_t *mutex; /* libibverbs', of the count */
	uint32_t *completed;
	int32_t more; /* so many more libibverbs has to be told of than the application acknowledged */
	bool settled;
};

/* False: nobody counts this event. */
static bool hidden_describe(const struct ibv_async_event *event, struct sh_hidden_object *out)
{
	*out = (struct sh_hidden_object){ 0 };
	switch ((int)event->event_type) {
	case IBV_EVENT_CQ_ERR:
		out->object = event->element.cq;
		out->mutex = &event->element.cq->mutex;
		out->completed = &event->element.cq->async_events_completed;
		return true;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		out->object = event->element.srq;
		out->mutex = &event->element.srq->mutex;
		out->completed = &event->element.srq->events_completed;
		return true;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->object = event->element.qp;
		out->mutex = &event->element.qp->mutex;
		out->completed = &event->element.qp->events_completed;
		return true;
	default: return false;
	}
}

static struct sh_hidden_object *hidden_find(struct sh_async_hidden *hidden, const void *object)
{
	for (uint32_t i = 0; i < hidden->n; i++)
		if (hidden->objects[i].object == object)
			return &hidden->objects[i];
	return NULL;
}

static bool hidden_grow(struct sh_async_hidden *hidden)
{
	uint32_t room = hidden->room ? 2 * hidden->room : HIDDEN_ROOM;
	struct sh_hidden_object *objects = NULL;

	if (hidden->n < hidden->room)
		return true;
	if (room <= HIDDEN_MAX)
		objects = realloc(hidden->objects, room * sizeof(*objects));
	if (!objects)
		return false;
	hidden->objects = objects;
	hidden->room = room;
	return true;
}

/* NULL: nobody counts this event, or there is no memory for it. */
static struct sh_hidden_object *hidden_get(struct sh_async_hidden *hidden,
					   const struct ibv_async_event *event)
{
	struct sh_hidden_object fresh, *object;

	if (!hidden_describe(event, &fresh))
		return NULL;
	object = hidden_find(hidden, fresh.object);
	if (object || !hidden_grow(hidden))
		return object;
	object = &hidden->objects[hidden->n++];
	*object = fresh;
	return object;
}

/* Libibverbs counts under the same mutex. */
static void hidden_count(const struct sh_hidden_object *object, int32_t more)
{
	pthread_mutex_lock(object->mutex);
	*object->completed += (uint32_t)more;
	pthread_mutex_unlock(object->mutex);
}

bool sh_hidden_drop(struct sh_async_hidden *hidden, const struct ibv_async_event *event)
{
	struct sh_hidden_object *object = hidden_get(hidden, event);

	if (!object || object->settled)
		return false;
	object->more++;
	return true;
}

void sh_hidden_acked(struct sh_async_hidden *hidden, const struct ibv_async_event *event)
{
	struct sh_hidden_object *object = hidden_get(hidden, event);

	if (!object || object->settled)
		return;
	object->more--;
	hidden_count(object, 1);
}

void sh_hidden_settle(struct sh_async_hidden *hidden, const void *of)
{
	struct sh_hidden_object *object = hidden_find(hidden, of);

	if (!object || object->settled)
		return;
	object->settled = true;
	hidden_count(object, object->more);
}

void sh_hidden_settled(struct sh_async_hidden *hidden, const void *of, bool lives)
{
	struct sh_hidden_object *object = hidden_find(hidden, of);

	if (!object)
		return;
	if (!lives) {
		*object = hidden->objects[--hidden->n];
		return;
	}
	object->settled = false;
	hidden_count(object, -object->more);
}

void sh_hidden_uninit(struct sh_async_hidden *hidden)
{
	free(hidden->objects);
}
