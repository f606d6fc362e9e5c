/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receive queue: taking a receive WQE, scattering into it, completing it. */
#include <errno.h>
#include <string.h>

#include "simnic/device/copy.h"
#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/receive.h"
#include "simnic/device/srq.h"
#include "simnic/device/ud.h"
#include "simnic/device/wire.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"

static uint8_t recv_opcode(const struct sn_pkt *pkt)
{
	if (pkt->op == SN_PKT_WRITE)
		return MLX5_CQE_RESP_WR_IMM;
	if (pkt->flags & SN_PKT_F_INVALIDATE)
		return MLX5_CQE_RESP_SEND_INV;
	return pkt->has_imm ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND;
}

static bool rq_empty(const struct sn_qp *qp)
{
	if (qp->attr.srq)
		return !qp->rsp.held && !sn_srq_available(qp->attr.srq);
	return !qp->attr.rq_wqe_cnt || sn_rq_producer(qp) == qp->rsp.rq_cons;
}

/* The oldest receive: taken off its queue. */
static uint16_t rq_take(struct sn_qp *qp)
{
	uint32_t held = qp->rsp.held;

	SN_ASSERT(!held || (qp->attr.srq && held <= qp->attr.srq->attr.wqe_cnt));
	qp->rsp.held = 0;
	if (held)
		return (uint16_t)(held - 1);
	return qp->attr.srq ? sn_srq_take(qp->attr.srq) : qp->rsp.rq_cons++;
}

/* The first packets of a SEND have one out of a shared queue: nobody else gets it. */
static void rq_hold(struct sn_qp *qp, uint64_t landed, bool is_piece)
{
	if (qp->attr.srq && landed && !qp->rsp.held && (qp->attr.type == IBV_QPT_RC || is_piece))
		qp->rsp.held = sn_srq_take(qp->attr.srq) + 1u;
}

/* The oldest receive's data segments. In a shared queue a link comes before them. */
static uint32_t rq_scatter(const struct sn_qp *qp, struct sn_sge *sge)
{
	const struct sn_srq *srq = qp->attr.srq;
	const uint32_t link = sizeof(struct mlx5_wqe_srq_next_seg);
	uint32_t stride = 1u << (srq ? srq->attr.wqe_shift : qp->attr.rq_wqe_shift);
	uint32_t slot = qp->rsp.rq_cons & (qp->attr.rq_wqe_cnt - 1), held = qp->rsp.held;

	if (srq)
		return sn_wqe_scatter(sn_srq_wqe(srq, held ? (uint16_t)(held - 1) : srq->head) +
					      link,
				      stride - link, sge);
	return sn_wqe_scatter(qp->rq_buf + (size_t)slot * stride, stride, sge);
}

static uint32_t rq_pdn(const struct sn_qp *qp)
{
	return qp->attr.srq ? qp->attr.srq->attr.pdn : qp->attr.pdn;
}

static uint8_t rq_sl(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return qp->attr.type == IBV_QPT_UD ? sn_ud_sl(qp, pkt) : pkt->service.sl & 0xf;
}

static void rq_complete(struct sn_qp *qp, const struct sn_pkt *pkt, uint64_t bytes,
			const void *data, bool grh)
{
	struct mlx5_cqe64 cqe = {
		.slid = htobe16(pkt->slid),
		.flags_rqpn = htobe32(pkt->src_qpn | (grh ? 1u << 28 : 0) |
				      (uint32_t)rq_sl(qp, pkt) << 24),
		.srqn_uidx = htobe32(qp->attr.uidx),
		.imm_inval_pkey = pkt->has_imm || pkt->flags & SN_PKT_F_INVALIDATE ? pkt->imm : 0,
		.byte_cnt = htobe32((uint32_t)bytes),
		.sop_drop_qpn = htobe32(qp->qpn),
		.wqe_counter = htobe16(rq_take(qp)),
		.op_own = (uint8_t)(recv_opcode(pkt) << 4),
	};

	if (sn_nic_quirk(qp->dev->nic, SN_QUIRK_WRONG_INDEX))
		cqe.wqe_counter ^= htobe16(1);
	sn_cq_push(qp->attr.rcq, &cqe, data, (uint32_t)bytes, pkt->solicited);
}

void sn_rq_err(struct sn_qp *qp, uint16_t idx, uint8_t syndrome)
{
	struct mlx5_err_cqe cqe = { .srqn = htobe32(qp->attr.uidx),
				    .syndrome = syndrome,
				    .s_wqe_opcode_qpn = htobe32(qp->qpn),
				    .wqe_counter = htobe16(idx),
				    .op_own = MLX5_CQE_RESP_ERR << 4 };

	sn_cq_push(qp->attr.rcq, (struct mlx5_cqe64 *)&cqe, NULL, 0, false);
}

