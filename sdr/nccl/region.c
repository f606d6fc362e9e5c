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

/* Its sends that the receiver's last word has ended are still the path's. */
static bool may_stop(const struct plug_comm *c)
{
	return c->error || (c->gone && !c->n_open && !c->n_waiting);
}

static void unlist(struct plug_comm *c, struct plug_region *region)
{
	struct plug_region **link = &c->regions;

	while (*link && *link != region)
		link = &(*link)->next;
	if (*link)
		*link = region->next;
}

enum nccl_result plug_comm_dereg(struct plug_comm *c, struct plug_region *region)
{
	int err = 0;

	pthread_mutex_lock(&c->lock);
	if (region->mr)
		err = c->ops->dereg(c->path, region->mr);
	if (err == -EBUSY && (may_stop(c) || c->peer_done)) {
		plug_comm_stop(c);
		err = c->ops->dereg(c->path, region->mr);
	}
	if (!err)
		unlist(c, region);
	pthread_mutex_unlock(&c->lock);
	if (err) {
		PLUG_WARN("memory at %p cannot be given back: %s", (void *)region->addr,
			  strerror(-err));
		return err == -EBUSY ? NCCL_INVALID_USAGE : NCCL_SYSTEM_ERROR;
	}
	free(region);
	return NCCL_SUCCESS;
}
