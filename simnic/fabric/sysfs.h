/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The files below /sys and /dev that libibverbs, libmlx5, perftest, NCCL and UCX read. */
#ifndef SIMNIC_FABRIC_SYSFS_H
#define SIMNIC_FABRIC_SYSFS_H

#include <stdint.h>

struct sn_fabric;
struct sn_nic;

int sn_sysfs_create(const struct sn_fabric *fabric);
void sn_sysfs_port_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_speed_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_pci_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_gids_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_pkeys_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_netdev_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic,
			     const char *old);
/* Renames the NIC's folder, from its old name. */
void sn_sysfs_nic_renamed(const struct sn_fabric *fabric, const struct sn_nic *nic,
			  const char *old);
/* A device that is unplugged is in no list; probed again it is a new entry of the same name. */
void sn_sysfs_nic_hide(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_nic_show(const struct sn_fabric *fabric, const struct sn_nic *nic);
/*
 * Links the first @n devices of a host again, as far as they are there, to be newer than all
 * others.
 */
void sn_sysfs_links_renew(const struct sn_fabric *fabric, uint32_t host, uint32_t n);

#endif
