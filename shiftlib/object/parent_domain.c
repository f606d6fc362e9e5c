/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Parent domains: other names of a protection domain. */
#include <stdlib.h>
#include "shiftlib/base/table.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

static void parent_add(struct ibv_pd *real, struct ibv_pd *inner) SH_LOCKED
{
	struct sh_parent *parent = malloc(sizeof(*parent));
	struct sh_pd *pd = sh_pd_find(inner);

	if (!parent || !pd || sh_table_put(&sh_objects.by_parent, real, parent)) {
		free(parent); /* its objects stay foreign */
		return;
	}
	parent->real = real;
	parent->pd = pd;
	list_add_tail(&pd->parents, &parent->link);
}

static void parent_forget(struct sh_parent *parent)
{
	sh_table_remove(&sh_objects.by_parent, parent->real);
	list_del(&parent->link);
	free(parent);
}

/* A device that is dead may let the one within go first. */
void sh_parents_forget(struct sh_pd *pd)
{
	while (!list_empty(&pd->parents))
		parent_forget(list_entry(pd->parents.next, struct sh_parent, link));
}

/* Out of the table while the real one goes, as its address may be another's at once. */
int sh_parent_destroy(struct ibv_pd *real)
{
	struct sh_parent *parent;
	struct ibv_pd *inner = NULL;
	int ret;

	sh_lock();
	parent = sh_table_get(&sh_objects.by_parent, real);
	if (parent) {
		inner = parent->pd->pd;
		parent_forget(parent);
	}
	sh_unlock();
	ret = sh.real->dealloc_pd(real);
	if (!ret || !inner)
		return ret;
	sh_lock();
	parent_add(real, inner);
	sh_unlock();
	return ret;
}

/*
 * A parent domain adds to a protection domain whose doorbell register is used, and whose memory for
 * rings. The first makes no difference to SHIFT, which asks where the register is; rings in memory
 * of the application's own are left to it.
 */
struct ibv_pd *shift_alloc_parent_domain(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr,
	struct ibv_pd *(*alloc)(struct ibv_context *, struct ibv_parent_domain_init_attr *))
{
	bool own_memory = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	struct ibv_pd *real = alloc(context, attr);

	if (!real || own_memory)
		return real;
	sh_lock();
	parent_add(real, attr->pd);
	sh_unlock();
	return real;
}
