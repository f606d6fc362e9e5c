/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* IBA 10.3.1, table 91: legal transitions, the attributes that they need and that they allow. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "simnic/host/qpstate.h"

enum { RC = 1, UC = 2, UD = 4, ALL = RC | UC | UD };

struct rule {
	uint8_t from, to, types;
	uint32_t needs, allows;
};

static const struct rule rules[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, RC | UC,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, RC | UC, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_INIT, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RC,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UC,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_INIT, IBV_QPS_RTR, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RC,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UC, IBV_QP_SQ_PSN,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTR, IBV_QPS_RTS, UD, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QPS_RTS, RC, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		  IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UC, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_SQE, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
};

static uint8_t type_bit(uint8_t qp_type)
{
	return qp_type == IB_UVERBS_QPT_RC ? RC : qp_type == IB_UVERBS_QPT_UC ? UC : UD;
}

static const struct rule *rule_find(uint8_t qp_type, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].from == from && rules[i].to == to &&
		    rules[i].types & type_bit(qp_type))
			return &rules[i];
	return NULL;
}

int sn_qp_check_modify(uint8_t qp_type, uint32_t current, const struct ib_uverbs_modify_qp *cmd)
{
	uint32_t mask = cmd->attr_mask & ~IBV_QP_STATE;
	uint32_t from = cmd->attr_mask & IBV_QP_CUR_STATE ? cmd->cur_qp_state : current;
	uint32_t to = cmd->attr_mask & IBV_QP_STATE ? cmd->qp_state : from;
	const struct rule *rule;

	if (cmd->attr_mask & IBV_QP_STATE && to == IBV_QPS_RESET)
		return 0;
	if (cmd->attr_mask & IBV_QP_STATE && to == IBV_QPS_ERR)
		return from == IBV_QPS_RESET ? -EINVAL : 0;
	rule = rule_find(qp_type, from, to);
	if (!rule || (mask & rule->needs) != rule->needs)
		return -EINVAL;
	return mask & ~(rule->needs | rule->allows) ? -EINVAL : 0;
}
