// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Everything between opening the device and connected QPs, and back. */
#include "bytes.h"
#include "device.h"
#include "lane.h"
#include "oob.h"
#include "pattern.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define MUST(expr, what)                                                                           \
	do {                                                                                       \
		if (!(expr))                                                                       \
			verify_fail(NULL, FAIL_SETUP, "%s: %s", what, strerror(errno));            \
	} while (0)

/* For calls that return an errno value instead of setting errno. */
static void must_zero(int rc, const char *what)
{
	if (rc)
		verify_fail(NULL, FAIL_SETUP, "%s: %s", what, strerror(rc < 0 ? errno : rc));
}

static struct ibv_device *device_find(struct ibv_device **list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	return NULL;
}

static void context_open(struct verify *v)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n), *dev;

	MUST(list, "ibv_get_device_list");
	dev = device_find(list, n, v->opt.dev);
	if (!dev)
		verify_fail(NULL, FAIL_SETUP, "no device %s among %d",
			    v->opt.dev ? v->opt.dev : "at all", n);
	v->ctx = ibv_open_device(dev);
	MUST(v->ctx, "ibv_open_device");
	ibv_free_device_list(list);
	must_zero(ibv_query_device(v->ctx, &v->attr), "ibv_query_device");
	must_zero(ibv_query_port(v->ctx, 1, &v->port), "ibv_query_port");
	must_zero(ibv_query_gid(v->ctx, 1, v->opt.gid_index, &v->gid), "ibv_query_gid");
	v->pd = ibv_alloc_pd(v->ctx);
	MUST(v->pd, "ibv_alloc_pd");
}

/* A lane that only wakes by events cannot also poll memory. */
static struct lane *lane_for(struct verify *v, const struct vqp *q)
{
	uint64_t h = hash_of(q, dir_tx(), 0, SALT_STYLE);
	unsigned int pick = q->ops->polls_memory ? (h & 1 ? LANE_NONBLOCKING : LANE_POLLED)
						 : (unsigned int)(h % MAX_LANES);
	struct lane *l = &v->lanes[pick];

	l->qps[l->nqps++] = (struct vqp *)(uintptr_t)q;
	return l;
}

static void qp_plan(struct verify *v, int i)
{
	struct vqp *q = &v->qps[i];
	uint64_t h;

	q->index = i;
	q->pattern = (enum pattern)(v->opt.patterns[(size_t)i % strlen(v->opt.patterns)] - 'a');
	q->ops = pattern_table[q->pattern];
	h = hash_of(q, 0, 0, SALT_STYLE);
	q->initiator = q->pattern == PATTERN_SENDRECV || q->pattern == PATTERN_MIXED ||
		       q->pattern == PATTERN_FENCED || (h & 1) == (uint64_t)v->opt.server;
	h = mix64(hash_of(q, dir_tx(), 1, SALT_STYLE));
	q->wr_api = !v->opt.plain && (h & 2);
	q->sig_all = h % 8 == 4;
	q->lane = lane_for(v, q);
	q->slot_len = (v->opt.max_size + MAX_SGE * SGE_GAP + 127) & ~127u;
	q->mem_len = area_total(q);
}

