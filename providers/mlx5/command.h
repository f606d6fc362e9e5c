/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory keys and queue pairs that programs make by their own commands (DEVX), and memory keys with
 * flags of mlx5 alone.
 */
#ifndef RING_COMMAND_H
#define RING_COMMAND_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

void ring_key_command(const struct ib_uverbs_ioctl_hdr *command, struct sp_key_command *out);
uint32_t ring_pd_number(struct ibv_pd *pd);
int ring_dmabuf_flags(const void *driver, uint32_t *flags);
struct ibv_mr *ring_dmabuf_reg(struct ibv_pd *pd, const struct sp_dmabuf *buf);

#pragma GCC visibility pop

#endif
