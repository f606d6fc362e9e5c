/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester: send queue to wire. It has a window of messages, each with the PSNs of its
 * packets. After a timeout, a sequence error or RNR it goes back to the first packet that has no
 * acknowledgement (IBA 9.7.8). Messages retire strictly in order.
 */
#include <errno.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/generation.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/requester.h"
#include "simnic/device/stage.h"
#include "simnic/device/ud.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

#define TIMEOUT_UNIT_NS 4096 /* IBA 9.7.6.1.3: 4.096 us * 2^timeout */
#define SEND_BATCH	64   /* requests per turn and QP */
#define RNR_FOREVER	7
#define UMR_LATE_NS	40000 /* longest time from a UMR's turn to its effect */
#define FENCE_MODES	0xe0  /* bits of fm_ce_se */
#define UC_TIMEOUT	10    /* time-out after which a message counts as sent */

enum req_step {
	REQ_GO,
	REQ_SENT,
	REQ_SENT_PIECE, /* more of the message follows */
	REQ_IDLE,	/* nothing to send */
	REQ_NOT_READY,	/* state or an RNR wait forbids it */
	REQ_WINDOW_FULL,
	REQ_SEND_FENCE,	  /* has IBV_SEND_FENCE and waits for READs and atomics before it */
	REQ_RD_LIMIT,	  /* max_rd_atomic are outstanding */
	REQ_BACKPRESSURE, /* the receiver's inbox is full, or the path is paused */
};

static struct sn_txe *tx_at(struct sn_qp *qp, uint32_t i)
{
	return &qp->req.tx[i % SN_WINDOW];
}

static void next_message(struct sn_qp *qp)
{
	SN_ASSERT(qp->req.tx_next != qp->req.tx_tail);
	qp->req.tx_next++;
	qp->req.piece = 0;
}

static void head_leaves(struct sn_qp *qp)
{
	SN_ASSERT(qp->req.tx_head != qp->req.tx_tail);
	if (qp->req.tx_next == qp->req.tx_head)
		next_message(qp);
	qp->req.tx_head++;
}

void sn_requester_go_back(struct sn_qp *qp)
{
	qp->req.tx_next = qp->req.tx_head;
	qp->req.piece = 0;
}

/* ---- completions ---------------------------------------------------------------------------- */

void sn_requester_req_err(struct sn_qp *qp, uint16_t idx, uint8_t opcode, uint8_t syndrome)
{
	struct mlx5_err_cqe cqe = { .srqn = htobe32(qp->attr.uidx),
				    .syndrome = syndrome,
				    .s_wqe_opcode_qpn = htobe32((uint32_t)opcode << 24 | qp->qpn),
				    .wqe_counter = htobe16(idx),
				    .op_own = MLX5_CQE_REQ_ERR << 4 };

	sn_cq_push(qp->attr.scq, (struct mlx5_cqe64 *)&cqe, NULL, 0, false);
}

static void tx_complete(struct sn_qp *qp, struct sn_txe *tx)
{
	struct mlx5_cqe64 cqe = { .srqn_uidx = htobe32(qp->attr.uidx),
				  .byte_cnt = htobe32((uint32_t)tx->length),
				  .sop_drop_qpn = htobe32((uint32_t)tx->opcode << 24 | qp->qpn),
				  .wqe_counter = htobe16(tx->idx),
				  .op_own = MLX5_CQE_REQ << 4 };

	if (tx->signaled)
		sn_cq_push(qp->attr.scq, &cqe, tx->to_cqe ? tx->data : NULL, (uint32_t)tx->length,
			   false);
}

/*
 * The oldest message fails; the rest is flushed (IBA 10.10.3.2). First the QP stops: with its error
 * completion a buffer is the application's again, and nobody may read it any more.
 */
static void requester_fail(struct sn_qp *qp, uint8_t syndrome)
{
	const struct sn_txe *tx = tx_at(qp, sn_nic_quirk(qp->dev->nic, SN_QUIRK_ERROR_NAMES_LAST)
						    ? qp->req.tx_tail - 1
						    : qp->req.tx_head);

	sn_qp_stop(qp);
	sn_requester_req_err(qp, tx->idx, tx->opcode, syndrome);
	head_leaves(qp);
	sn_qp_flush(qp);
}

