/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names for status and figures. */
#ifndef SHIFTLIB_ADMIN_NAMES_H
#define SHIFTLIB_ADMIN_NAMES_H

#include "shiftlib/conn/qp.h"

const char *sh_level_name(enum sh_level level);
const char *sh_nic_state_name(enum sh_nic_state state);
const char *sh_kv_state(void);

/* admin_metrics.c: its traffic runs on that path from now on; 0 also when it ends. Lock held. */
void sh_metrics_path(struct sh_qp *qp, uint8_t path);

#endif
