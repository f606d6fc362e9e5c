/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs that mlx5dv_create_qp makes in all its ways, with their completion queue alone or beside
 * others: each completion must come once, in order, with the number that was posted. Two queue
 * pairs of this process are connected to each other.
 *
 *   made KIND COMPANY
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum { ENDS = 2, ROUNDS = 100, BATCH = 4, LENGTH = 64 };

enum kind {
	PLAIN,	  /* no builders */
	BUILDERS, /* ibv_wr_*, posted through them */
	BOTH,	  /* with builders, posted by ibv_post_send too */
	DIRECT,	  /* with builders of mlx5dv beside them */
	KINDS
};
static const char *const kinds[KINDS] = { "plain", "builders", "both", "direct" };

enum company {
	ALONE,	  /* nobody else uses the completion queue */
	BEFORE,	  /* a queue pair of ibv_create_qp's was there before */
	BEHIND,	  /* one comes later */
	EXTENDED, /* it is an ibv_cq_ex, with one there before */
	COMPANIES
};
static const char *const companies[COMPANIES] = { "alone", "before", "behind", "extended" };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };
static enum kind kind;
static enum company company;
static struct nic nic;
static struct conn ends[ENDS], friends[ENDS];
static uint64_t next_send[2 * ENDS], next_recv[2 * ENDS], posted_send[2 * ENDS],
	posted_recv[2 * ENDS];

static struct ibv_qp *direct_make(struct ibv_cq *cq)
{
	struct mlx5dv_qp_init_attr direct = { 0 };
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = nic.pd,
	};
	struct ibv_qp *qp;

	if (kind != PLAIN) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	}
	if (kind == DIRECT) {
		direct.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		direct.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST;
		init.cap.max_inline_data = 256; /* as libmlx5 wants for such lists */
	}
	qp = mlx5dv_create_qp(nic.ctx, &init, &direct);
	must(qp, "mlx5dv_create_qp");
	return qp;
}

static struct ibv_qp *plain_make(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(nic.pd, &init);

	must(qp, "ibv_create_qp");
	return qp;
}

static void end_make(struct conn *c, struct ibv_cq *cq, bool direct)
{
	*c = (struct conn){ .nic = &nic, .cq = cq };
	c->qp = direct ? direct_make(cq) : plain_make(cq);
	must_zero(posix_memalign((void **)&c->mem, 4096, 4096), "memory");
	c->mr = ibv_reg_mr(nic.pd, c->mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	must(c->mr, "ibv_reg_mr");
	conn_set_own(c);
}

static void connect_pair(struct conn *pair)
{
	for (int i = 0; i < ENDS; i++) {
		pair[i].peer = pair[1 - i].own;
		conn_to_init(&pair[i]);
	}
	for (int i = 0; i < ENDS; i++)
		conn_to_rts_alone(&pair[i]);
}

/* Numbers that say whose they are, and which. */
static uint64_t number(int who, bool recv, uint64_t n)
{
	return 0x1000000 * (uint64_t)(2 * who + recv + 1) + n;
}

static void send_built(struct conn *c, int who)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(c->qp);

	ibv_wr_start(ex);
	for (int i = 0; i < BATCH; i++) {
		ex->wr_id = number(who, false, posted_send[who]++);
		ex->wr_flags = 0;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, c->mr->lkey, (uintptr_t)c->mem, LENGTH);
	}
	must_zero(ibv_wr_complete(ex), "ibv_wr_complete");
}

static void send_listed(struct conn *c, int who)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, LENGTH, c->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	for (int i = 0; i < BATCH; i++) {
		wr.wr_id = number(who, false, posted_send[who]++);
		must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	}
}

