/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The order in which a connection prefers its paths, as one number. */
#include "shiftlib/core/state.h"

static uint8_t order_at(uint32_t order, uint8_t place)
{
	return order >> SC_ORDER_BITS * place & ((1u << SC_ORDER_BITS) - 1);
}

bool sc_order_valid(uint32_t order)
{
	uint32_t seen = 0;
	uint8_t place, path;

	if (order & ~SC_ORDER_WHOLE)
		return false;
	for (place = 0; (path = order_at(order, place)); place++) {
		if (seen >> path & 1)
			return false;
		seen |= 1u << path;
	}
	return !(order >> SC_ORDER_BITS * place);
}

/* Unnamed paths keep their distance to the named ones, and nothing else counts. */
uint8_t sc_order_rank(uint32_t order, uint8_t path)
{
	uint8_t place, at;

	for (place = 0; (at = order_at(order, place)); place++)
		if (at == path)
			return (uint8_t)(place + 1);
	return path ? (uint8_t)(place + path) : 0;
}
