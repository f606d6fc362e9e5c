/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Faults: applied at once, after a time, or when a NIC has sent so many messages. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fault.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/proc.h"
#include "simnic/fabric/sysfs.h"

static const char *const fault_names[SN_FAULT_KINDS] = {
	[SN_FAULT_NONE] = "none",
	[SN_FAULT_PORT_DOWN] = "port-down",
	[SN_FAULT_PORT_UP] = "port-up",
	[SN_FAULT_CABLE_DOWN] = "cable-down",
	[SN_FAULT_CABLE_UP] = "cable-up",
	[SN_FAULT_SWITCH_DOWN] = "switch-down",
	[SN_FAULT_SWITCH_UP] = "switch-up",
	[SN_FAULT_LOSE_TX] = "lose-tx",
	[SN_FAULT_LOSE_RX] = "lose-rx",
	[SN_FAULT_LOSE_ACKS] = "lose-acks",
	[SN_FAULT_LOSE_LOOPBACK] = "lose-loopback",
	[SN_FAULT_HOLD_REQUESTS] = "hold-requests",
	[SN_FAULT_HOLD_ACKS] = "hold-acks",
	[SN_FAULT_PAUSE] = "pause",
	[SN_FAULT_CUT_MESSAGE] = "cut-message",
	[SN_FAULT_NIC_BLIND] = "nic-blind",
	[SN_FAULT_NIC_HANG] = "nic-hang",
	[SN_FAULT_NIC_INTERNAL_ERROR] = "nic-internal-error",
	[SN_FAULT_NIC_ZOMBIE] = "nic-zombie",
	[SN_FAULT_NIC_UNPLUG] = "nic-unplug",
	[SN_FAULT_NIC_PCI_ERROR] = "nic-pci-error",
	[SN_FAULT_NIC_DISASSOCIATE] = "nic-disassociate",
	[SN_FAULT_NIC_REMOVED] = "nic-removed",
	[SN_FAULT_NIC_REPROBE] = "nic-reprobe",
	[SN_FAULT_HEAL] = "heal",
};

const char *sn_fault_name(enum sn_fault_kind kind)
{
	return kind < SN_FAULT_KINDS ? fault_names[kind] : "?";
}

int sn_fault_find(const char *name)
{
	for (int kind = SN_FAULT_PORT_DOWN; kind < SN_FAULT_KINDS; kind++)
		if (!strcmp(name, fault_names[kind]))
			return kind;
	return -EINVAL;
}

