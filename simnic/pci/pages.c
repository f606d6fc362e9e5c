/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory that the driver lends to the firmware. The firmware has no use for it, and gives it
 * back.
 */
#include <stdlib.h>

#include "simnic/pci/command.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

enum { BOOT_PAGES = 4, INIT_PAGES = 16 };
enum query { QUERY_BOOT = 1, QUERY_INIT = 2, QUERY_ALL = 3 };
enum manage { CANNOT_GIVE = 0, GIVE = 1, TAKE_BACK = 2 };

uint8_t sn_query_pages(struct sn_pci *pci, struct sn_command *cmd)
{
	int32_t wanted;

	switch (cmd->op_mod) {
	case QUERY_BOOT: wanted = BOOT_PAGES; break;
	case QUERY_INIT: wanted = INIT_PAGES; break;
	case QUERY_ALL: wanted = -(int32_t)pci->pages.n; break; /* negative: to be taken back */
	default: return SN_BAD_PARAM;
	}
	SN_SET(query_pages_out, cmd->out, num_pages, (uint32_t)wanted);
	return SN_OK;
}

static int make_room(struct sn_pci_pages *pages, uint32_t n)
{
	uint32_t room = pages->n + n;
	uint64_t *page;

	if (room <= pages->room)
		return 0;
	page = realloc(pages->page, room * sizeof(*page));
	if (!page)
		return -1;
	pages->page = page;
	pages->room = room;
	return 0;
}

static uint8_t give(struct sn_pci_pages *pages, const struct sn_command *cmd, uint32_t n)
{
	const uint8_t *list = SN_AT(manage_pages_in, cmd->in, pas);

	if (n > sn_command_listed(cmd, SN_FIELD_BYTE(manage_pages_in, pas)) / 8)
		return SN_BAD_INPUT_LENGTH;
	if (make_room(pages, n))
		return SN_NO_RESOURCES;
	for (uint32_t i = 0; i < n; i++)
		pages->page[pages->n++] = sn_load64(list + 8 * i);
	return SN_OK;
}

static uint8_t take_back(struct sn_pci_pages *pages, struct sn_command *cmd, uint32_t n)
{
	uint8_t *list = SN_AT(manage_pages_out, cmd->out, pas);
	uint32_t room = cmd->out_bytes > SN_FIELD_BYTE(manage_pages_out, pas)
				? (cmd->out_bytes - SN_FIELD_BYTE(manage_pages_out, pas)) / 8
				: 0;
	uint32_t i;

	for (i = 0; i < n && i < room && pages->n; i++)
		sn_store64(list + 8 * i, pages->page[--pages->n]);
	SN_SET(manage_pages_out, cmd->out, output_num_entries, i);
	return SN_OK;
}

uint8_t sn_manage_pages(struct sn_pci *pci, struct sn_command *cmd)
{
	uint32_t n = SN_GET(manage_pages_in, cmd->in, input_num_entries);

	switch (cmd->op_mod) {
	case CANNOT_GIVE: return SN_OK;
	case GIVE: return give(&pci->pages, cmd, n);
	case TAKE_BACK: return take_back(&pci->pages, cmd, n);
	default: return SN_BAD_PARAM;
	}
}
