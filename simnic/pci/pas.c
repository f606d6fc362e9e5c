/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Lists of guest pages. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/field.h"
#include "simnic/pci/pas.h"

/* The lowest bits of an entry are flags. */
#define ADDRESS (~0xfffull)

int sn_pas_read(struct sn_pas *pas, const uint8_t *list, uint32_t listed, uint32_t shift,
		uint64_t bytes)
{
	uint64_t pages = shift < 40 ? (bytes + (1ull << shift) - 1) >> shift : 1;

	if (pages * 8 > listed)
		return -EINVAL;
	pas->page = calloc(pages + 1, sizeof(*pas->page));
	if (!pas->page)
		return -ENOMEM;
	pas->pages = pages;
	pas->shift = shift;
	for (uint32_t i = 0; i < pages; i++)
		pas->page[i] = sn_load64(list + 8 * i) & ADDRESS;
	return 0;
}

void sn_pas_free(struct sn_pas *pas)
{
	free(pas->page);
	memset(pas, 0, sizeof(*pas));
}

uint64_t sn_pas_at(const struct sn_pas *pas, uint64_t offset)
{
	assert(offset >> pas->shift < pas->pages);
	return pas->page[offset >> pas->shift] + (offset & ((1ull << pas->shift) - 1));
}
