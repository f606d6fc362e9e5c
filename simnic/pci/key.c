/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys. */
#include "simnic/device/device.h"
#include "simnic/pci/data.h"
#include "simnic/pci/handlers.h"
#include "simnic/pci/pci.h"

/* Rights, by the bits of enum ibv_access_flags. */
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4, REMOTE_ATOMIC = 8 };

static uint32_t rights(const uint8_t *mkc)
{
	return (SN_GET(mkc, mkc, lw) ? LOCAL_WRITE : 0) |
	       (SN_GET(mkc, mkc, rw) ? REMOTE_WRITE : 0) |
	       (SN_GET(mkc, mkc, rr) ? REMOTE_READ : 0) | (SN_GET(mkc, mkc, a) ? REMOTE_ATOMIC : 0);
}

static void set_rights(uint8_t *mkc, uint32_t access)
{
	SN_SET(mkc, mkc, lr, 1);
	SN_SET(mkc, mkc, lw, !!(access & LOCAL_WRITE));
	SN_SET(mkc, mkc, rw, !!(access & REMOTE_WRITE));
	SN_SET(mkc, mkc, rr, !!(access & REMOTE_READ));
	SN_SET(mkc, mkc, a, !!(access & REMOTE_ATOMIC));
}

static uint32_t mode_of(const uint8_t *mkc)
{
	return SN_GET(mkc, mkc, access_mode_4_2) << 2 | SN_GET(mkc, mkc, access_mode_1_0);
}

/*
 * Linux makes a window as a free list of one entry, which alone of its free lists may be read by
 * local requests (mlx5_ib_alloc_mw()). Requests then bind it, which do not name all that a list is
 * told.
 */
static bool is_window(const uint8_t *mkc)
{
	return mode_of(mkc) == SN_BRIDGE_KLMS && SN_GET(mkc, mkc, free) && SN_GET(mkc, mkc, lr);
}

static void read_context(const uint8_t *mkc, struct sn_bridge_key *key)
{
	key->variant = SN_GET(mkc, mkc, mkey_7_0);
	key->remote_end = SN_GET(mkc, mkc, en_rinval);
	key->mode = mode_of(mkc);
	key->free = SN_GET(mkc, mkc, free);
	if (is_window(mkc))
		key->mode = SN_BRIDGE_WINDOW;
	key->any_length = SN_GET(mkc, mkc, length64);
	key->pd = SN_GET(mkc, mkc, pd);
	key->access = rights(mkc);
	key->start = SN_GET(mkc, mkc, start_addr);
	key->length = SN_GET(mkc, mkc, len);
	key->octowords = SN_GET(mkc, mkc, translations_octword_size);
}

/* The pages of a key that has some. They begin with the page of its first byte. */
static uint8_t read_pages(const struct sn_command *cmd, const uint8_t *mkc,
			  struct sn_bridge_key *key, struct sn_pas *pas)
{
	struct sn_data_ring ring = {
		.list = SN_FIELD_BYTE(create_mkey_in, klm_pas_mtt),
		.log_page = SN_GET(mkc, mkc, log_page_size),
	};
	uint64_t offset;
	uint8_t status;

	if (key->mode != SN_BRIDGE_PAGES || key->free ||
	    !SN_GET(create_mkey_in, cmd->in, translations_octword_actual_size))
		return SN_OK;
	if (ring.log_page < 12 || ring.log_page > 40)
		return SN_BAD_PARAM;
	offset = key->start & ((1ull << ring.log_page) - 1);
	ring.bytes = key->length + offset;
	status = sn_data_pages(cmd, &ring, pas, &key->pages);
	key->pages.offset = offset;
	return status;
}

uint8_t sn_create_mkey(struct sn_pci *pci, struct sn_command *cmd)
{
	const uint8_t *mkc = SN_AT(create_mkey_in, cmd->in, memory_key_mkey_entry);
	struct sn_bridge_key key = { 0 };
	struct sn_pas pas = { 0 };
	uint32_t index;
	uint8_t status;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	if (mode_of(mkc) > SN_BRIDGE_KLMS)
		return SN_BAD_PARAM;
	read_context(mkc, &key);
	status = read_pages(cmd, mkc, &key, &pas);
	if (!status)
		status = sn_data_status(sn_bridge_key_create(pci->bridge, &key, &index));
	sn_pas_free(&pas);
	if (!status)
		SN_SET(create_mkey_out, cmd->out, mkey_index, index);
	return status;
}

uint8_t sn_destroy_mkey(struct sn_pci *pci, struct sn_command *cmd)
{
	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	return sn_data_status(sn_bridge_key_destroy(pci->bridge, sn_command_number(cmd)));
}

uint8_t sn_query_mkey(struct sn_pci *pci, struct sn_command *cmd)
{
	uint8_t *mkc = SN_AT(query_mkey_out, cmd->out, memory_key_mkey_entry);
	struct sn_bridge_key key;
	int error;

	if (!pci->bridge)
		return SN_BAD_RESOURCE;
	error = sn_bridge_key_query(pci->bridge, sn_command_number(cmd), &key);
	if (error)
		return sn_data_status(error);
	SN_SET(mkc, mkc, free, key.free);
	SN_SET(mkc, mkc, access_mode_1_0, key.mode == SN_BRIDGE_WINDOW ? SN_BRIDGE_KLMS : key.mode);
	SN_SET(mkc, mkc, mkey_7_0, key.variant);
	SN_SET(mkc, mkc, length64, key.any_length);
	SN_SET(mkc, mkc, pd, key.pd);
	SN_SET(mkc, mkc, start_addr, key.start);
	SN_SET(mkc, mkc, len, key.length);
	SN_SET(mkc, mkc, translations_octword_size, key.octowords);
	set_rights(mkc, key.access);
	return SN_OK;
}

/*
 * The driver's own key: all of memory, in all of its protection domains. Made when it is first
 * asked for.
 */
static int make_driver_key(struct sn_pci *pci)
{
	struct sn_bridge_key key = {
		.mode = SN_BRIDGE_PHYSICAL,
		.any_length = true,
		.access = LOCAL_WRITE,
	};

	return pci->driver_key ? 0 : sn_bridge_key_create(pci->bridge, &key, &pci->driver_key);
}

uint8_t sn_query_special_contexts(struct sn_pci *pci, struct sn_command *cmd)
{
	int error;

	if (!pci->bridge)
		return SN_NO_RESOURCES;
	error = make_driver_key(pci);
	if (error)
		return sn_data_status(error);
	SN_SET(query_special_contexts_out, cmd->out, resd_lkey, pci->driver_key << 8);
	SN_SET(query_special_contexts_out, cmd->out, null_mkey, SN_NULL_KEY);
	return SN_OK;
}