static void lane_make(struct verify *v, int i)
{
	struct lane *l = &v->lanes[i];
	uint32_t cqe = (uint32_t)l->nqps * (SQ_DEPTH + RQ_DEPTH) + 16;

	l->index = i;
	l->kind = (enum lane_kind)i;
	l->v = v;
	l->extended =
		!v->opt.plain && mix64(v->opt.seed * 8 + (unsigned int)i * 2 + v->opt.server) & 1;
	if (!l->nqps)
		return;
	if (l->kind != LANE_POLLED) {
		l->channel = ibv_create_comp_channel(v->ctx);
		MUST(l->channel, "ibv_create_comp_channel");
	}
	if (l->kind == LANE_NONBLOCKING)
		MUST(!fcntl(l->channel->fd, F_SETFL, fcntl(l->channel->fd, F_GETFL) | O_NONBLOCK),
		     "fcntl");
	if (l->extended) {
		struct ibv_cq_init_attr_ex a = {
			.cqe = cqe,
			.cq_context = l,
			.channel = l->channel,
			.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
				    IBV_WC_EX_WITH_QP_NUM,
		};

		l->cqx = ibv_create_cq_ex(v->ctx, &a);
		MUST(l->cqx, "ibv_create_cq_ex");
		l->cq = ibv_cq_ex_to_cq(l->cqx);
	} else {
		l->cq = ibv_create_cq(v->ctx, (int)cqe, l, l->channel, 0);
		MUST(l->cq, "ibv_create_cq");
	}
}

static void qp_make_extended(struct verify *v, struct vqp *q, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = q,
		.send_cq = q->lane->cq,
		.recv_cq = q->lane->cq,
		.cap = *cap,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = q->sig_all,
		.pd = v->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};

	q->qp = ibv_create_qp_ex(v->ctx, &a);
	MUST(q->qp, "ibv_create_qp_ex");
	q->qpx = ibv_qp_to_qp_ex(q->qp);
	q->inline_max = a.cap.max_inline_data;
}

static void qp_make_plain(struct verify *v, struct vqp *q, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr a = { .qp_context = q,
				      .send_cq = q->lane->cq,
				      .recv_cq = q->lane->cq,
				      .cap = *cap,
				      .qp_type = IBV_QPT_RC,
				      .sq_sig_all = q->sig_all };

	q->qp = ibv_create_qp(v->pd, &a);
	MUST(q->qp, "ibv_create_qp");
	q->inline_max = a.cap.max_inline_data;
}

static void qp_init(struct verify *v, struct vqp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };

	must_zero(
		ibv_modify_qp(q->qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		"ibv_modify_qp to INIT");
}

/* One of those that its port can, the same at both ends where both can. */
static uint8_t mtu_of(const struct verify *v, const struct vqp *q)
{
	uint8_t drawn = (uint8_t)(IBV_MTU_256 + hash_of(q, 0, 3, SALT_STYLE) % IBV_MTU_4096);

	return drawn < v->port.active_mtu ? drawn : (uint8_t)v->port.active_mtu;
}

