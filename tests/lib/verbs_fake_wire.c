/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the NIC and its peer execute, and what they look at. */
#include <string.h>

#include "tests/lib/verbs_fake_priv.h"

/* -- keys ------------------------------------------------------------------------------------- */

static const uint8_t *region_at(const struct vf_dev *dev, const struct ibv_sge *sge)
{
	const struct vf_region *r;

	for (uint32_t i = 0; i < dev->n_regions; i++) {
		r = &dev->regions[i];
		if (r->lkey == sge->lkey && sge->addr >= (uintptr_t)r->at &&
		    sge->addr + sge->length <= (uintptr_t)r->at + r->length)
			return (const uint8_t *)(uintptr_t)sge->addr;
	}
	return NULL;
}

/* NULL: the address is a number of the test's. */
static const uint8_t *check_sge(const struct vf_qp *qp, const struct ibv_sge *sge)
{
	const uint8_t *at = region_at(qp->dev, sge);

	if (!at && sge->length)
		TRIP(sge->lkey != vf_key_on(vf_lkey(sge->addr), qp->dev->index));
	return at;
}

/* IBA 9.7.4.1.5, C9-88 ff.: the R_Key of a request without data is not looked at. */
static void check_remote(const struct vf_qp *qp, const struct vf_send *send)
{
	bool writes =
		send->opcode == IBV_WR_RDMA_WRITE || send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	/* the connection would end of it */
	TRIP(writes && qp->no_remote_write);
	TRIP(send->opcode == IBV_WR_RDMA_READ && qp->no_remote_read);
	if (send->length)
		TRIP(send->rkey != vf_key_on(vf_rkey(send->remote_addr), qp->path));
}

static bool is_remote(uint8_t opcode)
{
	return opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM;
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* -- execution -------------------------------------------------------------------------------- */

static void gather(const struct vf_qp *qp, const struct vf_send *send, struct vf_done *done)
{
	uint32_t filled = 0, part;
	const uint8_t *at;

	if (send->flags & IBV_SEND_INLINE) {
		memcpy(done->data, send->data, VF_DATA);
		return;
	}
	for (uint32_t i = 0; i < send->n_sge; i++) {
		at = check_sge(qp, &send->sge[i]);
		if (!at && !done->id)
			done->id = send->sge[i].addr;
		if (!at)
			done->mark = vf_mark(done->mark, send->sge[i].addr, send->sge[i].length);
		part = send->sge[i].length < VF_DATA - filled ? send->sge[i].length
							      : VF_DATA - filled;
		if (at)
			memcpy(done->data + filled, at, part);
		filled += part;
	}
}

static void add(struct vf_log *log, const struct vf_done *done)
{
	TRIP(log->n == VF_LOG);
	log->done[log->n++] = *done;
}

static void log_done(const struct vf_qp *qp, struct vf_send *send)
{
	struct vf_done done = { .opcode = send->opcode,
				.length = send->length,
				.imm = send->imm,
				.path = qp->path,
				.n_sge = (uint8_t)send->n_sge };

	if (is_remote(send->opcode)) {
		check_remote(qp, send);
		done.id = send->remote_addr;
	}
	gather(qp, send, &done);
	if (is_atomic(send->opcode))
		done.mark = vf_mark(done.mark, send->compare_add, send->swap);
	send->done = done;
	add(&vf_log, &done);
}

/* -- receiving -------------------------------------------------------------------------------- */

static uint64_t any_of(struct vf_srq *srq)
{
	srq->any = srq->any * 6364136223846793005ull + 1442695040888963407ull;
	return (srq->any >> 33) % srq->n;
}

static bool take_recv(struct vf_qp *qp, struct vf_recv *got)
{
	struct vf_srq *srq = (struct vf_srq *)qp->ex.qp_base.srq;
	uint64_t pick;

	if (!srq) {
		if (qp->recv_next == qp->recv_head)
			return false;
		*got = *vf_recv_at(qp, qp->recv_next++);
		return true;
	}
	if (!srq->n)
		return false;
	pick = srq->any ? any_of(srq) : 0;
	*got = srq->recvs[pick];
	srq->n--;
	srq->held++;
	memmove(&srq->recvs[pick], &srq->recvs[pick + 1], (srq->n - pick) * sizeof(srq->recvs[0]));
	return true;
}

static bool receive(struct vf_qp *qp, const struct ibv_wc *wc, struct vf_recv *got)
{
	uint32_t index = qp->recv_next;

	if (!take_recv(qp, got))
		return false;
	for (uint32_t i = 0; i < got->n_sge; i++)
		(void)check_sge(qp, &got->sge[i]);
	vf_complete_recv(qp, got->wr_id, index, IBV_WC_SUCCESS, wc);
	return true;
}

static bool works(const struct vf_qp *qp)
{
	return qp->hw == IBV_QPS_RTS && !qp->gone;
}

/* A flush that is late comes behind all that had been done before it. */
static bool lingers(const struct vf_qp *qp, uint32_t errors)
{
	return qp->hw == IBV_QPS_ERR && qp->late && !qp->gone && !errors;
}

bool vf_receive(struct vf_qp *qp, enum ibv_wc_opcode opcode, uint32_t imm, uint32_t length,
		struct vf_recv *got)
{
	struct ibv_wc wc = { .opcode = opcode, .byte_len = length, .imm_data = imm };
	struct vf_recv unused;
	bool done = false;

	wc.wc_flags = imm ? IBV_WC_WITH_IMM : 0;
	vf_lock(&qp->dev->lock);
	if (works(qp) || lingers(qp, qp->recv_errors))
		done = receive(qp, &wc, got ? got : &unused);
	pthread_mutex_unlock(&qp->dev->lock);
	return done;
}

/* -- requests --------------------------------------------------------------------------------- */

/* False: the peer, which is this QP too, has no receive for it. */
static bool loop_back(struct vf_qp *qp, const struct vf_send *send)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = send->length };
	struct vf_recv got;

	return receive(qp, &wc, &got);
}