void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome)
{
	sn_rq_err(qp, rq_take(qp), syndrome);
}

void sn_rq_flush_held(struct sn_qp *qp)
{
	if (qp->rsp.held)
		sn_rq_fail(qp, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

/* Small receives travel in the CQE; the library copies them out. */
static bool fits_cqe(const struct sn_qp *qp, uint64_t bytes)
{
	return qp->attr.scatter_to_cqe && bytes && bytes <= sn_cq_scatter_limit(qp->attr.rcq);
}

static uint64_t list_bytes(const struct sn_sge *sge, uint32_t n)
{
	uint64_t sum = 0;

	while (n)
		sum += sge[--n].length;
	return sum;
}

/* The list behind the first 40 bytes, which the global route header took. */
static uint32_t put_grh(struct iovec *iov, uint32_t n, const uint8_t *grh)
{
	uint32_t left = SN_GRH_BYTES, i = 0, out = 0;

	while (left && i < n) {
		uint32_t take = iov[i].iov_len < left ? (uint32_t)iov[i].iov_len : left;

		memcpy(iov[i].iov_base, grh + SN_GRH_BYTES - left, take);
		iov[i].iov_base = (uint8_t *)iov[i].iov_base + take;
		iov[i].iov_len -= take;
		left -= take;
		i += !iov[i].iov_len;
	}
	while (i < n)
		iov[out++] = iov[i++];
	return out;
}

static enum sn_rq_verdict land_in_list(struct sn_qp *qp, const struct sn_pkt *pkt, const void *grh)
{
	struct sn_span span = sn_psn_span(qp, pkt);
	struct sn_sge sge[SN_WQE_MAX_SGE];
	struct iovec iov[SN_WQE_MAX_SGE];
	uint32_t n = rq_scatter(qp, sge);
	int rc;

	if (pkt->length + (grh ? SN_GRH_BYTES : 0) > list_bytes(sge, n))
		return SN_RQ_TOO_LONG;
	if (!pkt->length && !grh)
		return SN_RQ_OK;
	rc = sn_sge_translate(qp->dev, rq_pdn(qp), sge, n, IBV_ACCESS_LOCAL_WRITE, iov);
	if (rc < 0)
		return SN_RQ_PROT;
	n = (uint32_t)rc;
	if (grh)
		n = put_grh(iov, n, grh);
	n = sn_iov_skip(iov, n, span.from);
	rc = sn_posted_land(qp, pkt, iov, n, &span);
	if (rc == -EFAULT)
		return SN_RQ_PROT;
	if (!rc && !(pkt->flags & SN_PKT_F_CUT) && sn_psn_is_last(pkt))
		return SN_RQ_OK;
	rq_hold(qp, span.from, pkt->flags & SN_PKT_F_PIECE);
	sn_psn_landed(qp, pkt, span.from);
	return rc || pkt->flags & SN_PKT_F_CUT ? SN_RQ_LOST : SN_RQ_PART;
}

static enum sn_rq_verdict land_in_cqe(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	struct sn_sge sge[SN_WQE_MAX_SGE];
	uint8_t data[64];
	struct iovec iov = { data, sizeof(data) };
	struct sn_span span = { .to = pkt->length };
	uint32_t n = rq_scatter(qp, sge);

	if (pkt->length > list_bytes(sge, n))
		return SN_RQ_TOO_LONG;
	SN_ASSERT(span.to <= sizeof(data));
	if ((pkt->flags & SN_PKT_F_CUT) || sn_wire_land(pkt, &iov, 1, &span))
		return SN_RQ_LOST;
	rq_complete(qp, pkt, pkt->length, data, false);
	return SN_RQ_OK;
}

/* Takes one receive for a SEND: data in place first, then the CQE (IBA 9.7.5.1). */
enum sn_rq_verdict sn_rq_consume(struct sn_qp *qp, const struct sn_pkt *pkt, const void *grh)
{
	enum sn_rq_verdict verdict;

	if (rq_empty(qp))
		return SN_RQ_EMPTY;
	if (!grh && fits_cqe(qp, pkt->length))
		return land_in_cqe(qp, pkt);
	verdict = land_in_list(qp, pkt, grh);
	if (verdict == SN_RQ_OK)
		rq_complete(qp, pkt, pkt->length + (grh ? SN_GRH_BYTES : 0), NULL,
			    grh && pkt->flags & SN_PKT_F_GRH);
	return verdict;
}

bool sn_rq_ready(const struct sn_qp *qp)
{
	return !rq_empty(qp);
}

/* RDMA WRITE with immediate: the receive's buffers stay untouched. */
void sn_rq_complete_imm(struct sn_qp *qp, const struct sn_pkt *pkt)
{
	rq_complete(qp, pkt, pkt->length, NULL, false);
}
