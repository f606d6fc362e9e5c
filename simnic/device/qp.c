/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: life cycle, state machine (IBA 10.3.1), flushing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/generation.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/qpn.h"
#include "simnic/device/receive.h"
#include "simnic/device/requester.h"
#include "simnic/device/srq.h"
#include "simnic/device/uar.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"

void sn_qp_set(struct sn_qp *qp, enum sn_list list)
{
	struct sn_qp **head = &sn_engine.list[list];
	struct sn_place *place = &qp->in[list];

	if (place->link)
		return;
	place->next = *head;
	place->link = head;
	if (place->next)
		place->next->in[list].link = &place->next;
	*head = qp;
	sn_engine.n_dead += list == SN_DEAD;
}

void sn_qp_unset(struct sn_qp *qp, enum sn_list list)
{
	struct sn_place *place = &qp->in[list];

	if (!place->link)
		return;
	SN_ASSERT(*place->link == qp);
	SN_ASSERT(list != SN_DEAD || sn_engine.n_dead);
	*place->link = place->next;
	if (place->next)
		place->next->in[list].link = place->link;
	*place = (struct sn_place){ 0 };
	sn_engine.n_dead -= list == SN_DEAD;
}

void sn_qp_set_busy(struct sn_qp *qp)
{
	sn_qp_set(qp, SN_BUSY);
}

static bool state_sends(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

/* True if its registers, or for ERR its receive record, have to be polled. */
static bool state_is_active(enum ibv_qp_state state)
{
	return state_sends(state) || state == IBV_QPS_ERR;
}

/* Counts for the naps: a trapped device is told of each doorbell. */
static bool is_polled(const struct sn_qp *qp, enum ibv_qp_state state)
{
	return state_is_active(state) && !qp->dev->trapped;
}

static bool owes_answers(const struct sn_qp *qp)
{
	return qp->rsp.ack_due || qp->rsp.answer_due || qp->rsp.rd_head != qp->rsp.rd_tail;
}

bool sn_qp_needs_work(const struct sn_qp *qp)
{
	return qp->req.tx_head != qp->req.tx_tail || qp->req.sq_cons != qp->req.sq_rung ||
	       owes_answers(qp);
}

bool sn_qp_waits(const struct sn_qp *qp)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) && !qp->req.umr_ns &&
	       qp->req.tx_head != qp->req.tx_tail && qp->req.tx_next == qp->req.tx_tail &&
	       qp->req.sq_cons == qp->req.sq_rung && !owes_answers(qp);
}

static void qp_clear_queues(struct sn_qp *qp)
{
	qp->req.sq_cons = qp->req.sq_rung = qp->rsp.rq_cons = 0;
	qp->req.tx_head = qp->req.tx_next = qp->req.tx_tail = qp->req.piece = 0;
	qp->req.rd_outstanding = 0;
	qp->req.rto_ns = qp->req.rnr_ns = qp->req.umr_ns = 0;
	qp->rsp.ack_due = qp->rsp.answer_due = qp->rsp.nak_sent = false;
	qp->rsp.acks_held = 0;
	qp->rsp.rd_head = qp->rsp.rd_tail = 0;
	qp->rsp.replay_next = 0;
	qp->rsp.held = 0;
	memset(qp->rsp.replay, 0, sizeof(qp->rsp.replay));
}

static void qp_set_state(struct sn_qp *qp, enum ibv_qp_state state)
{
	if (state_sends(qp->state) && !state_sends(state))
		sn_gen_end(qp);
	if (!state_sends(qp->state) && state_sends(state))
		sn_gen_begin(qp);
	sn_engine.n_active += is_polled(qp, state);
	SN_ASSERT(sn_engine.n_active >= is_polled(qp, qp->state));
	sn_engine.n_active -= is_polled(qp, qp->state);
	qp->state = state;
}

/* ---- flushing ------------------------------------------------------------------------------- */

