/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The legal modifications of a QP (IBA 10.3.1). */
#ifndef SIMNIC_HOST_QPSTATE_H
#define SIMNIC_HOST_QPSTATE_H

#include <stdint.h>

struct ib_uverbs_modify_qp;

/* 0, or -EINVAL: no such transition, or an attribute that it needs or does not allow. */
int sn_qp_check_modify(uint8_t qp_type, uint32_t current, const struct ib_uverbs_modify_qp *cmd);

#endif
