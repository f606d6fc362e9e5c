/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues, and how a queue in ERR is flushed into them. */
#include <errno.h>
#include <string.h>

#include "tests/lib/verbs_fake_priv.h"

#define GARBAGE 0x5a5a5a5a /* in what an error completion does not define */

/* -- making completions ----------------------------------------------------------------------- */

static void add(struct vf_cq *cq, const struct vf_cqe *cqe)
{
	bool solicited = !cqe->send || cqe->wc.status != IBV_WC_SUCCESS;

	TRIP(cq->head - cq->tail >= cq->size); /* overrun */
	cq->cqes[cq->head++ & (cq->size - 1)] = *cqe;
	if (cq->armed == 1 || (cq->armed == 2 && solicited)) {
		cq->armed = 0;
		cq->events++;
	}
}

static struct ibv_wc error_wc(const struct vf_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = wr_id, .status = status, .qp_num = qp->ex.qp_base.qp_num };

	wc.opcode = (enum ibv_wc_opcode)GARBAGE;
	wc.byte_len = wc.imm_data = wc.src_qp = wc.wc_flags = GARBAGE;
	wc.vendor_err = status == IBV_WC_WR_FLUSH_ERR ? 0 : 0x80 + status;
	return wc;
}

enum ibv_wc_opcode vf_completes_as(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	default: return IBV_WC_SEND;
	}
}

void vf_complete_send(struct vf_qp *qp, uint32_t index, enum ibv_wc_status status)
{
	const struct vf_send *send = vf_send_at(qp, index);
	struct vf_cqe cqe = { .qp = qp, .index = index, .send = true };

	cqe.wc = error_wc(qp, send->wr_id, status);
	if (status == IBV_WC_SUCCESS) {
		cqe.wc.opcode = vf_completes_as(send->opcode);
		cqe.wc.byte_len = send->length;
		cqe.wc.wc_flags = 0;
		cqe.wc.vendor_err = 0;
	}
	qp->reported = index + 1;
	qp->send_errors += status != IBV_WC_SUCCESS;
	add(vf_cq_of(qp->ex.qp_base.send_cq), &cqe);
}

void vf_complete_recv(struct vf_qp *qp, uint64_t wr_id, uint32_t index, enum ibv_wc_status status,
		      const struct ibv_wc *good)
{
	struct vf_cqe cqe = { .qp = qp, .index = index };

	cqe.wc = error_wc(qp, wr_id, status);
	qp->recv_errors += !good;
	if (good) {
		cqe.wc = *good;
		cqe.wc.wr_id = wr_id;
		cqe.wc.qp_num = qp->ex.qp_base.qp_num;
	}
	add(vf_cq_of(qp->ex.qp_base.recv_cq), &cqe);
}

/* -- flushing --------------------------------------------------------------------------------- */

/* From which request on this provider reports requests as flushed. */
static uint32_t first_flushed(const struct vf_qp *qp)
{
	bool acked_too =
		vf_knob(qp, VF_ACKED_FLUSHED) || (vf_knob(qp, VF_REFUSES_IN_ERR) && !qp->caused);

	if (acked_too || (int32_t)(qp->reported - qp->acked) > 0)
		return qp->reported;
	return qp->acked;
}

static void flush_sends(struct vf_qp *qp)
{
	uint32_t i;

	for (i = first_flushed(qp); (int32_t)(qp->flushable - i) > 0; i++) {
		vf_stats.flushed_acked += (int32_t)(qp->acked - i) > 0;
		vf_complete_send(qp, i, IBV_WC_WR_FLUSH_ERR);
	}
}

static void flush_recvs(struct vf_qp *qp)
{
	for (; (int32_t)(qp->recv_flushable - qp->recv_next) > 0; qp->recv_next++)
		vf_complete_recv(qp, vf_recv_at(qp, qp->recv_next)->wr_id, qp->recv_next,
				 IBV_WC_WR_FLUSH_ERR, NULL);
}

void vf_flush(struct vf_qp *qp, const struct vf_cq *polled)
{
	const struct ibv_qp *ibv = &qp->ex.qp_base;

	if (qp->hw != IBV_QPS_ERR || qp->gone || qp->late)
		return;
	if (ibv->srq && !qp->last_told && !vf_knob(qp, VF_NO_LAST_WQE))
		qp->last_wqe = qp->last_told = true;
	if (!polled && vf_knob(qp, VF_FLUSH_IN_POLL))
		return;
	if (!polled || vf_ibv_cq((struct vf_cq *)polled) == ibv->send_cq)
		flush_sends(qp);
	if (!polled || vf_ibv_cq((struct vf_cq *)polled) == ibv->recv_cq)
		flush_recvs(qp);
}

/* -- polling ---------------------------------------------------------------------------------- */

static bool completes_into(const struct vf_qp *qp, struct vf_cq *cq)
{
	return qp->ex.qp_base.send_cq == vf_ibv_cq(cq) || qp->ex.qp_base.recv_cq == vf_ibv_cq(cq);
}

