/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Faults: applied at once, after a time, or when a NIC has sent so many messages. Their words in
 * struct sn_nic are written by simnicctl, or by a device thread whose message number was reached.
 * All device threads read them (relaxed atomics: a fault takes effect at the next message).
 */
#ifndef SIMNIC_FABRIC_FAULT_H
#define SIMNIC_FABRIC_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_fabric;

enum sn_fault_kind {
	SN_FAULT_NONE,
	SN_FAULT_PORT_DOWN,
	SN_FAULT_PORT_UP,
	SN_FAULT_CABLE_DOWN, /* both ends of the cable see it; the far end is the switch */
	SN_FAULT_CABLE_UP,
	SN_FAULT_SWITCH_DOWN, /* rail switch: nothing passes, no port sees an event */
	SN_FAULT_SWITCH_UP,
	SN_FAULT_LOSE_TX,   /* all that the NIC sends is lost, requests and acknowledgements */
	SN_FAULT_LOSE_RX,   /* all that is sent to the NIC is lost */
	SN_FAULT_LOSE_ACKS, /* acknowledgements and responses to this NIC are lost, requests pass */
	SN_FAULT_LOSE_LOOPBACK, /* packets of the NIC to itself are lost, and nothing else */
	SN_FAULT_HOLD_REQUESTS, /* requests from this NIC stay in the fabric until the fault ends */
	/* acknowledgements and responses from this NIC stay in the fabric */
	SN_FAULT_HOLD_ACKS,
	SN_FAULT_PAUSE, /* connections stand still in and out, nothing is lost; UD passes */
	/* next request from this NIC: part of its bytes land, then link down */
	SN_FAULT_CUT_MESSAGE,
	/* requests to the NIC, and its own with data, end in errors; nobody is told */
	SN_FAULT_NIC_BLIND,
	SN_FAULT_NIC_HANG,
	SN_FAULT_NIC_INTERNAL_ERROR,
	SN_FAULT_NIC_ZOMBIE, /* an internal error of the firmware alone: data goes on as before */
	SN_FAULT_NIC_UNPLUG, /* an internal error, as nobody answers on PCI */
	SN_FAULT_NIC_PCI_ERROR, /* like NIC_UNPLUG, and the NIC no longer reaches memory */
	SN_FAULT_NIC_DISASSOCIATE,
	SN_FAULT_NIC_REMOVED, /* the end of NIC_DISASSOCIATE: the driver lets the NIC go */
	SN_FAULT_NIC_REPROBE, /* NIC OK, as another device: new keys and QPNs, contexts stay dead */
	SN_FAULT_HEAL,	      /* back to all well: ports up, loss off, NIC OK */
	SN_FAULT_KINDS,
};

/*
 * A scheduled fault. Armed by simnicctl (state ARMED last, release); whoever sees its trigger
 * first owns the faults of the fabric (fault_owner), frees the slot and applies it.
 */
enum sn_fault_state { SN_SLOT_FREE, SN_SLOT_ARMED, SN_SLOT_CLAIMED };
struct sn_fault {
	_Atomic uint32_t state;	     /* enum sn_fault_state */
	_Atomic uint32_t kind;	     /* enum sn_fault_kind */
	_Atomic uint32_t host, nic;  /* rail faults: nic is the rail */
	_Atomic uint64_t at_ns;	     /* CLOCK_MONOTONIC; 0: not by time */
	_Atomic uint64_t at_message; /* fires when the target's tx_messages reach this; 0: not */
	_Atomic uint64_t for_ns;     /* ends after this long; 0: stays */
	_Atomic uint32_t ends;	     /* not the beginning of the fault, but its end */
	_Atomic uint64_t order;	     /* rises: what was armed first fires first at the same time */
};

/* Applies a fault now; used by simnicctl, and by device threads for scheduled ones. */
void sn_fault_apply(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic,
		    uint64_t for_ns);
/* Ends a condition now: --for, by hand. Held packets go on their way. */
void sn_fault_end(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic);
/* Puts a fault into the table for later; wakes all device threads. -ENOSPC: table full. */
int sn_fault_arm(struct sn_fabric *fabric, const struct sn_fault *fault);
/* all faults of the fabric */
#define SN_HOST_ANY  UINT32_MAX	      /* faults of the rail's switch */
#define SN_HOST_RAIL (UINT32_MAX - 1) /* of the switch */
void sn_fault_cancel(struct sn_fabric *fabric, uint32_t host, uint32_t nic);
/* Fires what is due by time, or by the message count of its NIC. Cheap when nothing is armed. */
void sn_fault_poll(struct sn_fabric *fabric, uint64_t now_ns);
/* When the next fault by time is due, UINT64_MAX if none: bounds a device thread's sleep. */
uint64_t sn_fault_next_ns(const struct sn_fabric *fabric);
const char *sn_fault_name(enum sn_fault_kind kind);
int sn_fault_find(const char *name); /* "port-down" -> kind, or -EINVAL */
bool sn_fault_is_rail(enum sn_fault_kind kind);
bool sn_fault_can_end(enum sn_fault_kind kind); /* true: a condition, which --for can limit */

#endif