static void qp_make(struct verify *v, struct vqp *q)
{
	struct ibv_qp_cap cap = { .max_send_wr = SQ_DEPTH,
				  .max_recv_wr = RQ_DEPTH,
				  .max_send_sge = MAX_SGE,
				  .max_recv_sge = MAX_SGE,
				  .max_inline_data = WANT_INLINE };

	must_zero(posix_memalign((void **)&q->mem, 4096, q->mem_len), "memory");
	memset(q->mem, 0, q->mem_len);
	q->mr = ibv_reg_mr(v->pd, q->mem, q->mem_len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	MUST(q->mr, "ibv_reg_mr");
	if (q->wr_api)
		qp_make_extended(v, q, &cap);
	else
		qp_make_plain(v, q, &cap);
	qp_init(v, q);
	q->local =
		(struct peer_info){ .addr = (uintptr_t)q->mem,
				    .rkey = q->mr->rkey,
				    .qpn = q->qp->qp_num,
				    .lid = v->port.lid,
				    .gid = v->gid,
				    .psn = (uint32_t)hash_of(q, dir_tx(), 2, SALT_STYLE) & 0xffffff,
				    .mtu = mtu_of(v, q),
				    .seed = v->opt.seed,
				    .pattern = (uint8_t)q->pattern };
}

void device_open(struct verify *v)
{
	context_open(v);
	for (int i = 0; i < v->opt.qps; i++)
		qp_plan(v, i);
	for (int i = 0; i < MAX_LANES; i++)
		lane_make(v, i);
	for (int i = 0; i < v->opt.qps; i++)
		qp_make(v, &v->qps[i]);
}

static void qp_connect(struct verify *v, struct vqp *q)
{
	int rd = v->attr.max_qp_rd_atom < 8 ? v->attr.max_qp_rd_atom : 8;
	uint8_t mtu = q->local.mtu < q->remote.mtu ? q->local.mtu : q->remote.mtu;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .dest_qp_num = q->remote.qpn,
				 .rq_psn = q->remote.psn,
				 .max_dest_rd_atomic = (uint8_t)rd,
				 .min_rnr_timer = 1,
				 .path_mtu = mtu };

	a.ah_attr.port_num = 1;
	a.ah_attr.dlid = q->remote.lid;
	if (v->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.dgid = q->remote.gid;
		a.ah_attr.grh.sgid_index = (uint8_t)v->opt.gid_index;
		a.ah_attr.grh.hop_limit = 64;
	}
	must_zero(ibv_modify_qp(q->qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
		  "ibv_modify_qp to RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = (uint8_t)v->opt.timeout,
				  .retry_cnt = (uint8_t)v->opt.retry,
				  .rnr_retry = 7,
				  .sq_psn = q->local.psn,
				  .max_rd_atomic = (uint8_t)rd };
	must_zero(ibv_modify_qp(q->qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		  "ibv_modify_qp to RTS");
}

void device_connect(struct verify *v)
{
	struct peer_info mine[MAX_QPS] = { 0 }, theirs[MAX_QPS];

	for (int i = 0; i < v->opt.qps; i++)
		mine[i] = v->qps[i].local;
	if (oob_exchange(v->sock, mine, theirs, sizeof(mine)))
		verify_fail(NULL, FAIL_PEER_GONE, "no addresses from the peer");
	for (int i = 0; i < v->opt.qps; i++) {
		struct vqp *q = &v->qps[i];

		q->remote = theirs[i];
		if (theirs[i].seed != v->opt.seed || theirs[i].pattern != q->pattern)
			verify_fail(NULL, FAIL_SETUP, "the peer has other options");
		/* receives may be posted from INIT on, so that no first message meets an empty
		 * queue */
		q->ops->start(q);
		qp_connect(v, q);
	}
}

/* What the application is told of a QP that never failed must be what it made of it. */
void device_check_states(struct verify *v)
{
	for (int i = 0; i < v->opt.qps; i++) {
		struct vqp *q = &v->qps[i];
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr a;

		if (q->failed)
			continue;
		memset(&a, 0, sizeof(a));
		must_zero(ibv_query_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_DEST_QPN, &init),
			  "ibv_query_qp");
		if (a.qp_state != IBV_QPS_RTS)
			verify_fail(q, FAIL_WRONG_QP_STATE, "state %d, should be RTS", a.qp_state);
		if (a.dest_qp_num != q->remote.qpn)
			verify_fail(q, FAIL_WRONG_QP_STATE, "remote QP %u, should be %u",
				    a.dest_qp_num, q->remote.qpn);
	}
}

void device_close(struct verify *v)
{
	uint64_t bad = 0;

	for (int i = 0; i < v->opt.qps; i++)
		bad += ibv_destroy_qp(v->qps[i].qp) != 0;
	for (int i = 0; i < MAX_LANES; i++) {
		if (v->lanes[i].cq)
			bad += ibv_destroy_cq(v->lanes[i].cq) != 0;
		if (v->lanes[i].channel)
			bad += ibv_destroy_comp_channel(v->lanes[i].channel) != 0;
	}
	for (int i = 0; i < v->opt.qps; i++) {
		bad += ibv_dereg_mr(v->qps[i].mr) != 0;
		free(v->qps[i].mem);
	}
	bad += ibv_dealloc_pd(v->pd) != 0;
	bad += ibv_close_device(v->ctx) != 0;
	v->teardown_errors = bad;
}
