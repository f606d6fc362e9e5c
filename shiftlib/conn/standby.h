/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Carriers that are made ahead. */
#ifndef SHIFTLIB_CONN_STANDBY_H
#define SHIFTLIB_CONN_STANDBY_H

#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/core.h"

struct sh_qp;

void sh_standby_make(struct sh_qp *qp, uint32_t epoch, uint8_t path) SH_LOCKED;
void sh_standby_connect(struct sh_qp *qp, uint32_t epoch, const struct sc_address *peer) SH_LOCKED;

#endif
