/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_post_send and ibv_post_recv with random requests. */
#include <errno.h>
#include <string.h>

#include "tests/diff/diff.h"

struct list {
	struct ibv_send_wr l[DIFF_LIST], e[DIFF_LIST];
	struct ibv_sge sge[DIFF_LIST][DIFF_SGE];
	unsigned n;
};

/* The software NIC has no memory windows; what a provider reads of one is here. */
static struct ibv_mw windows[2] = {
	{ .rkey = 0x12345678, .type = IBV_MW_TYPE_1 },
	{ .rkey = 0x9abcdef0, .type = IBV_MW_TYPE_2 },
};

static const enum ibv_wr_opcode rc_opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_SEND_WITH_INV,
	IBV_WR_RDMA_WRITE,
	IBV_WR_SEND,
	IBV_WR_LOCAL_INV,
	IBV_WR_BIND_MW,
};

/* Lengths around the inline limit and zero; addresses inside the arena, as inline data and data out
 * of CQEs is copied. */
uint32_t diff_make_sges(struct diff_rig *rig, struct ibv_sge *sge, uint32_t max, bool inl)
{
	uint32_t n = diff_chance(3) ? max + 1 : diff_below(max + 1), i;
	uint32_t room = rig->cap.max_inline_data + (diff_chance(6) ? 20 : 0), left = room;

	if (n > DIFF_SGE)
		n = DIFF_SGE;
	for (i = 0; i < n; i++) {
		sge[i].addr = (uintptr_t)rig->arena + diff_below(DIFF_ARENA - 1024);
		sge[i].lkey = diff_random();
		sge[i].length =
			diff_chance(15) ? 0 : 1 + diff_below(diff_chance(50) ? 64 : 1 << 30);
		if (inl) {
			sge[i].length =
				diff_chance(20) ? left : diff_below(left / (n < 3 ? 1 : 2) + 1);
			left -= sge[i].length;
		}
	}
	if (inl)
		diff_cover_inline(room - left);
	return n;
}

/* any: also what ibv_bind_mw must refuse; ibv_post_send takes the caller's word. */
void diff_make_bind(struct diff_rig *rig, struct ibv_mw_bind_info *info, bool any)
{
	static const unsigned flags[] = { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE,
					  IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC,
					  IBV_ACCESS_ZERO_BASED };

	memset(info, 0, sizeof(*info));
	info->mr = rig->l.mr;
	info->addr = (uintptr_t)rig->arena + diff_below(DIFF_ARENA / 2);
	info->length = diff_chance(20) ? 0 : 1 + diff_below(DIFF_ARENA / 2);
	for (unsigned i = 0; i < 5; i++)
		info->mw_access_flags |= diff_chance(40) ? flags[i] : 0;
	if (diff_chance(3))
		info->length = (1ull << (31 + diff_below(3))) - 2 + diff_below(4);
	if (any && diff_chance(5))
		info->addr = diff_random();
	if (any && diff_chance(5))
		info->mr = NULL;
}

static void make_rc(struct diff_rig *rig, struct ibv_send_wr *wr)
{
	wr->opcode = rc_opcodes[diff_below(sizeof(rc_opcodes) / sizeof(rc_opcodes[0]))];
	if (rig->cfg->no_windows &&
	    (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV))
		wr->opcode = IBV_WR_SEND;
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr->wr.atomic.remote_addr = diff_random();
		wr->wr.atomic.rkey = diff_random();
		wr->wr.atomic.compare_add = diff_random();
		wr->wr.atomic.swap = diff_random();
		break;
	case IBV_WR_BIND_MW:
		wr->bind_mw.mw = diff_chance(70) ? &windows[1] : &windows[0];
		wr->bind_mw.rkey = diff_random();
		diff_make_bind(rig, &wr->bind_mw.bind_info, false);
		break;
	default:
		wr->wr.rdma.remote_addr = diff_random();
		wr->wr.rdma.rkey = diff_random();
		break;
	}
}

