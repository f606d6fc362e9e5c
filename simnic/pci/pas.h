/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The pages of a queue in guest memory, as a command lists them. */
#ifndef SIMNIC_PCI_PAS_H
#define SIMNIC_PCI_PAS_H

#include <stdint.h>

struct sn_pas {
	uint64_t *page; /* addresses in guest memory */
	uint32_t pages;
	uint32_t shift; /* log2 of a page's bytes */
};

/*
 * Reads as many entries of a list as hold `bytes`; `listed` is what the command has of the list, in
 * bytes. 0; -EINVAL: the list is too short; -ENOMEM. sn_pas_free() gives the pages back.
 */
int sn_pas_read(struct sn_pas *pas, const uint8_t *list, uint32_t listed, uint32_t shift,
		uint64_t bytes);
void sn_pas_free(struct sn_pas *pas);
/* The guest's address of a byte of the queue, which lies inside of the queue. */
uint64_t sn_pas_at(const struct sn_pas *pas, uint64_t offset);

#endif
