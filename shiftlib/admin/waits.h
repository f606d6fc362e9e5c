/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a connection waits for, as members of its object in the answer to `status`. */
#ifndef SHIFTLIB_ADMIN_WAITS_H
#define SHIFTLIB_ADMIN_WAITS_H

#include <stdint.h>
#include "shiftlib/base/json.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/watch/stall.h"

/* "held": the better NIC to which it does not return yet; nic NULL: none. */
void admin_held(struct sh_json *json, const struct sh_held_path *held);
/* "stalled": since when, and by what; why NULL: it goes on. */
void admin_stalled(struct sh_json *json, const struct sh_stall_why *why, uint64_t ns);

#endif
