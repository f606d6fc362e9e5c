/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/speed.h"
#include "simnic/fabric/sysfs.h"

enum { LANES = 4, PCI_LANES = 16 };

/* Speed of one lane, in units of 100 Mb/s, and its bit in LinkSpeedActive. */
static const struct {
	const char *name;
	uint32_t hundreds, bit;
} lane_speeds[] = {
	{ "SDR", 25, 1 },   { "DDR", 50, 2 },	{ "QDR", 100, 4 },  { "FDR10", 100, 8 },
	{ "FDR", 140, 16 }, { "EDR", 250, 32 }, { "HDR", 500, 64 },
};
#define N_LANE_SPEEDS (sizeof(lane_speeds) / sizeof(lane_speeds[0]))

/* Speed of one lane, in Mb/s without the line code: 8b/10b at first, then 128b/130b. */
static const struct {
	const char *name, *text;
	uint32_t mbps;
} pci_speeds[] = {
	{ "2.5", "2.5 GT/s PCIe", 2000 },
	{ "5.0", "5.0 GT/s PCIe", 4000 },
	{ "8.0", "8.0 GT/s PCIe", 7877 },
	{ "16.0", "16.0 GT/s PCIe", 15754 },
};
#define N_PCI_SPEEDS (sizeof(pci_speeds) / sizeof(pci_speeds[0]))

/* ---- how much it carries --------------------------------------------------------------------- */

static uint32_t port_mbps(const struct sn_speed *speed)
{
	return lane_speeds[atomic_load(&speed->lane)].hundreds * 100 * atomic_load(&speed->lanes);
}

static uint32_t pci_mbps(const struct sn_speed *speed)
{
	return pci_speeds[atomic_load(&speed->pci_lane)].mbps * atomic_load(&speed->pci_lanes);
}

static uint32_t carried_mbps(const struct sn_speed *speed)
{
	uint32_t port = port_mbps(speed), pci = pci_mbps(speed);

	return port < pci ? port : pci;
}

void sn_speed_begin(struct sn_speed *speed)
{
	atomic_init(&speed->lanes, LANES);
	atomic_init(&speed->lane, SN_LANE_EDR);
	atomic_init(&speed->pci_lanes, PCI_LANES);
	atomic_init(&speed->pci_lane, SN_PCI_GEN4);
}

uint32_t sn_speed_share(const struct sn_speed *speed)
{
	struct sn_speed whole;

	sn_speed_begin(&whole);
	return (uint32_t)((uint64_t)SN_SPEED_WHOLE * carried_mbps(speed) / carried_mbps(&whole));
}

/* ---- changed --------------------------------------------------------------------------------- */

static void changed(struct sn_fabric *fabric, struct sn_nic *nic)
{
	sn_line_speed_changed(fabric, nic);
	sn_sysfs_speed_refresh(fabric, nic);
}

static int lane_find(const char *name)
{
	for (uint32_t i = 0; name && i < N_LANE_SPEEDS; i++)
		if (!strcmp(lane_speeds[i].name, name))
			return (int)i;
	return name ? -EINVAL : SN_LANE_EDR;
}

static int pci_lane_find(const char *name)
{
	for (uint32_t i = 0; name && i < N_PCI_SPEEDS; i++)
		if (!strcmp(pci_speeds[i].name, name))
			return (int)i;
	return name ? -EINVAL : SN_PCI_GEN4;
}

int sn_speed_set_port(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes,
		      const char *lane)
{
	int found = lane_find(lane);

	if (found < 0 || (lanes != 1 && lanes != 2 && lanes != 4 && lanes != 8 && lanes != 12))
		return -EINVAL;
	atomic_store(&nic->cable.speed.lane, (uint32_t)found);
	atomic_store(&nic->cable.speed.lanes, lanes);
	changed(fabric, nic);
	return 0;
}

int sn_speed_set_pci(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t lanes, const char *lane)
{
	int found = pci_lane_find(lane);

	if (found < 0 || !lanes || lanes > PCI_LANES || lanes & (lanes - 1))
		return -EINVAL;
	atomic_store(&nic->cable.speed.pci_lane, (uint32_t)found);
	atomic_store(&nic->cable.speed.pci_lanes, lanes);
	changed(fabric, nic);
	return 0;
}

/* ---- told ------------------------------------------------------------------------------------ */

uint8_t sn_speed_width(const struct sn_speed *speed)
{
	switch (atomic_load(&speed->lanes)) {
	case 1: return 1;
	case 2: return 16;
	case 8: return 4;
	case 12: return 8;
	default: return 2;
	}
}

uint8_t sn_speed_lane(const struct sn_speed *speed)
{
	return (uint8_t)lane_speeds[atomic_load(&speed->lane)].bit;
}

void sn_speed_rate_text(const struct sn_speed *speed, char out[SN_SPEED_TEXT])
{
	uint32_t lanes = atomic_load(&speed->lanes), lane = atomic_load(&speed->lane);
	uint32_t tenths = port_mbps(speed) / 100;

	snprintf(out, SN_SPEED_TEXT, "%u%s Gb/sec (%uX %s)", tenths / 10, tenths % 10 ? ".5" : "",
		 lanes, lane_speeds[lane].name);
}

const char *sn_speed_pci_text(const struct sn_speed *speed)
{
	return pci_speeds[atomic_load(&speed->pci_lane)].text;
}
