/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics. With IBV_ATOMIC_HCA, as on a ConnectX without PCI atomics, they are atomic to one
 * another on one NIC only: the NIC reads the word and writes it some time later, and keeps nobody
 * else out. Other operations of the same NIC find the new value meanwhile. Other NICs and the CPU
 * find the old value, and their writes are lost. With IBV_ATOMIC_GLOB (`simnicctl atomic-scope`)
 * the CPU does the atomic.
 */
#include "simnic/device/atomic.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/proc.h"

#define APART_NS     5000    /* time between read and write */
#define OWNER_NS     20000   /* nap while another process has the NIC */
#define OWNER_ASK_NS 1000000 /* a process has it for microseconds: after this, ask if it runs */

static struct sn_atomic *slot_of(uint32_t nic)
{
	return &sn_engine.atomic[nic];
}

static bool compute(uint64_t seen, const struct sn_pkt *pkt, uint64_t *value)
{
	if (pkt->op == SN_PKT_FETCH_ADD)
		*value = seen + pkt->atomic_a;
	else
		*value = pkt->atomic_a;
	return pkt->op == SN_PKT_FETCH_ADD || seen == pkt->atomic_b;
}

/* ---- several processes on one NIC ----------------------------------------------------------- */

static void land_all(void)
{
	for (uint32_t nic = 0; nic < SN_MAX_NICS; nic++)
		sn_atomic_land(nic);
}

static bool owner_is_gone(uint32_t owner)
{
	int32_t pid = sn_proc_device(&sn_engine.fabric->proc[owner - 1]);

	return pid <= 0 || !sn_proc_runs(pid);
}

/*
 * Takes the NIC for this process from read to write, as processes may share memory. A process that
 * waits has no NIC itself. A process that only waits for a processor is waited for, however long;
 * a stopped process is passed over, as no NIC stops with a program.
 */
static void nic_own(struct sn_nic *nic)
{
	const struct timespec nap = { .tv_nsec = OWNER_NS };
	uint64_t begun, ask = OWNER_ASK_NS;
	uint32_t owner = 0;

	if (atomic_compare_exchange_strong(&nic->atomic.owner, &owner, sn_engine.slot + 1))
		return;
	land_all();
	begun = sn_clock_ns();
	for (owner = 0;
	     !atomic_compare_exchange_strong(&nic->atomic.owner, &owner, sn_engine.slot + 1);) {
		if (!owner)
			continue;
		if (sn_clock_ns() - begun > ask) {
			if (owner_is_gone(owner))
				continue; /* owner names it: it is replaced */
			ask = sn_clock_ns() - begun + OWNER_ASK_NS;
		}
		nanosleep(&nap, NULL);
		owner = 0;
	}
}

static void nic_disown(struct sn_nic *nic)
{
	uint32_t self = sn_engine.slot + 1;

	atomic_compare_exchange_strong(&nic->atomic.owner, &self, 0);
}

/* ---- the two scopes ------------------------------------------------------------------------- */

static uint64_t by_cpu(uint64_t *at, const struct sn_pkt *pkt)
{
	uint64_t expected = pkt->atomic_b;

	if (pkt->op == SN_PKT_FETCH_ADD)
		return __atomic_fetch_add(at, pkt->atomic_a, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(at, &expected, pkt->atomic_a, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return expected;
}

static uint64_t by_nic(struct sn_qp *qp, uint64_t *at, const struct sn_pkt *pkt)
{
	struct sn_atomic *atomic = slot_of(qp->dev->nic_index);
	uint64_t seen, value;

	nic_own(qp->dev->nic);
	seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	if (!compute(seen, pkt, &value)) {
		nic_disown(qp->dev->nic);
		return seen;
	}
	SN_ASSERT(!atomic->nic);
	*atomic = (struct sn_atomic){ .nic = qp->dev->nic,
				      .qp = qp,
				      .at = at,
				      .seen = seen,
				      .value = value,
				      .adds = pkt->op == SN_PKT_FETCH_ADD,
				      .due_ns = sn_engine.now_ns + APART_NS };
	sn_engine.n_atomics++;
	return seen;
}

uint64_t sn_atomic_execute(struct sn_qp *qp, uint64_t *at, const struct sn_pkt *pkt)
{
	sn_atomic_land(qp->dev->nic_index);
	return atomic_load_explicit(&qp->dev->nic->atomic.glob, memory_order_relaxed)
		       ? by_cpu(at, pkt)
		       : by_nic(qp, at, pkt);
}

/* ---- the write ------------------------------------------------------------------------------ */

/*
 * Writes after the process was stopped between read and write, and passed over: writes by others
 * since then are not undone.
 */
static void land_late(const struct sn_atomic *atomic)
{
	uint64_t now;

	nic_own(atomic->nic);
	now = __atomic_load_n(atomic->at, __ATOMIC_ACQUIRE);
	if (atomic->adds || now == atomic->seen)
		__atomic_store_n(atomic->at, now + (atomic->value - atomic->seen),
				 __ATOMIC_RELEASE);
	else
		fprintf(stderr, "simnic: a swap is told that was overtaken while its process was "
				"stopped\n");
	nic_disown(atomic->nic);
}

void sn_atomic_land(uint32_t nic)
{
	struct sn_atomic done = *slot_of(nic);

	if (!done.nic)
		return;
	SN_ASSERT(sn_engine.n_atomics);
	slot_of(nic)->nic = NULL;
	sn_engine.n_atomics--;
	if (atomic_load(&done.nic->atomic.owner) == sn_engine.slot + 1) {
		__atomic_store_n(done.at, done.value, __ATOMIC_RELEASE);
		nic_disown(done.nic);
	} else {
		land_late(&done);
	}
}

bool sn_atomic_is_under_way(const struct sn_qp *qp)
{
	const struct sn_atomic *atomic = slot_of(qp->dev->nic_index);

	return sn_engine.n_atomics && atomic->nic && atomic->qp == qp;
}

void sn_atomic_land_of(const struct sn_qp *qp)
{
	if (sn_atomic_is_under_way(qp))
		sn_atomic_land(qp->dev->nic_index);
}

void sn_atomic_land_under(uint32_t nic, const struct iovec *iov, uint32_t n)
{
	const struct sn_atomic *atomic = slot_of(nic);
	const uint8_t *at = (const uint8_t *)atomic->at;

	if (!atomic->nic)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *base = iov[i].iov_base;

		if (at < base + iov[i].iov_len && base < at + sizeof(uint64_t))
			return sn_atomic_land(nic);
	}
}

bool sn_atomic_run(void)
{
	uint32_t before = sn_engine.n_atomics;

	for (uint32_t nic = 0; sn_engine.n_atomics && nic < SN_MAX_NICS; nic++)
		if (slot_of(nic)->nic && slot_of(nic)->due_ns <= sn_engine.now_ns)
			sn_atomic_land(nic);
	return sn_engine.n_atomics != before;
}

uint64_t sn_atomic_next_ns(void)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t nic = 0; sn_engine.n_atomics && nic < SN_MAX_NICS; nic++)
		if (slot_of(nic)->nic && slot_of(nic)->due_ns < due_ns)
			due_ns = slot_of(nic)->due_ns;
	return due_ns;
}
