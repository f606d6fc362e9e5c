/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands that programs send to the device themselves (DEVX), as far as they are about memory keys. */
#ifndef RING_COMMAND_H
#define RING_COMMAND_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

void ring_key_command(const struct ib_uverbs_ioctl_hdr *command, struct sp_key_command *out);
uint32_t ring_pd_number(struct ibv_pd *pd);

#pragma GCC visibility pop

#endif
