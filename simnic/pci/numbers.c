/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A set of numbers in use for each kind of object. */
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/function.h"
#include "simnic/pci/numbers.h"

enum { MOST = 1 << 16 };

/* The numbers of a kind: first <= number < end <= MOST. */
static const struct {
	uint32_t first, end;
} range[SN_KINDS] = {
	[SN_KIND_PD] = { 1, MOST },	      [SN_KIND_UAR] = { SN_PCI_UAR_FIRST, SN_PCI_UARS },
	[SN_KIND_XRCD] = { 1, MOST },	      [SN_KIND_TRANSPORT_DOMAIN] = { 1, MOST },
	[SN_KIND_Q_COUNTER] = { 1, 128 },     [SN_KIND_TIR] = { 1, 4096 },
	[SN_KIND_TIS] = { 1, 4096 },	      [SN_KIND_RQT] = { 1, 1024 },
	[SN_KIND_FLOW_TABLE] = { 1, MOST },   [SN_KIND_FLOW_GROUP] = { 1, MOST },
	[SN_KIND_FLOW_COUNTER] = { 1, MOST },
};

struct sn_numbers {
	uint32_t next[SN_KINDS];
	bool used[SN_KINDS][MOST];
};

struct sn_numbers *sn_numbers_new(void)
{
	struct sn_numbers *numbers = malloc(sizeof(*numbers));

	if (numbers)
		sn_numbers_forget(numbers);
	return numbers;
}

void sn_numbers_free(struct sn_numbers *numbers)
{
	free(numbers);
}

void sn_numbers_forget(struct sn_numbers *numbers)
{
	memset(numbers, 0, sizeof(*numbers));
	for (int kind = 0; kind < SN_KINDS; kind++)
		numbers->next[kind] = range[kind].first;
}

static uint32_t after(enum sn_kind kind, uint32_t number)
{
	return number + 1 < range[kind].end ? number + 1 : range[kind].first;
}

uint32_t sn_numbers_give(struct sn_numbers *numbers, enum sn_kind kind)
{
	uint32_t number = numbers->next[kind];

	while (numbers->used[kind][number]) {
		number = after(kind, number);
		if (number == numbers->next[kind])
			return 0;
	}
	numbers->used[kind][number] = true;
	numbers->next[kind] = after(kind, number);
	return number;
}

bool sn_numbers_used(const struct sn_numbers *numbers, enum sn_kind kind, uint32_t number)
{
	return number < MOST && numbers->used[kind][number];
}

bool sn_numbers_drop(struct sn_numbers *numbers, enum sn_kind kind, uint32_t number)
{
	if (!sn_numbers_used(numbers, kind, number))
		return false;
	numbers->used[kind][number] = false;
	return true;
}
