/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Responder: requests from the wire (IBA 9.7.4, 9.7.5.1). Executes in PSN order, each packet once;
 * answers duplicates again; acknowledges once per batch.
 */
#include <errno.h>
#include <string.h>

#include "simnic/device/atomic.h"
#include "simnic/device/copy.h"
#include "simnic/device/count.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/mr.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/invalidate.h"
#include "simnic/device/receive.h"
#include "simnic/device/responder.h"
#include "simnic/device/stage.h"
#include "simnic/device/window.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

#define ACK_EVERY  16 /* messages at most without an acknowledgement */
#define READ_BURST 8  /* chunks per turn and QP */

enum rsp_check {
	RSP_EXECUTE,
	RSP_WRONG_STATE,
	RSP_STRANGER, /* not from the QP that this one is connected to */
	RSP_DUPLICATE,
	RSP_GAP,
	RSP_UC_BROKEN, /* a packet before it is missing: the rest of the message is dropped */
};

enum rsp_verdict {
	RSP_DONE,    /* executed: expect the next one */
	RSP_PART,    /* a piece, not its message's last: the same */
	RSP_LOST,    /* did not arrive in full: as if it had never come */
	RSP_NOT_NOW, /* receive queue empty */
	RSP_BLIND,   /* what the host has said about it cannot be read */
	RSP_NAK_ACCESS,
	RSP_NAK_INVALID,
	RSP_NAK_OPERATION,
};

static bool uc_ends(const struct sn_qp *qp)
{
	return qp->attr.type == IBV_QPT_UC && sn_nic_quirk(qp->dev->nic, SN_QUIRK_UC_ENDS);
}

/*
 * IBA 9.8.2.2.1: a first or only packet begins anew, whatever came before; any other goes on in
 * order.
 */
static enum rsp_check check_uc(const struct sn_qp *qp, const struct sn_pkt *pkt, uint32_t begin)
{
	bool goes_on = pkt->flags & SN_PKT_F_PIECE && pkt->first;

	if (uc_ends(qp) || sn_nic_quirk(qp->dev->nic, SN_QUIRK_UC_IN_ORDER))
		goes_on |= sn_psn_diff(begin, qp->rsp.epsn) < 0;
	return goes_on && begin != qp->rsp.epsn ? RSP_UC_BROKEN : RSP_EXECUTE;
}

