/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completer: acknowledgements and responses that come back to a requester (IBA 9.7.5.2). */
#include <errno.h>
#include <string.h>

#include "simnic/device/completer.h"
#include "simnic/device/copy.h"
#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/requester.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

/* IBA table 45: RNR NAK timer, in microseconds. */
static const uint32_t rnr_us[32] = {
	655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
	480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

enum comp_check { COMP_OK, COMP_WRONG_STATE, COMP_STRANGER, COMP_STALE };

static enum comp_check check_packet(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return COMP_WRONG_STATE;
	if (pkt->src_qpn != qp->dest_qpn || pkt->src_host != qp->dst_host ||
	    pkt->src_nic != qp->dst_nic)
		return COMP_STRANGER;
	if (qp->req.tx_head == qp->req.tx_tail)
		return COMP_STALE;
	return COMP_OK;
}

static void complete_and_go_on(struct sn_qp *qp, bool progress)
{
	sn_requester_complete(qp);
	if (progress && qp->state == IBV_QPS_RTS)
		sn_requester_progress(qp);
	sn_qp_set_busy(qp);
}

static void receive_ack(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	complete_and_go_on(qp, sn_psn_ack(qp, pkt->psn));
}

/* Syndrome 0: a gap. Send again from there, at once. */
static void receive_nak(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_txe *tx = sn_psn_find(qp, pkt->psn);
	bool progress = sn_psn_ack(qp, (pkt->psn - 1) & SN_PSN_MASK);

	if (!tx)
		return;
	if (qp->attr.type == IBV_QPT_UC)
		tx->done = progress = true;
	else if (pkt->syndrome)
		tx->syndrome = pkt->syndrome;
	complete_and_go_on(qp, progress);
	if (qp->state != IBV_QPS_RTS || pkt->syndrome)
		return;
	sn_count(&qp->dev->nic->count.hw.packet_seq_err, qp->attr.type == IBV_QPT_RC);
	sn_requester_go_back(qp);
}

static void receive_rnr(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_txe *tx = sn_psn_find(qp, pkt->psn);
	bool progress = sn_psn_ack(qp, (pkt->psn - 1) & SN_PSN_MASK);

	if (!tx)
		return;
	if (qp->attr.type == IBV_QPT_UC)
		tx->done = true;
	complete_and_go_on(qp, progress);
	if (qp->state == IBV_QPS_RTS && qp->attr.type != IBV_QPT_UC &&
	    qp->req.tx_head != qp->req.tx_tail)
		sn_requester_rnr(qp, rnr_us[pkt->syndrome & 0x1f] * 1000ULL);
}

/* Where the bytes from tx->got on belong: the rest of the scatter list. */
static int response_target(struct sn_qp *qp, const struct sn_txe *tx, struct iovec *iov)
{
	struct sn_wqe *wqe = &sn_engine.wqe;
	int n;

	sn_wqe_decode(qp, tx->idx, wqe);
	n = sn_wqe_gather(qp, wqe, IBV_ACCESS_LOCAL_WRITE, iov);
	return n < 0 ? n : (int)sn_iov_skip(iov, (uint32_t)n, tx->got);
}

static int land_response(struct sn_qp *qp, struct sn_txe *tx, const struct sn_pkt *pkt)
{
	struct iovec iov[SN_WQE_MAX_SGE], cqe = { tx->data, sizeof(tx->data) };
	struct sn_span span = { .to = pkt->length };
	int n;

	if (tx->to_cqe)
		return sn_wire_land(pkt, &cqe, 1, &span);
	n = response_target(qp, tx, iov);
	if (n > 0)
		sn_posted_push_under(qp->dev, iov, (uint32_t)n);
	return n < 0 ? n : sn_wire_land(pkt, iov, (uint32_t)n, &span);
}

static void receive_read(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_txe *tx = sn_psn_find(qp, pkt->psn);
	int rc;

	if (!tx || tx->done || tx->opcode != MLX5_OPCODE_RDMA_READ)
		return;
	if (pkt->raddr > tx->got)
		sn_count(&qp->dev->nic->count.hw.implied_nak_seq_err, 1);
	if (pkt->raddr != tx->got || pkt->length > tx->length - tx->got)
		return; /* part of an earlier answer; the request was sent again since */
	rc = land_response(qp, tx, pkt);
	if (rc == -EACCES || rc == -EFAULT)
		tx->syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	else if (rc)
		return; /* lost on the way; the timer asks again */
	tx->got += pkt->length;
	tx->done = tx->got == tx->length;
	sn_count_landed(qp, 0, pkt->length);
	sn_psn_ack(qp, (pkt->psn - 1) & SN_PSN_MASK);
	complete_and_go_on(qp, true);
}

static void receive_atomic(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_txe *tx = sn_psn_find(qp, pkt->psn);
	int rc;

	if (!tx || tx->done || !tx->rd_atomic || tx->opcode == MLX5_OPCODE_RDMA_READ)
		return;
	rc = land_response(qp, tx, pkt);
	if (rc)
		tx->syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	tx->done = true;
	sn_psn_ack(qp, (pkt->psn - 1) & SN_PSN_MASK);
	complete_and_go_on(qp, true);
}

void sn_completer_receive(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (check_packet(qp, pkt) != COMP_OK)
		return;
	switch (pkt->op) {
	case SN_PKT_ACK: receive_ack(qp, pkt); break;
	case SN_PKT_NAK: receive_nak(qp, pkt); break;
	case SN_PKT_RNR: receive_rnr(qp, pkt); break;
	case SN_PKT_READ_RESP: receive_read(qp, pkt); break;
	case SN_PKT_ATOMIC_RESP: receive_atomic(qp, pkt); break;
	default: break;
	}
}
