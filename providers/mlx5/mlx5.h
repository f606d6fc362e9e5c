/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The engine of this folder. For the table of engines, and for its own tests. */
#ifndef SHIFT_MLX5_H
#define SHIFT_MLX5_H

#include "providers/provider.h"

extern const struct shift_provider shift_provider_mlx5;

#endif
