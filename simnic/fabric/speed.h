/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How fast a NIC is: the lanes of its port, and those of its PCI link. What programs are told, and what its cable
 * carries: a link with a rate (line.h) has that rate when both are whole.
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

/* In struct sn_cable. A change of it raises no event, as none of mlx5 does but for its port's going down and up. */
struct sn_speed {
	_Atomic uint32_t lanes, lane; /* of the port: 1, 2, 4, 8 or 12 of them, how fast each is */
	_Atomic uint32_t pci_lanes, pci_lane; /* of the PCI link: 1 to 16 */
};

void sn_speed_begin(struct sn_speed *speed);
/* -EINVAL: there is no such speed. NULL: that of a NIC that is whole. */
int sn_speed_set_port(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes,
		      const char *lane);
int sn_speed_set_pci(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes,
		     const char *lane);
/* Of what it carries when it is whole, in thousandths. */
uint32_t sn_speed_share(const struct sn_speed *speed);

/* As verbs number them: IBA PortInfo, LinkWidthActive and LinkSpeedActive. */
uint8_t sn_speed_width(const struct sn_speed *speed);
uint8_t sn_speed_lane(const struct sn_speed *speed);
/* As the kernel writes them: ports/1/rate; current_link_speed, whole: max_link_speed. */
void sn_speed_rate_text(const struct sn_speed *speed, char out[SN_SPEED_TEXT]);
const char *sn_speed_pci_text(const struct sn_speed *speed);

#endif
