/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs on a stand-in for their shared receive queue. */
#ifndef LED_STAND_IN_H
#define LED_STAND_IN_H

#include "providers/ledger/cq.h"

#pragma GCC visibility push(hidden)

void led_stand_in_link(struct sp_qp *qp);
void led_stand_in_unlink(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
