/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two equal QPs, each in a context of its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/diff/diff.h"

/* clang-format off: a table */
const struct diff_config diff_configs[] = {
	{ .name = "rc",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 128,
	  .one_cq = true },
	{ .name = "rc sig_all",
	  .type = IBV_QPT_RC,
	  .send_wr = 16,
	  .recv_wr = 16,
	  .send_sge = 1,
	  .recv_sge = 1,
	  .inline_bytes = 0,
	  .sig_all = true },
	{ .name = "rc 30 sge",
	  .type = IBV_QPT_RC,
	  .send_wr = 100,
	  .recv_wr = 33,
	  .send_sge = 30,
	  .recv_sge = 16,
	  .inline_bytes = 64,
	  .one_cq = true },
	{ .name = "rc inline",
	  .type = IBV_QPT_RC,
	  .send_wr = 32,
	  .recv_wr = 8,
	  .send_sge = 2,
	  .recv_sge = 3,
	  .inline_bytes = 512,
	  .one_cq = true },
	{ .name = "rc no BlueFlame",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 128,
	  .one_cq = true,
	  .shut_up_bf = "1" },
	{ .name = "rc inline BlueFlame only",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 3,
	  .recv_sge = 2,
	  .inline_bytes = 96,
	  .one_cq = true,
	  .prefer_bf = "0" },
	{ .name = "rc large CQE",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 64,
	  .one_cq = true,
	  .cqe_size = "128" },
	{ .name = "rc cq_ex",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 64,
	  .cq_ex = true,
	  .one_cq = true },
	{ .name = "rc ibv_wr",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 128,
	  .one_cq = true,
	  .wr_calls = true },
	{ .name = "rc ibv_wr cq_ex",
	  .type = IBV_QPT_RC,
	  .send_wr = 50,
	  .recv_wr = 20,
	  .send_sge = 13,
	  .recv_sge = 5,
	  .inline_bytes = 300,
	  .sig_all = true,
	  .cq_ex = true,
	  .wr_calls = true,
	  .cqe_size = "128" },
	{ .name = "rc resized CQ",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 64,
	  .resized = true },
	{ .name = "rc large resized CQ",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 64,
	  .cq_ex = true,
	  .one_cq = true,
	  .cqe_size = "128",
	  .resized = true },
	{ .name = "rc SRQ",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 50,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 64,
	  .one_cq = true,
	  .srq = true },
	{ .name = "rc SRQ cq_ex",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 10,
	  .send_sge = 2,
	  .recv_sge = 1,
	  .inline_bytes = 64,
	  .cq_ex = true,
	  .cqe_size = "128",
	  .srq = true },
	{ .name = "ud",
	  .type = IBV_QPT_UD,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 128,
	  .one_cq = true },
	{ .name = "ud ibv_wr",
	  .type = IBV_QPT_UD,
	  .send_wr = 20,
	  .recv_wr = 20,
	  .send_sge = 7,
	  .recv_sge = 2,
	  .inline_bytes = 200,
	  .cq_ex = true,
	  .one_cq = true,
	  .wr_calls = true },
	{ .name = "rc thread domain",
	  .type = IBV_QPT_RC,
	  .send_wr = 64,
	  .recv_wr = 64,
	  .send_sge = 4,
	  .recv_sge = 4,
	  .inline_bytes = 128,
	  .one_cq = true,
	  .domain = true },
	{ .name = "rc thread domain ibv_wr",
	  .type = IBV_QPT_RC,
	  .send_wr = 50,
	  .recv_wr = 20,
	  .send_sge = 3,
	  .recv_sge = 5,
	  .inline_bytes = 300,
	  .wr_calls = true,
	  .domain = true },
};
/* clang-format on */
const unsigned int diff_config_count = sizeof(diff_configs) / sizeof(diff_configs[0]);

#define RIG_WC_FLAGS (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

enum {
	RIG_OPS_UD = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	RIG_OPS_RC = RIG_OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		     IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
};

static const char *one_of(const char *a, const char *b)
{
	return diff_chance(30) ? a : diff_chance(30) ? b : NULL;
}

