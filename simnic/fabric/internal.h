/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Between the files of this folder. */
#ifndef SIMNIC_FABRIC_INTERNAL_H
#define SIMNIC_FABRIC_INTERNAL_H

#include "simnic/fabric.h"

int sn_fabric_dir(const char *name, char *buf, size_t len);
int sn_fabric_map(int fd, struct sn_fabric **out);

/* sysfs.c: what libibverbs, libmlx5, perftest, NCCL and UCX read below /sys and /dev. */
int sn_sysfs_create(const struct sn_fabric *fabric);
void sn_sysfs_port_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_gids_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_netdev_refresh(const struct sn_fabric *fabric, const struct sn_nic *nic,
			     const char *old);
/* A device that is unplugged is in no list; probed again it is a new entry of the same name. */
void sn_sysfs_nic_hide(const struct sn_fabric *fabric, const struct sn_nic *nic);
void sn_sysfs_nic_show(const struct sn_fabric *fabric, const struct sn_nic *nic);

/* nic.c */
void sn_nic_gid(struct sn_nic *nic, bool ipv6); /* its address, of Ethernet */
void sn_nic_begin(struct sn_nic *nic);
void sn_nic_incarnate(struct sn_nic *nic); /* keys and QPNs of its next life */

#endif