void sn_requester_complete(struct sn_qp *qp)
{
	struct sn_txe *tx;

	while (qp->req.tx_head != qp->req.tx_tail) {
		tx = tx_at(qp, qp->req.tx_head);
		if (tx->syndrome) {
			requester_fail(qp, tx->syndrome);
			return;
		}
		if (!tx->done)
			return;
		SN_ASSERT(!tx->rd_atomic || qp->req.rd_outstanding);
		if (tx->rd_atomic)
			qp->req.rd_outstanding--;
		tx_complete(qp, tx);
		head_leaves(qp);
	}
}

/* ---- decoding into the window --------------------------------------------------------------- */

static bool opcode_is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
}

static bool opcode_reads(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_RDMA_READ || opcode_is_atomic(opcode);
}

static bool waits_for_answer(const struct sn_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

static enum req_step check_state(const struct sn_qp *qp)
{
	if (qp->state != IBV_QPS_RTS)
		return REQ_NOT_READY;
	if (qp->req.rnr_ns && qp->req.rnr_ns > sn_engine.now_ns)
		return REQ_NOT_READY;
	return REQ_GO;
}

static enum req_step check_queue(const struct sn_qp *qp)
{
	const struct sn_txe *last = &qp->req.tx[(qp->req.tx_tail - 1) % SN_WINDOW];

	if (qp->req.sq_cons == qp->req.sq_rung)
		return REQ_IDLE;
	if (qp->req.tx_tail - qp->req.tx_head == SN_WINDOW)
		return REQ_WINDOW_FULL;
	/* Nothing behind a request that will fail is executed any more. */
	if (qp->req.tx_tail != qp->req.tx_head && last->syndrome)
		return REQ_IDLE;
	return REQ_GO;
}

static enum req_step check_order(const struct sn_qp *qp, const struct sn_wqe *wqe)
{
	if ((wqe->fm_ce_se & MLX5_WQE_CTRL_FENCE) && qp->req.rd_outstanding &&
	    !sn_nic_quirk(qp->dev->nic, SN_QUIRK_FENCE_IGNORED))
		return REQ_SEND_FENCE;
	/*
	 * Any fence waits for UMRs; the small one (MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE) waits for
	 * them alone.
	 */
	if ((wqe->fm_ce_se & FENCE_MODES) && qp->req.umr_ns)
		return REQ_SEND_FENCE;
	if (opcode_reads(wqe->opcode) && qp->req.rd_outstanding >= qp->max_rd_atomic)
		return REQ_RD_LIMIT;
	if (sn_psn_window_full(qp, sn_psn_count(wqe->length, qp->path_mtu)))
		return REQ_WINDOW_FULL;
	return REQ_GO;
}

static void window_add(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	struct sn_txe *tx = tx_at(qp, qp->req.tx_tail++);

	SN_ASSERT(qp->req.tx_tail - qp->req.tx_head <= SN_WINDOW);
	memset(tx, 0, offsetof(struct sn_txe, data));
	tx->idx = wqe->idx;
	tx->opcode = wqe->opcode;
	tx->syndrome = wqe->syndrome;
	tx->signaled = qp->attr.sig_all ||
		       (wqe->fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE) == MLX5_WQE_CTRL_CQ_UPDATE;
	tx->rd_atomic = opcode_reads(wqe->opcode) && !wqe->syndrome;
	tx->length = wqe->length;
	tx->to_cqe = tx->rd_atomic && tx->signaled && qp->attr.scatter_to_cqe_send && wqe->length &&
		     wqe->length <= sn_cq_scatter_limit(qp->attr.scq);
	tx->psn = qp->req.psn;
	qp->req.rd_outstanding += tx->rd_atomic;
	qp->req.sq_cons = (uint16_t)(qp->req.sq_cons + wqe->nbb);
	if (wqe->opcode == MLX5_OPCODE_NOP || wqe->opcode == MLX5_OPCODE_UMR || tx->syndrome)
		return; /* never on the wire: takes no PSN */
	tx->packets = opcode_is_atomic(wqe->opcode) ? 1 : sn_psn_count(wqe->length, qp->path_mtu);
	qp->req.psn = sn_psn_add(qp->req.psn, tx->packets);
}

/* ---- building packets ----------------------------------------------------------------------- */

static enum sn_pkt_op wire_op(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM: return SN_PKT_WRITE;
	case MLX5_OPCODE_RDMA_READ: return SN_PKT_READ;
	case MLX5_OPCODE_ATOMIC_CS: return SN_PKT_CMP_SWAP;
	case MLX5_OPCODE_ATOMIC_FA: return SN_PKT_FETCH_ADD;
	default: return SN_PKT_SEND;
	}
}

