/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the handlers of data path objects share (key.c, cq.c, srq.c, qp.c), and the way of the
 * bridge's events to the driver. A function without a bridge has no data path, and refuses these
 * objects.
 */
#ifndef SIMNIC_PCI_DATA_H
#define SIMNIC_PCI_DATA_H

#include "simnic/pci/bridge_port.h"
#include "simnic/pci/command.h"
#include "simnic/pci/pas.h"

struct sn_pci;

/* The status of a command for what a function of the bridge returned. */
uint8_t sn_data_status(int error);

/* A ring's pages, as a command lists them. */
struct sn_data_ring {
	uint32_t list;	      /* where the list begins in the input, in bytes */
	uint32_t log_page;    /* log2 of a page's bytes */
	uint32_t page_offset; /* of the first byte, in parts of a 64th of a page */
	uint64_t bytes;
};
/*
 * Reads the list. `pages` refers to `pas`, which sn_pas_free() gives back. A status of the command.
 */
uint8_t sn_data_pages(const struct sn_command *cmd, const struct sn_data_ring *ring,
		      struct sn_pas *pas, struct sn_bridge_pages *pages);

/* The queue between the bridge, whose events come from any thread, and the machine. */
struct sn_events;
struct sn_events *sn_events_new(struct sn_pci *pci); /* NULL: no memory */
void sn_events_free(struct sn_events *events);
/* Takes an event; the tell of struct sn_bridge_config, with the function's queue as its ctx. */
void sn_events_tell(void *events, enum sn_bridge_event event, uint32_t number, uint32_t user);
/*
 * Throws away what is not delivered yet. Called with the machine's lock held, as
 * sn_events_deliver().
 */
void sn_events_forget(struct sn_events *events);
/* Has sn_pci_deliver() called; the stray of struct sn_bridge_config. */
void sn_events_stray(void *events);
void sn_events_deliver(struct sn_events *events);

#endif
