/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stddef.h>

#include "shiftlib/backup/spread.h"

/* A path that could be the next of an order. */
struct option {
	uint8_t path;
	uint32_t dealt; /* connections that have it at this place already */
	uint32_t turn;	/* where the count begins, it is 0 */
};

static uint32_t spread_speed(const struct backup_way *ways, uint32_t n, uint8_t path)
{
	uint32_t most = 1, k;

	if (ways[path].speed)
		return ways[path].speed;
	for (k = 1; k < n; k++)
		most = ways[k].speed > most ? ways[k].speed : most;
	return most;
}

static int spread_compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/*
 * True if a comes before b: the path with least for its speed when it has one more. So n
 * connections over paths of speed s come out as n * s / sum(s), rounded up or down.
 */
static bool spread_before(const struct backup_way *ways, uint32_t n, const struct option *a,
			  const struct option *b)
{
	const struct backup_way *wa = &ways[a->path], *wb = &ways[b->path];
	uint64_t sa = spread_speed(ways, n, a->path), sb = spread_speed(ways, n, b->path);
	int order = spread_compare(wa->last, wb->last);

	if (!order)
		order = spread_compare((a->dealt + 1ull) * sb, (b->dealt + 1ull) * sa);
	if (!order)
		order = spread_compare(wa->carries, wb->carries);
	if (!order)
		order = spread_compare(wa->peers, wb->peers);
	return order ? order < 0 : a->turn < b->turn;
}

/*
 * Orders paths that are alike. Around the ring at the first place; behind it as diced, by what
 * stands before it: around the ring, all that a block of dead ones had would come to the next one
 * that lives.
 */
static uint32_t spread_turn(uint32_t n, uint32_t order, uint8_t path, uint32_t salt)
{
	uint64_t mixed = (uint64_t)order << 32 | salt;

	if (!order)
		return (path + salt) % (n - 1);
	mixed = (mixed ^ path) * 0x9e3779b97f4a7c15ull;
	mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(mixed >> 33);
}

static bool spread_has(uint32_t order, uint8_t path)
{
	for (; order; order >>= SC_ORDER_BITS)
		if (backup_spread_first(order) == path)
			return true;
	return false;
}

/* dealt: of each path at this place of the order; NULL: not counted any more. */
static uint8_t spread_next(const struct backup_way *ways, uint32_t n, uint32_t order,
			   const uint32_t *dealt, uint32_t salt)
{
	struct option best = { 0 }, option;
	uint8_t k;

	for (k = 1; k < n; k++) {
		if (spread_has(order, k))
			continue;
		option = (struct option){ k, dealt ? dealt[k] : 0, spread_turn(n, order, k, salt) };
		if (!best.path || spread_before(ways, n, &option, &best))
			best = option;
	}
	return best.path;
}

uint32_t backup_spread_draw(const struct backup_load *load, const struct backup_way *ways,
			    uint32_t n, uint32_t salt)
{
	uint32_t order = 0, place;
	const uint32_t *dealt = load->first;
	uint8_t path;

	for (place = 0; place + 1 < n; place++) {
		path = spread_next(ways, n, order, dealt, salt);
		order |= (uint32_t)path << SC_ORDER_BITS * place;
		dealt = place ? NULL : load->second[path];
		/* third choices begin elsewhere for each that has the same first two */
		salt += place ? 0 : load->first[path];
		salt += place == 1 ? load->second[backup_spread_first(order)][path] : 0;
	}
	return order;
}

void backup_spread_count(struct backup_load *load, uint32_t order, bool on)
{
	uint8_t first = backup_spread_first(order);
	uint8_t second = backup_spread_first(order >> SC_ORDER_BITS);

	if (!first)
		return;
	load->first[first] += on ? 1 : UINT32_MAX;
	if (second)
		load->second[first][second] += on ? 1 : UINT32_MAX;
}
