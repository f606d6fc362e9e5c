/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The map of which NICs stand in for which: the text of SHIFT_BACKUP against the devices that are
 * there.
 *
 *	pair                         each NIC: the one that backup_pair() finds for it
 *	spread, auto                 each NIC: all others like it, as backup_pair_all() has them;
 *	                             but see auto.h
 *	mlx5_0=mlx5_1,mlx5_1=mlx5_0  DEFAULT=BACKUP, comma-separated
 *	mlx5_0=mlx5_1:mlx5_2         several backups, the preferred one first
 *
 * A NIC that the text does not name has no backup. Pure: what is known of the NICs in, numbers
 * out.
 */
#ifndef SHIFTLIB_BACKUP_MAP_H
#define SHIFTLIB_BACKUP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shiftlib/backup/pair.h"

#define BACKUP_MAP_ERR_MAX 256u

struct backup_map {
	bool automatic; /* no list */
	bool spread;	/* no list, and some NIC has several like it */
	uint32_t n_nics;
	uint8_t n_backups[BACKUP_MAP_MAX_NICS];
	uint8_t n_even[BACKUP_MAP_MAX_NICS]; /* spread: over so many of these, while they last */
	uint8_t backups[BACKUP_MAP_MAX_NICS][BACKUP_MAP_MAX_BACKUPS];
};

bool backup_is_auto(const char *text); /* so are NULL and "" */

/*
 * backup_map_parse() - work out the backups of every NIC
 * @text: NULL or "" is "auto"
 * @nics: the devices; with more than BACKUP_MAP_MAX_NICS the rest are not seen. In a list,
 *	a link layer that is not known goes with any
 * @map: receives the backups as places in @nics; without any on an error
 * @err: receives one sentence with the position in the text; may be NULL
 *
 * Returns 0, -EINVAL (malformed, which is found first; a NIC named twice or its own backup),
 * -ENODEV (no such device) or -EPROTOTYPE (two NICs of different link layers). Any thread.
 */
int backup_map_parse(const char *text, const struct backup_nic *nics, uint32_t n_nics,
		     struct backup_map *map, char *err, size_t errlen);

#endif