static void flush_send(struct sn_qp *qp, uint16_t idx, uint8_t opcode, bool signaled)
{
	if (signaled || !sn_nic_quirk(qp->dev->nic, SN_QUIRK_UNSIGNALED_UNFLUSHED))
		sn_requester_req_err(qp, idx, opcode, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

static void flush_send_window(struct sn_qp *qp)
{
	SN_ASSERT(qp->req.tx_tail - qp->req.tx_head <= SN_WINDOW);
	for (; qp->req.tx_head != qp->req.tx_tail; qp->req.tx_head++) {
		const struct sn_txe *tx = &qp->req.tx[qp->req.tx_head % SN_WINDOW];

		flush_send(qp, tx->idx, tx->opcode, tx->signaled);
	}
	qp->req.tx_next = qp->req.tx_tail;
	qp->req.piece = 0;
	qp->req.rd_outstanding = 0;
}

static bool flush_send_ring(struct sn_qp *qp)
{
	bool worked = false;

	for (; (int16_t)(qp->req.sq_rung - qp->req.sq_cons) > 0; worked = true) {
		uint32_t ctrl[3];
		uint16_t nbb;

		sn_wqe_raw(qp, qp->req.sq_cons, ctrl, sizeof(ctrl));
		nbb = (uint16_t)(((be32toh(ctrl[1]) & 0x3f) + 3) / 4);
		flush_send(qp, qp->req.sq_cons, be32toh(ctrl[0]) & 0xff,
			   be32toh(ctrl[2]) & MLX5_WQE_CTRL_CQ_UPDATE);
		qp->req.sq_cons = (uint16_t)(qp->req.sq_cons + (nbb ? nbb : 1));
	}
	qp->req.sq_cons = qp->req.sq_rung;
	return worked;
}

static bool flush_receives(struct sn_qp *qp)
{
	uint16_t producer = sn_rq_producer(qp);
	bool worked = false;

	if (!qp->attr.rq_wqe_cnt || (uint16_t)(producer - qp->rsp.rq_cons) > qp->attr.rq_wqe_cnt ||
	    sn_nic_quirk(qp->dev->nic, SN_QUIRK_RECEIVES_UNFLUSHED))
		return false;
	for (; qp->rsp.rq_cons != producer; worked = true)
		sn_rq_err(qp, qp->rsp.rq_cons++, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	return worked;
}

/* Flushes in ERR, later posts included (IBA 10.3.1.7). */
bool sn_qp_flush(struct sn_qp *qp)
{
	bool worked = false;

	if (qp->state != IBV_QPS_ERR)
		return false;
	flush_send_window(qp);
	worked = flush_send_ring(qp);
	return flush_receives(qp) || worked;
}

bool sn_qp_flush_posted(struct sn_qp *qp)
{
	return !sn_nic_quirk(qp->dev->nic, SN_QUIRK_LATE_UNFLUSHED) && sn_qp_flush(qp);
}

/*
 * Goes to ERR, without a completion yet. The QP takes nothing more from a shared queue (IBA
 * 10.3.1.6): an event tells its owner, as no flush does.
 */
void sn_qp_stop(struct sn_qp *qp)
{
	sn_rq_flush_held(qp);
	if (qp->attr.srq && qp->state != IBV_QPS_ERR &&
	    !sn_nic_quirk(qp->dev->nic, SN_QUIRK_NO_LAST_WQE))
		sn_async_event(qp->dev, qp->attr.async_fd, qp->attr.user_handle,
			       IBV_EVENT_QP_LAST_WQE_REACHED, &qp->async_events);
	qp_set_state(qp, IBV_QPS_ERR);
	qp->req.rto_ns = qp->req.rnr_ns = qp->req.umr_ns = 0;
	qp->rsp.ack_due = qp->rsp.answer_due = false;
	qp->rsp.rd_head = qp->rsp.rd_tail;
	sn_qp_set_busy(qp);
}

void sn_qp_enter_error(struct sn_qp *qp)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	sn_qp_stop(qp);
	sn_qp_flush(qp);
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static bool power_of_two_or_zero(uint32_t n)
{
	return !(n & (n - 1));
}

static int qp_attr_check(const struct sn_qp_attr *attr)
{
	if (attr->type != IBV_QPT_RC && attr->type != IBV_QPT_UC && attr->type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if (!attr->scq || !attr->rcq || !attr->db || !attr->buf)
		return -EINVAL;
	if (!power_of_two_or_zero(attr->sq_wqe_cnt) || !power_of_two_or_zero(attr->rq_wqe_cnt))
		return -EINVAL;
	if (attr->srq && attr->rq_wqe_cnt)
		return -EINVAL;
	if (attr->alias >= SN_QPN_FIRST || (attr->alias && attr->type != IBV_QPT_UD))
		return -EINVAL;
	if (attr->sq_wqe_cnt > 32768 || attr->rq_wqe_cnt > 32768 || attr->rq_wqe_shift > 12)
		return -EINVAL;
	return 0;
}

static void qp_init(struct sn_qp *qp, struct sn_dev *dev, const struct sn_qp_attr *attr)
{
	qp->dev = dev;
	qp->attr = *attr;
	qp->rq_buf = (uint8_t *)attr->buf;
	qp->sq_buf = qp->rq_buf + ((size_t)attr->rq_wqe_cnt << attr->rq_wqe_shift);
	qp->db = (_Atomic uint32_t *)attr->db;
	qp->reg = attr->bfreg_index;
	qp->state = IBV_QPS_RESET;
	qp->dst_host = qp->dst_nic = -1;
	qp->path_mig_state = IBV_MIG_MIGRATED;
}

static void qp_publish(struct sn_qp *qp)
{
	sn_lock();
	qp->attr.scq->refs++;
	qp->attr.rcq->refs++;
	if (qp->attr.srq)
		qp->attr.srq->refs++;
	qp->dev_next = qp->dev->qps;
	qp->dev_link = &qp->dev->qps;
	if (qp->dev_next)
		qp->dev_next->dev_link = &qp->dev_next;
	qp->dev->qps = qp;
	sn_uar_enter(qp);
	sn_qpn_enter(qp);
	sn_unlock();
}

int sn_qp_create(struct sn_dev *dev, const struct sn_qp_attr *attr, uint32_t *qpn,
		 struct sn_qp **out)
{
	struct sn_qp *qp;
	int rc = qp_attr_check(attr);

	if (rc)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp_init(qp, dev, attr);
	rc = sn_qpn_take(qp);
	if (rc) {
		free(qp);
		return rc;
	}
	qp_publish(qp);
	*qpn = qp->qpn;
	*out = qp;
	return 0;
}

static void qp_unlink_dev(struct sn_qp *qp)
{
	SN_ASSERT(*qp->dev_link == qp);
	*qp->dev_link = qp->dev_next;
	if (qp->dev_next)
		qp->dev_next->dev_link = qp->dev_link;
	sn_uar_leave(qp);
}

static void qp_destroy_locked(struct sn_qp *qp)
{
	SN_ASSERT(sn_lock_held());
	SN_ASSERT(sn_engine.qp_table[qp->dev->nic_index][qp->qpn] == qp);
	SN_ASSERT(qp->attr.scq->refs && qp->attr.rcq->refs);
	SN_ASSERT(!qp->attr.srq || qp->attr.srq->refs);
	sn_uar_scan_of(qp); /* the last doorbells must not be taken for another QP's */
	sn_posted_push_command(qp->dev);
	qp_set_state(qp, IBV_QPS_RESET);
	for (int list = 0; list < SN_LISTS; list++)
		sn_qp_unset(qp, (enum sn_list)list);
	qp_unlink_dev(qp);
	sn_qpn_leave(qp);
	qp->attr.scq->refs--;
	qp->attr.rcq->refs--;
	if (qp->attr.srq)
		qp->attr.srq->refs--;
}

int sn_qp_destroy(struct sn_qp *qp, uint32_t *async_events)
{
	sn_lock();
	qp_destroy_locked(qp);
	sn_unlock();
	*async_events = qp->async_events;
	free(qp);
	return 0;
}

void sn_qp_free_all(struct sn_dev *dev)
{
	struct sn_qp *qp;

	while ((qp = dev->qps)) {
		qp_destroy_locked(qp);
		free(qp);
	}
}

/* ---- modify --------------------------------------------------------------------------------- */

/* IBA 10.3.1, figure 124: which state may follow which. Any may go to RESET and to ERR. */
static bool transition_allowed(enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return true;
	switch (from) {
	case IBV_QPS_RESET: return to == IBV_QPS_INIT;
	case IBV_QPS_INIT: return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
	case IBV_QPS_RTR: return to == IBV_QPS_RTS;
	case IBV_QPS_RTS:
	case IBV_QPS_SQD: return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
	case IBV_QPS_SQE: return to == IBV_QPS_RTS;
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN: break;
	}
	return false;
}

/* Checks values. The command side knows which attributes a transition needs and allows. */
static int modify_check(const struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd,
			enum ibv_qp_state to)
{
	uint32_t reads = atomic_load(&qp->dev->nic->max.reads);

	if ((cmd->attr_mask & IBV_QP_CUR_STATE) && cmd->cur_qp_state != qp->state &&
	    !(qp->state == IBV_QPS_SQE || cmd->cur_qp_state == IBV_QPS_SQE))
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_STATE) && !transition_allowed(qp->state, to))
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_PORT) && cmd->port_num != 1)
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_MAX_QP_RD_ATOMIC) && cmd->max_rd_atomic > reads)
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_MAX_DEST_RD_ATOMIC) && cmd->max_dest_rd_atomic > reads)
		return -EINVAL;
	return 0;
}