static void make_ud(struct diff_rig *rig, struct ibv_send_wr *wr)
{
	wr->opcode = diff_chance(50) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	wr->wr.ud.ah = rig->l.ah;
	wr->wr.ud.remote_qpn = diff_below(1 << 24);
	wr->wr.ud.remote_qkey = diff_random();
}

static void make_wr(struct diff_rig *rig, struct list *list, unsigned i)
{
	static const unsigned flags[] = { IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_FENCE };
	struct ibv_send_wr *wr = &list->l[i];
	bool inl = diff_chance(30);

	memset(wr, 0, sizeof(*wr));
	wr->wr_id = diff_random();
	wr->imm_data = diff_random();
	for (unsigned f = 0; f < 3; f++)
		wr->send_flags |= diff_chance(35) ? flags[f] : 0;
	wr->send_flags |= inl ? IBV_SEND_INLINE : 0;
	wr->sg_list = list->sge[i];
	wr->num_sge = diff_make_sges(rig, list->sge[i], rig->cap.max_send_sge, inl);
	if (rig->cfg->type == IBV_QPT_UD)
		make_ud(rig, wr);
	else
		make_rc(rig, wr);
	/* libmlx5 does not check that these have no data, and room is made for none */
	if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW)
		wr->num_sge = 0;
	if (diff_chance(1))
		wr->opcode = 50 + diff_below(50);
	list->e[i] = *wr;
	if (rig->cfg->type == IBV_QPT_UD)
		list->e[i].wr.ud.ah = rig->e.ah;
}

static void make_list(struct diff_rig *rig, struct list *list)
{
	list->n = diff_chance(50) ? 1 : 1 + diff_below(DIFF_LIST);
	for (unsigned i = 0; i < list->n; i++) {
		make_wr(rig, list, i);
		if (!i)
			continue;
		list->l[i - 1].next = &list->l[i];
		list->e[i - 1].next = &list->e[i];
	}
	for (unsigned i = 0; i < DIFF_ARENA / 8 && diff_chance(2); i++)
		((uint64_t *)rig->arena)[diff_below(DIFF_ARENA / 8)] = diff_random();
}

/* What libmlx5 has added to its ring. */
void diff_model_posted(struct diff_rig *rig)
{
	uint16_t end = be32toh(rig->l.dv.dbrec[MLX5_SND_DBR]);
	struct mlx5_wqe_ctrl_seg *ctrl;
	struct diff_sent *sent;

	while ((int16_t)(end - rig->cur_post) > 0) {
		ctrl = (void *)((uint8_t *)rig->l.dv.sq.buf +
				(rig->cur_post & (rig->l.dv.sq.wqe_cnt - 1)) * 64);
		diff_cover_wqe(&rig->l.dv, rig->cur_post, ctrl);
		sent = &rig->sent[rig->sent_head++ % DIFF_QUEUE];
		sent->index = rig->cur_post;
		sent->opcode = be32toh(ctrl->opmod_idx_opcode);
		sent->signaled = (ctrl->fm_ce_se & 0x0c) == 8;
		rig->cur_post += ((be32toh(ctrl->qpn_ds) & 0x3f) + 3) / 4;
	}
}

/* Did the queue have no room for the one that was refused? */
bool diff_sq_full(const struct diff_rig *rig)
{
	return rig->sent_head - rig->sent_tail >= rig->cap.max_send_wr;
}

/* Did the refused request get as far as its control segment? */
static bool began(struct diff_rig *rig, const struct ibv_send_wr *wr, int err)
{
	if (wr->opcode == IBV_WR_BIND_MW && err == EOPNOTSUPP)
		return true;
	return err == ENOMEM && wr->num_sge <= (int)rig->cap.max_send_sge &&
	       (wr->send_flags & IBV_SEND_INLINE);
}