bool sn_fault_is_rail(enum sn_fault_kind kind)
{
	return kind == SN_FAULT_SWITCH_DOWN || kind == SN_FAULT_SWITCH_UP;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ---- one at a time ------------------------------------------------------------------------- */

#define OWNER_WAIT_NS 20000
/* time after which the owner is stopped: the rest of the fabric goes on */
#define OWNER_MAX_NS 200000000ULL

/*
 * Takes the word by which faults of one target take effect in their order, whichever processes see
 * that they are due. If a process dies with the word, the next one finds out.
 */
static void faults_own(struct sn_fabric *fabric)
{
	const struct timespec nap = { 0, OWNER_WAIT_NS };
	uint64_t since = now_ns();
	int32_t owner = 0;

	while (!atomic_compare_exchange_strong(&fabric->fault_owner, &owner, getpid())) {
		bool gone = owner > 0 && kill(owner, 0) && errno == ESRCH;

		if (gone || now_ns() - since > OWNER_MAX_NS)
			continue; /* owner names it: it is replaced */
		nanosleep(&nap, NULL);
		owner = 0;
	}
}

static void faults_disown(struct sn_fabric *fabric)
{
	int32_t self = getpid();

	atomic_compare_exchange_strong(&fabric->fault_owner, &self, 0);
}

/* ---- what a fault does ---------------------------------------------------------------------- */

static bool end_up(const struct sn_nic *nic)
{
	return atomic_load(&nic->end.cable_up) && !atomic_load(&nic->end.off);
}

static void link_set(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t up)
{
	if (atomic_exchange(&nic->port_up, up) == up)
		return;
	sn_count(&nic->count.hw.link_downed, !up);
	sn_sysfs_port_refresh(fabric, nic);
	atomic_fetch_add(&nic->event_gen, 1);
}

/* The NIC at the other end of its cable; itself where there is a switch. */
static struct sn_nic *other_end(struct sn_fabric *fabric, struct sn_nic *nic)
{
	return fabric->direct ? &fabric->nic[1 - nic->host][nic->index] : nic;
}

static void link_update(struct sn_fabric *fabric, struct sn_nic *nic)
{
	struct sn_nic *other = other_end(fabric, nic);
	bool up = end_up(nic) && end_up(other);

	link_set(fabric, nic, up);
	link_set(fabric, other, up);
}

static void port_set(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t up)
{
	atomic_store(&nic->end.cable_up, up);
	link_update(fabric, nic);
}

void sn_nic_switch_off(struct sn_fabric *fabric, struct sn_nic *nic, bool off)
{
	if (atomic_exchange(&nic->end.off, off) == off)
		return;
	link_update(fabric, nic);
	sn_proc_wake_all(fabric);
}

static void pci_set(struct sn_fabric *fabric, struct sn_nic *nic, enum sn_pci_state state)
{
	if (atomic_exchange(&nic->pci, state) != state)
		sn_sysfs_pci_refresh(fabric, nic);
}

static void nic_dies(struct sn_fabric *fabric, struct sn_nic *nic, enum sn_nic_state state)
{
	uint32_t before = atomic_load(&nic->state);

	if (before >= state)
		return; /* the NIC is worse off already */
	atomic_store(&nic->removal.still, before != SN_NIC_OK);
	atomic_store(&nic->removal.since_ns, now_ns());
	atomic_store(&nic->state, state);
	if (state == SN_NIC_DISASSOCIATED)
		sn_sysfs_nic_hide(fabric, nic);
	atomic_fetch_add(&nic->event_gen, 1);
}

static void nic_loses_firmware(struct sn_fabric *fabric, struct sn_nic *nic)
{
	if (atomic_load(&nic->state) == SN_NIC_OK)
		atomic_store(&nic->zombie, 1);
	nic_dies(fabric, nic, SN_NIC_INTERNAL_ERROR);
}

/* Takes the NIC's PCI away. The kernel sees its config space first. */
static void nic_loses_pci(struct sn_fabric *fabric, struct sn_nic *nic, enum sn_pci_state state)
{
	pci_set(fabric, nic, state);
	atomic_store(&nic->zombie, 0);
	nic_dies(fabric, nic, SN_NIC_INTERNAL_ERROR);
}

/* When the last file has had its turn. */
static void nic_is_taken_away(struct sn_fabric *fabric, struct sn_nic *nic)
{
	struct sn_fault over = { .kind = SN_FAULT_NIC_REMOVED,
				 .host = nic->host,
				 .nic = nic->index };

	nic_dies(fabric, nic, SN_NIC_DISASSOCIATED);
	over.at_ns = sn_nic_removed_ns(nic);
	sn_fault_arm(fabric, &over);
}

static void nic_removed(struct sn_fabric *fabric, struct sn_nic *nic)
{
	if (atomic_load(&nic->state) == SN_NIC_DISASSOCIATED && now_ns() >= sn_nic_removed_ns(nic))
		pci_set(fabric, nic, SN_PCI_NO_MASTER);
}

/* The new life begins before the NIC is well: no command of an old context slips through. */
static void nic_reprobe(struct sn_fabric *fabric, struct sn_nic *nic)
{
	sn_sysfs_nic_hide(fabric, nic);
	sn_nic_incarnate(nic);
	atomic_store(&nic->zombie, 0);
	pci_set(fabric, nic, SN_PCI_OK);
	atomic_store(&nic->state, SN_NIC_OK);
	sn_sysfs_nic_show(fabric, nic);
	atomic_fetch_add(&nic->event_gen, 1);
}

/* A hang just ends; coming back from death is a new probe of the device. */
static void nic_recovers(struct sn_fabric *fabric, struct sn_nic *nic)
{
	uint32_t state = atomic_load(&nic->state);

	if (state > SN_NIC_HANG) {
		nic_reprobe(fabric, nic);
	} else if (state == SN_NIC_HANG) {
		atomic_store(&nic->state, SN_NIC_OK);
		atomic_fetch_add(&nic->event_gen, 1);
	}
}

static void nic_ends(struct sn_fabric *fabric, struct sn_nic *nic, enum sn_nic_state state)
{
	if (atomic_load(&nic->state) == state)
		nic_recovers(fabric, nic);
}

static void nic_heal(struct sn_fabric *fabric, struct sn_nic *nic)
{
	_Atomic uint32_t *const words[] = { &nic->fault.lose_tx,   &nic->fault.lose_rx,
					    &nic->fault.lose_acks, &nic->fault.hold_requests,
					    &nic->fault.hold_acks, &nic->fault.paused,
					    &nic->fault.cut_next,  &nic->fault.lose_loopback,
					    &nic->fault.blind };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		atomic_store(words[i], 0);
	nic_recovers(fabric, nic);
	port_set(fabric, nic, 1);
}

static void begin(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t rail)
{
	struct sn_nic *nic = &fabric->nic[host % SN_MAX_HOSTS][rail];

	switch (kind) {
	case SN_FAULT_PORT_DOWN:
	case SN_FAULT_CABLE_DOWN: return port_set(fabric, nic, 0);
	case SN_FAULT_PORT_UP:
	case SN_FAULT_CABLE_UP: return port_set(fabric, nic, 1);
	case SN_FAULT_SWITCH_DOWN: return atomic_store(&fabric->rail[rail].down, 1);
	case SN_FAULT_SWITCH_UP: return atomic_store(&fabric->rail[rail].down, 0);
	case SN_FAULT_LOSE_TX: return atomic_store(&nic->fault.lose_tx, 1);
	case SN_FAULT_LOSE_RX: return atomic_store(&nic->fault.lose_rx, 1);
	case SN_FAULT_LOSE_ACKS: return atomic_store(&nic->fault.lose_acks, 1);
	case SN_FAULT_LOSE_LOOPBACK: return atomic_store(&nic->fault.lose_loopback, 1);
	case SN_FAULT_HOLD_REQUESTS: return atomic_store(&nic->fault.hold_requests, 1);
	case SN_FAULT_HOLD_ACKS: return atomic_store(&nic->fault.hold_acks, 1);
	case SN_FAULT_PAUSE: return atomic_store(&nic->fault.paused, 1);
	case SN_FAULT_CUT_MESSAGE: return atomic_store(&nic->fault.cut_next, SN_CUT_ARMED);
	case SN_FAULT_NIC_BLIND: return atomic_store(&nic->fault.blind, 1);
	case SN_FAULT_NIC_HANG: return nic_dies(fabric, nic, SN_NIC_HANG);
	case SN_FAULT_NIC_INTERNAL_ERROR: return nic_dies(fabric, nic, SN_NIC_INTERNAL_ERROR);
	case SN_FAULT_NIC_ZOMBIE: return nic_loses_firmware(fabric, nic);
	case SN_FAULT_NIC_UNPLUG: return nic_loses_pci(fabric, nic, SN_PCI_ALL_ONES);
	case SN_FAULT_NIC_PCI_ERROR: return nic_loses_pci(fabric, nic, SN_PCI_NO_MASTER);
	case SN_FAULT_NIC_DISASSOCIATE: return nic_is_taken_away(fabric, nic);
	case SN_FAULT_NIC_REMOVED: return nic_removed(fabric, nic);
	case SN_FAULT_NIC_REPROBE: return nic_reprobe(fabric, nic);
	case SN_FAULT_HEAL: return nic_heal(fabric, nic);
	case SN_FAULT_NONE:
	case SN_FAULT_KINDS: return;
	}
}

/* Only this fault's doing: another one of the same target goes on. */
static void end(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t rail)
{
	struct sn_nic *nic = &fabric->nic[host % SN_MAX_HOSTS][rail];

	switch (kind) {
	case SN_FAULT_PORT_DOWN:
	case SN_FAULT_CABLE_DOWN: return port_set(fabric, nic, 1);
	case SN_FAULT_SWITCH_DOWN: return atomic_store(&fabric->rail[rail].down, 0);
	case SN_FAULT_LOSE_TX: return atomic_store(&nic->fault.lose_tx, 0);
	case SN_FAULT_LOSE_RX: return atomic_store(&nic->fault.lose_rx, 0);
	case SN_FAULT_LOSE_ACKS: return atomic_store(&nic->fault.lose_acks, 0);
	case SN_FAULT_LOSE_LOOPBACK: return atomic_store(&nic->fault.lose_loopback, 0);
	case SN_FAULT_HOLD_REQUESTS: return atomic_store(&nic->fault.hold_requests, 0);
	case SN_FAULT_HOLD_ACKS: return atomic_store(&nic->fault.hold_acks, 0);
	case SN_FAULT_PAUSE: return atomic_store(&nic->fault.paused, 0);
	case SN_FAULT_CUT_MESSAGE:
		atomic_store(&nic->fault.cut_next, SN_CUT_NONE);
		return port_set(fabric, nic, 1);
	case SN_FAULT_NIC_BLIND: return atomic_store(&nic->fault.blind, 0);
	case SN_FAULT_NIC_HANG: return nic_ends(fabric, nic, SN_NIC_HANG);
	case SN_FAULT_NIC_INTERNAL_ERROR:
	case SN_FAULT_NIC_ZOMBIE:
	case SN_FAULT_NIC_UNPLUG:
	case SN_FAULT_NIC_PCI_ERROR: return nic_ends(fabric, nic, SN_NIC_INTERNAL_ERROR);
	case SN_FAULT_NIC_DISASSOCIATE: return nic_ends(fabric, nic, SN_NIC_DISASSOCIATED);
	case SN_FAULT_PORT_UP:
	case SN_FAULT_CABLE_UP:
	case SN_FAULT_SWITCH_UP:
	case SN_FAULT_NIC_REMOVED:
	case SN_FAULT_NIC_REPROBE:
	case SN_FAULT_HEAL:
	case SN_FAULT_NONE:
	case SN_FAULT_KINDS: return;
	}
}

bool sn_fault_can_end(enum sn_fault_kind kind)
{
	return kind != SN_FAULT_PORT_UP && kind != SN_FAULT_CABLE_UP &&
	       kind != SN_FAULT_SWITCH_UP && kind != SN_FAULT_NIC_REMOVED &&
	       kind != SN_FAULT_NIC_REPROBE && kind != SN_FAULT_HEAL;
}

static void slot_free(struct sn_fabric *fabric, struct sn_fault *slot)
{
	atomic_fetch_sub(&fabric->faults_armed, 1);
	atomic_store_explicit(&slot->state, SN_SLOT_FREE, memory_order_release);
}

static bool is_end_of(const struct sn_fault *slot, const struct sn_fault *fault)
{
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SN_SLOT_ARMED &&
	       slot->ends && slot->kind == fault->kind && slot->nic == fault->nic &&
	       (slot->host == fault->host || sn_fault_is_rail(fault->kind));
}

/*
 * Two of a kind on one target, as flaps that were all seen late: what they do lasts until both are
 * over. Is the new one's end, at @end_ns, the last? 0: it has none.
 */
static bool ends_last(struct sn_fabric *fabric, const struct sn_fault *fault, uint64_t end_ns)
{
	bool last = end_ns != 0;

	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		struct sn_fault *slot = &fabric->fault[i];

		if (!is_end_of(slot, fault))
			continue;
		if (end_ns && slot->at_ns > end_ns)
			last = false;
		else
			slot_free(fabric, slot);
	}
	return last;
}

