/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ring engine, as the table of engines names it, and its own tests. */
#ifndef SHIFT_MLX5_H
#define SHIFT_MLX5_H

#include "providers/provider.h"

extern const struct shift_provider shift_provider_mlx5;

#endif