static void modify_path(struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	int rc;

	qp->dest = cmd->dest;
	if (qp->dest.is_global)
		rc = sn_wire_find_gid(qp->dest.dgid,
				      sn_nic_vlan_at(qp->dev->nic, qp->dest.sgid_index),
				      &qp->dst_host, &qp->dst_nic);
	else
		rc = sn_wire_find_lid(qp->dev->nic_index, qp->dest.dlid, &qp->dst_host,
				      &qp->dst_nic);
	if (rc) /* nobody there: what is sent gets lost */
		qp->dst_host = qp->dst_nic = -1;
}

static void modify_connection(struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	uint32_t mask = cmd->attr_mask;

	if (mask & IBV_QP_AV)
		modify_path(qp, cmd);
	if (mask & IBV_QP_ALT_PATH) {
		qp->alt.dest = cmd->alt_dest;
		qp->alt.pkey_index = cmd->alt_pkey_index;
		qp->alt.port = cmd->alt_port_num;
		qp->alt.timeout = cmd->alt_timeout;
	}
	if (mask & IBV_QP_DEST_QPN)
		qp->dest_qpn = cmd->dest_qp_num & 0xffffff;
	if (mask & IBV_QP_RQ_PSN) {
		qp->rsp.epsn = qp->rq_psn = cmd->rq_psn & SN_PSN_MASK;
		qp->rsp.executed = 0;
	}
	if (mask & IBV_QP_SQ_PSN)
		qp->req.psn = qp->sq_psn = cmd->sq_psn & SN_PSN_MASK;
	if (mask & IBV_QP_PATH_MTU)
		qp->path_mtu = cmd->path_mtu;
	if (mask & IBV_QP_PATH_MIG_STATE)
		qp->path_mig_state = cmd->path_mig_state;
}

