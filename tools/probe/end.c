/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: made by libmlx5, then driven through their rings. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/probe.h"

#define END_TIMEOUT 14
#define END_RETRY   7
#define END_RNR	    7  /* for ever */
#define END_RNR_US  12 /* 0.64 ms */
#define END_READS   4

static int rings_find(struct pr_end *end)
{
	struct mlx5dv_obj obj = { .qp = { end->qp, &end->dvq }, .cq = { end->cq, &end->dvc } };

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ))
		return pr_fail("libmlx5 does not give the rings away");
	if (end->dvq.sq.stride != MLX5_SEND_WQE_BB)
		return pr_fail("send requests are of %u bytes, not of 64", end->dvq.sq.stride);
	return 0;
}

int pr_end_make(struct pr_end *end, struct pr_dev *dev, const struct pr_end_options *opt)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.srq = opt->srq,
		.sq_sig_all = opt->sig_all,
		.cap = { PR_SENDS, opt->srq ? 0 : PR_RECVS, 1, 1, 0 },
	};

	memset(end, 0, sizeof(*end));
	end->dev = dev;
	end->srq = opt->srq;
	end->pkey_index = opt->pkey_index;
	end->cq = ibv_create_cq(dev->ctx, PR_CQES, NULL, NULL, 0);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = end->cq ? ibv_create_qp(dev->pd, &init) : NULL;
	if (!end->qp) {
		pr_fail("cannot make a queue pair: %s", strerror(errno));
		pr_end_free(end);
		return -1;
	}
	end->psn = (uint32_t)(pr_now_ns() >> 8) & 0xffffff;
	if (!dev->rings || !rings_find(end))
		return 0;
	pr_end_free(end);
	return -1;
}

void pr_end_free(struct pr_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	memset(end, 0, sizeof(*end));
}

void pr_end_addr(const struct pr_end *end, struct pr_addr *addr)
{
	*addr = (struct pr_addr){
		.qpn = end->qp->qp_num,
		.psn = end->psn,
		.lid = end->dev->port.lid,
		.rkey = end->dev->mr->rkey,
		.mtu = end->dev->port.active_mtu,
		.raddr = (uintptr_t)end->dev->mem,
		.gid = end->dev->gid,
	};
}

void pr_ah_fill(const struct pr_dev *dev, const union ibv_gid *gid, uint32_t lid,
		struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){ .dlid = (uint16_t)lid, .port_num = 1 };
	if (dev->gid_index < 0)
		return;
	ah->is_global = 1;
	ah->grh = (struct ibv_global_route){ .dgid = *gid,
					     .sgid_index = (uint8_t)dev->gid_index,
					     .hop_limit = 64 };
}

/* ---- states ---------------------------------------------------------------------------------- */

static int modify(struct pr_end *end, struct ibv_qp_attr *attr, int mask, const char *to)
{
	int err = ibv_modify_qp(end->qp, attr, mask | IBV_QP_STATE);

	return err ? pr_fail("a queue pair cannot be taken to %s: %s", to, strerror(err)) : 0;
}

static int to_init(struct pr_end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = end->pkey_index,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (end->dev->attr.atomic_cap ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};

	return modify(end, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

static int to_rtr(struct pr_end *end, const struct pr_addr *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = end->dev->port.active_mtu,
				    .dest_qp_num = peer->qpn,
				    .rq_psn = peer->psn,
				    .max_dest_rd_atomic = END_READS,
				    .min_rnr_timer = END_RNR_US };

	if (peer->mtu < (uint32_t)attr.path_mtu)
		attr.path_mtu = (enum ibv_mtu)peer->mtu;
	pr_ah_fill(end->dev, &peer->gid, peer->lid, &attr.ah_attr);
	return modify(end, &attr,
		      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		      "RTR");
}

static int to_rts(struct pr_end *end, const struct pr_end_options *opt)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = end->psn,
				    .timeout = opt->timeout ? opt->timeout : END_TIMEOUT,
				    .retry_cnt = opt->timeout ? opt->retry : END_RETRY,
				    .rnr_retry = END_RNR,
				    .max_rd_atomic = END_READS };

	return modify(end, &attr,
		      IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_MAX_QP_RD_ATOMIC,
		      "RTS");
}

int pr_end_connect(struct pr_end *end, const struct pr_addr *peer, const struct pr_end_options *opt)
{
	if (to_init(end) || to_rtr(end, peer))
		return -1;
	return opt ? to_rts(end, opt) : 0;
}

int pr_end_connect_self(struct pr_end *end, const struct pr_end_options *opt)
{
	struct pr_addr self;

	pr_end_addr(end, &self);
	return pr_end_connect(end, &self, opt);
}

int pr_end_state(struct pr_end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	if (modify(end, &attr, 0, state == IBV_QPS_ERR ? "ERR" : "RESET"))
		return -1;
	if (state == IBV_QPS_RESET) {
		end->post = end->published = 0;
		end->psn = (end->psn + 4096) & 0xffffff;
	}
	return 0;
}

/* ---- receives -------------------------------------------------------------------------------- */

int pr_end_recv(struct pr_end *end, uint32_t n, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)end->dev->mem + off, len, end->dev->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = len ? 1 : 0 }, *bad;

	for (uint32_t i = 0; i < n; i++) {
		int err = end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad)
				   : ibv_post_recv(end->qp, &wr, &bad);

		if (err)
			return pr_fail("cannot post a receive: %s", strerror(err));
		sge.addr += len;
	}
	return 0;
}

struct ibv_srq *pr_srq_make(struct pr_dev *dev)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = PR_SRQ_WR, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(dev->pd, &init);

	if (!srq)
		pr_fail("cannot make a shared receive queue: %s", strerror(errno));
	return srq;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_wanted(const struct ibv_async_event *event, enum ibv_event_type type,
		      const struct ibv_qp *qp)
{
	return event->event_type == type && (!qp || event->element.qp == qp);
}

int pr_event_wait(struct pr_dev *dev, enum ibv_event_type type, const struct ibv_qp *qp,
		  unsigned timeout_ms, uint64_t *at_ns)
{
	uint64_t end_ns = pr_now_ns() + timeout_ms * 1000000ull;
	struct pollfd fd = { dev->ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event event;
	bool wanted;

	do {
		while (!ibv_get_async_event(dev->ctx, &event)) {
			*at_ns = pr_now_ns();
			wanted = is_wanted(&event, type, qp);
			ibv_ack_async_event(&event);
			if (wanted)
				return 0;
		}
		poll(&fd, 1, 10);
	} while (pr_now_ns() < end_ns);
	return pr_fail("no event \"%s\" within %u ms", ibv_event_type_str(type), timeout_ms);
}

void pr_events_clear(struct pr_dev *dev)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(dev->ctx, &event))
		ibv_ack_async_event(&event);
}
