/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Errors of the bridge as statuses, and pages of rings. */
#include <errno.h>

#include "simnic/pci/data.h"
#include "simnic/pci/field.h"

uint8_t sn_data_status(int error)
{
	switch (error) {
	case 0: return SN_OK;
	case -ENOENT: return SN_BAD_RESOURCE;
	case -EBUSY: return SN_RESOURCE_BUSY;
	case -ENOMEM: return SN_NO_RESOURCES;
	default: return SN_BAD_PARAM;
	}
}

uint8_t sn_data_pages(const struct sn_command *cmd, const struct sn_data_ring *ring,
		      struct sn_pas *pas, struct sn_bridge_pages *pages)
{
	uint64_t offset;
	int error;

	if (ring->log_page > 40)
		return SN_BAD_PARAM;
	offset = ring->page_offset * ((1ull << ring->log_page) / 64);
	error = sn_pas_read(pas, cmd->in + ring->list, sn_command_listed(cmd, ring->list),
			    ring->log_page, ring->bytes + offset);
	if (error)
		return sn_data_status(error);
	pages->page = pas->page;
	pages->n = pas->pages;
	pages->shift = pas->shift;
	pages->offset = offset;
	return SN_OK;
}
