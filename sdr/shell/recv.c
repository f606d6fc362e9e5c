/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receives, as their user sees them. */
#include "sdr/shell/rel.h"

static struct sdr_recv_req *req_of(struct sdr_qp *qp, uint64_t n)
{
	return &qp->recvs[n & (qp->attr.max_msgs - 1)];
}

const _Atomic uint64_t *sdr_recv_bits(struct sdr_qp *qp, uint64_t n)
{
	struct sdr_recv_req *r = req_of(qp, n);

	return r->visible ? r->visible : sdr_core_recv(&qp->core, n)->bits.chunks;
}

/* A chunk is complete at the NIC: it is brought to the buffer, and then seen. */
void sdr_recv_came(struct sdr_qp *qp, uint64_t n, uint32_t chunk)
{
	struct sdr_recv_req *r = req_of(qp, n);
	uint64_t bytes = sdr_chunk_bytes(qp);

	if (!r->visible)
		return;
	qp->backing.ops->came(&qp->backing, (uint32_t)(n & (qp->attr.max_msgs - 1)), chunk * bytes,
			      bytes);
	atomic_fetch_or_explicit(&r->visible[chunk / SDR_WORD], 1ull << (chunk % SDR_WORD),
				 memory_order_release);
}

void sdr_recv_done(struct sdr_qp *qp, uint64_t n)
{
	req_of(qp, n)->done = true;
	if (qp->rel)
		sdr_rel_done(qp->rel, n);
}

int sdr_recv_start(struct sdr_qp *qp, struct sdr_mr *mr, uint64_t addr, uint64_t length,
		   uint64_t word, uint64_t *n)
{
	struct sdr_event e = {
		.type = SDR_EVENT_RECV_POST, .addr = addr, .length = length, .word = word
	};
	struct sdr_recv_req *r = req_of(qp, qp->core.recv_next), before = *r;
	uint32_t chunks = (uint32_t)((length + sdr_chunk_bytes(qp) - 1) / sdr_chunk_bytes(qp));
	int err;

	qp->now = sdr_clock_ns();
	if (qp->error)
		return qp->error;
	if (!qp->connected)
		return -ENOTCONN;
	if (length > sdr_msg_room(qp))
		return -EMSGSIZE;
	if (!length || !sdr_mr_covers(mr, qp, addr, length))
		return -EINVAL;
	if (r->used)
		return -EAGAIN;
	*r = (struct sdr_recv_req){ .qp = qp,
				    .used = true,
				    .n = qp->core.recv_next,
				    .addr = addr,
				    .length = length,
				    .mr = mr,
				    .visible = before.visible };
	err = sdr_qp_step(qp, &e);
	if (err) {
		*r = before;
		return err;
	}
	for (uint32_t i = 0; r->visible && i < sdr_words(chunks); i++)
		atomic_store_explicit(&r->visible[i], 0, memory_order_relaxed);
	*n = e.n;
	return qp->error;
}

void sdr_recv_let_go(struct sdr_recv_req *recv)
{
	recv->mr->uses -= recv->holds;
	recv->used = recv->holds = false;
}

SDR_API int sdr_recv_post(struct sdr_qp *qp, const struct sdr_recv_wr *wr,
			  struct sdr_recv_req **recv)
{
	uint64_t n;
	int err;

	if (qp->rel)
		return -EBUSY;
	if (qp->connected && wr->length > qp->attr.max_msg_size)
		return -EMSGSIZE;
	err = sdr_recv_start(qp, wr->mr, (uintptr_t)wr->addr, wr->length, 0, &n);
	if (err)
		return err;
	*recv = req_of(qp, n);
	(*recv)->holds = true;
	wr->mr->uses++;
	return 0;
}

SDR_API int sdr_recv_bitmap_get(struct sdr_recv_req *recv, const _Atomic uint64_t **bitmap,
				size_t *chunks)
{
	*bitmap = sdr_recv_bits(recv->qp, recv->n);
	*chunks = sdr_core_recv(&recv->qp->core, recv->n)->bits.n_chunks;
	return recv->qp->error;
}

SDR_API int sdr_recv_imm_get(struct sdr_recv_req *recv, uint32_t *imm)
{
	struct sdr_core *core = &recv->qp->core;

	return sdr_core_imm(core, sdr_core_recv(core, recv->n), imm) ? 0 : -EAGAIN;
}

SDR_API int sdr_recv_ended(struct sdr_recv_req *recv)
{
	return recv->qp->error ? recv->qp->error : sdr_core_ended(&recv->qp->core, recv->n);
}

SDR_API int sdr_recv_complete(struct sdr_recv_req *recv)
{
	struct sdr_event e = { .type = SDR_EVENT_RECV_COMPLETE, .n = recv->n };
	struct sdr_qp *qp = recv->qp;
	int err = qp->error ? 0 : sdr_qp_step(qp, &e);

	while (!err && !recv->done && !qp->rails.shut)
		sdr_qp_progress(qp);
	sdr_recv_let_go(recv);
	return err ? err : qp->error;
}
