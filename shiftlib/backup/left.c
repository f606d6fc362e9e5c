/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/backup/left.h"

#define LOAD_BITS 20 /* bits of a load's fraction */

static uint32_t left_speed(const struct backup_burden *nics, uint32_t n, uint32_t nic)
{
	uint32_t most = 1, i;

	if (nics[nic].speed)
		return nics[nic].speed;
	for (i = 0; i < n; i++)
		most = nics[i].speed > most ? nics[i].speed : most;
	return most;
}

/* The traffic that a NIC carried for the connections whose own it is. */
static uint32_t left_whole(const struct backup_burden *nics, uint32_t n, uint32_t nic)
{
	return nics[nic].whole ? nics[nic].whole : left_speed(nics, n, nic);
}

static uint32_t left_away(const struct backup_burden *nics, uint32_t n, uint32_t nic)
{
	uint32_t sum = 0, i;

	for (i = 0; i < n; i++)
		sum += nics[nic].to[i];
	return sum;
}

/* The traffic of so many of a NIC's own connections. */
static uint64_t left_part(const struct backup_burden *nics, uint32_t n, uint32_t nic, uint32_t part)
{
	uint32_t away = left_away(nics, n, nic);
	uint32_t all = nics[nic].own > away ? nics[nic].own : away;

	return ((uint64_t)left_whole(nics, n, nic) << LOAD_BITS) * part / all;
}

/* The NIC's own traffic that stays on it: all, if none of it is this process'. */
static uint64_t left_own(const struct backup_burden *nics, uint32_t n, uint32_t nic)
{
	uint32_t away = left_away(nics, n, nic);

	if (nics[nic].spare)
		return 0;
	if (!away)
		return (uint64_t)left_whole(nics, n, nic) << LOAD_BITS;
	return nics[nic].own > away ? left_part(nics, n, nic, nics[nic].own - away) : 0;
}

static uint64_t left_guests(const struct backup_burden *nics, uint32_t n, uint32_t nic)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (nics[i].to[nic])
			sum += left_part(nics, n, i, nics[i].to[nic]);
	return sum;
}

uint32_t backup_left(const struct backup_burden *nics, uint32_t n)
{
	uint64_t least = BACKUP_LEFT_WHOLE, room, load, guests;
	uint32_t i;

	for (i = 0; i < n; i++) {
		guests = left_guests(nics, n, i);
		load = left_own(nics, n, i) + guests;
		room = ((uint64_t)left_speed(nics, n, i) << LOAD_BITS) * BACKUP_LEFT_WHOLE;
		if (guests && room / load < least)
			least = room / load;
	}
	return (uint32_t)least;
}
