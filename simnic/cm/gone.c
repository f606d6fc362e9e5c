/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC that is taken away: its ids hear of it (DEVICE_REMOVAL), and the kernel ends them, with a
 * goodbye to each peer. A process that ends: its kernel says goodbye for it, once. Nobody is left
 * there to do so here. So the peer looks now and again, and takes the goodbye as come, if the way
 * is open at that time.
 */
#include "simnic/cm/gone.h"

#include "simnic/cm/connect.h"
#include "simnic/cm/file.h"
#include "simnic/cm/id.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/path.h"

#define LOOK_EACH_NS 100000000ULL

static uint32_t seen_gen[SN_MAX_NICS];
static uint64_t next_look_ns;

/* ---- NICs ----------------------------------------------------------------------------------- */

static bool nic_is_gone(const struct sn_cm_id *id)
{
	return atomic_load(&id->nic->state) == SN_NIC_DISASSOCIATED ||
	       atomic_load(&id->nic->incarnation) != id->incarnation;
}

static void remove_id(struct sn_cm_id *id)
{
	sn_cm_tell(id, SN_CM_EVENT_DEVICE_REMOVAL, 0);
	sn_cm_say_goodbye(id);
	id->state = SN_CM_REMOVED;
	if (id->bind >= 0)
		sn_cm_bind_listens(sn_cm.fabric, (uint32_t)id->bind, false);
}

/* True if the id came with a request that the program has not read yet. */
static bool is_unread(const struct sn_cm_id *id)
{
	const struct sn_cm_event *event;

	for (event = id->file->first; event; event = event->next)
		if (event->request == id)
			return true;
	return false;
}

static void remove_ids_of(const struct sn_nic *nic)
{
	struct sn_cm_id *id;

	for (id = sn_cm_id_next(0); id;) {
		uint32_t handle = id->handle;

		if (id->nic == nic && id->state != SN_CM_REMOVED && nic_is_gone(id)) {
			if (!id->uid && is_unread(id))
				sn_cm_id_destroy(id);
			else
				remove_id(id);
		}
		id = sn_cm_id_next(handle + 1);
	}
}

static bool look_at_nics(void)
{
	bool changed = false;

	for (uint32_t n = 0; n < sn_cm.fabric->n_nics; n++) {
		const struct sn_nic *nic = &sn_cm.fabric->nic[sn_cm.host][n];
		uint32_t gen = atomic_load_explicit(&nic->event_gen, memory_order_acquire);

		if (gen == seen_gen[n])
			continue;
		seen_gen[n] = gen;
		remove_ids_of(nic);
		changed = true;
	}
	return changed;
}

/* ---- peers ---------------------------------------------------------------------------------- */

static bool has_peer(const struct sn_cm_id *id)
{
	return id->nic && id->peer.life && id->peer.proc != sn_cm.slot &&
	       id->dialog != SN_CM_SILENT && id->dialog != SN_CM_TIMEWAIT;
}

/* Looks at each process once, however many ids are connected to it. */
static bool peer_lives(const struct sn_cm_id *id, uint8_t lives[SN_MAX_PROCS])
{
	const struct sn_proc *proc = &sn_cm.fabric->proc[id->peer.proc];

	if (!lives[id->peer.proc])
		lives[id->peer.proc] = sn_proc_lives(proc) ? 1 : 2;
	return lives[id->peer.proc] == 1 && sn_proc_life(proc) == id->peer.life;
}

static bool goodbye_comes(const struct sn_cm_id *id)
{
	return sn_path_open(sn_cm.fabric, id->peer.host, id->peer.nic, id->nic->host,
			    id->nic->index, SN_PKT_CM);
}

static bool look_at_peers(void)
{
	uint8_t lives[SN_MAX_PROCS] = { 0 };
	bool any = false, gone = false;
	struct sn_cm_id *id;

	for (id = sn_cm_id_next(0); id; id = sn_cm_id_next(id->handle + 1)) {
		if (!has_peer(id))
			continue;
		any = true;
		if (peer_lives(id, lives))
			continue;
		gone = true;
		id->peer.life = 0;
		if (goodbye_comes(id))
			sn_cm_peer_gone(id);
	}
	if (!any)
		next_look_ns = 0;
	return gone;
}

void sn_cm_gone_watch(uint64_t now_ns)
{
	if (!next_look_ns)
		next_look_ns = now_ns + LOOK_EACH_NS;
}

bool sn_cm_gone_run(uint64_t now_ns)
{
	bool worked = look_at_nics();

	if (!next_look_ns || now_ns < next_look_ns)
		return worked;
	next_look_ns = now_ns + LOOK_EACH_NS;
	return look_at_peers() || worked;
}

uint64_t sn_cm_gone_next_ns(void)
{
	return next_look_ns ? next_look_ns : UINT64_MAX;
}

void sn_cm_gone_forget(void)
{
	next_look_ns = 0;
	for (uint32_t n = 0; n < SN_MAX_NICS; n++)
		seen_gen[n] = 0;
}
