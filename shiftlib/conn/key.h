/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Questions about memory keys: does a key of a connection's requests name a region? */
#ifndef SHIFTLIB_CONN_KEY_H
#define SHIFTLIB_CONN_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_qp;

/*
 * Returns whether the peer has told of that key, for any of its NICs: then it knows the region,
 * and tells of it for the NIC of a move in time.
 */
bool sh_key_told(const struct sh_qp *qp, uint32_t rkey) SH_LOCKED;
/*
 * Returns whether no region that SHIFT knows has the key, here or (remote) at the peer: gone,
 * or never told.
 */
bool sh_key_unknown(const struct sh_qp *qp, uint32_t key, bool remote) SH_LOCKED;

#endif