static bool execute(struct vf_qp *qp)
{
	struct vf_send *send = vf_send_at(qp, qp->executed);

	if (qp->executed == qp->head)
		return false;
	if (qp->loopback && !loop_back(qp, send))
		return false;
	if (!qp->loopback)
		log_done(qp, send);
	qp->executed++;
	return true;
}

static void acknowledge(struct vf_qp *qp)
{
	const struct vf_send *send = vf_send_at(qp, qp->acked);

	qp->acked++;
	if (!qp->loopback)
		add(&vf_acks, &send->done);
	if (qp->attr.sq_sig_all || send->flags & IBV_SEND_SIGNALED)
		vf_complete_send(qp, qp->acked - 1, IBV_WC_SUCCESS);
}

uint32_t vf_run(struct vf_qp *qp, uint32_t n)
{
	uint32_t done = 0;

	vf_lock(&qp->dev->lock);
	for (; works(qp) && done < n; done++) {
		if (qp->acked == qp->executed && !execute(qp))
			break;
		acknowledge(qp);
	}
	pthread_mutex_unlock(&qp->dev->lock);
	return done;
}

uint32_t vf_run_silently(struct vf_qp *qp, uint32_t n)
{
	uint32_t done = 0;

	vf_lock(&qp->dev->lock);
	while (works(qp) && done < n && execute(qp))
		done++;
	pthread_mutex_unlock(&qp->dev->lock);
	return done;
}

uint32_t vf_ack(struct vf_qp *qp, uint32_t n)
{
	uint32_t done = 0;

	vf_lock(&qp->dev->lock);
	for (; (works(qp) || lingers(qp, qp->send_errors)) && done < n && qp->acked != qp->executed;
	     done++)
		acknowledge(qp);
	pthread_mutex_unlock(&qp->dev->lock);
	return done;
}

uint32_t vf_lose(struct vf_qp *qp, uint32_t n)
{
	uint32_t done = 0;

	vf_lock(&qp->dev->lock);
	for (; works(qp) && done < n; done++) {
		if (qp->acked == qp->executed && !execute(qp))
			break;
		qp->acked++;
	}
	pthread_mutex_unlock(&qp->dev->lock);
	return done;
}

void vf_haunt(struct vf_qp *qp)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8 };
	struct vf_recv got;

	vf_lock(&qp->dev->lock);
	qp->gone = false;
	while (qp->acked != qp->executed)
		acknowledge(qp);
	(void)receive(qp, &wc, &got);
	vf_flush(qp, NULL);
	pthread_mutex_unlock(&qp->dev->lock);
}

uint32_t vf_waiting(const struct vf_qp *qp)
{
	return qp->hw == IBV_QPS_ERR ? 0 : qp->head - qp->acked;
}
