/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Objects, and what posting does. */
#include "tests/lib/verbs_fake.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/verbs_fake_priv.h"

struct vf_log vf_log, vf_acks;
struct vf_stats vf_stats;
_Atomic uint32_t vf_keys_turn;

static const char *const knob_names[] = {
	"refuses in ERR",
	"acked flushed",
	"no late receive flush",
	"takes more",
	"flush by state",
	"no last WQE",
	"plain only",
	"flush in poll",
	"flush comes late",
	"refuses receives in ERR",
};

_Static_assert(sizeof(knob_names) / sizeof(knob_names[0]) == VF_KNOBS, "a name for each knob");

const char *vf_knob_name(uint32_t number)
{
	return number < VF_KNOBS ? knob_names[number] : NULL;
}

void vf_lock_make(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

void vf_lock(pthread_mutex_t *lock)
{
	int err = pthread_mutex_lock(lock);

	TRIP(err == EDEADLK);
}

void vf_reset(void)
{
	memset(&vf_log, 0, sizeof(vf_log));
	memset(&vf_acks, 0, sizeof(vf_acks));
	memset(&vf_stats, 0, sizeof(vf_stats));
	atomic_store(&vf_keys_turn, 0);
}

/* -- posting ---------------------------------------------------------------------------------- */

static bool carries_data(enum ibv_wr_opcode op)
{
	return op != IBV_WR_RDMA_READ && op != IBV_WR_ATOMIC_FETCH_AND_ADD &&
	       op != IBV_WR_ATOMIC_CMP_AND_SWP;
}

static bool known(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE ||
	       op == IBV_WR_RDMA_WRITE_WITH_IMM || op == IBV_WR_RDMA_READ ||
	       op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

int vf_check_shape(const struct vf_qp *qp, const struct vf_send *send)
{
	enum ibv_wr_opcode op = send->opcode;
	bool inlined = send->flags & IBV_SEND_INLINE;

	if (known(op) && send->n_sge <= qp->cap.max_send_sge &&
	    !(inlined && (!carries_data(op) || send->length > qp->cap.max_inline_data)))
		return 0;
	vf_stats.refused_shape++;
	return EINVAL;
}

static void copy_inline(struct vf_send *send, const struct ibv_sge *sge, int n)
{
	for (int i = 0; i < n; i++) {
		if (send->length + sge[i].length <= VF_INLINE)
			memcpy(send->data + send->length, (const void *)(uintptr_t)sge[i].addr,
			       sge[i].length);
		send->length += sge[i].length;
	}
}

static int copy_send(const struct vf_qp *qp, const struct ibv_send_wr *wr, struct vf_send *send)
{
	memset(send, 0, sizeof(*send));
	send->wr_id = wr->wr_id;
	send->opcode = wr->opcode;
	send->flags = wr->send_flags;
	if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		send->imm = wr->imm_data;
	send->n_sge = wr->num_sge;
	send->remote_addr = wr->wr.rdma.remote_addr;
	send->rkey = wr->wr.rdma.rkey;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		send->remote_addr = wr->wr.atomic.remote_addr;
		send->rkey = wr->wr.atomic.rkey;
		send->compare_add = wr->wr.atomic.compare_add;
		send->swap = wr->wr.atomic.swap;
	}
	if (send->n_sge <= qp->cap.max_send_sge) {
		if (send->flags & IBV_SEND_INLINE)
			copy_inline(send, wr->sg_list, wr->num_sge);
		else
			for (uint32_t i = 0; i < send->n_sge; i++) {
				send->sge[i] = wr->sg_list[i];
				send->length += wr->sg_list[i].length;
			}
	}
	return vf_check_shape(qp, send);
}

int vf_may_post(struct vf_qp *qp)
{
	if (qp->hw == IBV_QPS_RESET || qp->hw == IBV_QPS_INIT || qp->hw == IBV_QPS_RTR) {
		vf_stats.refused_reset++;
		return EINVAL;
	}
	if (vf_knob(qp, VF_REFUSES_IN_ERR) && vf_ibv(qp)->state != IBV_QPS_RTS) {
		vf_stats.refused_err++;
		return EINVAL;
	}
	return 0;
}

int vf_push(struct vf_qp *qp, const struct vf_send *send)
{
	uint32_t used = qp->head - qp->tail;
	bool more = vf_knob(qp, VF_TAKES_MORE);

	if (!more && used >= qp->cap.max_send_wr) {
		vf_stats.refused_room++;
		return ENOMEM;
	}
	TRIP(used >= qp->cap.max_send_wr); /* taken, and nobody promised that */
	*vf_send_at(qp, qp->head++) = *send;
	return 0;
}

void vf_posted(struct vf_qp *qp)
{
	if (qp->hw != IBV_QPS_ERR)
		return;
	if (!vf_knob(qp, VF_FLUSH_BY_STATE) || vf_ibv(qp)->state == IBV_QPS_ERR)
		qp->flushable = qp->head;
	vf_flush(qp, NULL);
}

/* Brent's: a list that comes back to itself would be posted for ever. */
static void check_ends(const struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *old = wr;
	uint32_t steps = 0, limit = 2;

	while (wr) {
		wr = wr->next;
		TRIP(wr && wr == old);
		if (++steps == limit) {
			steps = 0;
			limit *= 2;
			old = wr;
		}
	}
}

/* Its provider has no place for that one, for a reason of its own. */
static bool refuses(uint32_t *which)
{
	return *which && !--*which;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vf_qp *qp = vf_qp_of(ibv);
	struct vf_send send;
	int err;

	TRIP(atomic_exchange(&qp->in_send, true)); /* two threads in one queue */
	check_ends(wr);
	vf_lock(&qp->dev->lock);
	err = vf_may_post(qp);
	for (; wr && !err; wr = err ? wr : wr->next) {
		err = refuses(&qp->refuse_send) ? ENOSPC : copy_send(qp, wr, &send);
		if (!err)
			err = vf_push(qp, &send);
	}
	if (err)
		*bad = wr;
	vf_posted(qp);
	pthread_mutex_unlock(&qp->dev->lock);
	atomic_store(&qp->in_send, false);
	if (qp->dev->posted)
		qp->dev->posted();
	return err;
}

static int copy_recv(const struct ibv_recv_wr *wr, uint32_t max_sge, struct vf_recv *recv)
{
	memset(recv, 0, sizeof(*recv));
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge) {
		vf_stats.refused_shape++;
		return EINVAL;
	}
	recv->wr_id = wr->wr_id;
	recv->n_sge = (uint32_t)wr->num_sge;
	memcpy(recv->sge, wr->sg_list, recv->n_sge * sizeof(recv->sge[0]));
	return 0;
}

