/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/attr.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "simnic/cm/address.h"
#include "simnic/cm/id.h"
#include "simnic/fabric/fabric.h"

#define UDP_QKEY      0x01234567
#define HOP_LIMIT     64
#define ACK_DELAY     16 /* local_ca_ack_delay of the NICs */
#define TIMEOUT_MOST  31
#define ACCESS_WRITES IBV_ACCESS_REMOTE_WRITE
#define ACCESS_READS  (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

uint32_t sn_cm_qkey(const struct sn_cm_id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IB ? UDP_QKEY : 0;
}

uint16_t sn_cm_pkey(const struct sn_cm_id *id)
{
	return id->nic ? atomic_load(&id->nic->tenant.pkey[0]) : 0;
}

uint8_t sn_cm_life_time(const struct sn_cm_id *id)
{
	return id->options.ack_timeout ? id->options.ack_timeout - 1 : SN_CM_LIFE_TIME;
}

/*
 * The timeout of the queue pair: both ways of a packet, and the time that the other NIC may take
 * (IBA 12.7.34), as ib_cm rounds it.
 */
static uint8_t ack_timeout(const struct sn_cm_id *id)
{
	uint8_t timeout = sn_cm_life_time(id) + 1;

	if (timeout >= ACK_DELAY)
		timeout += ACK_DELAY >= timeout - 1;
	else
		timeout = ACK_DELAY + (timeout >= ACK_DELAY - 1);
	return timeout < TIMEOUT_MOST ? timeout : TIMEOUT_MOST;
}

void sn_cm_ah_attr(const struct sn_cm_id *id, struct ib_uverbs_ah_attr *attr)
{
	const struct sn_nic *peer = &sn_cm.fabric->nic[id->peer.host][id->peer.nic];

	*attr = (struct ib_uverbs_ah_attr){ .port_num = 1 };
	if (id->nic->link_layer == SN_LINK_IB) {
		attr->dlid = peer->lid;
		return;
	}
	attr->is_global = 1;
	sn_cm_dgid(id, attr->grh.dgid);
	attr->grh.sgid_index = (uint8_t)id->gid_index;
	attr->grh.hop_limit = HOP_LIMIT;
	attr->grh.traffic_class = id->options.tos;
}

/* True if queue pairs of both ends may send from the state that the dialog has come to. */
static bool may_connect(const struct sn_cm_id *id)
{
	return id->dialog == SN_CM_REQ_RCVD || id->dialog == SN_CM_REP_RCVD ||
	       id->dialog == SN_CM_REP_SENT || id->dialog == SN_CM_ESTABLISHED;
}

static void attr_init(const struct sn_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->port_num = 1;
	if (id->qp_type == IBV_QPT_UD) {
		attr->qp_attr_mask |= IBV_QP_QKEY;
		attr->qkey = sn_cm_qkey(id);
		return;
	}
	attr->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	if (id->state != SN_CM_CONNECT)
		return;
	attr->qp_access_flags = ACCESS_WRITES;
	if (id->terms.responder_resources)
		attr->qp_access_flags |= ACCESS_READS;
}

static int attr_rtr(const struct sn_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	if (!may_connect(id))
		return -EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	sn_cm_ah_attr(id, &attr->ah_attr);
	attr->path_mtu = id->terms.mtu;
	attr->dest_qp_num = id->peer.qpn;
	attr->rq_psn = id->terms.rq_psn;
	attr->max_dest_rd_atomic = id->terms.responder_resources;
	attr->min_rnr_timer = id->options.min_rnr_timer;
	return 0;
}

static int attr_rts(const struct sn_cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	if (!may_connect(id))
		return -EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
	attr->sq_psn = id->terms.sq_psn;
	attr->retry_cnt = id->terms.retry_count;
	attr->rnr_retry = id->terms.rnr_retry_count;
	attr->max_rd_atomic = id->terms.initiator_depth;
	attr->timeout = ack_timeout(id);
	return 0;
}

int sn_cm_qp_attr(const struct sn_cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *attr)
{
	*attr = (struct ib_uverbs_qp_attr){ .qp_state = qp_state };
	if (!id->nic)
		return -EINVAL;
	switch (qp_state) {
	case IBV_QPS_INIT: attr_init(id, attr); return 0;
	case IBV_QPS_RTR: return attr_rtr(id, attr);
	case IBV_QPS_RTS: return attr_rts(id, attr);
	default: return -EINVAL;
	}
}
