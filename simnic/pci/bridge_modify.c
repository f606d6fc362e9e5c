/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transitions of queue pairs. A transition sets what IBA 11.2.5.2 demands of it, and of the rest
 * what the command's opt_param_mask names.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "simnic/pci/bridge_own.h"

#define RIGHTS_WANTED (RRE | RAE | RWE)

/* Bits of opt_param_mask, as Linux' mlx5/qp.h has them. */
enum {
	RRE = 1 << 1,
	RAE = 1 << 2,
	RWE = 1 << 3,
	PKEY_INDEX = 1 << 4,
	Q_KEY = 1 << 5,
	RNR_TIMEOUT = 1 << 6,
	PRIMARY_PATH = 1 << 7,
	SRA_MAX = 1 << 8,
	RRA_MAX = 1 << 9,
	RETRY_COUNT = 1 << 12,
	RNR_RETRY = 1 << 13,
	ACK_TIMEOUT = 1 << 14,
	PRIMARY_PORT = 1 << 16,
};

/* From which states a transition goes, to which, and the attributes that belong to it. */
struct step {
	enum sn_bridge_transition transition;
	uint32_t from; /* bits of enum ibv_qp_state */
	enum ibv_qp_state to;
	uint32_t rc, uc, ud; /* enum ibv_qp_attr_mask, by transport */
};

enum {
	INIT_ALL = IBV_QP_PKEY_INDEX | IBV_QP_PORT,
	RTR_UC = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RTR_RC = RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RTS_RC = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC,
};

static const struct step steps[] = {
	{ SN_BRIDGE_RST2INIT, 1u << IBV_QPS_RESET, IBV_QPS_INIT, INIT_ALL | IBV_QP_ACCESS_FLAGS,
	  INIT_ALL | IBV_QP_ACCESS_FLAGS, INIT_ALL | IBV_QP_QKEY },
	{ SN_BRIDGE_INIT2INIT, 1u << IBV_QPS_INIT, IBV_QPS_INIT, 0, 0, 0 },
	{ SN_BRIDGE_INIT2RTR, 1u << IBV_QPS_INIT, IBV_QPS_RTR, RTR_RC, RTR_UC, 0 },
	{ SN_BRIDGE_RTR2RTS, 1u << IBV_QPS_RTR, IBV_QPS_RTS, RTS_RC, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN },
	{ SN_BRIDGE_RTS2RTS, 1u << IBV_QPS_RTS, IBV_QPS_RTS, 0, 0, 0 },
	{ SN_BRIDGE_SQERR2RTS, 1u << IBV_QPS_SQE, IBV_QPS_RTS, 0, 0, 0 },
	{ SN_BRIDGE_2ERR, ~0u, IBV_QPS_ERR, 0, 0, 0 },
	{ SN_BRIDGE_2RST, ~0u, IBV_QPS_RESET, 0, 0, 0 },
};

static const struct step *step_of(enum sn_bridge_transition transition)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].transition == transition)
			return &steps[i];
	return NULL;
}

static uint32_t demanded(const struct step *step, enum sn_bridge_transport transport)
{
	switch (transport) {
	case SN_BRIDGE_RC: return step->rc;
	case SN_BRIDGE_REG_UMR: return step->rc & (INIT_ALL | IBV_QP_SQ_PSN); /* goes nowhere */
	case SN_BRIDGE_UC: return step->uc;
	case SN_BRIDGE_UD:
	case SN_BRIDGE_QP0:
	case SN_BRIDGE_QP1: break;
	}
	return step->ud;
}

static uint32_t named(uint32_t opt_param_mask)
{
	static const struct {
		uint32_t bit, attr;
	} of[] = {
		{ RRE | RAE | RWE, IBV_QP_ACCESS_FLAGS },
		{ PKEY_INDEX, IBV_QP_PKEY_INDEX },
		{ Q_KEY, IBV_QP_QKEY },
		{ RNR_TIMEOUT, IBV_QP_MIN_RNR_TIMER },
		{ PRIMARY_PATH, IBV_QP_AV },
		{ SRA_MAX, IBV_QP_MAX_QP_RD_ATOMIC },
		{ RRA_MAX, IBV_QP_MAX_DEST_RD_ATOMIC },
		{ RETRY_COUNT, IBV_QP_RETRY_CNT },
		{ RNR_RETRY, IBV_QP_RNR_RETRY },
		{ ACK_TIMEOUT, IBV_QP_TIMEOUT },
		{ PRIMARY_PORT, IBV_QP_PORT },
	};
	uint32_t mask = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (opt_param_mask & of[i].bit)
			mask |= of[i].attr;
	return mask;
}

