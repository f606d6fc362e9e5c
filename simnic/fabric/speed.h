/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The speed of a NIC: the lanes of its port, and those of its PCI link. It decides the figures
 * that programs are told and the load that its cable carries: a link with a rate (line.h) has that
 * rate when both are whole.
 */
#ifndef SIMNIC_FABRIC_SPEED_H
#define SIMNIC_FABRIC_SPEED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sn_fabric;
struct sn_nic;

/* Places in tables of names: speed.c. */
enum { SN_LANE_EDR = 5, SN_PCI_GEN4 = 3 };
enum { SN_SPEED_WHOLE = 1000, SN_SPEED_TEXT = 48 };

/*
 * Part of struct sn_cable. A change raises no event: mlx5 raises one only when its port goes down
 * or up.
 */
struct sn_speed {
	_Atomic uint32_t lanes, lane; /* port: 1, 2, 4, 8 or 12 lanes, and the speed of each */
	_Atomic uint32_t pci_lanes, pci_lane; /* PCI link: 1 to 16 lanes */
};

void sn_speed_begin(struct sn_speed *speed);
/* -EINVAL: there is no such speed. NULL: the speed of a NIC that is whole. */
int sn_speed_set_port(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes,
		      const char *lane);
int sn_speed_set_pci(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes,
		     const char *lane);
/* The load that it carries, in thousandths of a whole NIC's. */
uint32_t sn_speed_share(const struct sn_speed *speed);

/* Verbs' numbers: IBA PortInfo, LinkWidthActive and LinkSpeedActive. */
uint8_t sn_speed_width(const struct sn_speed *speed);
uint8_t sn_speed_lane(const struct sn_speed *speed);
/* The kernel's texts: ports/1/rate; current_link_speed, whole: max_link_speed. */
void sn_speed_rate_text(const struct sn_speed *speed, char out[SN_SPEED_TEXT]);
const char *sn_speed_pci_text(const struct sn_speed *speed);

#endif
