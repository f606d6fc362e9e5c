/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT_BACKUP=pair: pairs of NICs that stand in for each other. Only NICs of one link layer that
 * an engine serves go together; then, in this order,
 *
 * not another port of the same card, which dies with it, where there is anything else
 * the same model, as two that differ in speed or in their limits serve each other badly
 * near: behind one PCI switch, on one PCI root, on one NUMA node
 * in the order of the PCI addresses, without those of the names
 *
 * If a backs b then b backs a; who is left over, of an odd number, backs on the nearest without
 * being needed by it. The order of the list does not matter, and nothing that comes and goes (a
 * port's state, an address) does: hosts of the same make choose the same rails, today and after a
 * fault. Pure.
 */
#ifndef SHIFTLIB_BACKUP_PAIR_H
#define SHIFTLIB_BACKUP_PAIR_H

#include <stdint.h>

#include "shiftlib/backup/nic.h"

#define BACKUP_MAP_MAX_NICS    32u
#define BACKUP_MAP_MAX_BACKUPS 7u
#define BACKUP_NONE	       UINT8_MAX

enum backup_near {
	BACKUP_SAME_CARD,
	BACKUP_SAME_SWITCH,
	BACKUP_SAME_ROOT,
	BACKUP_SAME_NODE,
	BACKUP_NOT_KNOWN,
	BACKUP_OTHER_NODE,
};

enum backup_near backup_near(const struct backup_nic *a, const struct backup_nic *b);
/*
 * True if two PCI functions, as backup_nic.pci has them, are below one PCIe switch: their way
 * parts behind a root port and what is plugged in there. So bytes go between them without the
 * host's root complex.
 */
bool backup_below_one_switch(const char *a, const char *b);
/* Returns a clause to stand behind the backup's name: "on the same NUMA node". */
const char *backup_near_text(enum backup_near near);

/*
 * SHIFT_BACKUP=spread, and auto: all that stand in for @nics[i], at most BACKUP_MAP_MAX_BACKUPS.
 * The first is its pair's other half; behind it come the NICs of its model (where there are none:
 * of any) in the order of the addresses, from the one behind it and around. So hosts of the same
 * make have the same rail at the same place. Ports of its own card come last, behind *n_even:
 * they are there for when all else is gone.
 */
struct backup_all {
	uint8_t n, n_even;
	uint8_t nic[BACKUP_MAP_MAX_BACKUPS];
};
void backup_pair_all(const struct backup_nic *nics, uint32_t n, struct backup_all *all);

/* backup[i]: the place in @nics of what stands in for @nics[i], or BACKUP_NONE. At most
 * BACKUP_MAP_MAX_NICS. Any thread. */
void backup_pair(const struct backup_nic *nics, uint32_t n, uint8_t *backup);

#endif