/* Any geometry: small ones wrap often, large ones have WQEs of every size. */
void diff_config_random(struct diff_config *cfg)
{
	static const uint64_t flags[] = {
		IBV_WC_EX_WITH_BYTE_LEN,       IBV_WC_EX_WITH_IMM,
		IBV_WC_EX_WITH_QP_NUM,	       IBV_WC_EX_WITH_SRC_QP,
		IBV_WC_EX_WITH_SLID,	       IBV_WC_EX_WITH_SL,
		IBV_WC_EX_WITH_DLID_PATH_BITS, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
		IBV_WC_EX_WITH_CVLAN,	       IBV_WC_EX_WITH_FLOW_TAG,
		IBV_WC_EX_WITH_TM_INFO,
	};

	*cfg = (struct diff_config){
		.no_windows = true,
		.name = "random",
		.type = diff_chance(90) ? IBV_QPT_RC : IBV_QPT_UD,
		.send_wr = 1 + diff_below(diff_chance(60) ? 20 : 300),
		.recv_wr = diff_chance(10) ? 0 : 1 + diff_below(diff_chance(60) ? 20 : 300),
		.send_sge = 1 + diff_below(diff_chance(60) ? 4 : 30),
		.recv_sge = 1 + diff_below(diff_chance(60) ? 4 : 30),
		.inline_bytes = diff_chance(20) ? 0 : diff_below(diff_chance(50) ? 129 : 880),
		.sig_all = diff_chance(20),
		.cq_ex = diff_chance(40),
		.one_cq = diff_chance(50),
		.wr_calls = diff_chance(50),
		.cqe_size = one_of("128", "64"),
		.shut_up_bf = one_of("1", "0"),
		.prefer_bf = one_of("0", "1"),
		.resized = diff_chance(30),
	};
	cfg->domain = diff_chance(15);
	cfg->srq = cfg->type == IBV_QPT_RC && cfg->recv_wr && diff_chance(25);
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		cfg->wc_flags |= diff_chance(60) ? flags[i] : 0;
}

void diff_die(const char *what)
{
	fprintf(stderr, "engine_diff: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void set_env(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Each on a NIC of its own: the software NICs give out the same numbers, so that no byte
 * differs. */
static void open_side(struct diff_side *s, int which, bool domain)
{
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct ibv_td_init_attr thread = { 0 };
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0] || !list[1])
		diff_die("not two devices: run under simnicctl run");
	s->ctx = ibv_open_device(list[which]);
	if (!s->ctx)
		diff_die("ibv_open_device");
	ibv_free_device_list(list);
	s->pd = ibv_alloc_pd(s->ctx);
	if (!s->pd)
		diff_die("ibv_alloc_pd");
	s->qp_pd = parent.pd = s->pd;
	if (!domain)
		return;
	s->td = parent.td = ibv_alloc_td(s->ctx, &thread);
	s->qp_pd = s->td ? ibv_alloc_parent_domain(s->ctx, &parent) : NULL;
	if (!s->qp_pd)
		diff_die("ibv_alloc_td, ibv_alloc_parent_domain");
}

static uint64_t wc_flags(const struct diff_config *cfg)
{
	return cfg->wc_flags ? cfg->wc_flags : RIG_WC_FLAGS;
}

static struct ibv_cq *make_cq(struct diff_side *s, const struct diff_config *cfg)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cfg->resized ? 15 : 255,
					    .wc_flags = wc_flags(cfg) };
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;

	if (!cfg->cq_ex) {
		cq = ibv_create_cq(s->ctx, attr.cqe, NULL, NULL, 0);
	} else {
		ex = ibv_create_cq_ex(s->ctx, &attr);
		cq = ex ? ibv_cq_ex_to_cq(ex) : NULL;
	}
	if (!cq || (cfg->resized && (ibv_resize_cq(cq, 255))))
		diff_die("ibv_create_cq");
	return cq;
}

/* False: libmlx5 has no such geometry. */
static bool make_qp(struct diff_side *s, const struct diff_config *cfg,
		    struct ibv_qp_init_attr_ex *attr)
{
	*attr = (struct ibv_qp_init_attr_ex){
		.send_cq = s->scq,
		.recv_cq = s->rcq,
		.qp_type = cfg->type,
		.sq_sig_all = cfg->sig_all,
		.srq = s->srq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = s->qp_pd,
		.cap = { cfg->send_wr, cfg->recv_wr, cfg->send_sge, cfg->recv_sge,
			 cfg->inline_bytes },
	};
	if (cfg->wr_calls) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr->send_ops_flags = cfg->type == IBV_QPT_UD ? RIG_OPS_UD : RIG_OPS_RC;
	}
	s->qp = ibv_create_qp_ex(s->ctx, attr);
	return s->qp;
}

static void addresses(struct diff_side *s)
{
	struct mlx5dv_obj obj = {
		.qp = { s->qp, &s->dv },
		.cq = { s->scq, &s->dv_scq },
	};

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ))
		diff_die("mlx5dv_init_obj");
	obj.cq.in = s->rcq;
	obj.cq.out = &s->dv_rcq;
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
		diff_die("mlx5dv_init_obj");
	s->uar = (uint8_t *)((uintptr_t)s->dv.bf.reg & ~4095ul);
}

static void engine_error(void *cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			 enum ibv_wc_status status, uint32_t vendor_err)
{
}

