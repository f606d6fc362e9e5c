/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event queues, and how the driver is told of something. Calls come with the machine's lock held.
 */
#ifndef SIMNIC_PCI_EQ_H
#define SIMNIC_PCI_EQ_H

#include <stdbool.h>
#include <stdint.h>

#include "simnic/pci/pas.h"

#define SN_EQS	       64u /* number 0 is none */
#define SN_EVENT_BYTES 28u /* data of an event */

/* Types of events, as the PRM numbers them; those of objects are enum sn_bridge_event. */
enum sn_event_type {
	SN_EVENT_COMPLETION = 0x00,
	SN_EVENT_QP_FATAL = 0x05,
	SN_EVENT_PORT_CHANGE = 0x09,
	SN_EVENT_COMMAND = 0x0a,
};

/* Subtypes of SN_EVENT_PORT_CHANGE. */
enum sn_port_event {
	SN_PORT_DOWN = 1,
	SN_PORT_ACTIVE = 4,
	SN_PORT_PKEY = 7,
	SN_PORT_GUID = 8,
};

struct sn_eq {
	bool used;
	bool armed;
	uint32_t log_size; /* log2 of the entries */
	uint32_t vector;   /* MSI-X vector */
	uint32_t produced, consumed;
	uint64_t events[4]; /* types that are told here, a bit each */
	struct sn_pas pas;
};

struct sn_eqs {
	struct sn_eq eq[SN_EQS];
	uint64_t told, lost; /* EQEs written, and EQEs that found no room */
};

struct sn_pci;

/* Tells one EQ. A number that is no EQ's is ignored: the EQ may be gone. */
void sn_eq_tell(struct sn_pci *pci, uint32_t eqn, uint8_t type, uint8_t subtype,
		const uint8_t data[SN_EVENT_BYTES]);
/* Tells the EQ that was made for events of this type, if there is one. */
void sn_eq_tell_type(struct sn_pci *pci, uint8_t type, uint8_t subtype,
		     const uint8_t data[SN_EVENT_BYTES]);
bool sn_eq_has_type(const struct sn_pci *pci, uint8_t type);
/* An event of one object: its number, in the last word of the data. */
void sn_eq_tell_object(struct sn_pci *pci, uint8_t type, uint32_t number);
void sn_eq_tell_port(struct sn_pci *pci, enum sn_port_event event);
/* The port has come up or gone down: sets and tells it. */
void sn_eq_port(struct sn_pci *pci, bool up);
/* The driver's doorbell: its consumer counter, and whether it wants an interrupt. */
void sn_eq_doorbell(struct sn_pci *pci, uint32_t eqn, uint32_t consumed, bool arm);
void sn_eq_forget_all(struct sn_pci *pci);

#endif
