/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory of a connection: NCCL registers it before it sends from there, or receives. */
#include "comm.h"
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum nccl_result plug_comm_reg(struct plug_comm *c, void *data, size_t size,
			       struct plug_region **region)
{
	struct plug_region *r = calloc(1, sizeof(*r));
	int err = 0;

	*region = NULL;
	if (!r)
		return NCCL_SYSTEM_ERROR;
	r->addr = data;
	r->size = size;
	pthread_mutex_lock(&c->lock);
	if (size)
		err = c->ops->reg(c->path, data, size, &r->mr);
	if (!err) {
		r->next = c->regions;
		c->regions = r;
		*region = r;
	}
	pthread_mutex_unlock(&c->lock);
	if (!err)
		return NCCL_SUCCESS;
	free(r);
	PLUG_WARN("%zu bytes at %p cannot be registered: %s", size, data, strerror(-err));
	return NCCL_SYSTEM_ERROR;
}

static void unlist(struct plug_comm *c, struct plug_region *region)
{
	struct plug_region **link = &c->regions;

	while (*link && *link != region)
		link = &(*link)->next;
	if (*link)
		*link = region->next;
}

/* NCCL aborts so: it gives back memory of requests that are open, and closes then. */
enum nccl_result plug_comm_dereg(struct plug_comm *c, struct plug_region *region)
{
	int err = 0;

	pthread_mutex_lock(&c->lock);
	if (region->mr && plug_comm_uses(c, region->mr))
		plug_comm_stop(c);
	if (region->mr)
		err = c->ops->dereg(c->path, region->mr);
	/* A send that the receiver's last word has ended is still the path's. */
	if (err == -EBUSY) {
		plug_comm_stop(c);
		err = c->ops->dereg(c->path, region->mr);
	}
	if (!err)
		unlist(c, region);
	pthread_mutex_unlock(&c->lock);
	if (!err) {
		free(region);
		return NCCL_SUCCESS;
	}
	PLUG_WARN("memory at %p cannot be given back: %s", (void *)region->addr, strerror(-err));
	return NCCL_SYSTEM_ERROR;
}