static void pkt_headers(const struct sn_qp *qp, struct sn_pkt *pkt, const struct sn_wqe *wqe,
			const struct sn_txe *tx)
{
	pkt->psn = tx->psn;
	pkt->mtu = qp->path_mtu;
	pkt->first = sn_psn_next_packet(qp);
	pkt->length = wqe->length;
	if ((pkt->op == SN_PKT_SEND || pkt->op == SN_PKT_WRITE) && sn_wire_is_long(pkt))
		pkt->flags |= SN_PKT_F_PIECE;
	pkt->raddr = wqe->raddr;
	pkt->rkey = wqe->rkey;
	pkt->atomic_a = wqe->swap_add;
	pkt->atomic_b = wqe->compare;
	if (qp->req.torn && wqe->idx == qp->req.torn_idx)
		pkt->raddr ^= sizeof(uint64_t);
	pkt->imm = wqe->imm;
	pkt->has_imm =
		wqe->opcode == MLX5_OPCODE_SEND_IMM || wqe->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
	if (wqe->opcode == MLX5_OPCODE_SEND_INVAL)
		pkt->flags |= SN_PKT_F_INVALIDATE;
	pkt->solicited = !!(wqe->fm_ce_se & MLX5_WQE_CTRL_SOLICITED);
}

/*
 * The receiver pulls long payload itself; it needs our own addresses. A guest's are read here once,
 * too: what is out of this NIC's reach is met by this NIC.
 */
static int list_payload(const struct sn_qp *qp, struct sn_pkt *pkt, const struct iovec *iov, int n)
{
	int i;

	if (n > SN_PKT_MAX_SGE)
		return -EINVAL;
	if (qp->dev->trapped && !pkt->first)
		sn_copy_touch(iov, (uint32_t)n);
	for (i = 0; i < n; i++) {
		pkt->sge[i].addr = (uint64_t)iov[i].iov_base;
		pkt->sge[i].len = (uint32_t)iov[i].iov_len;
	}
	pkt->n_sge = (uint32_t)n;
	return 0;
}

/*
 * True if a UC message has left whole with this packet. Nobody tells an unreliable connection that
 * its buffer was read, so its payload is copied at departure, packet by packet where the cable is
 * long.
 */
static bool leaves_whole(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (qp->attr.type != IBV_QPT_UC)
		return false;
	return pkt->flags & SN_PKT_F_PIECE ? sn_psn_is_last(pkt) : pkt->length <= SN_STAGE_BYTES;
}

static int pkt_payload(struct sn_qp *qp, struct sn_pkt *pkt, const struct sn_wqe *wqe)
{
	struct iovec iov[SN_WQE_MAX_SGE];
	bool reads = opcode_reads(wqe->opcode);
	int n = sn_wqe_gather(qp, wqe, reads ? IBV_ACCESS_LOCAL_WRITE : 0, iov);

	if (n < 0 || reads)
		return n < 0 ? n : 0;
	sn_posted_push_under(qp->dev, iov, (uint32_t)n);
	if (pkt->flags & SN_PKT_F_PIECE)
		return list_payload(qp, pkt, iov, n);
	if (leaves_whole(qp, pkt) || wqe->length <= SN_PKT_INLINE)
		return sn_stage_put(pkt, iov, (uint32_t)n, wqe->length);
	return list_payload(qp, pkt, iov, n);
}

/* ---- transmitting --------------------------------------------------------------------------- */

static void timer_start(struct sn_qp *qp)
{
	bool uc = qp->attr.type == IBV_QPT_UC;
	uint8_t timeout = uc ? UC_TIMEOUT : qp->timeout;
	uint64_t percent = uc ? 100 : atomic_load(&qp->dev->nic->slow.retry_percent);

	if (timeout)
		qp->req.rto_ns =
			sn_engine.now_ns + ((uint64_t)TIMEOUT_UNIT_NS << timeout) * percent / 100;
}

/* Counts packets on a long cable, else messages. */
static void count_sent(struct sn_qp *qp, struct sn_txe *tx, const struct sn_pkt *pkt)
{
	uint32_t upto = pkt->flags & SN_PKT_F_PIECE ? pkt->first + 1 : tx->packets;

	if (upto <= tx->sent)
		sn_count(&qp->dev->nic->count.rc_retransmits, 1);
	else
		tx->sent = upto;
}

static enum req_step transmit(struct sn_qp *qp, struct sn_txe *tx, const struct sn_wqe *wqe)
{
	struct sn_pkt *pkt = &sn_engine.tx;
	int rc;

