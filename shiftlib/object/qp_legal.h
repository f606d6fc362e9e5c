/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The legal modifications of a connected queue pair (IBA 10.3.1, table 91), where no NIC can be
 * asked.
 */
#ifndef SHIFTLIB_OBJECT_QP_LEGAL_H
#define SHIFTLIB_OBJECT_QP_LEGAL_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * True if legal. state: the RC queue pair's, as the application believes. The values of
 * attributes are not looked at.
 */
bool sh_qp_legal(enum ibv_qp_state state, const struct ibv_qp_attr *attr, int mask);

#endif
