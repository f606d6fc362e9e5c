/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs by plain verbs: made, connected, used. */
#include <errno.h>
#include <string.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/plain.h"
#include "tools/probe/probe.h"

#define PLAIN_CQES    256
#define PLAIN_PSN     7
#define PLAIN_TIMEOUT 20 /* 4 s: what a check leaves unanswered is not sent again meanwhile */
#define PLAIN_RETRY   7
#define PLAIN_BYTES   64u

/* ---- made ------------------------------------------------------------------------------------ */

struct ibv_cq *pr_plain_cq_ex(struct pr_dev *dev, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = PLAIN_CQES, .wc_flags = wc_flags };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(dev->ctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *qp_make(struct pr_dev *dev, struct ibv_qp_init_attr_ex init, bool extended,
			      struct ibv_qp_cap *cap)
{
	struct ibv_qp *qp;

	init.comp_mask = IBV_QP_INIT_ATTR_PD;
	init.pd = dev->pd;
	if (extended) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	}
	qp = ibv_create_qp_ex(dev->ctx, &init);
	*cap = init.cap;
	return qp;
}

static int queues_make(struct pr_plain_end *end, struct pr_dev *dev, bool extended)
{
	if (extended)
		end->scq = pr_plain_cq_ex(dev, IBV_WC_EX_WITH_BYTE_LEN);
	end->cq_ex = end->scq != NULL;
	if (!end->scq)
		end->scq = ibv_create_cq(dev->ctx, PLAIN_CQES, NULL, NULL, 0);
	end->rcq = end->scq ? ibv_create_cq(dev->ctx, PLAIN_CQES, NULL, NULL, 0) : NULL;
	return end->rcq ? 0 : pr_fail("cannot make a completion queue: %s", strerror(errno));
}

static int end_make(struct pr_plain_end *end, struct pr_dev *dev, struct ibv_srq *srq,
		    bool extended)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.srq = srq,
		.cap = { PLAIN_WR, srq ? 0 : PLAIN_WR, 1, 1, 0 },
	};

	if (queues_make(end, dev, extended))
		return -1;
	init.send_cq = end->scq;
	init.recv_cq = end->rcq;
	if (extended)
		end->qp = qp_make(dev, init, true, &end->cap);
	end->qp_ex = end->qp && ibv_qp_to_qp_ex(end->qp);
	if (!end->qp)
		end->qp = qp_make(dev, init, false, &end->cap);
	return end->qp ? 0 : pr_fail("cannot make a queue pair: %s", strerror(errno));
}

static void end_free(struct pr_plain_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->rcq)
		ibv_destroy_cq(end->rcq);
	if (end->scq)
		ibv_destroy_cq(end->scq);
	memset(end, 0, sizeof(*end));
}

/* ---- connected ------------------------------------------------------------------------------- */

static int to_init(struct pr_plain_end *end, unsigned access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = access };
	int err =
		ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return err ? pr_fail("a queue pair cannot be taken to INIT: %s", strerror(err)) : 0;
}

static int to_rts(struct pr_plain_end *end, const struct pr_plain_end *to, struct pr_dev *dev)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = dev->port.active_mtu,
				    .dest_qp_num = to->qp->qp_num,
				    .rq_psn = PLAIN_PSN,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12 };
	int err;

	pr_ah_fill(dev, &dev->gid, dev->port.lid, &attr.ah_attr);
	err = ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (err)
		return pr_fail("a queue pair cannot be taken to RTR: %s", strerror(err));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = PLAIN_PSN,
				     .timeout = PLAIN_TIMEOUT,
				     .retry_cnt = PLAIN_RETRY,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	err = ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	return err ? pr_fail("a queue pair cannot be taken to RTS: %s", strerror(err)) : 0;
}

