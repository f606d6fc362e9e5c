/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names for status and figures. */
#ifndef SHIFTLIB_ADMIN_NAMES_H
#define SHIFTLIB_ADMIN_NAMES_H

#include "shiftlib/conn/qp.h"

const char *sh_nic_state_name(enum sh_nic_state state);
const char *sh_kv_state(void);

#endif
