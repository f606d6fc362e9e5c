/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "libibverbs/known.h"

static const char *const prefixes[] = { "ibv_reg_", "ibv_create_", "ibv_alloc_", "ibv_open_" };

/*
 * Verbs that are hooked, or harmless to miss: address handles and SRQs belong to QPs that are
 * judged at create. A DMA handle tells a NIC how near to a processor it should write: the region's
 * shadow does without. A completion counter matters once a QP has one, by a command that is seen.
 */
static const char *const verbs[] = {
	"ibv_alloc_pd",
	"ibv_create_ah",
	"ibv_create_ah_from_wc",
	"ibv_create_comp_channel",
	"ibv_create_cq",
	"ibv_create_qp",
	"ibv_create_srq",
	"ibv_open_device",
	"ibv_reg_mr",
	"ibv_reg_dmabuf_mr",
	"ibv_reg_mr_iova",
	"ibv_reg_mr_iova2",
	"ibv_reg_mr_ex",
	"ibv_reg_buf_mr",
	"ibv_alloc_buf", /* by ibv_cmd_reg_mr_ex */
	"ibv_alloc_dmah",
	"ibv_create_comp_cntr",
};

bool known_creates(const char *name)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

bool known_verb(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(name, verbs[i]))
			return true;
	return false;
}

struct dynamic {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash; /* DT_GNU_HASH */
};

/* glibc relocates these in place on most machines, but not where the dynamic section is read-only
 * (MIPS, RISC-V). */
static const void *dynamic_address(const struct link_map *map, ElfW(Addr) value)
{
	return (const void *)(value < map->l_addr ? map->l_addr + value : value);
}

static void dynamic_read(const struct link_map *map, struct dynamic *dyn)
{
	memset(dyn, 0, sizeof(*dyn));
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		const void *address = dynamic_address(map, d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			dyn->symbols = address;
		else if (d->d_tag == DT_STRTAB)
			dyn->strings = address;
		else if (d->d_tag == DT_GNU_HASH)
			dyn->hash = address;
	}
}

/*
 * Reads one bucket of the GNU hash. Its symbols lie in sequence; the last one has bit 0 set in the
 * chain.
 */
static void bucket_scan(const struct dynamic *dyn, uint32_t first, void (*found)(const char *name))
{
	uint32_t base = dyn->hash[1];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)&dyn->hash[4];
	const uint32_t *chain = (const uint32_t *)&bloom[dyn->hash[2]] + dyn->hash[0];

	for (uint32_t i = first;; i++) {
		const char *name = dyn->strings + dyn->symbols[i].st_name;

		if (known_creates(name) && !known_verb(name))
			found(name);
		if (chain[i - base] & 1)
			return;
	}
}

void known_scan(void *handle, void (*found)(const char *name))
{
	struct link_map *map;
	struct dynamic dyn;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
		return;
	dynamic_read(map, &dyn);
	if (!dyn.symbols || !dyn.strings || !dyn.hash)
		return;

	const ElfW(Addr) *bloom = (const ElfW(Addr) *)&dyn.hash[4];
	const uint32_t *buckets = (const uint32_t *)&bloom[dyn.hash[2]];

	for (uint32_t b = 0; b < dyn.hash[0]; b++)
		if (buckets[b])
			bucket_scan(&dyn, buckets[b], found);
}
