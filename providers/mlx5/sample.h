/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory keys in use: a sample of what is outstanding. */
#ifndef RING_SAMPLE_H
#define RING_SAMPLE_H

#include "providers/mlx5/base.h"

#pragma GCC visibility push(hidden)

uint32_t ring_qp_keys(struct sp_qp *qp, bool sends, uint32_t turn, struct sp_key *keys,
		      uint32_t room);

#pragma GCC visibility pop

#endif