static void fire(struct sn_fabric *fabric, const struct sn_fault *fault)
{
	struct sn_fault over = { .kind = fault->kind,
				 .host = fault->host,
				 .nic = fault->nic,
				 .at_ns = now_ns() + fault->for_ns,
				 .ends = 1 };

	if (fault->nic >= fabric->n_nics ||
	    (fault->host >= fabric->n_hosts && !sn_fault_is_rail(fault->kind)))
		return;
	if (fault->ends)
		end(fabric, fault->kind, fault->host, fault->nic);
	else
		begin(fabric, fault->kind, fault->host, fault->nic);
	if (!fault->ends && ends_last(fabric, fault, fault->for_ns ? over.at_ns : 0))
		sn_fault_arm(fabric, &over); /* full: the fault stays until healed by hand */
	sn_proc_wake_all(fabric);
}

void sn_fault_apply(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic,
		    uint64_t for_ns)
{
	struct sn_fault now = { .kind = kind, .host = host, .nic = nic, .for_ns = for_ns };

	faults_own(fabric);
	fire(fabric, &now);
	faults_disown(fabric);
}

void sn_fault_end(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic)
{
	struct sn_fault over = { .kind = kind, .host = host, .nic = nic, .ends = 1 };

	faults_own(fabric);
	fire(fabric, &over);
	faults_disown(fabric);
}

