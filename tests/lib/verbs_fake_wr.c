/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_wr_*: requests are built one by one and posted together, or not at all. */
#include <errno.h>
#include <string.h>

#include "tests/lib/verbs_fake_priv.h"

static struct vf_builder *builder(struct ibv_qp_ex *ex)
{
	struct vf_builder *b = vf_qp_of(&ex->qp_base)->builder;

	TRIP(!b->open); /* outside of wr_start and wr_complete */
	return b;
}

/* Every request needs its data before the next one, but for those without any. */
static struct vf_send *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct vf_builder *b = builder(ex);
	struct vf_send *send;

	if (b->n == b->room) {
		b->error = ENOMEM;
		b->n--; /* somewhere to write to */
	}
	send = &b->sends[b->n++];
	memset(send, 0, sizeof(*send));
	send->opcode = opcode;
	send->wr_id = ex->wr_id;
	send->flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	b->has_data = false;
	return send;
}

static struct vf_send *data_of(struct ibv_qp_ex *ex)
{
	struct vf_builder *b = builder(ex);

	TRIP(!b->n || b->has_data);
	b->has_data = true;
	return &b->sends[b->n - 1];
}

static void remote(struct vf_send *send, uint32_t rkey, uint64_t addr)
{
	send->rkey = rkey;
	send->remote_addr = addr;
}

/* -- requests --------------------------------------------------------------------------------- */

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM)->imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	remote(begin(ex, IBV_WR_RDMA_WRITE), rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct vf_send *send = begin(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

	remote(send, rkey, addr);
	send->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	remote(begin(ex, IBV_WR_RDMA_READ), rkey, addr);
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct vf_send *send = begin(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	remote(send, rkey, addr);
	send->compare_add = add;
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
		       uint64_t swap)
{
	struct vf_send *send = begin(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	remote(send, rkey, addr);
	send->compare_add = compare;
	send->swap = swap;
}

/* -- data ------------------------------------------------------------------------------------- */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	struct vf_send *send = data_of(ex);

	send->n_sge = (uint32_t)n;
	for (size_t i = 0; i < n && i < VF_SGES; i++) {
		send->sge[i] = sge[i];
		send->length += sge[i].length;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { addr, length, lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *buf)
{
	struct vf_send *send = data_of(ex);

	send->flags |= IBV_SEND_INLINE;
	for (size_t i = 0; i < n; i++) {
		if (send->length + buf[i].length <= VF_INLINE)
			memcpy(send->data + send->length, buf[i].addr, buf[i].length);
		send->length += (uint32_t)buf[i].length;
	}
}

static void wr_set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	wr_set_inline_list(ex, 1, &buf);
}

/* -- begin and end ---------------------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vf_builder *b = vf_qp_of(&ex->qp_base)->builder;

	vf_lock(&b->lock); /* trips if it was not ended */
	b->open = true;
	b->n = 0;
	b->error = 0;
}

static void end(struct vf_builder *b)
{
	b->open = false;
	TRIP(pthread_mutex_unlock(&b->lock)); /* by the thread that began it */
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	end(builder(ex));
}

static int check_all(struct vf_qp *qp)
{
	const struct vf_builder *b = qp->builder;
	int err = b->error;

	if (!err && qp->refuse_send && qp->refuse_send <= b->n) {
		qp->refuse_send = 0;
		err = ENOSPC;
	}

	for (uint32_t i = 0; i < b->n && !err; i++)
		err = vf_check_shape(qp, &b->sends[i]);
	if (!err && !vf_knob(qp, VF_TAKES_MORE) &&
	    qp->head - qp->tail + b->n > qp->cap.max_send_wr) {
		vf_stats.refused_room++;
		err = ENOMEM;
	}
	return err;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct vf_qp *qp = vf_qp_of(&ex->qp_base);
	struct vf_builder *b = builder(ex);
	int err;

	TRIP(atomic_exchange(&qp->in_send, true));
	vf_lock(&qp->dev->lock);
	err = vf_may_post(qp);
	if (!err)
		err = check_all(qp);
	for (uint32_t i = 0; i < b->n && !err; i++)
		err = vf_push(qp, &b->sends[i]);
	vf_posted(qp);
	pthread_mutex_unlock(&qp->dev->lock);
	atomic_store(&qp->in_send, false);
	end(b);
	return err;
}

/* -- objects ---------------------------------------------------------------------------------- */

void vf_offer_wr(struct vf_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->driver_mask = 1; /* there is an ibv_qp_ex */
	qp->builder = calloc(1, sizeof(*qp->builder));
	qp->builder->room = qp->send_room;
	qp->builder->sends = calloc(qp->send_room, sizeof(struct vf_send));
	vf_lock_make(&qp->builder->lock);
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_fetch_add = wr_fetch_add;
	ex->wr_atomic_cmp_swp = wr_cmp_swp;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline;
	ex->wr_set_inline_data_list = wr_set_inline_list;
}

void vf_builder_free(struct vf_qp *qp)
{
	if (!qp->builder)
		return;
	TRIP(qp->builder->open);
	pthread_mutex_destroy(&qp->builder->lock);
	free(qp->builder->sends);
	free(qp->builder);
}
