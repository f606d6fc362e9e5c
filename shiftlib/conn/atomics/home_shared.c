/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/maps.h"
#include "shiftlib/conn/atomics/home_shared.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"

static struct {
	struct sh_maps maps;
	bool read;
} shared;

void sh_home_shared_begin(void)
{
	shared.read = false;
}

void sh_home_shared_end(void)
{
	if (shared.read)
		sh_maps_free(&shared.maps);
}

static const struct sh_maps *shared_maps(void)
{
	int ret;

	if (shared.read)
		return &shared.maps;
	shared.read = true;
	ret = sh_maps_read(&shared.maps);
	if (ret)
		sh_log(SH_LOG_WARN,
		       "/proc/self/maps: %s: whether other processes share memory under atomics is "
		       "not known, and taken for no",
		       strerror(-ret));
	return &shared.maps;
}

/*
 * A buffer of a device has no address; a window may give the right to atomics where its region
 * has none.
 */
static bool shared_region(const struct sh_mr *mr)
{
	return (mr->access & (IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)) && !mr->dmabuf &&
	       mr->length && sh_maps_have(shared_maps(), (uintptr_t)mr->addr, mr->length);
}

bool sh_home_shared(const struct sh_qp *qp)
{
	const struct sh_pd *pd = sh_pd_find(qp->qp->pd);
	const struct sh_mr *mr;

	if (!pd)
		return false;
	list_for_each (&pd->mrs, mr, struct sh_mr, link) {
		if (!shared_region(mr))
			continue;
		sh_log(SH_LOG_WARN,
		       "connections of %s take atomics on memory that other processes may have, "
		       "too "
		       "(MAP_SHARED, %zu bytes): they would be split between NICs, so after a move "
		       "they wait until the connection is back (SHIFT_ATOMIC_GROUP)",
		       qp->ctx->nic->name, mr->length);
		return true;
	}
	return false;
}