static void modify_attributes(struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	uint32_t mask = cmd->attr_mask;

	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = cmd->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		qp->pkey_index = cmd->pkey_index;
	if (mask & IBV_QP_PORT)
		qp->port = cmd->port_num;
	if (mask & IBV_QP_QKEY)
		qp->qkey = cmd->qkey;
	if (mask & IBV_QP_TIMEOUT)
		qp->timeout = cmd->timeout & 0x1f;
	if (mask & IBV_QP_RETRY_CNT)
		qp->retry_cnt = qp->req.retry_left = cmd->retry_cnt & 7;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = qp->req.rnr_left = cmd->rnr_retry & 7;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->min_rnr_timer = cmd->min_rnr_timer & 0x1f;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->max_rd_atomic = cmd->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		qp->max_dest_rd_atomic = cmd->max_dest_rd_atomic;
	modify_connection(qp, cmd);
}

static void modify_state(struct sn_qp *qp, enum ibv_qp_state to)
{
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
		sn_posted_push_command(qp->dev);
	if (to == IBV_QPS_ERR && qp->state != IBV_QPS_RESET) {
		sn_qp_enter_error(qp);
		return;
	}
	if (to == IBV_QPS_SQD && qp->state == IBV_QPS_RTS)
		sn_async_event(qp->dev, qp->attr.async_fd, qp->attr.user_handle,
			       IBV_EVENT_SQ_DRAINED, &qp->async_events);
	qp_set_state(qp, to);
	if (to == IBV_QPS_RESET)
		qp_clear_queues(qp);
	if (to == IBV_QPS_RESET && sn_nic_quirk(qp->dev->nic, SN_QUIRK_RESET_COMPLETES))
		flush_send(qp, 0, MLX5_OPCODE_NOP, true);
	if (state_is_active(to))
		sn_qp_set_busy(qp);
}