	sn_wire_prepare(qp, pkt, wire_op(wqe->opcode));
	pkt_headers(qp, pkt, wqe, tx);
	rc = pkt_payload(qp, pkt, wqe);
	if (!rc && pkt->length && sn_wire_blind(qp)) {
		sn_stage_release(pkt);
		rc = -EACCES;
	}
	if (rc == -EAGAIN)
		return REQ_BACKPRESSURE;
	if (rc) {
		tx->syndrome = rc == -EACCES ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
					     : MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		return REQ_GO;
	}
	if (wqe->length > (1u << 31)) {
		tx->syndrome = MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
		return REQ_GO;
	}
	if (sn_wire_send(qp, pkt) == -ENOBUFS)
		return REQ_BACKPRESSURE;
	count_sent(qp, tx, pkt);
	sn_wire_sent(qp);
	tx->done = leaves_whole(qp, pkt);
	if (!qp->req.rto_ns)
		timer_start(qp);
	qp->req.piece = pkt->first + 1;
	return sn_psn_is_last(pkt) ? REQ_SENT : REQ_SENT_PIECE;
}

static enum req_step transmit_ud(struct sn_qp *qp, struct sn_txe *tx, const struct sn_wqe *wqe)
{
	int rc = sn_ud_send(qp, wqe);

	if (rc == -EAGAIN || rc == -ENOBUFS)
		return REQ_BACKPRESSURE;
	if (rc)
		tx->syndrome = rc == -EACCES ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
					     : MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	tx->done = true;
	return REQ_GO;
}

static void nop_done(struct sn_qp *qp, struct sn_txe *tx)
{
	if (!tx->done && sn_nic_quirk(qp->dev->nic, SN_QUIRK_NOP_EARLY)) {
		tx_complete(qp, tx);
		tx->signaled = false;
	}
	tx->done = true;
}

/* A list is fetched, and written back, while what is behind the request goes on by the old one. */
static void umr_begins(struct sn_qp *qp, struct sn_txe *tx, const struct sn_wqe *wqe)
{
	if (tx->done || tx->syndrome || tx->under_way)
		return;
	if (!wqe->to_indirect && !wqe->to_paged) {
		tx->syndrome = sn_window_bind(qp, &wqe->bind);
		tx->done = true;
		return;
	}
	tx->under_way = true;
	if (!qp->req.umr_ns)
		qp->req.umr_ns = sn_engine.now_ns + 1 + sn_psn_dice(UMR_LATE_NS);
}

static uint8_t key_changes(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	if (wqe->syndrome || (!wqe->to_indirect && !wqe->to_paged))
		return MLX5_CQE_SYNDROME_MW_BIND_ERR;
	return wqe->to_paged ? sn_repage(qp, &wqe->repage) : sn_indirect_change(qp, &wqe->umr);
}

/* The request is in the ring until it is complete. */
static void umr_takes_effect(struct sn_qp *qp, struct sn_txe *tx)
{
	struct sn_wqe *wqe = &sn_engine.wqe;

	sn_wqe_decode(qp, tx->idx, wqe);
	tx->under_way = false;
	tx->done = true;
	tx->syndrome = key_changes(qp, wqe);
}

/* Lets UMRs take effect in their order, up to one that fails; UMRs that came meanwhile go along. */
static bool umrs_run(struct sn_qp *qp)
{
	if (!qp->req.umr_ns || qp->req.umr_ns > sn_engine.now_ns || !waits_for_answer(qp))
		return false;
	qp->req.umr_ns = 0;
	for (uint32_t i = qp->req.tx_head; i != qp->req.tx_next && !tx_at(qp, i)->syndrome; i++)
		if (tx_at(qp, i)->under_way)
			umr_takes_effect(qp, tx_at(qp, i));
	sn_requester_complete(qp);
	return true;
}

/* Sends window entry tx_next, for the first time or again. */
static enum req_step send_one(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	struct sn_txe *tx = tx_at(qp, qp->req.tx_next);
	enum req_step step = REQ_GO;

	if (wqe->opcode == MLX5_OPCODE_NOP)
		nop_done(qp, tx);
	else if (wqe->opcode == MLX5_OPCODE_UMR)
		umr_begins(qp, tx, wqe);
	else if (!tx->syndrome && !tx->done)
		step = qp->attr.type == IBV_QPT_UD ? transmit_ud(qp, tx, wqe)
						   : transmit(qp, tx, wqe);
	if (step == REQ_BACKPRESSURE)
		return step;
	if (step != REQ_SENT_PIECE)
		next_message(qp);
	return REQ_SENT;
}

static enum req_step resend_next(struct sn_qp *qp)
{
	struct sn_txe *tx = tx_at(qp, qp->req.tx_next);

