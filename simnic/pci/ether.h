/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tables of the network interface (ether.c), which lead frames to a receive ring. */
#ifndef SIMNIC_PCI_ETHER_H
#define SIMNIC_PCI_ETHER_H

struct sn_table;
struct sn_ether_tables {
	struct sn_table *tirs, *rqts;
};

void sn_ether_forget(struct sn_ether_tables *tables);

#endif
