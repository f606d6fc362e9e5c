/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The inside of a PCI function, for the files of this folder. Calls come with the machine's lock
 * held.
 */
#ifndef SIMNIC_PCI_PCI_H
#define SIMNIC_PCI_PCI_H

#include "simnic/pci/caps.h"
#include "simnic/pci/data.h"
#include "simnic/pci/eq.h"
#include "simnic/pci/ether.h"
#include "simnic/pci/field.h"
#include "simnic/pci/function.h"
#include "simnic/pci/numbers.h"

/* What is broken; see fault.h for the words. */
struct sn_pci_broken {
	bool dead;	      /* reads give ones, writes are dropped, no access to guest memory */
	bool hang;	      /* no command is executed, and the heart stands still */
	bool lose_events;     /* no EQE is written */
	bool lose_interrupts; /* EQEs are written, and no interrupt follows */
	uint32_t command_ms;  /* each command waits so long; 0: none does */
};

/* Memory that the driver lent to the firmware. */
struct sn_pci_pages {
	uint64_t *page;
	uint32_t n, room;
};

struct sn_pci_port {
	bool up;
	bool roce; /* switched on by the driver */
	bool off;  /* the driver has switched the port off */
	uint16_t mtu;
	uint8_t gid[SN_ROCE_ADDRESSES][SN_ROCE_ADDRESS_BYTES];
};

struct sn_pci {
	struct sn_pci_host host;
	struct sn_pci_identity identity;
	struct sn_pci_broken broken;
	uint8_t iseg[SN_PCI_ISEG_BYTES];
	uint32_t command_timeout_ms; /* the driver reads these at its next start */
	uint32_t reset_timeout_ms;
	uint32_t rung; /* commands that the driver asked for, a bit each */
	struct sn_caps caps;
	struct sn_eqs eqs;
	struct sn_pci_pages pages;
	struct sn_pci_port port;
	struct sn_ether_tables ether;
	struct sn_numbers *numbers;
	struct sn_bridge *bridge; /* the data path; NULL: there is none */
	struct sn_events *events; /* of the data path, not yet told */
	uint32_t driver_key;	  /* index of the key of all memory; 0: not made yet */
	bool bus_master;
	uint64_t commands, refused; /* executed since power-on, and what of them ended badly */
};

/* Guest memory; nothing is read (zeros) or written while the function is dead. */
void sn_pci_dma_read(struct sn_pci *pci, uint64_t at, void *to, uint32_t bytes);
void sn_pci_dma_write(struct sn_pci *pci, uint64_t at, const void *from, uint32_t bytes);
/* Writes and makes sure that the last byte arrives last: the owner bit of a ring's entry. */
void sn_pci_dma_publish(struct sn_pci *pci, uint64_t at, const void *from, uint32_t bytes);
void sn_pci_interrupt(struct sn_pci *pci, uint32_t vector);
void sn_pci_say(struct sn_pci *pci, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The init segment (iseg.c): what reset leaves in it, and the driver's accesses. */
void sn_iseg_reset(struct sn_pci *pci);
void sn_iseg_set_timeouts(struct sn_pci *pci);
uint64_t sn_iseg_read(struct sn_pci *pci, uint32_t offset, uint32_t size);
void sn_iseg_write(struct sn_pci *pci, uint32_t offset, uint64_t value, uint32_t size);
/* The address of the command queue, as the driver wrote it. */
uint64_t sn_iseg_queue(const struct sn_pci *pci);
void sn_iseg_clear_health(struct sn_pci *pci);

/* True while the function executes nothing: it is dead, it hangs, or it may not reach memory. */
bool sn_pci_stands_still(const struct sn_pci *pci);
/* Lets the data path go, or stops it, as what is broken wants. */
void sn_pci_update_data(struct sn_pci *pci);

/* Registers of the UAR pages (uar.c). */
void sn_uar_write(struct sn_pci *pci, uint32_t page, uint32_t offset, uint64_t value,
		  uint32_t size);

/* The port of an Ethernet function, as its network interface goes down and up. */
void sn_pci_switch_off(struct sn_pci *pci, bool off);

/* Forgets the driver's objects and memory, but neither faults nor the init segment: ENABLE_HCA. */
void sn_pci_forget(struct sn_pci *pci);

#endif
