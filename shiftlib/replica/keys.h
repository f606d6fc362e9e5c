/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory keys of replicas, as they go into the journal. */
#ifndef SHIFTLIB_REPLICA_KEYS_H
#define SHIFTLIB_REPLICA_KEYS_H

#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_mr;

/* Say that a region's shadow on that path has a key, or is about to lose it. */
void sh_replica_key_add(const struct sh_mr *mr, uint8_t path) SH_LOCKED;
void sh_replica_key_remove(const struct sh_mr *mr, uint8_t path) SH_LOCKED;

#endif
