/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <pthread.h>
#include <stdlib.h>

#include "shiftlib/facade/async_hidden.h"
#include "shiftlib/facade/event_about.h"

#define HIDDEN_ROOM 64
#define HIDDEN_MAX  (1 << 20)

struct sh_hidden_object {
	struct sh_event_about about;
	/*
	 * Events that libibverbs has to be told of, beyond those that the application
	 * acknowledged.
	 */
	int32_t more;
	bool settled;
};

static struct sh_hidden_object *hidden_find(struct sh_async_hidden *hidden, const void *object)
{
	for (uint32_t i = 0; i < hidden->n; i++)
		if (hidden->objects[i].about.object == object)
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
	struct sh_hidden_object fresh = { .about = sh_event_about(event) }, *object;

	if (!fresh.about.object)
		return NULL;
	object = hidden_find(hidden, fresh.about.object);
	if (object || !hidden_grow(hidden))
		return object;
	object = &hidden->objects[hidden->n++];
	*object = fresh;
	return object;
}

/* Libibverbs counts under the same mutex. */
static void hidden_count(const struct sh_hidden_object *object, int32_t more)
{
	pthread_mutex_lock(object->about.mutex);
	*object->about.completed += (uint32_t)more;
	pthread_mutex_unlock(object->about.mutex);
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
