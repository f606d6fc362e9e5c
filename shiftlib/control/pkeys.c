/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* P_Key tables, which are searched by value, as every port has its own order. */
#include "shiftlib/control/pkeys.h"
#include "shiftlib/control/address.h"

#include <endian.h>
#include <errno.h>

#define PKEY_FULL 0x8000

void sh_pkeys_read(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		   struct sh_pkeys *out)
{
	struct ibv_port_attr attr;
	__be16 pkey;
	int i;

	out->n = 0;
	if (sh_port_query(real, context, port, &attr) || attr.link_layer == IBV_LINK_LAYER_ETHERNET)
		return;
	for (i = 0; i < attr.pkey_tbl_len && i < SH_PKEYS_MAX; i++) {
		if (real->query_pkey(context, port, i, &pkey))
			break;
		out->value[out->n++] = be16toh(pkey);
	}
}

bool sh_pkeys_same(uint16_t a, uint16_t b)
{
	return (a & ~PKEY_FULL) && !((a ^ b) & ~PKEY_FULL);
}

bool sh_pkeys_speak(uint16_t a, uint16_t b)
{
	return sh_pkeys_same(a, b) && (a | b) & PKEY_FULL;
}

int sh_pkeys_find(const struct sh_pkeys *pkeys, uint16_t pkey)
{
	int i, limited = -ENOENT;

	for (i = 0; i < pkeys->n; i++) {
		if (!sh_pkeys_same(pkeys->value[i], pkey))
			continue;
		if (pkeys->value[i] & PKEY_FULL)
			return i;
		limited = i;
	}
	return limited;
}

uint16_t sh_pkeys_own_index(const struct sh_pkeys *pkeys)
{
	uint16_t i, best = 0, best_value = 0;

	for (i = 0; i < pkeys->n; i++) {
		if (pkeys->value[i] == SH_PKEY_DEFAULT)
			return i;
		if (pkeys->value[i] <= PKEY_FULL || (best_value && best_value <= pkeys->value[i]))
			continue;
		best = i;
		best_value = pkeys->value[i];
	}
	return best;
}