static int push_recv(struct vf_qp *qp, const struct ibv_recv_wr *wr)
{
	uint32_t used = qp->recv_head - qp->recv_tail;
	struct vf_recv recv;
	int err;

	err = copy_recv(wr, qp->cap.max_recv_sge, &recv);
	if (err)
		return err;
	if (!vf_knob(qp, VF_TAKES_MORE) && used >= qp->cap.max_recv_wr) {
		vf_stats.refused_room++;
		return ENOMEM;
	}
	TRIP(used >= qp->cap.max_recv_wr);
	*vf_recv_at(qp, qp->recv_head++) = recv;
	return 0;
}

static int may_post_recv(struct vf_qp *qp)
{
	if (qp->hw == IBV_QPS_RESET || qp->ex.qp_base.srq) {
		vf_stats.refused_reset++;
		return EINVAL;
	}
	if (vf_knob(qp, VF_REFUSES_RECV_IN_ERR) && vf_ibv(qp)->state == IBV_QPS_ERR) {
		vf_stats.refused_err++;
		return EINVAL;
	}
	return 0;
}

static void posted_recv(struct vf_qp *qp)
{
	if (qp->hw != IBV_QPS_ERR)
		return;
	if (vf_knob(qp, VF_NO_LATE_RECV_FLUSH))
		vf_stats.recvs_lost++;
	else if (!vf_knob(qp, VF_FLUSH_BY_STATE) || vf_ibv(qp)->state == IBV_QPS_ERR)
		qp->recv_flushable = qp->recv_head;
	vf_flush(qp, NULL);
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vf_qp *qp = vf_qp_of(ibv);
	int err;

	TRIP(atomic_exchange(&qp->in_recv, true));
	vf_lock(&qp->dev->lock);
	err = may_post_recv(qp);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = refuses(&qp->refuse_recv) ? ENOSPC : push_recv(qp, wr);
	if (err)
		*bad = wr;
	posted_recv(qp);
	pthread_mutex_unlock(&qp->dev->lock);
	atomic_store(&qp->in_recv, false);
	return err;
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vf_srq *srq = (struct vf_srq *)ibv;
	int err = 0;

	vf_lock(&srq->dev->lock);
	for (; wr && !err; wr = err ? wr : wr->next) {
		if (srq->n + srq->held >= srq->max_wr) {
			vf_stats.refused_room++;
			err = ENOMEM;
		} else {
			err = copy_recv(wr, srq->max_sge, &srq->recvs[srq->n]);
			srq->n += !err;
		}
	}
	if (err)
		*bad = wr;
	pthread_mutex_unlock(&srq->dev->lock);
	return err;
}

