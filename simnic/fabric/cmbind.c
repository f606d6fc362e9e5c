/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bindings of rdma_cm. Rules of a kernel (cma_check_port): two ids share a port if their addresses
 * differ, or if both say so and neither listens.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "simnic/fabric/cmbind.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/proc.h"

#define PORT_FIRST 32768 /* ephemeral ports: net.ipv4.ip_local_port_range */
#define PORTS	   28232
#define CLAIM_NAP  50000 /* ns */
#define CLAIM_NAPS 200	 /* naps after which a claim in the way counts as bound */

/* ---- reading -------------------------------------------------------------------------------- */

struct found {
	uint32_t state, slot;
	bool listens;
	uint64_t life;
	struct sn_cm_want want;
};

/* Copies a binding; false: there is none, or it changed meanwhile. */
static bool bind_read(const struct sn_cm_bind *bind, struct found *out)
{
	uint32_t version = atomic_load(&bind->version);

	out->state = atomic_load(&bind->state);
	if (out->state < SN_CM_BIND_CLAIMED)
		return false;
	out->want = bind->want;
	out->life = bind->life;
	out->listens = atomic_load(&bind->listens);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&bind->version) == version && atomic_load(&bind->state) == out->state;
}

static uint32_t binds_used(const struct sn_fabric *fabric)
{
	uint32_t used = atomic_load(&fabric->cm.used);

	return used < SN_CM_BINDS ? used : SN_CM_BINDS;
}

/* True if the owner is alive. What a dead one has left behind is freed. */
static bool owner_lives(struct sn_fabric *fabric, const struct found *found)
{
	struct sn_proc *proc = &fabric->proc[found->want.proc];
	uint32_t state = found->state;

	if (sn_proc_life(proc) == found->life && sn_proc_lives(proc))
		return true;
	atomic_compare_exchange_strong(&fabric->cm.slot[found->slot].state, &state,
				       SN_CM_BIND_FREE);
	return false;
}

/* ---- conflicts ------------------------------------------------------------------------------ */

static int conflict(const struct sn_cm_want *a, const struct found *b, bool listens)
{
	const struct sn_cm_want *other = &b->want;

	if (a->host != other->host || a->ps != other->ps || a->addr.port != other->addr.port)
		return 0;
	if (!b->listens && !listens && a->reuse && other->reuse)
		return 0;
	if (a->afonly && other->afonly && a->addr.family != other->addr.family)
		return 0;
	if (a->any || other->any)
		return -EADDRNOTAVAIL;
	return memcmp(a->addr.ip, other->addr.ip, 16) ? 0 : -EADDRINUSE;
}

/* The first binding in the way, copied to @out. Returns 0 if there is none. */
static int find_conflict(struct sn_fabric *fabric, const struct sn_cm_want *want, uint32_t self,
			 bool listens, struct found *out)
{
	uint32_t n = binds_used(fabric);
	int err;

	for (out->slot = 0; out->slot < n; out->slot++) {
		if (out->slot == self || !bind_read(&fabric->cm.slot[out->slot], out))
			continue;
		err = conflict(want, out, listens);
		if (err && owner_lives(fabric, out))
			return err;
	}
	return 0;
}

/* ---- claiming ------------------------------------------------------------------------------- */

static int slot_take(struct sn_fabric *fabric)
{
	for (uint32_t i = 0; i < SN_CM_BINDS; i++) {
		uint32_t expected = SN_CM_BIND_FREE, used = atomic_load(&fabric->cm.used);

		if (!atomic_compare_exchange_strong(&fabric->cm.slot[i].state, &expected,
						    SN_CM_BIND_FILLING))
			continue;
		while (used <= i && !atomic_compare_exchange_weak(&fabric->cm.used, &used, i + 1))
			;
		return (int)i;
	}
	return -EADDRNOTAVAIL;
}

static void slot_fill(struct sn_fabric *fabric, uint32_t slot, const struct sn_cm_want *want)
{
	struct sn_cm_bind *bind = &fabric->cm.slot[slot];

	atomic_store(&bind->owner, want->proc);
	atomic_fetch_add(&bind->version, 1);
	bind->want = *want;
	bind->life = sn_proc_life(&fabric->proc[want->proc]);
	atomic_store(&bind->listens, 0);
	atomic_store(&bind->state, SN_CM_BIND_CLAIMED);
}

/*
 * Settles a claim. Of two claims at the same time the one in the lower slot waits until the other
 * has given way; a binding never does.
 */
