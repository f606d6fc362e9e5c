/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The memory keys of replicas, as they go into the journal. Lock held. */
#ifndef SHIFTLIB_REPLICA_KEYS_H
#define SHIFTLIB_REPLICA_KEYS_H

#include <stdint.h>

struct sh_mr;

/* Say that a region's shadow on that path has a key, or is about to lose it. */
void sh_replica_key_add(const struct sh_mr *mr, uint8_t path);
void sh_replica_key_remove(const struct sh_mr *mr, uint8_t path);

#endif