static void engine_note(void *cookie)
{
}

static void engine_armed(const struct ibv_cq *cq, bool solicited)
{
}

static void engine_progress(void *cookie, uint32_t epoch)
{
}

static int engine_key(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	*out = key;
	return 0;
}

static const struct sp_callbacks callbacks = {
	.qp_error = engine_error,
	.cq_event = engine_note,
	.cq_armed = engine_armed,
	.key_missing = engine_note,
	.qp_progress = engine_progress,
	.lkey = engine_key,
	.rkey = engine_key,
};

static void drive(struct diff_rig *rig, const struct ibv_qp_init_attr_ex *attr)
{
	const struct shift_provider *p = &shift_provider_mlx5;
	struct diff_side *e = &rig->e;
	const char *why = "";
	int err;

	/* the record says the index only after a poll, not after a resize */
	ibv_poll_cq(rig->l.scq, 0, NULL);
	ibv_poll_cq(rig->l.rcq, 0, NULL);
	if (!p->probe(e->ctx, &why))
		diff_die(why);
	err = p->cq.drive(rig->dev, e->scq, rig->cfg->cq_ex, wc_flags(rig->cfg), NULL, &rig->scq);
	rig->rcq = rig->scq;
	if (!err && e->rcq != e->scq)
		err = p->cq.drive(rig->dev, e->rcq, rig->cfg->cq_ex, wc_flags(rig->cfg), NULL,
				  &rig->rcq);
	if (!err && e->srq)
		err = p->srq.drive(rig->dev, e->srq, NULL, NULL, &rig->sp_srq);
	if (!err)
		err = p->qp.drive(rig->dev, e->qp, attr, rig->scq, rig->rcq, NULL, &rig->sp, &why);
	errno = -err;
	if (err)
		diff_die(why);
}

/* -- state ------------------------------------------------------------------------------------ */

static void modify(struct diff_side *s, struct ibv_qp_attr *attr, int mask)
{
	errno = ibv_modify_qp(s->qp, attr, mask);
	if (errno)
		diff_die("ibv_modify_qp");
}

/* Both send to the same port. */
static void address(const union ibv_gid *peer, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .hop_limit = 64, .flow_label = 0x12345, .traffic_class = 3 }
	};
	ah->grh.dgid = *peer;
}

