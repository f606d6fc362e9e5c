/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "simnic/cm/connect.h"
#include "simnic/cm/file.h"
#include "simnic/cm/pool.h"
#include "simnic/device/device.h"

/* A comm id: the process slot, a number that changes with each use of the handle, the handle. */
#define HANDLE_BITS 16
#define USE_BITS    6
#define PSN_MASK    0xffffffu
#define HANDLE_MASK ((1u << HANDLE_BITS) - 1)

_Static_assert(SN_CM_MAX_IDS <= 1 << HANDLE_BITS, "a handle fits into a comm id");
_Static_assert(SN_MAX_PROCS <= 1 << (32 - HANDLE_BITS - USE_BITS), "a slot fits into a comm id");

struct sn_cm sn_cm = { .due_ns = UINT64_MAX };
static struct sn_cm_pool id_pool = { .size = sizeof(struct sn_cm_id) };

static int handle_take(uint32_t *handle)
{
	if (sn_cm.n_ids == SN_CM_MAX_IDS)
		return -ENOMEM;
	while (sn_cm.ids[sn_cm.next_handle])
		sn_cm.next_handle = (sn_cm.next_handle + 1) % SN_CM_MAX_IDS;
	*handle = sn_cm.next_handle;
	sn_cm.next_handle = (sn_cm.next_handle + 1) % SN_CM_MAX_IDS;
	return 0;
}

static uint32_t psn_draw(void)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != sizeof(psn))
		psn = (uint32_t)sn_clock_ns();
	return psn & PSN_MASK;
}

static uint32_t comm_id(uint32_t handle)
{
	uint32_t use = sn_cm.made++ & ((1u << USE_BITS) - 1);

	return sn_cm.slot << (HANDLE_BITS + USE_BITS) | use << HANDLE_BITS | handle;
}

int sn_cm_id_make(struct sn_cm_file *file, uint16_t ps, uint8_t qp_type, struct sn_cm_id **out)
{
	struct sn_cm_id *id = sn_cm_pool_get(&id_pool);
	uint32_t handle;
	int err = id ? handle_take(&handle) : -ENOMEM;

	if (err) {
		if (id)
			sn_cm_pool_put(&id_pool, id);
		return err;
	}
	id->handle = handle;
	id->comm_id = comm_id(handle);
	id->file = file;
	id->ps = ps;
	id->qp_type = qp_type;
	id->bind = -1;
	/* Before it is agreed on: a queue pair is made ready to receive first. */
	id->terms.rq_psn = psn_draw();
	sn_cm.ids[handle] = id;
	sn_cm.n_ids++;
	*out = id;
	return 0;
}

struct sn_cm_id *sn_cm_id_find(uint32_t handle)
{
	return handle < SN_CM_MAX_IDS ? sn_cm.ids[handle] : NULL;
}

struct sn_cm_id *sn_cm_id_of_message(uint32_t comm)
{
	struct sn_cm_id *id = sn_cm_id_find(comm & HANDLE_MASK);

	return id && id->comm_id == comm ? id : NULL;
}

struct sn_cm_id *sn_cm_id_next(uint32_t handle)
{
	if (!sn_cm.n_ids)
		return NULL;
	for (; handle < SN_CM_MAX_IDS; handle++)
		if (sn_cm.ids[handle])
			return sn_cm.ids[handle];
	return NULL;
}

static void events_drop(struct sn_cm_id *id)
{
	struct sn_cm_event *event;

	while ((event = sn_cm_file_take(id->file, id))) {
		if (event->request == id)
			event->of->backlog++;
		else if (event->request)
			sn_cm_id_destroy(event->request);
		sn_cm_event_free(event);
	}
}

uint32_t sn_cm_id_destroy(struct sn_cm_id *id)
{
	uint32_t reported = id->events_reported;

	sn_cm_say_goodbye(id);
	events_drop(id);
	if (id->bind >= 0)
		sn_cm_bind_release(sn_cm.fabric, (uint32_t)id->bind);
	sn_cm.ids[id->handle] = NULL;
	sn_cm.n_ids--;
	sn_cm_pool_put(&id_pool, id);
	return reported;
}

void sn_cm_id_take_nic(struct sn_cm_id *id, struct sn_nic *nic, uint32_t gid_index)
{
	id->nic = nic;
	id->incarnation = atomic_load(&nic->incarnation);
	id->gid_index = gid_index;
}

void sn_cm_ids_forget(void)
{
	memset(&sn_cm, 0, sizeof(sn_cm));
	sn_cm.due_ns = UINT64_MAX;
	id_pool.free = NULL;
}
