/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The meaning of SHIFT_BACKUP=auto: spread, but pairs where this process may lock so little
 * memory that the control queue pairs of all NICs would take a good part of it, before any of the
 * program's own is registered. Where paths beyond those of pairs do not answer, or regions find
 * no room later, connections use fewer all the same (replica/reach.h).
 */
#ifndef SHIFTLIB_BACKUP_AUTO_H
#define SHIFTLIB_BACKUP_AUTO_H

#include <stdint.h>

#include "shiftlib/backup/map.h"

/*
 * Returns how many bytes must be lockable for auto to be spread; 0: it is pair anyway, as no NIC
 * has two others like it.
 */
uint64_t backup_auto_wants(const struct backup_nic *nics, uint32_t n);
/*
 * Returns the text for backup_map_parse(): "spread" or "pair" where @text is auto, else @text; by
 * backup_auto_wants() and backup_lockable().
 */
const char *backup_auto(const char *text, uint64_t wants, uint64_t lockable);

#endif