static void to_init(struct diff_side *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111 };
	bool ud = s->qp->qp_type == IBV_QPT_UD;

	modify(s, &attr,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct diff_side *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = s->qp->qp_num,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 12 };
	bool ud = s->qp->qp_type == IBV_QPT_UD;

	address(&s->peer, &attr.ah_attr);
	modify(s, &attr,
	       ud ? IBV_QP_STATE
		  : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void to_rts(struct diff_side *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4 };
	bool ud = s->qp->qp_type == IBV_QPT_UD;

	modify(s, &attr,
	       ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
		  : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* What is refused in a state that does not allow it must be refused alike. */
static void refuse_early(struct diff_rig *rig, bool recv_allowed)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	int l, e;

	send.wr.ud.ah = rig->l.ah;
	l = ibv_post_send(rig->l.qp, &send, &bad_send);
	send.wr.ud.ah = rig->e.ah;
	e = ibv_post_send(rig->e.qp, &send, &bad_send);
	if (l != e)
		diff_fail(rig, "send before RTS: libmlx5 %d, engine %d", l, e);
	if (recv_allowed)
		return;
	l = ibv_post_recv(rig->l.qp, &recv, &bad_recv);
	e = ibv_post_recv(rig->e.qp, &recv, &bad_recv);
	if (l != e)
		diff_fail(rig, "receive before INIT: libmlx5 %d, engine %d", l, e);
}

static void start(struct diff_rig *rig)
{
	refuse_early(rig, rig->l.srq);
	to_init(&rig->l);
	to_init(&rig->e);
	shift_provider_mlx5.qp.modified(rig->sp, IBV_QPS_INIT);
	refuse_early(rig, true);
	to_rtr(&rig->l);
	to_rtr(&rig->e);
	shift_provider_mlx5.qp.modified(rig->sp, IBV_QPS_RTR);
	to_rts(&rig->l);
	to_rts(&rig->e);
	shift_provider_mlx5.qp.modified(rig->sp, IBV_QPS_RTS);
}

static void make_ah(struct diff_side *s)
{
	struct ibv_ah_attr attr;

	address(&s->peer, &attr);
	s->ah = ibv_create_ah(s->pd, &attr);
	if (!s->ah)
		diff_die("ibv_create_ah");
}

/* Both rings alike, so that what nobody writes compares equal. */
static void prefill(struct diff_rig *rig)
{
	struct diff_side *sides[2] = { &rig->l, &rig->e };

	for (int i = 0; i < 2; i++) {
		memset(sides[i]->dv.sq.buf, 0x5a, (size_t)sides[i]->dv.sq.wqe_cnt * 64);
		memset(sides[i]->dv.rq.buf, 0x5a,
		       (size_t)sides[i]->dv.rq.wqe_cnt * sides[i]->dv.rq.stride);
		if (sides[i]->srq)
			diff_srq_prefill(sides[i]);
	}
}

static void make_mr(struct diff_rig *rig, struct diff_side *s)
{
	s->mr = ibv_reg_mr(s->pd, rig->arena, DIFF_ARENA,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	if (!s->mr)
		diff_die("ibv_reg_mr");
}

static void free_cqs(struct diff_side *s)
{
	if (ibv_destroy_cq(s->scq) || (s->rcq != s->scq && ibv_destroy_cq(s->rcq)))
		diff_die("ibv_destroy_cq");
}

static void close_side(struct diff_side *s)
{
	if (s->ah)
		ibv_destroy_ah(s->ah);
	if (s->qp && ibv_destroy_qp(s->qp))
		diff_die("ibv_destroy_qp");
	if (s->srq && ibv_destroy_srq(s->srq))
		diff_die("ibv_destroy_srq");
	free_cqs(s);
	if (s->mr && ibv_dereg_mr(s->mr))
		diff_die("ibv_dereg_mr");
	if (s->td && (ibv_dealloc_pd(s->qp_pd) || ibv_dealloc_td(s->td)))
		diff_die("ibv_dealloc_td");
	ibv_dealloc_pd(s->pd);
	ibv_close_device(s->ctx);
}

static void make_side(struct diff_rig *rig, struct diff_side *s)
{
	make_mr(rig, s);
	if (ibv_query_gid(rig->l.ctx, 1, 0, &s->peer))
		diff_die("ibv_query_gid");
	make_ah(s);
	addresses(s);
}

/* Contexts, CQs and QPs. False: refused, by both. */
static bool make_both(struct diff_rig *rig, struct ibv_qp_init_attr_ex *attr)
{
	struct diff_side *sides[2] = { &rig->l, &rig->e };
	const struct diff_config *cfg = rig->cfg;

	for (int i = 0; i < 2; i++) {
		open_side(sides[i], i, cfg->domain);
		if (i && shift_provider_mlx5.dev_init(rig->e.ctx, true, &callbacks, &rig->dev))
			diff_die("dev_init");
		sides[i]->scq = make_cq(sides[i], cfg);
		sides[i]->rcq = cfg->one_cq ? sides[i]->scq : make_cq(sides[i], cfg);
		if (!cfg->srq || diff_srq_make(rig, sides[i]))
			make_qp(sides[i], cfg, attr);
	}
	if (!rig->l.qp != !rig->e.qp)
		diff_die("one QP was made, the other not");
	return rig->l.qp;
}

/* False: libmlx5 has no such geometry. */
bool diff_rig_make(struct diff_rig *rig, const struct diff_config *cfg)
{
	struct ibv_qp_init_attr_ex attr;

	memset(rig, 0, sizeof(*rig));
	rig->cfg = cfg;
	rig->arena = calloc(1, DIFF_ARENA + 4096);
	set_env("MLX5_CQE_SIZE", cfg->cqe_size);
	set_env("MLX5_SHUT_UP_BF", cfg->shut_up_bf);
	set_env("MLX5_POST_SEND_PREFER_BF", cfg->prefer_bf);
	if (!make_both(rig, &attr)) {
		diff_rig_free(rig);
		return false;
	}
	make_side(rig, &rig->l);
	make_side(rig, &rig->e);
	if (rig->l.qp->qp_num != rig->e.qp->qp_num || rig->l.mr->lkey != rig->e.mr->lkey)
		diff_die("QPs or memory regions have different numbers");
	rig->cap = attr.cap;
	prefill(rig);
	drive(rig, &attr);
	start(rig);
	if (cfg->srq && !cfg->no_windows)
		diff_srq_age(rig);
	return true;
}

void diff_rig_free(struct diff_rig *rig)
{
	if (rig->sp) {
		shift_provider_mlx5.qp.undrive(rig->sp);
		if (rig->sp_srq)
			shift_provider_mlx5.srq.undrive(rig->sp_srq);
		shift_provider_mlx5.cq.undrive(rig->scq);
		if (rig->rcq != rig->scq)
			shift_provider_mlx5.cq.undrive(rig->rcq);
	}
	close_side(&rig->l);
	/* the saved functions go back before the context does */
	shift_provider_mlx5.dev_uninit(rig->dev);
	close_side(&rig->e);
	free(rig->arena);
}
