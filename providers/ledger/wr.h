/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_wr_*. */
#ifndef LED_WR_H
#define LED_WR_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

void led_wr_install(struct sp_qp *qp);
void led_wr_restore(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