static int claim_settle(struct sn_fabric *fabric, uint32_t slot, const struct sn_cm_want *want)
{
	const struct timespec nap = { .tv_nsec = CLAIM_NAP };
	struct found found;
	int err;

	for (int i = 0; i < CLAIM_NAPS; i++) {
		err = find_conflict(fabric, want, slot, false, &found);
		if (!err || found.state == SN_CM_BIND_BOUND || found.slot < slot)
			return err;
		nanosleep(&nap, NULL);
	}
	return err;
}

static int bind_port(struct sn_fabric *fabric, const struct sn_cm_want *want)
{
	int slot = slot_take(fabric), err;

	if (slot < 0)
		return slot;
	slot_fill(fabric, (uint32_t)slot, want);
	err = claim_settle(fabric, (uint32_t)slot, want);
	atomic_store(&fabric->cm.slot[slot].state, err ? SN_CM_BIND_FREE : SN_CM_BIND_BOUND);
	return err ? err : slot;
}

static bool port_is_free(struct sn_fabric *fabric, const struct sn_cm_want *want)
{
	struct sn_cm_want all = *want;
	struct found found;

	all.any = true; /* an ephemeral port is shared with nobody */
	all.reuse = all.afonly = false;
	return !find_conflict(fabric, &all, SN_CM_BINDS, false, &found);
}

int sn_cm_bind(struct sn_fabric *fabric, struct sn_cm_want *want)
{
	uint32_t start = 0;
	int slot = -EADDRNOTAVAIL;

	if (want->addr.port)
		return bind_port(fabric, want);
	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = (uint32_t)clock();
	for (uint32_t i = 0; i < PORTS; i++) {
		want->addr.port = (uint16_t)(PORT_FIRST + (start % PORTS + i) % PORTS);
		if (!port_is_free(fabric, want))
			continue;
		slot = bind_port(fabric, want);
		if (slot >= 0)
			return slot;
	}
	want->addr.port = 0;
	return slot;
}

int sn_cm_bind_may_listen(struct sn_fabric *fabric, uint32_t slot)
{
	struct found found;

	return find_conflict(fabric, &fabric->cm.slot[slot].want, slot, true, &found);
}

void sn_cm_bind_listens(struct sn_fabric *fabric, uint32_t slot, bool listens)
{
	atomic_store(&fabric->cm.slot[slot].listens, listens);
}

void sn_cm_bind_release(struct sn_fabric *fabric, uint32_t slot)
{
	atomic_store(&fabric->cm.slot[slot].state, SN_CM_BIND_FREE);
}

void sn_cm_bind_forget(struct sn_fabric *fabric, uint32_t proc)
{
	uint32_t n = binds_used(fabric);

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&fabric->cm.slot[i].state) != SN_CM_BIND_FREE &&
		    atomic_load(&fabric->cm.slot[i].owner) == proc)
			sn_cm_bind_release(fabric, i);
}

bool sn_cm_bind_at(const struct sn_fabric *fabric, uint32_t slot, struct sn_cm_want *want,
		   bool *listens)
{
	struct found found;

	if (slot >= binds_used(fabric) || !bind_read(&fabric->cm.slot[slot], &found))
		return false;
	*want = found.want;
	*listens = found.listens;
	return found.state == SN_CM_BIND_BOUND;
}

/* ---- listeners ------------------------------------------------------------------------------ */

static bool hears(const struct found *found, uint32_t nic, uint16_t qp_type,
		  const struct sn_cm_addr *to)
{
	const struct sn_cm_want *want = &found->want;

	if (!found->listens || found->state != SN_CM_BIND_BOUND || want->qp_type != qp_type)
		return false;
	if (want->nic && want->nic != nic + 1)
		return false;
	if (want->any)
		return !want->afonly || want->addr.family == to->family;
	return !memcmp(want->addr.ip, to->ip, 16);
}

int sn_cm_bind_find(struct sn_fabric *fabric, uint32_t host, uint32_t nic, uint16_t ps,
		    uint16_t qp_type, const struct sn_cm_addr *to, struct sn_cm_listener *out)
{
	uint32_t n = binds_used(fabric);
	struct found found;

	for (found.slot = 0; found.slot < n; found.slot++) {
		if (!bind_read(&fabric->cm.slot[found.slot], &found) || found.want.host != host ||
		    found.want.ps != ps || found.want.addr.port != to->port ||
		    !hears(&found, nic, qp_type, to) || !owner_lives(fabric, &found))
			continue;
		*out = (struct sn_cm_listener){ .proc = found.want.proc,
						.id = found.want.id,
						.life = found.life };
		return 0;
	}
	return -ENOENT;
}