bool diff_step_send(struct diff_rig *rig)
{
	struct ibv_send_wr *bad_l = NULL, *bad_e = NULL;
	long at_l, at_e;
	struct list list;
	int l, e;
	bool stale;

	make_list(rig, &list);
	diff_before(rig);
	diff_trace_on(rig, false);
	l = ibv_post_send(rig->l.qp, list.l, &bad_l);
	diff_trace_off();
	diff_trace_on(rig, true);
	e = ibv_post_send(rig->e.qp, list.e, &bad_e);
	diff_trace_off();
	at_l = l ? bad_l - list.l : -1;
	at_e = e ? bad_e - list.e : -1;
	rig->requests += l ? at_l + 1 : list.n;
	diff_model_posted(rig);
	if (l != e || at_l != at_e)
		return diff_fail(rig, "post_send: libmlx5 %d at %ld, engine %d at %ld", l, at_l, e,
				 at_e);
	if (!l)
		return diff_after(rig, true);
	diff_cover_refused(diff_sq_full(rig), at_l > 0, true);
	stale = began(rig, bad_l, l);
	diff_forget_leavings(rig);
	if (stale && at_l > 0 && !diff_engine_rang(rig))
		return false;
	return diff_after(rig, !stale);
}

bool diff_step_recv(struct diff_rig *rig)
{
	struct ibv_recv_wr wr[DIFF_LIST], *bad_l = NULL, *bad_e = NULL;
	struct ibv_sge sge[DIFF_LIST][DIFF_SGE];
	unsigned n = 1 + diff_below(DIFF_LIST), i;
	int l, e;

	for (i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = diff_random(),
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = sge[i],
			.num_sge = diff_make_sges(rig, sge[i], rig->cap.max_recv_sge, false),
		};
	diff_before(rig);
	diff_trace_on(rig, false);
	l = ibv_post_recv(rig->l.qp, wr, &bad_l);
	diff_trace_off();
	diff_trace_on(rig, true);
	e = ibv_post_recv(rig->e.qp, wr, &bad_e);
	diff_trace_off();
	rig->requests += l ? (uint32_t)(bad_l - wr) + 1 : n;
	if (l)
		diff_cover_refused(l == ENOMEM, bad_l != wr, false);
	rig->recv_head += l ? (uint32_t)(bad_l - wr) : n;
	if (l != e || (l && bad_l != bad_e))
		return diff_fail(rig, "post_recv: libmlx5 %d, engine %d", l, e);
	return diff_after(rig, true);
}

/* ibv_bind_mw: a request of libmlx5's own making, to the same ring. */
bool diff_step_bind(struct diff_rig *rig)
{
	struct ibv_mw mw_l = windows[0], mw_e;
	struct ibv_mw_bind bind = { .wr_id = diff_random() }, bind_e;
	int l, e;

	if (!rig->l.ctx->ops.bind_mw)
		return true;
	mw_l.rkey = diff_random();
	mw_l.pd = rig->l.pd;
	mw_l.context = rig->l.ctx;
	mw_e = mw_l;
	mw_e.pd = rig->e.pd;
	mw_e.context = rig->e.ctx;
	bind.send_flags = diff_chance(50) ? IBV_SEND_SIGNALED : 0;
	diff_make_bind(rig, &bind.bind_info, true);
	bind_e = bind;
	if (bind.bind_info.mr)
		bind_e.bind_info.mr = rig->e.mr;
	diff_before(rig);
	diff_trace_on(rig, false);
	l = ibv_bind_mw(rig->l.qp, &mw_l, &bind);
	diff_trace_off();
	diff_trace_on(rig, true);
	e = ibv_bind_mw(rig->e.qp, &mw_e, &bind_e);
	diff_trace_off();
	rig->requests++;
	diff_model_posted(rig);
	if (l != e || mw_l.rkey != mw_e.rkey)
		return diff_fail(rig, "bind_mw: libmlx5 %d, key %08x; engine %d, key %08x", l,
				 mw_l.rkey, e, mw_e.rkey);
	if (l)
		diff_forget_leavings(rig);
	return diff_after(rig, true);
}