/* ---- the table of those to come ------------------------------------------------------------- */

static void slot_fill(struct sn_fault *slot, const struct sn_fault *fault)
{
	slot->kind = fault->kind;
	slot->host = fault->host;
	slot->nic = fault->nic;
	slot->at_ns = fault->at_ns;
	slot->at_message = fault->at_message;
	slot->for_ns = fault->for_ns;
	slot->ends = fault->ends;
}

int sn_fault_arm(struct sn_fabric *fabric, const struct sn_fault *fault)
{
	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		struct sn_fault *slot = &fabric->fault[i];
		uint32_t expected = SN_SLOT_FREE;

		if (!atomic_compare_exchange_strong(&slot->state, &expected, SN_SLOT_CLAIMED))
			continue;
		slot_fill(slot, fault);
		slot->order = atomic_fetch_add(&fabric->fault_order, 1);
		/* Release: who sees ARMED sees the fields. */
		atomic_store_explicit(&slot->state, SN_SLOT_ARMED, memory_order_release);
		atomic_fetch_add(&fabric->faults_armed, 1);
		sn_proc_wake_all(fabric);
		return 0;
	}
	return -ENOSPC;
}

static bool slot_due(const struct sn_fabric *fabric, const struct sn_fault *slot, uint64_t now)
{
	if (slot->at_ns)
		return now >= slot->at_ns;
	return atomic_load_explicit(&fabric->nic[slot->host][slot->nic].count.tx_messages,
				    memory_order_relaxed) >= slot->at_message;
}

