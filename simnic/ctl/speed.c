/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl speed: a port or a PCI link that trained to less than it can */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/ctl/simnicctl.h"
#include "simnic/fabric/speed.h"

static const char usage[] =
	"speed wants NIC port LANESX [SDR...HDR], NIC pci xLANES [2.5|5.0|8.0|16.0], or NIC whole";

/* "4X" */
static uint32_t port_lanes(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	return end != text && !strcmp(end, "X") && n <= 12 ? (uint32_t)n : 0;
}

/* "x16" */
static uint32_t pci_lanes(const char *text)
{
	char *end;
	unsigned long n = *text == 'x' ? strtoul(text + 1, &end, 10) : 0;

	return n && !*end && n <= 16 ? (uint32_t)n : 0;
}

static int whole(struct ctl_nic *nic)
{
	struct sn_speed speed;
	int err;

	sn_speed_begin(&speed);
	err = sn_speed_set_port(nic->fabric, nic->nic, atomic_load(&speed.lanes), NULL);
	if (!err)
		err = sn_speed_set_pci(nic->fabric, nic->nic, atomic_load(&speed.pci_lanes), NULL);
	return err ? CTL_FAILED : CTL_OK;
}

int ctl_speed(int argc, char **argv)
{
	bool port = argc > 3 && !strcmp(argv[2], "port"), pci = argc > 3 && !strcmp(argv[2], "pci");
	const char *lane = argc == 5 ? argv[4] : NULL;
	struct ctl_nic nic;
	int err;

	if (argc == 3 && !strcmp(argv[2], "whole"))
		return ctl_nic(argv[1], &nic) ? whole(&nic) : CTL_FAILED;
	if ((!port && !pci) || argc > 5)
		return ctl_usage("%s", usage);
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	if (port)
		err = sn_speed_set_port(nic.fabric, nic.nic, port_lanes(argv[3]), lane);
	else
		err = sn_speed_set_pci(nic.fabric, nic.nic, pci_lanes(argv[3]), lane);
	return err ? ctl_usage("%s", usage) : CTL_OK;
}
