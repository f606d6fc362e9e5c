/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The choice of a port's GID where the user names none. libsdr, its plugin for NCCL and sdr_perf
 * call it, so that their connections over one NIC have one address.
 */
#ifndef SDR_GID_GID_H
#define SDR_GID_GID_H

#include <infiniband/verbs.h>

/*
 * Returns the index of the best of a port's first entries, or -1 if the table is empty: RoCE
 * version 2 before version 1, then IPv4 before IPv6, then addresses that routers pass on before
 * those of one link; of equals the first.
 */
int sdr_gid_choose(struct ibv_context *verbs, uint8_t port, int entries);

#endif
