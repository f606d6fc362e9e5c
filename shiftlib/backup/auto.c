/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/backup/auto.h"
#include "shiftlib/backup/room.h"

uint64_t backup_auto_wants(const struct backup_nic *nics, uint32_t n)
{
	struct backup_map map;

	(void)backup_map_parse("spread", nics, n, &map, NULL, 0);
	return map.spread ? backup_control_bytes(&map) * BACKUP_CONTROL_PART : 0;
}

const char *backup_auto(const char *text, uint64_t wants, uint64_t lockable)
{
	if (!backup_is_auto(text))
		return text;
	return wants && lockable >= wants ? "spread" : "pair";
}
