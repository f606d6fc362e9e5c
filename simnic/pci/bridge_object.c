/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The driver's objects, found by number. */
#include <errno.h>
#include <stdlib.h>

#include "simnic/pci/bridge_own.h"

static struct sn_bridge_object **bucket_of(struct sn_bridge *bridge, enum sn_bridge_type type,
					   uint32_t number)
{
	return &bridge->table[type][number % SN_BRIDGE_BUCKETS];
}

struct sn_bridge_object *sn_bridge_make(struct sn_bridge *bridge, enum sn_bridge_type type,
					const struct sn_bridge_pages *pages, uint64_t bytes)
{
	struct sn_bridge_object *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	object->type = type;
	if (!bytes)
		return object;
	object->map.bytes = bytes;
	object->map.at = sn_bridge_map(bridge, pages, bytes);
	if (object->map.at)
		return object;
	free(object);
	return NULL;
}

void sn_bridge_discard(struct sn_bridge *bridge, struct sn_bridge_object *object)
{
	if (object->map.at)
		sn_bridge_unmap(bridge, object->map.at, object->map.bytes);
	free(object);
}

void sn_bridge_add(struct sn_bridge *bridge, struct sn_bridge_object *object, uint32_t number)
{
	struct sn_bridge_object **bucket = bucket_of(bridge, object->type, number);

	object->number = number;
	object->next = *bucket;
	*bucket = object;
}

struct sn_bridge_object *sn_bridge_find(struct sn_bridge *bridge, enum sn_bridge_type type,
					uint32_t number)
{
	struct sn_bridge_object *object = *bucket_of(bridge, type, number);

	while (object && object->number != number)
		object = object->next;
	return object;
}

void sn_bridge_drop(struct sn_bridge *bridge, struct sn_bridge_object *object)
{
	struct sn_bridge_object **link = bucket_of(bridge, object->type, object->number);

	while (*link != object)
		link = &(*link)->next;
	*link = object->next;
	sn_bridge_discard(bridge, object);
}

void sn_bridge_drop_all(struct sn_bridge *bridge)
{
	for (int type = 0; type < SN_BRIDGE_TYPES; type++)
		for (int i = 0; i < SN_BRIDGE_BUCKETS; i++)
			while (bridge->table[type][i])
				sn_bridge_drop(bridge, bridge->table[type][i]);
}