	if (tx->done || tx->syndrome) {
		next_message(qp);
		return REQ_SENT;
	}
	sn_wqe_decode(qp, tx->idx, &sn_engine.wqe);
	return send_one(qp, &sn_engine.wqe);
}

static enum req_step send_new(struct sn_qp *qp)
{
	enum req_step step = check_queue(qp);

	if (step != REQ_GO)
		return step;
	sn_wqe_decode(qp, qp->req.sq_cons, &sn_engine.wqe);
	step = check_order(qp, &sn_engine.wqe);
	if (step != REQ_GO)
		return step;
	window_add(qp, &sn_engine.wqe);
	return send_one(qp, &sn_engine.wqe);
}

static enum req_step requester_step(struct sn_qp *qp)
{
	enum req_step step = check_state(qp);

	if (step != REQ_GO)
		return step;
	qp->req.rnr_ns = 0;
	if (qp->req.tx_next != qp->req.tx_tail)
		return resend_next(qp);
	return send_new(qp);
}

bool sn_requester_run(struct sn_qp *qp)
{
	bool changed = umrs_run(qp);
	int n;

	for (n = 0; n < SEND_BATCH && requester_step(qp) == REQ_SENT; n++)
		;
	/* NOPs, datagrams and local errors are done without an acknowledgement. */
	if (n)
		sn_requester_complete(qp);
	return n > 0 || changed;
}

/* ---- timers --------------------------------------------------------------------------------- */

/* A message of which packets have left is under way, and nobody answers those of UC. */
static bool is_under_way(const struct sn_qp *qp)
{
	return qp->req.tx_head != qp->req.tx_next || (qp->req.piece && qp->attr.type == IBV_QPT_RC);
}

/*
 * Counts payload that was not copied as sent. A receiver that has not read it by now never does:
 * it is lost.
 */
static void uc_timeout(struct sn_qp *qp)
{
	uint32_t i;

	sn_gen_end(qp);
	sn_gen_begin(qp);
	for (i = qp->req.tx_head; i != qp->req.tx_next; i++)
		tx_at(qp, i)->done |= !tx_at(qp, i)->under_way;
	sn_requester_complete(qp);
}

static void retry_or_fail(struct sn_qp *qp)
{
	if (sn_wire_paused(qp)) { /* nothing leaves, so nothing can be late */
		sn_count(&qp->dev->nic->count.hw.tx_wait, 1);
		timer_start(qp);
		return;
	}
	if (qp->attr.type == IBV_QPT_UC) {
		uc_timeout(qp);
		return;
	}
	if (sn_wire_unread(qp)) { /* not lost: hardware would have it by now */
		timer_start(qp);
		return;
	}
	if (!qp->req.retry_left || sn_nic_quirk(qp->dev->nic, SN_QUIRK_GIVES_UP_EARLY)) {
		sn_count(&qp->dev->nic->count.hw.req_transport_retries_exceeded, 1);
		requester_fail(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return;
	}
	qp->req.retry_left--;
	sn_count(&qp->dev->nic->count.retries, 1);
	sn_count(&qp->dev->nic->count.hw.local_ack_timeout_err, 1);
	sn_requester_go_back(qp);
	timer_start(qp);
}

bool sn_requester_timers(struct sn_qp *qp)
{
	if (!waits_for_answer(qp) || !qp->req.rto_ns)
		return false;
	if (!is_under_way(qp)) {
		qp->req.rto_ns = 0;
		return false;
	}
	if (sn_engine.now_ns < qp->req.rto_ns)
		return false;
	retry_or_fail(qp);
	return true;
}

void sn_requester_progress(struct sn_qp *qp)
{
	qp->req.retry_left = qp->retry_cnt;
	qp->req.rnr_left = qp->rnr_retry;
	qp->req.rto_ns = 0;
	if (is_under_way(qp))
		timer_start(qp);
}

void sn_requester_rnr(struct sn_qp *qp, uint64_t wait_ns)
{
	if (qp->rnr_retry != RNR_FOREVER) {
		if (!qp->req.rnr_left) {
			sn_count(&qp->dev->nic->count.hw.req_rnr_retries_exceeded, 1);
			requester_fail(qp, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
			return;
		}
		qp->req.rnr_left--;
	}
	sn_count(&qp->dev->nic->count.hw.rnr_nak_retry_err, 1);
	sn_requester_go_back(qp);
	qp->req.rto_ns = 0;
	qp->req.rnr_ns = sn_engine.now_ns + wait_ns;
}