/* Each right has a bit of its own in opt_param_mask; those not named stay as they are. */
static uint32_t rights(const struct sn_bridge_qpc *qpc, uint32_t wanted, uint32_t now)
{
	const struct {
		uint32_t bit, access;
		bool given;
	} of[] = {
		{ RRE, IBV_ACCESS_REMOTE_READ, qpc->rre },
		{ RWE, IBV_ACCESS_REMOTE_WRITE, qpc->rwe },
		{ RAE, IBV_ACCESS_REMOTE_ATOMIC, qpc->rae },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (wanted & of[i].bit)
			now = of[i].given ? now | of[i].access : now & ~of[i].access;
	return now;
}

/* RoCE has no addresses but GIDs, and no flag for them in the path. */
static struct ib_uverbs_qp_dest dest_of(const struct sn_bridge *bridge,
					const struct sn_bridge_path *path)
{
	struct ib_uverbs_qp_dest dest = {
		.flow_label = path->flow_label,
		.dlid = path->rlid,
		.sgid_index = path->sgid_index,
		.hop_limit = path->hop_limit,
		.traffic_class = path->traffic_class,
		.sl = path->sl,
		.static_rate = path->rate,
		.is_global = path->grh || bridge->nic->link_layer == SN_LINK_ETH,
		.port_num = path->port,
	};

	memcpy(dest.dgid, path->rgid, sizeof(dest.dgid));
	return dest;
}

static void take_qpc(const struct sn_bridge *bridge, const struct sn_bridge_qpc *qpc,
		     struct ib_uverbs_modify_qp *cmd)
{
	cmd->dest = dest_of(bridge, &qpc->path);
	cmd->pkey_index = qpc->path.pkey_index;
	cmd->port_num = qpc->path.port;
	cmd->timeout = qpc->path.ack_timeout;
	cmd->dest_qp_num = qpc->remote_qpn;
	cmd->qkey = qpc->qkey;
	cmd->sq_psn = qpc->next_send_psn;
	cmd->rq_psn = qpc->next_rcv_psn;
	cmd->path_mtu = qpc->mtu;
	cmd->retry_cnt = qpc->retry_count;
	cmd->rnr_retry = qpc->rnr_retry;
	cmd->min_rnr_timer = qpc->min_rnr_nak;
	cmd->max_rd_atomic = (uint8_t)(1u << (qpc->log_sra_max & 7));
	cmd->max_dest_rd_atomic = (uint8_t)(1u << (qpc->log_rra_max & 7));
}

static int check(const struct sn_bridge *bridge, const struct ib_uverbs_modify_qp *cmd)
{
	if (cmd->attr_mask & IBV_QP_PKEY_INDEX && cmd->pkey_index >= sn_nic_pkeys(bridge->nic))
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_PATH_MTU &&
	    (cmd->path_mtu < IBV_MTU_256 || cmd->path_mtu > IBV_MTU_4096))
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_AV && cmd->dest.is_global &&
	    cmd->dest.sgid_index >= SN_MAX_GIDS)
		return -EINVAL;
	return 0;
}

int sn_bridge_qp_modify(struct sn_bridge *bridge, uint32_t qpn,
			enum sn_bridge_transition transition, uint32_t opt_param_mask,
			const struct sn_bridge_qpc *qpc)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_QP, qpn);
	const struct step *step = step_of(transition);
	struct ib_uverbs_modify_qp cmd = { .attr_mask = IBV_QP_STATE };
	struct ib_uverbs_query_qp_resp now;
	uint32_t wanted = opt_param_mask;
	int err;

	if (!object)
		return -ENOENT;
	sn_qp_query(object->qp, &now);
	if (!step || !(step->from & 1u << now.qp_state))
		return -EINVAL;
	cmd.qp_state = (uint8_t)step->to;
	if (qpc && transition != SN_BRIDGE_2ERR && transition != SN_BRIDGE_2RST) {
		cmd.attr_mask |= demanded(step, object->transport) | named(opt_param_mask);
		take_qpc(bridge, qpc, &cmd);
		if (transition == SN_BRIDGE_RST2INIT)
			wanted |= RIGHTS_WANTED;
		cmd.qp_access_flags = rights(qpc, wanted, now.qp_access_flags);
	}
	err = check(bridge, &cmd);
	return err ? err : sn_qp_modify(object->qp, &cmd);
}