/* Each poll is a moment that passes for those who are late. */
static void progress(struct vf_cq *cq)
{
	struct vf_qp *qp;

	for (uint32_t i = 0; i < cq->dev->n_qps; i++) {
		qp = cq->dev->qps[i];
		if (!qp || !completes_into(qp, cq))
			continue;
		if (qp->late && !--qp->late)
			vf_flush(qp, NULL);
		vf_flush(qp, cq);
	}
}

static void free_places(const struct vf_cqe *cqe)
{
	struct vf_srq *srq = (struct vf_srq *)cqe->qp->ex.qp_base.srq;

	if (cqe->send)
		cqe->qp->tail = cqe->index + 1;
	else if (srq)
		srq->held--;
	else
		cqe->qp->recv_tail = cqe->index + 1;
}

static bool take(struct vf_cq *cq, struct ibv_wc *wc)
{
	const struct vf_cqe *cqe;

	if (cq->tail == cq->head)
		return false;
	cqe = &cq->cqes[cq->tail++ & (cq->size - 1)];
	free_places(cqe);
	*wc = cqe->wc;
	return true;
}

void vf_forget(struct vf_cq *cq, const struct vf_qp *qp)
{
	uint32_t kept = cq->tail, i;
	struct vf_cqe *cqe;

	for (i = cq->tail; i != cq->head; i++) {
		cqe = &cq->cqes[i & (cq->size - 1)];
		if (cqe->qp == qp)
			free_places(cqe);
		else
			cq->cqes[kept++ & (cq->size - 1)] = *cqe;
	}
	cq->head = kept;
}

int vf_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct vf_cq *cq = vf_cq_of(ibv);
	int got = 0;

	vf_lock(&cq->poll_lock); /* trips if the same thread has a poll of the newer kind open */
	vf_lock(&cq->dev->lock);
	progress(cq);
	while (got < n && take(cq, &wc[got]))
		got++;
	pthread_mutex_unlock(&cq->dev->lock);
	pthread_mutex_unlock(&cq->poll_lock);
	return got;
}

int vf_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct vf_cq *cq = vf_cq_of(ibv);

	vf_lock(&cq->dev->lock);
	if (cq->armed != 1)
		cq->armed = solicited_only ? 2 : 1;
	pthread_mutex_unlock(&cq->dev->lock);
	return 0;
}

/* -- polling by ibv_cq_ex --------------------------------------------------------------------- */

static bool next(struct vf_cq *cq)
{
	bool got;

	vf_lock(&cq->dev->lock);
	progress(cq);
	got = take(cq, &cq->now);
	pthread_mutex_unlock(&cq->dev->lock);
	if (got) {
		cq->ex.wr_id = cq->now.wr_id;
		cq->ex.status = cq->now.status;
	}
	return got;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vf_cq *cq = (struct vf_cq *)ex;

	if (attr->comp_mask)
		return EINVAL;
	vf_lock(&cq->poll_lock);
	if (!next(cq)) {
		pthread_mutex_unlock(&cq->poll_lock);
		return ENOENT;
	}
	cq->polling = true;
	return 0;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct vf_cq *cq = (struct vf_cq *)ex;

	TRIP(!cq->polling);
	return next(cq) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct vf_cq *cq = (struct vf_cq *)ex;

	TRIP(!cq->polling);
	cq->polling = false;
	TRIP(pthread_mutex_unlock(&cq->poll_lock)); /* by the thread that began it */
}

static const struct ibv_wc *now(struct ibv_cq_ex *ex)
{
	struct vf_cq *cq = (struct vf_cq *)ex;

	TRIP(!cq->polling); /* readers are for the time between start_poll and end_poll */
	return &cq->now;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return now(ex)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return now(ex)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return now(ex)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return now(ex)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return now(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return now(ex)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return now(ex)->wc_flags;
}

/* -- objects ---------------------------------------------------------------------------------- */

static void offer_readers(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
}

void vf_cq_make(struct vf_dev *dev, struct vf_cq *cq, uint32_t size, uint64_t wc_flags)
{
	memset(cq, 0, sizeof(*cq));
	cq->dev = dev;
	for (cq->size = 1; cq->size < size; cq->size *= 2)
		;
	cq->cqes = calloc(cq->size, sizeof(*cq->cqes));
	vf_lock_make(&cq->poll_lock);
	cq->ex.context = &dev->verbs.context;
	cq->ex.cqe = (int)size;
	vf_lock(&dev->lock);
	cq->ex.handle = dev->next_handle++;
	pthread_mutex_unlock(&dev->lock);
	if (wc_flags && !(dev->knobs & VF_PLAIN_ONLY))
		offer_readers(&cq->ex, wc_flags);
}

void vf_cq_free(struct vf_cq *cq)
{
	TRIP(cq->polling);
	pthread_mutex_destroy(&cq->poll_lock);
	free(cq->cqes);
}