/* -- devices ---------------------------------------------------------------------------------- */

static int query_device(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	attr->orig_attr.phys_port_cnt = 1;
	attr->orig_attr.max_qp = VF_QPS;
	attr->orig_attr.max_qp_wr = 1 << 14;
	attr->orig_attr.max_sge = VF_SGES;
	attr->orig_attr.max_srq = VF_QPS;
	attr->orig_attr.atomic_cap = IBV_ATOMIC_HCA;
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr,
		      size_t size)
{
	memset(attr, 0, size);
	attr->state = IBV_PORT_ACTIVE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	return port == 1 ? 0 : EINVAL;
}

void vf_dev_make(struct vf_dev *dev, uint32_t index, uint32_t knobs)
{
	static _Atomic uint32_t made;
	uint32_t fd =
		2000 + 2 * (made++ % 16384); /* engines have a table of them: again, in time */
	struct ibv_context *ctx = &dev->verbs.context;

	memset(dev, 0, sizeof(*dev));
	vf_lock_make(&dev->lock);
	dev->index = index;
	dev->knobs = knobs;
	dev->next_handle = 1;
	snprintf(dev->device.name, sizeof(dev->device.name), "fake_%u", index);
	snprintf(dev->device.dev_name, sizeof(dev->device.dev_name), "uverbs%u", index);
	dev->device.node_type = IBV_NODE_CA;
	dev->device.transport_type = IBV_TRANSPORT_IB;
	dev->verbs.sz = sizeof(dev->verbs);
	dev->verbs.query_device_ex = query_device;
	dev->verbs.query_port = query_port;
	ctx->abi_compat = (void *)UINTPTR_MAX;
	ctx->device = &dev->device;
	ctx->cmd_fd = (int)fd;
	ctx->async_fd = (int)fd + 1;
	ctx->num_comp_vectors = 1;
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = post_recv;
	ctx->ops.post_srq_recv = post_srq_recv;
	/* some engines know providers by the library that their verbs are in */
	vf_hns_poll = vf_poll_cq;
	vf_rxe_poll = vf_poll_cq;
	ctx->ops.poll_cq = knobs & VF_NO_LAST_WQE ? vf_poll_cq : vf_hns_poll_cq;
	if (knobs & VF_DOWN_IS_OP)
		ctx->ops.poll_cq = vf_rxe_poll_cq;
	ctx->ops.req_notify_cq = vf_req_notify_cq;
}

void vf_dev_free(struct vf_dev *dev)
{
	for (uint32_t i = 0; i < dev->n_qps; i++)
		TRIP(dev->qps[i]); /* destroyed before their device */
	pthread_mutex_destroy(&dev->lock);
}

uint32_t vf_reg(struct vf_dev *dev, const void *at, size_t length)
{
	struct vf_region *region;

	vf_lock(&dev->lock);
	TRIP(dev->n_regions == VF_REGIONS);
	region = &dev->regions[dev->n_regions++];
	/* none that any translation gives */
	region->lkey = 0x80000000u | dev->index << 16 | dev->n_regions;
	region->at = at;
	region->length = length;
	pthread_mutex_unlock(&dev->lock);
	return region->lkey;
}