static void receive(struct conn *c, int who)
{
	struct ibv_sge sge = { (uintptr_t)c->mem + 2048, LENGTH, c->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	for (int i = 0; i < BATCH; i++) {
		wr.wr_id = number(who, true, posted_recv[who]++);
		must_zero(ibv_post_recv(c->qp, &wr, &bad), "ibv_post_recv");
	}
}

static void check(const struct ibv_wc *wc)
{
	for (int i = 0; i < 2 * ENDS; i++) {
		const struct conn *c = i < ENDS ? &ends[i] : &friends[i - ENDS];
		bool recv = wc->opcode & IBV_WC_RECV;
		uint64_t want;

		if (!c->qp || c->qp->qp_num != wc->qp_num)
			continue;
		want = number(i, recv, recv ? next_recv[i]++ : next_send[i]++);
		if (wc->wr_id != want || wc->status)
			say("BAD end %d %s: wr_id 0x%llx instead of 0x%llx, status %d", i,
			    recv ? "receive" : "send", (unsigned long long)wc->wr_id,
			    (unsigned long long)want, wc->status);
		must(wc->wr_id == want && !wc->status, "the next completion, a good one");
		return;
	}
	must(false, "a completion of a queue pair of ours");
}

static int poll_extended(struct ibv_cq *cq)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0, ret = ibv_start_poll(ex, &attr);

	while (!ret) {
		struct ibv_wc wc = { .wr_id = ex->wr_id,
				     .status = ex->status,
				     .opcode = ibv_wc_read_opcode(ex),
				     .qp_num = ibv_wc_read_qp_num(ex) };

		check(&wc);
		n++;
		ret = ibv_next_poll(ex);
		if (ret)
			ibv_end_poll(ex);
	}
	return n;
}

static void await(struct ibv_cq *cq, int n)
{
	double end = now_s() + 20;
	struct ibv_wc wc[3];
	int got;

	while (n > 0) {
		got = company == EXTENDED ? poll_extended(cq) : ibv_poll_cq(cq, 3, wc);
		must(got >= 0, "ibv_poll_cq");
		for (int i = 0; i < got && company != EXTENDED; i++)
			check(&wc[i]);
		n -= got;
		if (!got)
			usleep(50);
		must(now_s() < end, "all completions within 20 s");
	}
}

static struct ibv_cq *cq_make(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 256, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq *cq = company == EXTENDED ? ibv_cq_ex_to_cq(ibv_create_cq_ex(nic.ctx, &init))
						: ibv_create_cq(nic.ctx, 256, NULL, NULL, 0);

	must(cq, "ibv_create_cq");
	return cq;
}

static void talk(struct ibv_cq *cq, bool with_friends, int round)
{
	int pairs = with_friends ? 2 : 1;

	for (int i = 0; i < pairs * ENDS; i++)
		receive(i < ENDS ? &ends[i] : &friends[i - ENDS], i);
	for (int i = 0; i < pairs * ENDS; i++) {
		struct conn *c = i < ENDS ? &ends[i] : &friends[i - ENDS];

		if (i >= ENDS || kind == PLAIN || (kind == BOTH && round % 2))
			send_listed(c, i);
		else
			send_built(c, i);
	}
	await(cq, pairs * ENDS * BATCH * 2);
}

/* Only a queue pair in SQD lets requests be cancelled, and none of these can be there: the program says how it is refused. */
static void cancel(void)
{
	for (int i = 0; i < ENDS; i++) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends[i].qp);
		int ret;

		if (!ex)
			continue;
		ret = mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex_from_ibv_qp_ex(ex), 0);
		must(ret < 0, "no request that is cancelled");
		say("CANCELS %d", ret);
	}
}

static int index_of(const char *word, const char *const *words, int n)
{
	int i = 0;

	while (i < n && (!word || strcmp(word, words[i])))
		i++;
	must(i < n, "usage: made KIND COMPANY");
	return i;
}

int main(int argc, char **argv)
{
	struct ibv_cq *cq;
	bool early;

	kind = (enum kind)index_of(argc > 2 ? argv[1] : NULL, kinds, KINDS);
	company = (enum company)index_of(argc > 2 ? argv[2] : NULL, companies, COMPANIES);
	early = company == BEFORE || company == EXTENDED;
	nic_open(&nic, opt.dev);
	cq = cq_make();
	for (int i = 0; early && i < ENDS; i++)
		end_make(&friends[i], cq, false);
	if (early)
		connect_pair(friends);
	for (int i = 0; i < ENDS; i++)
		end_make(&ends[i], cq, true);
	connect_pair(ends);
	for (int round = 0; round < ROUNDS; round++) {
		if (company == BEHIND && round == ROUNDS / 2) {
			for (int i = 0; i < ENDS; i++)
				end_make(&friends[i], cq, false);
			connect_pair(friends);
		}
		talk(cq, friends[0].qp != NULL, round);
		if (round == ROUNDS / 2)
			cancel();
	}
	say("OK");
	for (int i = 0; i < 2 * ENDS; i++) {
		struct conn *c = i < ENDS ? &ends[i] : &friends[i - ENDS];

		if (c->qp)
			must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
		if (c->mr)
			must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
		free(c->mem);
	}
	must_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	nic_close(&nic);
	return 0;
}