static enum rsp_check check_packet(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	uint32_t begin = sn_psn_add(pkt->psn, pkt->first);
	uint32_t last =
		pkt->flags & SN_PKT_F_PIECE ? begin : sn_psn_add(pkt->psn, sn_psn_packets(pkt) - 1);

	if (qp->state == IBV_QPS_ERR && pkt->op == SN_PKT_WRITE &&
	    sn_nic_quirk(qp->dev->nic, SN_QUIRK_LATE_WRITES_LAND))
		return RSP_EXECUTE;
	if (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return RSP_WRONG_STATE;
	if (!sn_qp_is_connected(qp) || pkt->src_qpn != qp->dest_qpn ||
	    pkt->src_host != qp->dst_host || pkt->src_nic != qp->dst_nic)
		return RSP_STRANGER;
	if (qp->attr.type == IBV_QPT_UC)
		return check_uc(qp, pkt, begin);
	if (sn_psn_diff(last, qp->rsp.epsn) < 0)
		return RSP_DUPLICATE;
	/*
	 * A message that begins earlier has duplicates of the packets that were here, and new
	 * packets.
	 */
	return sn_psn_diff(begin, qp->rsp.epsn) > 0 ? RSP_GAP : RSP_EXECUTE;
}

static uint32_t right_needed(const struct sn_pkt *pkt)
{
	switch ((enum sn_pkt_op)pkt->op) {
	case SN_PKT_WRITE: return IBV_ACCESS_REMOTE_WRITE;
	case SN_PKT_READ: return IBV_ACCESS_REMOTE_READ;
	case SN_PKT_FETCH_ADD:
	case SN_PKT_CMP_SWAP: return IBV_ACCESS_REMOTE_ATOMIC;
	case SN_PKT_SEND:
	case SN_PKT_ACK:
	case SN_PKT_NAK:
	case SN_PKT_RNR:
	case SN_PKT_READ_RESP:
	case SN_PKT_ATOMIC_RESP:
	case SN_PKT_UD:
	case SN_PKT_CM:
	case SN_PKT_FRAME: break;
	}
	return 0;
}

/*
 * True if the QP was set up for such an operation. Asked before the key is looked at. Operations
 * on zero bytes, which have no key, are asked too (IBA 9.7.4.1.4, and "operation not supported by
 * this receive queue" in 11.6.2; Linux' rxe: check_op_valid() before check_rkey()).
 */
static bool qp_supports(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	uint32_t right = right_needed(pkt);

	return (qp->access & right) == right;
}

static uint64_t remote_buffer(const struct sn_qp *qp, const struct sn_pkt *pkt, uint64_t len,
			      uint32_t access)
{
	return sn_mr_translate(qp->dev, pkt->rkey, qp->attr.pdn, pkt->raddr, len, access);
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct sn_pkt *answer(const struct sn_qp *qp, enum sn_pkt_op op, uint32_t psn)
{
	struct sn_pkt *pkt = &sn_engine.tx;

	sn_wire_prepare(qp, pkt, op);
	pkt->psn = psn;
	return pkt;
}

static void ack_later(struct sn_qp *qp)
{
	qp->rsp.ack_due = true;
	qp->rsp.acks_held++;
	sn_qp_set_busy(qp);
}

/*
 * Acknowledges all packets before the expected one. If the inbox is full, the next round tries
 * again.
 */
static bool ack_now(struct sn_qp *qp)
{
	struct sn_pkt *pkt = answer(qp, SN_PKT_ACK, (qp->rsp.epsn - 1) & SN_PSN_MASK);

	if (sn_wire_send(qp, pkt))
		return false;
	qp->rsp.ack_due = false;
	qp->rsp.acks_held = 0;
	return true;
}

/* false: it did not leave, as the path is paused or the requester's inbox is full. */
static bool send_nak(struct sn_qp *qp, enum sn_pkt_op op, uint32_t psn, uint8_t syndrome)
{
	struct sn_pkt *pkt = answer(qp, op, psn);

	pkt->syndrome = syndrome;
	return !sn_wire_send(qp, pkt);
}

/*
 * A NIC that does not reach its host's memory says so to the other end; neither does it reach the
 * queues of completions and events, so its own host hears nothing.
 */
static void refuse_blind(struct sn_qp *qp, uint32_t psn)
{
	if (qp->attr.type == IBV_QPT_RC)
		(void)send_nak(qp, SN_PKT_NAK, psn, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
}

/* ---- requests ------------------------------------------------------------------------------- */

/*
 * IBA 9.6.3: the key is checked by the last packet. Where it may not be ended, the receive fails as
 * Linux' rxe has it fail.
 */
static bool invalidation_fails(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return pkt->flags & SN_PKT_F_INVALIDATE && sn_psn_is_last(pkt) && sn_rq_ready(qp) &&
	       !sn_key_may_end(qp, be32toh(pkt->imm));
}

static enum rsp_verdict do_send(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	enum sn_rq_verdict verdict;

	if (invalidation_fails(qp, pkt)) {
		sn_rq_fail(qp, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
		return RSP_NAK_ACCESS;
	}
	verdict = sn_rq_consume(qp, pkt, NULL);
	if (verdict != SN_RQ_OK && sn_wire_blind(qp))
		return RSP_BLIND;
	switch (verdict) {
	case SN_RQ_OK:
		if (pkt->flags & SN_PKT_F_INVALIDATE)
			sn_key_end(qp, be32toh(pkt->imm));
		return RSP_DONE;
	case SN_RQ_EMPTY: return RSP_NOT_NOW;
	case SN_RQ_TOO_LONG:
		sn_rq_fail(qp, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
		return RSP_NAK_INVALID;
	case SN_RQ_PROT: sn_rq_fail(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR); return RSP_NAK_OPERATION;
	case SN_RQ_PART: return RSP_PART;
	case SN_RQ_LOST: break;
	}
	return RSP_LOST;
}

/* Cuts the pieces of a message down to the span; returns the number of pieces. */
static uint32_t cut_out(struct iovec *iov, uint32_t n, const struct sn_span *span)
{
	uint64_t left = span->to - span->from;
	uint32_t i;

	SN_ASSERT(span->from <= span->to);
	n = sn_iov_skip(iov, n, span->from);
	for (i = 0; i < n && left; i++) {
		iov[i].iov_len = iov[i].iov_len < left ? iov[i].iov_len : left;
		left -= iov[i].iov_len;
	}
	return i;
}

static enum rsp_verdict do_write(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_span span = sn_psn_span(qp, pkt);
	bool last = sn_psn_is_last(pkt), last_waits = last && pkt->has_imm && !sn_rq_ready(qp);
	struct iovec iov[SN_WQE_MAX_SGE];
	int rc = 0;

	if (pkt->length && sn_window_is_not_of(qp, pkt->rkey))
		return RSP_NAK_ACCESS;
	if (pkt->length) /* IBA 9.7.4.1.5: no key check for zero bytes */
		rc = sn_mr_pieces(qp->dev, pkt->rkey, qp->attr.pdn, pkt->raddr, pkt->length,
				  IBV_ACCESS_REMOTE_WRITE, iov, SN_WQE_MAX_SGE);
	if (rc < 0)
		return RSP_NAK_ACCESS;
	/* The packet with the immediate takes the receive: those before it need none. */
	if (last_waits && span.to == pkt->length)
		span.to = sn_psn_offset(sn_psn_packets(pkt) - 1, pkt->mtu);
	rc = sn_posted_land(qp, pkt, iov, cut_out(iov, (uint32_t)rc, &span), &span);
	if (rc || last_waits || !last || (pkt->flags & SN_PKT_F_CUT))
		sn_psn_landed(qp, pkt, span.from);
	if (rc == -EFAULT)
		return RSP_NAK_OPERATION;
	if (rc || (pkt->flags & SN_PKT_F_CUT))
		return RSP_LOST;
	if (last_waits)
		return RSP_NOT_NOW;
	if (!last)
		return RSP_PART;
	if (pkt->has_imm)
		sn_rq_complete_imm(qp, pkt);
	return RSP_DONE;
}

static enum rsp_verdict do_read(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_rd *rd;
	uint64_t addr = 0;
	uint32_t i;

	if (pkt->length)
		addr = remote_buffer(qp, pkt, pkt->length, IBV_ACCESS_REMOTE_READ);
	if (qp->attr.type != IBV_QPT_RC || !qp->max_dest_rd_atomic)
		return RSP_NAK_INVALID;
	if (pkt->length && !addr)
		return RSP_NAK_ACCESS;
	/* Asked for again: start over. */
	for (i = qp->rsp.rd_head;
	     i != qp->rsp.rd_tail && qp->rsp.rd[i % SN_RD_QUEUE].psn != pkt->psn; i++)
		;
	if (i - qp->rsp.rd_head == SN_RD_QUEUE)
		return RSP_LOST;
	rd = &qp->rsp.rd[i % SN_RD_QUEUE];
	*rd = (struct sn_rd){ .psn = pkt->psn,
			      .mtu = pkt->mtu,
			      .addr = addr,
			      .length = pkt->length,
			      .sent = sn_psn_offset(pkt->first, pkt->mtu) };
	if (i == qp->rsp.rd_tail)
		qp->rsp.rd_tail++;
	SN_ASSERT(qp->rsp.rd_tail - qp->rsp.rd_head <= SN_RD_QUEUE);
	sn_qp_set_busy(qp);
	return RSP_DONE;
}

static void answer_atomic(struct sn_qp *qp, uint32_t psn, uint64_t result)
{
	struct sn_pkt *pkt = answer(qp, SN_PKT_ATOMIC_RESP, psn);

	if (sn_wire_blind(qp)) { /* the result is not what memory holds */
		refuse_blind(qp, psn);
		return;
	}
	if (sn_nic_quirk(qp->dev->nic, SN_QUIRK_ATOMICS_SWAPPED))
		result = __builtin_bswap64(result);
	pkt->length = pkt->n_inline = sizeof(result);
	memcpy(pkt->data, &result, sizeof(result));
	sn_wire_send(qp, pkt);
}

static bool answer_landed(struct sn_qp *qp)
{
	struct sn_atomic_reply *reply =
		&qp->rsp.replay[(qp->rsp.replay_next - 1) % SN_MAX_RD_ATOMIC];

	if (!qp->rsp.answer_due || sn_atomic_is_under_way(qp))
		return false;
	SN_ASSERT(reply->valid);
	qp->rsp.answer_due = false;
	answer_atomic(qp, reply->psn, reply->result);
	reply->valid = !sn_wire_blind(qp);
	return true;
}

/*
 * Finishes the atomic before later requests of its queue pair, which find it done and are answered
 * behind it.
 */
static void finish_atomic(struct sn_qp *qp)
{
	sn_atomic_land_of(qp);
	(void)answer_landed(qp);
}

static enum rsp_verdict do_atomic(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	uint64_t addr = remote_buffer(qp, pkt, 8, IBV_ACCESS_REMOTE_ATOMIC);
	struct sn_atomic_reply *reply = &qp->rsp.replay[qp->rsp.replay_next % SN_MAX_RD_ATOMIC];

	if (pkt->raddr & 7 || qp->attr.type != IBV_QPT_RC || !qp->max_dest_rd_atomic)
		return RSP_NAK_INVALID;
	if (!addr)
		return RSP_NAK_ACCESS;
	sn_posted_push(qp->dev);
	reply->result = sn_atomic_execute(qp, (uint64_t *)addr, pkt);
	reply->psn = pkt->psn;
	reply->valid = true;
	qp->rsp.replay_next++;
	qp->rsp.answer_due = true;
	if (!answer_landed(qp))
		sn_qp_set_busy(qp);
	return RSP_DONE;
}

static enum rsp_verdict execute(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	/* IBA 9.7.4.1: packets of another length than this end's MTU */
	if (!qp_supports(qp, pkt) || (pkt->mtu != qp->path_mtu && sn_psn_packets(pkt) > 1))
		return RSP_NAK_INVALID;
	finish_atomic(qp);
	switch ((enum sn_pkt_op)pkt->op) {
	case SN_PKT_SEND: return do_send(qp, pkt);
	case SN_PKT_WRITE: return do_write(qp, pkt);
	case SN_PKT_READ: return do_read(qp, pkt);
	case SN_PKT_FETCH_ADD:
	case SN_PKT_CMP_SWAP: return do_atomic(qp, pkt);
	case SN_PKT_ACK:
	case SN_PKT_NAK:
	case SN_PKT_RNR:
	case SN_PKT_READ_RESP:
	case SN_PKT_ATOMIC_RESP:
	case SN_PKT_UD:
	case SN_PKT_CM:
	case SN_PKT_FRAME: break;
	}
	return RSP_LOST;
}

/* Never executed twice (IBA 9.7.5.1.5); an answer that is no longer kept stays unanswered. */
static void repeat_atomic(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	const struct sn_atomic_reply *reply;
	uint32_t i;

	finish_atomic(qp);
	/* The newest first: numbers come again. */
	for (i = 1; i <= SN_MAX_RD_ATOMIC; i++) {
		reply = &qp->rsp.replay[(qp->rsp.replay_next - i) % SN_MAX_RD_ATOMIC];
		if (!reply->valid || reply->psn != pkt->psn)
			continue;
		answer_atomic(qp, pkt->psn, reply->result);
		return;
	}
}

static void duplicate(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (pkt->op == SN_PKT_READ && qp_supports(qp, pkt))
		do_read(qp, pkt);
	else if (pkt->op == SN_PKT_READ)
		return; /* the right was taken away meanwhile */
	else if (pkt->op == SN_PKT_FETCH_ADD || pkt->op == SN_PKT_CMP_SWAP)
		repeat_atomic(qp, pkt);
	else
		ack_later(qp);
}

/* A piece of UC has left for its sender when it left: nobody waits for its end. */
static bool is_answered(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return qp->attr.type != IBV_QPT_UC || !(pkt->flags & SN_PKT_F_PIECE);
}

static void acknowledge(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (pkt->op != SN_PKT_SEND && pkt->op != SN_PKT_WRITE)
		return; /* the response acknowledges */
	if (!is_answered(qp, pkt))
		return;
	ack_later(qp);
	if (qp->rsp.acks_held >= ACK_EVERY)
		ack_now(qp);
}

/* IBA 9.9.3, responder class: the QP goes to error, and its owner hears of it. */
static void refuse(struct sn_qp *qp, uint8_t syndrome, enum ibv_event_type event, bool raise)
{
	if (uc_ends(qp))
		sn_qp_enter_error(qp);
	if (qp->attr.type == IBV_QPT_UC)
		return;
	send_nak(qp, SN_PKT_NAK, qp->rsp.epsn, syndrome);
	if (raise)
		sn_async_event(qp->dev, qp->attr.async_fd, qp->attr.user_handle, event,
			       &qp->async_events);
	sn_qp_enter_error(qp);
}

static void not_now(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (uc_ends(qp))
		sn_qp_enter_error(qp);
	if (!is_answered(qp, pkt))
		return;
	/* Once it is told, what follows is out of order until this one comes again. */
	qp->rsp.nak_sent = send_nak(qp, SN_PKT_RNR, qp->rsp.epsn, qp->min_rnr_timer);
	sn_count(&qp->dev->nic->count.hw.out_of_buffer, 1);
}

/*
 * READs still being answered come first, and in a pause the answer could not leave; the request
 * will be sent again.
 */
static bool fatal_can_wait(const struct sn_qp *qp, enum rsp_verdict verdict)
{
	return verdict >= RSP_NAK_ACCESS &&
	       (qp->rsp.rd_head != qp->rsp.rd_tail || sn_wire_paused(qp));
}

static void run_request(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	bool is_send = pkt->op == SN_PKT_SEND;
	enum rsp_verdict verdict;

	verdict = sn_wire_blind(qp) ? RSP_BLIND : execute(qp, pkt);
	if (fatal_can_wait(qp, verdict) && !is_send)
		verdict = RSP_LOST;
	switch (verdict) {
	case RSP_DONE:
		sn_psn_executed(qp, pkt);
		sn_count_request(qp, pkt->op);
		acknowledge(qp, pkt);
		break;
	case RSP_PART: acknowledge(qp, pkt); break;
	case RSP_LOST: break;
	case RSP_NOT_NOW: not_now(qp, pkt); break;
	case RSP_BLIND: refuse_blind(qp, qp->rsp.epsn); break;
	case RSP_NAK_ACCESS:
		refuse(qp, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, true);
		break;
	case RSP_NAK_INVALID:
		refuse(qp, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, IBV_EVENT_QP_REQ_ERR, !is_send);
		break;
	case RSP_NAK_OPERATION:
		refuse(qp, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, IBV_EVENT_QP_FATAL, !is_send);
		break;
	}
}

/*
 * Sends one sequence NAK per gap (IBA 9.7.5.2.3); otherwise a whole window of them would come
 * back.
 */
static void gap(struct sn_qp *qp)
{
	if (qp->rsp.nak_sent)
		return;
	qp->rsp.nak_sent = send_nak(qp, SN_PKT_NAK, qp->rsp.epsn, 0);
}

void sn_responder_receive(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	switch (check_packet(qp, pkt)) {
	case RSP_EXECUTE: run_request(qp, pkt); break;
	case RSP_DUPLICATE:
		sn_count(&qp->dev->nic->count.hw.duplicate_request, sn_count_packets(qp, pkt));
		duplicate(qp, pkt);
		break;
	case RSP_GAP:
		sn_count(&qp->dev->nic->count.hw.out_of_sequence, sn_count_packets(qp, pkt));
		gap(qp);
		break;
	case RSP_UC_BROKEN:
		if (uc_ends(qp))
			sn_qp_enter_error(qp);
		break;
	case RSP_WRONG_STATE:
	case RSP_STRANGER: break;
	}
}

/* ---- READ responses ------------------------------------------------------------------------- */

/* 0, or why not now: -EAGAIN no staging slot, -ENOBUFS the requester's inbox is full. */
static int send_read_chunk(struct sn_qp *qp, struct sn_rd *rd)
{
	uint64_t left = rd->length - rd->sent, len;
	uint32_t psn =
		rd->mtu ? sn_psn_add(rd->psn, (uint32_t)(rd->sent >> (7 + rd->mtu))) : rd->psn;
	struct sn_pkt *pkt = answer(qp, SN_PKT_READ_RESP, psn);
	uint64_t most =
		rd->mtu && sn_wire_is_long(pkt) ? sn_psn_offset(1, rd->mtu) : SN_STAGE_BYTES;
	struct iovec src;
	int rc;

	SN_ASSERT(rd->sent <= rd->length);
	len = left < most ? left : most;
	src = (struct iovec){ (void *)(rd->addr + rd->sent), len };
	pkt->length = len;
	pkt->raddr = rd->sent; /* offset in the answer */
	pkt->flags = len == left ? SN_PKT_F_LAST : 0;
	if (len) /* an empty response reads nothing, so it pushes nothing */
		sn_posted_push(qp->dev);
	rc = sn_stage_put(pkt, &src, 1, len);
	if (!rc && len && sn_wire_blind(qp)) {
		sn_stage_release(pkt);
		refuse_blind(qp, psn);
		qp->rsp.rd_head = qp->rsp.rd_tail;
		return -EFAULT;
	}
	if (!rc)
		rc = sn_wire_send(qp, pkt);
	if (rc)
		return rc;
	rd->sent += len;
	if (rd->sent == rd->length)
		qp->rsp.rd_head++;
	return 0;
}

static bool run_reads(struct sn_qp *qp)
{
	int n;

	for (n = 0; n < READ_BURST && qp->rsp.rd_head != qp->rsp.rd_tail; n++)
		if (send_read_chunk(qp, &qp->rsp.rd[qp->rsp.rd_head % SN_RD_QUEUE]))
			break;
	return n > 0;
}

static bool can_respond(const struct sn_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

bool sn_responder_run(struct sn_qp *qp)
{
	bool worked;

	if (!can_respond(qp))
		return false;
	worked = answer_landed(qp);
	worked |= run_reads(qp);
	if (qp->rsp.ack_due)
		worked |= ack_now(qp);
	return worked;
}
