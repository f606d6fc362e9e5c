/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet sequence numbers: those of messages at the requester, and the expected one at the
 * responder.
 */
#include "simnic/device/psn.h"

#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/qp.h"
#include "simnic/device/wire.h"
#include "simnic/fabric/nic.h"

#define STALE_PACKETS 3 /* stale-psn: packets by which the told PSN lags */

uint32_t sn_psn_packets(const struct sn_pkt *pkt)
{
	switch ((enum sn_pkt_op)pkt->op) {
	case SN_PKT_SEND:
	case SN_PKT_WRITE:
	case SN_PKT_READ: return sn_psn_count(pkt->length, pkt->mtu);
	case SN_PKT_FETCH_ADD:
	case SN_PKT_CMP_SWAP:
	case SN_PKT_ACK:
	case SN_PKT_NAK:
	case SN_PKT_RNR:
	case SN_PKT_READ_RESP:
	case SN_PKT_ATOMIC_RESP:
	case SN_PKT_UD:
	case SN_PKT_CM:
	case SN_PKT_FRAME: break;
	}
	return 1;
}

struct sn_span sn_psn_payload(const struct sn_pkt *pkt)
{
	struct sn_span span = { .to = pkt->length };

	if (pkt->flags & SN_PKT_F_PIECE) {
		span.from = sn_psn_offset(pkt->first, pkt->mtu);
		if (!sn_psn_is_last(pkt))
			span.to = sn_psn_offset(pkt->first + 1, pkt->mtu);
	}
	if (pkt->flags & SN_PKT_F_CUT)
		span.to = pkt->part;
	return span;
}

bool sn_psn_is_last(const struct sn_pkt *pkt)
{
	return !(pkt->flags & SN_PKT_F_PIECE) || pkt->first + 1 >= sn_psn_packets(pkt);
}

/* ---- requester ------------------------------------------------------------------------------ */

static struct sn_txe *tx_at(struct sn_qp *qp, uint32_t i)
{
	return &qp->req.tx[i % SN_WINDOW];
}

static uint32_t tx_last(const struct sn_txe *tx)
{
	return sn_psn_add(tx->psn, tx->packets ? tx->packets - 1 : 0);
}

struct sn_txe *sn_psn_find(struct sn_qp *qp, uint32_t psn)
{
	uint32_t i;

	for (i = qp->req.tx_head; i != qp->req.tx_tail; i++) {
		struct sn_txe *tx = tx_at(qp, i);

		if (sn_psn_diff(psn, tx->psn) >= 0 && sn_psn_diff(psn, tx_last(tx)) <= 0 &&
		    tx->packets)
			return tx;
	}
	return NULL;
}

/* A part of it. */
static bool tx_ack_part(struct sn_txe *tx, uint32_t psn)
{
	int32_t acked = sn_psn_diff(psn, tx->psn) + 1;

	if (tx->rd_atomic || acked <= (int32_t)tx->acked)
		return false;
	tx->acked = (uint32_t)acked;
	return true;
}

bool sn_psn_ack(struct sn_qp *qp, uint32_t psn)
{
	bool progress = false;
	uint32_t i;

	if (sn_psn_diff(psn, qp->req.psn) >= 0)
		return false; /* late, of a former connection: nothing here has that number yet */
	for (i = qp->req.tx_head; i != qp->req.tx_tail; i++) {
		struct sn_txe *tx = tx_at(qp, i);

		if (tx->syndrome)
			break;
		if (sn_psn_diff(tx_last(tx), psn) > 0)
			return tx_ack_part(tx, psn) || progress;
		if (tx->done || tx->rd_atomic || tx->under_way)
			continue;
		tx->done = progress = true;
	}
	return progress;
}

bool sn_psn_window_full(const struct sn_qp *qp, uint32_t packets)
{
	const struct sn_txe *oldest = &qp->req.tx[qp->req.tx_head % SN_WINDOW];

	return qp->req.tx_head != qp->req.tx_tail &&
	       ((qp->req.psn - oldest->psn) & SN_PSN_MASK) + packets > SN_PSN_HALF;
}

/* IBA 9.7.5: a READ is asked for again from the first response that is missing. */
uint32_t sn_psn_resume(const struct sn_qp *qp, const struct sn_txe *tx)
{
	return tx->opcode == MLX5_OPCODE_RDMA_READ && qp->path_mtu
		       ? (uint32_t)(tx->got >> (7 + qp->path_mtu))
		       : tx->acked;
}