void vf_dereg(struct vf_dev *dev, uint32_t lkey)
{
	vf_lock(&dev->lock);
	for (uint32_t i = 0; i < dev->n_regions; i++)
		if (dev->regions[i].lkey == lkey)
			dev->regions[i].length = 0;
	pthread_mutex_unlock(&dev->lock);
}

/* -- queue pairs, shared receive queues ------------------------------------------------------- */

static uint32_t power_above(uint32_t n)
{
	uint32_t size = 2;

	while (size <= n)
		size *= 2;
	return size;
}

static void fill_attr(struct vf_qp *qp, struct vf_cq *scq, struct vf_cq *rcq, struct vf_srq *srq,
		      const struct vf_geometry *g)
{
	bool ex = !(qp->dev->knobs & VF_PLAIN_ONLY) && !g->plain;

	qp->cap = (struct ibv_qp_cap){ g->send_wr, srq ? 0 : g->recv_wr, g->send_sge,
				       srq ? 0 : g->recv_sge, g->max_inline };
	qp->attr = (struct ibv_qp_init_attr_ex){
		.send_cq = vf_ibv_cq(scq),
		.recv_cq = vf_ibv_cq(rcq),
		.srq = srq ? &srq->ibv : NULL,
		.cap = qp->cap,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = g->sig_all,
	};
	if (!ex)
		return;
	qp->attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp->attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	vf_offer_wr(qp);
}

static void join_device(struct vf_qp *qp)
{
	struct vf_dev *dev = qp->dev;

	vf_lock(&dev->lock);
	TRIP(dev->n_qps == VF_QPS);
	/* the same numbers on each device */
	qp->ex.qp_base.qp_num = 0x40 + dev->n_qps;
	qp->ex.qp_base.handle = dev->next_handle++;
	dev->qps[dev->n_qps++] = qp;
	pthread_mutex_unlock(&dev->lock);
}

void vf_qp_make(struct vf_dev *dev, struct vf_qp *qp, struct vf_cq *scq, struct vf_cq *rcq,
		struct vf_srq *srq, const struct vf_geometry *g)
{
	struct ibv_qp *ibv = vf_ibv(qp);

	TRIP(g->send_sge > VF_SGES || g->recv_sge > VF_SGES || g->max_inline > VF_INLINE);
	TRIP(scq->dev != dev || rcq->dev != dev || (srq && srq->dev != dev));
	memset(qp, 0, sizeof(*qp));
	qp->dev = dev;
	qp->send_room = power_above(g->send_wr);
	qp->recv_room = power_above(g->recv_wr);
	qp->sends = calloc(qp->send_room, sizeof(*qp->sends));
	qp->recvs = calloc(qp->recv_room, sizeof(*qp->recvs));
	ibv->context = &dev->verbs.context;
	ibv->send_cq = vf_ibv_cq(scq);
	ibv->recv_cq = vf_ibv_cq(rcq);
	ibv->srq = srq ? &srq->ibv : NULL;
	ibv->qp_type = IBV_QPT_RC;
	ibv->state = qp->hw = IBV_QPS_RTS;
	fill_attr(qp, scq, rcq, srq, g);
	join_device(qp);
}

void vf_qp_free(struct vf_qp *qp)
{
	struct ibv_qp *ibv = vf_ibv(qp);

	vf_lock(&qp->dev->lock);
	vf_forget(vf_cq_of(ibv->send_cq), qp);
	vf_forget(vf_cq_of(ibv->recv_cq), qp);
	for (uint32_t i = 0; i < qp->dev->n_qps; i++)
		if (qp->dev->qps[i] == qp)
			qp->dev->qps[i] = NULL;
	pthread_mutex_unlock(&qp->dev->lock);
	vf_builder_free(qp);
	free(qp->sends);
	free(qp->recvs);
}