static bool comes_before(const struct sn_fault *a, const struct sn_fault *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

/* The oldest fault that is due. Faults by message are due now, faults by time since their time. */
static struct sn_fault *slot_next_due(struct sn_fabric *fabric, uint64_t now)
{
	struct sn_fault *next = NULL;

	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		struct sn_fault *slot = &fabric->fault[i];

		if (atomic_load_explicit(&slot->state, memory_order_acquire) == SN_SLOT_ARMED &&
		    slot_due(fabric, slot, now) && (!next || comes_before(slot, next)))
			next = slot;
	}
	return next;
}

void sn_fault_poll(struct sn_fabric *fabric, uint64_t now)
{
	struct sn_fault *slot, copy = { .kind = SN_FAULT_NONE };

	if (!atomic_load_explicit(&fabric->faults_armed, memory_order_relaxed) ||
	    !slot_next_due(fabric, now))
		return;
	faults_own(fabric);
	while ((slot = slot_next_due(fabric, now))) {
		slot_fill(&copy, slot);
		slot_free(fabric, slot);
		fire(fabric, &copy);
	}
	faults_disown(fabric);
}

uint64_t sn_fault_next_ns(const struct sn_fabric *fabric)
{
	uint64_t next = UINT64_MAX;

	if (!atomic_load_explicit(&fabric->faults_armed, memory_order_relaxed))
		return next;
	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		const struct sn_fault *slot = &fabric->fault[i];

		if (atomic_load_explicit(&slot->state, memory_order_acquire) == SN_SLOT_ARMED &&
		    slot->at_ns && slot->at_ns < next)
			next = slot->at_ns;
	}
	return next;
}

static bool is_of(const struct sn_fault *fault, uint32_t host, uint32_t nic)
{
	if (host == SN_HOST_ANY)
		return true;
	if (sn_fault_is_rail(fault->kind))
		return host == SN_HOST_RAIL && fault->nic == nic;
	return fault->host == host && fault->nic == nic;
}

void sn_fault_cancel(struct sn_fabric *fabric, uint32_t host, uint32_t nic)
{
	faults_own(fabric);
	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		struct sn_fault *slot = &fabric->fault[i];

		if (atomic_load_explicit(&slot->state, memory_order_acquire) == SN_SLOT_ARMED &&
		    is_of(slot, host, nic))
			slot_free(fabric, slot);
	}
	faults_disown(fabric);
}
