/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/object/qp_legal.h"

#include <stddef.h>

struct rule {
	enum ibv_qp_state from, to;
	int needs, allows;
};

/*
 * The changes between states that an RC queue pair can be in while its traffic is on another NIC.
 * None leads to SQD, as on ConnectX: the send queue that would have to drain is another NIC's.
 */
static const struct rule rules[] = {
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
};

static const struct rule *rule_find(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].from == from && rules[i].to == to)
			return &rules[i];
	return NULL;
}

bool sh_qp_legal(enum ibv_qp_state state, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : state;
	int others = mask & ~IBV_QP_STATE;
	const struct rule *rule;

	if ((mask & IBV_QP_STATE) && (to == IBV_QPS_RESET || to == IBV_QPS_ERR))
		return true;
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != state)
		return false;
	rule = rule_find(state, to);
	return rule && (others & rule->needs) == rule->needs &&
	       !(others & ~(rule->needs | rule->allows));
}