void vf_srq_make(struct vf_dev *dev, struct vf_srq *srq, uint32_t max_wr, uint32_t max_sge)
{
	memset(srq, 0, sizeof(*srq));
	srq->dev = dev;
	srq->max_wr = max_wr;
	srq->max_sge = max_sge;
	srq->recvs = calloc(max_wr, sizeof(*srq->recvs));
	srq->ibv.context = &dev->verbs.context;
	vf_lock(&dev->lock);
	srq->ibv.handle = dev->next_handle++;
	pthread_mutex_unlock(&dev->lock);
}

void vf_srq_free(struct vf_srq *srq)
{
	free(srq->recvs);
}

/* -- states ----------------------------------------------------------------------------------- */

static void to_reset(struct vf_qp *qp)
{
	vf_forget(vf_cq_of(vf_ibv(qp)->send_cq), qp);
	vf_forget(vf_cq_of(vf_ibv(qp)->recv_cq), qp);
	qp->tail = qp->reported = qp->acked = qp->executed = qp->flushable = qp->head;
	qp->recv_tail = qp->recv_next = qp->recv_flushable = qp->recv_head;
	qp->caused = qp->last_wqe = qp->last_told = false;
	qp->late = qp->send_errors = qp->recv_errors = 0;
}

static void to_err(struct vf_qp *qp)
{
	if (qp->hw != IBV_QPS_ERR)
		qp->late = vf_knob(qp, VF_FLUSH_LATE) ? VF_DELAY : 0;
	qp->flushable = qp->head;
	qp->recv_flushable = qp->recv_head;
}

void vf_modify(struct vf_qp *qp, enum ibv_qp_state state)
{
	vf_lock(&qp->dev->lock);
	if (state == IBV_QPS_RESET)
		to_reset(qp);
	if (state == IBV_QPS_ERR)
		to_err(qp);
	qp->hw = state;
	vf_ibv(qp)->state = state;
	if (state == IBV_QPS_ERR)
		vf_flush(qp, NULL);
	pthread_mutex_unlock(&qp->dev->lock);
}

void vf_die(struct vf_qp *qp, enum ibv_wc_status cause)
{
	uint32_t first;

	vf_lock(&qp->dev->lock);
	to_err(qp);
	qp->hw = IBV_QPS_ERR;
	if (qp->acked != qp->head && !qp->gone) {
		first = vf_knob(qp, VF_ACKED_FLUSHED) ? qp->reported : qp->acked;
		qp->caused = true;
		vf_complete_send(qp, first, cause);
	}
	vf_flush(qp, NULL);
	pthread_mutex_unlock(&qp->dev->lock);
}

void vf_link_down(struct vf_qp *qp)
{
	vf_die(qp, vf_knob(qp, VF_DOWN_IS_OP) ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_RETRY_EXC_ERR);
}

void vf_die_receiving(struct vf_qp *qp, enum ibv_wc_status cause)
{
	vf_lock(&qp->dev->lock);
	to_err(qp);
	qp->hw = IBV_QPS_ERR;
	if (qp->recv_next != qp->recv_head && !qp->gone) {
		vf_complete_recv(qp, vf_recv_at(qp, qp->recv_next)->wr_id, qp->recv_next, cause,
				 NULL);
		qp->recv_next++;
	}
	vf_flush(qp, NULL);
	pthread_mutex_unlock(&qp->dev->lock);
}

void vf_vanish(struct vf_qp *qp)
{
	vf_lock(&qp->dev->lock);
	qp->gone = true;
	pthread_mutex_unlock(&qp->dev->lock);
}

void vf_tick(struct vf_dev *dev)
{
	vf_lock(&dev->lock);
	for (uint32_t i = 0; i < dev->n_qps; i++)
		if (dev->qps[i]) {
			dev->qps[i]->late = 0;
			vf_flush(dev->qps[i], NULL);
		}
	pthread_mutex_unlock(&dev->lock);
}

bool vf_last_wqe(struct vf_qp *qp)
{
	bool was;

	vf_lock(&qp->dev->lock);
	was = qp->last_wqe;
	qp->last_wqe = false;
	pthread_mutex_unlock(&qp->dev->lock);
	return was;
}