static int pair_make(struct pr_plain *pair, const struct pr_plain_options *opt)
{
	const unsigned all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct pr_dev *dev = pair->dev;

	if (opt->srq) {
		pair->srq = pr_srq_make(dev);
		if (!pair->srq)
			return -1;
	}
	if (end_make(&pair->a, dev, NULL, opt->extended) ||
	    end_make(&pair->b, dev, pair->srq, false) || to_init(&pair->a, all) ||
	    to_init(&pair->b, opt->no_rights ? 0 : all))
		return -1;
	return to_rts(&pair->b, &pair->a, dev) || to_rts(&pair->a, &pair->b, dev) ? -1 : 0;
}

int pr_plain_open(struct pr_plain *pair, struct pr_dev *dev, const struct pr_plain_options *opt)
{
	memset(pair, 0, sizeof(*pair));
	pair->dev = dev;
	pr_events_clear(dev);
	if (!pair_make(pair, opt))
		return 0;
	pr_plain_close(pair);
	return -1;
}

/* Events name objects that must be there when they are acknowledged. */
void pr_plain_close(struct pr_plain *pair)
{
	pr_events_clear(pair->dev);
	end_free(&pair->a);
	end_free(&pair->b);
	if (pair->srq)
		ibv_destroy_srq(pair->srq);
	pair->srq = NULL;
}

int pr_plain_state(struct pr_plain_end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int err = ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);

	return err ? pr_fail("a queue pair cannot be taken to %s: %s",
			     state == IBV_QPS_ERR ? "ERR" : "RESET", strerror(err))
		   : 0;
}

/* ---- used ------------------------------------------------------------------------------------ */

int pr_plain_post(struct pr_plain *pair, uint64_t id, enum ibv_wr_opcode opcode, uint32_t len,
		  bool signaled)
{
	struct pr_dev *dev = pair->dev;
	struct ibv_sge sge = { (uintptr_t)dev->mem + PR_OUT, len, dev->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = len ? 1 : 0,
				  .opcode = opcode,
				  .send_flags = signaled ? IBV_SEND_SIGNALED : 0 },
			   *bad;

	wr.wr.rdma.remote_addr = len ? (uintptr_t)dev->mem : 0;
	wr.wr.rdma.rkey = len ? dev->mr->rkey : 0;
	return ibv_post_send(pair->a.qp, &wr, &bad);
}

int pr_plain_recv(struct pr_plain *pair, const struct pr_plain_end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)pair->dev->mem + PR_OUT / 2, PLAIN_BYTES,
			       pair->dev->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return end->qp->srq ? ibv_post_srq_recv(end->qp->srq, &wr, &bad)
			    : ibv_post_recv(end->qp, &wr, &bad);
}

static void seen_add(struct pr_seen *seen, const struct ibv_wc *wc)
{
	if (seen->n < PLAIN_MAX)
		seen->id[seen->n] = wc->wr_id;
	seen->n++;
	seen->status = wc->status;
	if (wc->status == IBV_WC_SUCCESS)
		seen->good++;
	else if (wc->status == IBV_WC_WR_FLUSH_ERR)
		seen->flushed++;
	else
		seen->other++;
}

void pr_plain_look(struct ibv_cq *cq, uint64_t last, unsigned ms, struct pr_seen *seen)
{
	uint64_t quiet_ns = pr_now_ns() + ms * 1000000ull;
	struct ibv_wc wc;

	*seen = (struct pr_seen){ .status = IBV_WC_SUCCESS };
	for (;;) {
		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			seen_add(seen, &wc);
			if (wc.wr_id == last)
				return;
			quiet_ns = pr_now_ns() + ms * 1000000ull;
		} else if (pr_now_ns() >= quiet_ns) {
			return;
		} else {
			pr_nap_us(100);
		}
	}
}

bool pr_seen_rises(const struct pr_seen *seen)
{
	for (unsigned i = 1; i < seen->n && i < PLAIN_MAX; i++)
		if (seen->id[i] <= seen->id[i - 1])
			return false;
	return true;
}