uint32_t sn_psn_next_packet(const struct sn_qp *qp)
{
	uint32_t first = sn_psn_resume(qp, &qp->req.tx[qp->req.tx_next % SN_WINDOW]);

	return qp->req.piece > first ? qp->req.piece : first;
}

uint32_t sn_psn_next_send(const struct sn_qp *qp)
{
	const struct sn_txe *tx = &qp->req.tx[qp->req.tx_next % SN_WINDOW];

	if (qp->req.tx_next == qp->req.tx_tail)
		return qp->req.psn;
	return sn_psn_add(tx->psn, sn_psn_next_packet(qp));
}

/* ---- responder ------------------------------------------------------------------------------ */

/*
 * Number of the message's packets that are here already. IBA 9.8.2.2.1: on UC each message begins
 * anew. Packets that come in ERR come by a quirk. A piece is one packet.
 */
static uint32_t packets_there(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	if (pkt->flags & SN_PKT_F_PIECE)
		return pkt->first;
	if (qp->attr.type != IBV_QPT_RC || qp->state == IBV_QPS_ERR)
		return 0;
	return (qp->rsp.epsn - pkt->psn) & SN_PSN_MASK;
}

struct sn_span sn_psn_span(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_span span = sn_psn_payload(pkt);

	span.from = sn_psn_offset(packets_there(qp, pkt), pkt->mtu);
	if (span.from > span.to)
		span.from = span.to; /* a packet that was there already is cut off, too */
	return span;
}

static void advance(struct sn_qp *qp, const struct sn_pkt *pkt, uint32_t packets, uint64_t bytes,
		    bool whole)
{
	uint32_t there = packets_there(qp, pkt);

	if (packets <= there)
		return;
	bytes -= pkt->op == SN_PKT_READ ? 0 : sn_psn_offset(there, pkt->mtu);
	qp->rsp.epsn = sn_psn_add(pkt->psn, packets);
	qp->rsp.executed += packets - there;
	qp->rsp.nak_sent = false;
	sn_count_landed(qp, whole, bytes);
	sn_count(&qp->dev->nic->count.rc_rx_packets, packets - there);
}

void sn_psn_landed(struct sn_qp *qp, const struct sn_pkt *pkt, uint64_t upto)
{
	if (pkt->mtu && (qp->attr.type == IBV_QPT_RC || pkt->flags & SN_PKT_F_PIECE))
		advance(qp, pkt, (uint32_t)(upto >> (7 + pkt->mtu)), upto, false);
}

void sn_psn_executed(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	advance(qp, pkt, sn_psn_packets(pkt), pkt->op == SN_PKT_READ ? 0 : pkt->length, true);
}

/* Linux' mlx5 reads next_rcv_psn out of the queue pair's context, in every state. */
uint32_t sn_psn_expected(const struct sn_qp *qp)
{
	uint64_t behind = qp->qpn & 1 ? qp->rsp.executed : STALE_PACKETS;

	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT)
		return qp->rq_psn;
	if (qp->state != IBV_QPS_ERR || !sn_nic_quirk(qp->dev->nic, SN_QUIRK_STALE_PSN))
		return qp->rsp.epsn;
	if (behind > qp->rsp.executed)
		behind = qp->rsp.executed;
	return (uint32_t)(qp->rsp.epsn - behind) & SN_PSN_MASK;
}

/* ---- faults --------------------------------------------------------------------------------- */

uint32_t sn_psn_dice(uint32_t n)
{
	uint64_t *state = &sn_engine.dice;

	if (!*state)
		*state = ((uint64_t)sn_engine.fabric->seed << 8 | (sn_engine.slot + 1)) *
			 0x9e3779b97f4a7c15ULL;
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 16) % n);
}

uint32_t sn_psn_cut(const struct sn_pkt *pkt)
{
	uint32_t packets = sn_psn_packets(pkt);

	/* The first one is through, where there are several: else nothing was cut. */
	return packets < 2 ? 0 : (uint32_t)sn_psn_offset(1 + sn_psn_dice(packets - 1), pkt->mtu);
}

bool sn_psn_cut_short(struct sn_pkt *pkt)
{
	if ((pkt->op != SN_PKT_SEND && pkt->op != SN_PKT_WRITE) || pkt->flags & SN_PKT_F_LATE)
		return false;
	if (!sn_psn_dice(4))
		return false;
	pkt->part = sn_psn_cut(pkt);
	if (!pkt->part)
		return false;
	pkt->flags |= SN_PKT_F_CUT;
	return true;
}
