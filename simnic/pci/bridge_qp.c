/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: made, asked for, destroyed. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "simnic/pci/bridge_own.h"

#define QP1 1

/* The engine's type of a transport, or -EOPNOTSUPP. */
static int type_of(enum sn_bridge_transport transport)
{
	switch (transport) {
	case SN_BRIDGE_RC:
	case SN_BRIDGE_REG_UMR: return IBV_QPT_RC;
	case SN_BRIDGE_UC: return IBV_QPT_UC;
	case SN_BRIDGE_UD:
	case SN_BRIDGE_QP0:
	case SN_BRIDGE_QP1: return IBV_QPT_UD;
	}
	return -EOPNOTSUPP;
}

static bool qp_is_sane(const struct sn_bridge_qp *qp)
{
	return qp->log_sq <= SN_BRIDGE_MAX_LOG_WQES && qp->log_rq <= SN_BRIDGE_MAX_LOG_WQES &&
	       qp->log_rq_stride <= 12;
}

/* Finds the queues that the QP names. */
static int find_queues(struct sn_bridge *bridge, const struct sn_bridge_qp *qp,
		       struct sn_qp_attr *attr)
{
	const struct sn_bridge_object *scq, *rcq, *srq = NULL;

	scq = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, qp->send_cq);
	rcq = sn_bridge_find(bridge, SN_BRIDGE_IS_CQ, qp->recv_cq);
	if (qp->has_srq)
		srq = sn_bridge_find(bridge, SN_BRIDGE_IS_SRQ, qp->srq);
	if (!scq || !rcq || (qp->has_srq && !srq))
		return -EINVAL;
	attr->scq = scq->cq;
	attr->rcq = rcq->cq;
	attr->srq = srq ? srq->srq : NULL;
	return 0;
}

static struct sn_qp_attr attr_of(const struct sn_bridge_qp *qp)
{
	return (struct sn_qp_attr){
		.type = (uint8_t)type_of(qp->transport),
		.pdn = qp->pd,
		.sq_wqe_cnt = qp->has_sq ? 1u << qp->log_sq : 0,
		.rq_wqe_cnt = qp->has_rq ? 1u << qp->log_rq : 0,
		.rq_wqe_shift = qp->log_rq_stride,
		.uidx = qp->user_index,
		.bfreg_index = qp->uar * SN_BFREGS_PER_UAR,
		.alias = qp->transport == SN_BRIDGE_QP1 ? QP1 : 0,
		.changes_all = qp->transport == SN_BRIDGE_REG_UMR,
		.source_qpn = qp->transport == SN_BRIDGE_QP1 ? QP1 : qp->source_qpn,
		.scatter_to_cqe = qp->cs_res,
		.scatter_to_cqe_send = qp->cs_req,
		.async_fd = -1,
	};
}

int sn_bridge_qp_create(struct sn_bridge *bridge, const struct sn_bridge_qp *qp, uint32_t *qpn)
{
	struct sn_qp_attr attr = attr_of(qp);
	struct sn_bridge_object *object;
	int err = type_of(qp->transport) < 0 ? -EOPNOTSUPP : find_queues(bridge, qp, &attr);

	attr.db = sn_bridge_at(bridge, qp->record, SN_BRIDGE_RECORD_BYTES);
	if (!err && (!qp_is_sane(qp) || !attr.db))
		err = -EINVAL;
	if (err)
		return err;
	object = sn_bridge_make(bridge, SN_BRIDGE_IS_QP, &qp->pages, sn_bridge_ring_bytes(qp));
	if (!object)
		return -errno;
	object->transport = qp->transport;
	attr.buf = object->map.at ? (uint64_t)object->map.at : attr.db; /* a QP without rings */
	attr.user_handle = (uint64_t)object;
	err = sn_qp_create(bridge->dev, &attr, qpn, &object->qp);
	if (err) {
		sn_bridge_discard(bridge, object);
		return err;
	}
	sn_bridge_add(bridge, object, *qpn);
	return 0;
}

int sn_bridge_qp_destroy(struct sn_bridge *bridge, uint32_t qpn)
{
	struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_QP, qpn);
	uint32_t events;
	int err;

	if (!object)
		return -ENOENT;
	err = sn_qp_destroy(object->qp, &events);
	if (!err)
		sn_bridge_drop(bridge, object);
	return err;
}

/* ---- query ---------------------------------------------------------------------------------- */

/* The QPC numbers the last states in another order than verbs. */
static uint8_t state_of(uint8_t state)
{
	return state == IBV_QPS_SQE ? 4 : state == IBV_QPS_SQD ? 5 : state;
}

static uint8_t log_of(uint32_t n)
{
	uint8_t log = 0;

	while (2u << log <= n)
		log++;
	return log;
}

static struct sn_bridge_path path_of(const struct ib_uverbs_query_qp_resp *now)
{
	const struct ib_uverbs_qp_dest *dest = &now->dest;
	struct sn_bridge_path path = {
		.grh = dest->is_global,
		.pkey_index = now->pkey_index,
		.rlid = dest->dlid,
		.sl = dest->sl,
		.rate = dest->static_rate,
		.port = now->port_num,
		.ack_timeout = now->timeout,
		.sgid_index = dest->sgid_index,
		.hop_limit = dest->hop_limit,
		.traffic_class = dest->traffic_class,
		.flow_label = dest->flow_label,
	};

	memcpy(path.rgid, dest->dgid, sizeof(path.rgid));
	return path;
}

int sn_bridge_qp_query(struct sn_bridge *bridge, uint32_t qpn, struct sn_bridge_qpc *qpc)
{
	const struct sn_bridge_object *object = sn_bridge_find(bridge, SN_BRIDGE_IS_QP, qpn);
	struct ib_uverbs_query_qp_resp now;

	if (!object)
		return -ENOENT;
	sn_qp_query(object->qp, &now);
	*qpc = (struct sn_bridge_qpc){
		.path = path_of(&now),
		.remote_qpn = now.dest_qp_num,
		.qkey = now.qkey,
		.next_send_psn = now.sq_psn,
		.next_rcv_psn = now.rq_psn,
		.mtu = now.path_mtu,
		.retry_count = now.retry_cnt,
		.rnr_retry = now.rnr_retry,
		.min_rnr_nak = now.min_rnr_timer,
		.log_sra_max = log_of(now.max_rd_atomic),
		.log_rra_max = log_of(now.max_dest_rd_atomic),
		.rre = now.qp_access_flags & IBV_ACCESS_REMOTE_READ,
		.rwe = now.qp_access_flags & IBV_ACCESS_REMOTE_WRITE,
		.rae = now.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC,
		.state = state_of(now.qp_state),
	};
	sn_qp_counters(object->qp, &qpc->sq_counter, &qpc->rq_counter);
	return 0;
}