int sn_qp_modify(struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	enum ibv_qp_state to = qp->state;
	int rc;

	if (cmd->attr_mask & IBV_QP_STATE)
		to = cmd->qp_state;
	sn_lock();
	sn_engine.now_ns = sn_clock_ns();
	sn_uar_scan_of(qp); /* doorbells rung before the command belong before it */
	rc = modify_check(qp, cmd, to);
	if (!rc) {
		modify_attributes(qp, cmd);
		if (cmd->attr_mask & IBV_QP_STATE)
			modify_state(qp, to);
	}
	sn_unlock();
	if (!rc)
		sn_engine_kick();
	return rc;
}

int sn_qp_modify_dead(struct sn_qp *qp, uint32_t state)
{
	sn_lock();
	qp_set_state(qp, state);
	if (state == IBV_QPS_RESET)
		qp_clear_queues(qp);
	sn_unlock();
	return 0;
}

int sn_qp_query(struct sn_qp *qp, struct ib_uverbs_query_qp_resp *resp)
{
	memset(resp, 0, sizeof(*resp));
	sn_lock();
	resp->dest = qp->dest;
	resp->alt_dest = qp->alt.dest;
	resp->alt_pkey_index = qp->alt.pkey_index;
	resp->alt_port_num = qp->alt.port;
	resp->alt_timeout = qp->alt.timeout;
	/* the size of the ring, as the kernel's driver says */
	resp->max_recv_wr = qp->attr.rq_wqe_cnt;
	resp->qkey = qp->qkey;
	resp->rq_psn = sn_psn_expected(qp);
	resp->sq_psn = state_is_active(qp->state) ? sn_psn_next_send(qp) : qp->sq_psn;
	resp->dest_qp_num = qp->dest_qpn;
	resp->qp_access_flags = qp->access;
	resp->pkey_index = qp->pkey_index;
	resp->qp_state = resp->cur_qp_state = (uint8_t)qp->state;
	resp->path_mtu = qp->path_mtu;
	resp->path_mig_state = qp->path_mig_state;
	resp->max_rd_atomic = qp->max_rd_atomic;
	resp->max_dest_rd_atomic = qp->max_dest_rd_atomic;
	resp->min_rnr_timer = qp->min_rnr_timer;
	resp->port_num = qp->port;
	resp->timeout = qp->timeout;
	resp->retry_cnt = qp->retry_cnt;
	resp->rnr_retry = qp->rnr_retry;
	resp->sq_sig_all = qp->attr.sig_all;
	sn_unlock();
	return 0;
}

void sn_qp_counters(struct sn_qp *qp, uint16_t *sq, uint16_t *rq)
{
	sn_lock();
	*sq = qp->req.sq_cons;
	*rq = qp->rsp.rq_cons;
	sn_unlock();
}
