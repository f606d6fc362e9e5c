/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What libibverbs, libmlx5, perftest, NCCL and UCX read below /sys and /dev, as files. */
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
/* Its folder, from the name that it had. */
void sn_sysfs_nic_renamed(const struct sn_fabric *fabric, const struct sn_nic *nic,
			  const char *old);
/* A device that is unplugged is in no list; probed again it is a new entry of the same name. */
void sn_sysfs_nic_hide(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_nic_show(const struct sn_fabric *fabric, const struct sn_nic *nic);
/* The first @n of a host are linked again, to be newer than all else: those that are there. */
void sn_sysfs_links_renew(const struct sn_fabric *fabric, uint32_t host, uint32_t n);

#endif
