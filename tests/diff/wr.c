/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_wr_*: the same calls on both. */
#include <string.h>

#include "tests/diff/diff.h"

enum call_data {
	DATA_SGE,
	DATA_SGE_LIST,
	DATA_INLINE,
	DATA_INLINE_LIST,
};

struct call {
	unsigned op; /* index into builders */
	enum call_data data;
	uint64_t wr_id, addr, a, b;
	unsigned flags;
	uint32_t rkey, imm, qpn, n;
	struct ibv_mw mw;
	struct ibv_mw_bind_info bind;
	bool address_first; /* UD */
	struct ibv_sge sge[DIFF_SGE];
};

static void build(struct ibv_qp_ex *qp, struct call *c)
{
	switch (c->op) {
	case 0: ibv_wr_send(qp); break;
	case 1: ibv_wr_send_imm(qp, c->imm); break;
	case 2: ibv_wr_rdma_write(qp, c->rkey, c->addr); break;
	case 3: ibv_wr_rdma_write_imm(qp, c->rkey, c->addr, c->imm); break;
	case 4: ibv_wr_rdma_read(qp, c->rkey, c->addr); break;
	case 5: ibv_wr_atomic_cmp_swp(qp, c->rkey, c->addr, c->a, c->b); break;
	case 6: ibv_wr_atomic_fetch_add(qp, c->rkey, c->addr, c->a); break;
	case 7: ibv_wr_send_inv(qp, c->rkey); break;
	case 8: ibv_wr_local_inv(qp, c->rkey); break;
	default: ibv_wr_bind_mw(qp, &c->mw, c->rkey, &c->bind); break;
	}
}

static void set_inline_list(struct ibv_qp_ex *qp, const struct call *c)
{
	struct ibv_data_buf buf[DIFF_SGE];

	for (uint32_t i = 0; i < c->n; i++)
		buf[i] = (struct ibv_data_buf){ (void *)(uintptr_t)c->sge[i].addr,
						c->sge[i].length };
	ibv_wr_set_inline_data_list(qp, c->n, buf);
}

static void set_data(struct ibv_qp_ex *qp, const struct call *c)
{
	switch (c->data) {
	case DATA_SGE: ibv_wr_set_sge(qp, c->sge[0].lkey, c->sge[0].addr, c->sge[0].length); break;
	case DATA_SGE_LIST: ibv_wr_set_sge_list(qp, c->n, c->sge); break;
	case DATA_INLINE:
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)c->sge[0].addr, c->sge[0].length);
		break;
	case DATA_INLINE_LIST: set_inline_list(qp, c); break;
	}
}

static void issue(struct diff_side *s, struct call *c, bool builder_only)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(s->qp);
	bool ud = s->qp->qp_type == IBV_QPT_UD;

	qp->wr_id = c->wr_id;
	qp->wr_flags = c->flags;
	build(qp, c);
	if (c->op >= 8 || builder_only)
		return;
	if (ud && c->address_first)
		ibv_wr_set_ud_addr(qp, s->ah, c->qpn, c->rkey);
	set_data(qp, c);
	if (ud && !c->address_first)
		ibv_wr_set_ud_addr(qp, s->ah, c->qpn, c->rkey);
}

static void make_call(struct diff_rig *rig, struct call *c)
{
	memset(c, 0, sizeof(*c));
	c->op = diff_below(rig->cfg->type == IBV_QPT_UD ? 2 : rig->cfg->no_windows ? 8 : 10);
	c->data = diff_below(4);
	c->wr_id = diff_random();
	c->addr = diff_random();
	c->a = diff_random();
	c->b = diff_random();
	c->flags = (diff_chance(35) ? IBV_SEND_SIGNALED : 0) |
		   (diff_chance(35) ? IBV_SEND_SOLICITED : 0) |
		   (diff_chance(35) ? IBV_SEND_FENCE : 0);
	c->rkey = diff_random();
	c->imm = diff_random();
	c->qpn = diff_below(1 << 24);
	c->address_first = diff_chance(50);
	c->mw.rkey = diff_random();
	c->mw.type = IBV_MW_TYPE_2;
	diff_make_bind(rig, &c->bind, false);
	c->n = diff_make_sges(rig, c->sge, rig->cap.max_send_sge, c->data >= DATA_INLINE);
}

static int finish(struct diff_side *s, bool give_up)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(s->qp);

	if (!give_up)
		return ibv_wr_complete(qp);
	ibv_wr_abort(qp);
	return 0;
}

/*
 * libmlx5 44 goes on behind a builder that it refuses: setters write where the last good builder has
 * left off, or to address 0; a builder with segments of its own (RDMA, atomics, LOCAL_INV, BIND_MW)
 * writes them into the last good request, which may be under way. A program that looks at errors in
 * ibv_wr_complete only cannot know; the engine leaves the ring alone. So the first request of a QP is
 * a good one, and to a full queue only a SEND is built, without its data: that writes nothing.
 */
bool diff_step_wr(struct diff_rig *rig)
{
	unsigned n = diff_chance(50) ? 1 : 1 + diff_below(DIFF_LIST), i;
	bool give_up = diff_chance(4), full;
	uint32_t room;
	static struct call calls[DIFF_LIST];
	int l, e;

	/* a refused builder would send the data to the request before it */
	room = rig->sent_head - rig->polled_tail;
	room = room < rig->cap.max_send_wr ? rig->cap.max_send_wr - room : 0;
	full = !room && !rig->scqes && rig->built;
	if (!room && !full)
		return true;
	n = !rig->built || full ? 1 : n < room ? n : room;
	for (i = 0; i < n; i++)
		make_call(rig, &calls[i]);
	if (!rig->built) {
		calls[0].op = 0;
		rig->built = true;
	}
	if (full)
		calls[0].op = 0;
	diff_before(rig);
	diff_trace_on(rig, false);
	ibv_wr_start(ibv_qp_to_qp_ex(rig->l.qp));
	for (i = 0; i < n; i++)
		issue(&rig->l, &calls[i], full);
	l = finish(&rig->l, give_up);
	diff_trace_off();
	diff_trace_on(rig, true);
	ibv_wr_start(ibv_qp_to_qp_ex(rig->e.qp));
	for (i = 0; i < n; i++)
		issue(&rig->e, &calls[i], full);
	e = finish(&rig->e, give_up);
	diff_trace_off();
	rig->requests += n;
	if (l)
		diff_cover_refused(false, n > 1, true);
	diff_model_posted(rig);
	if (l != e)
		return diff_fail(rig, "wr_complete: libmlx5 %d, engine %d", l, e);
	if (l || give_up)
		diff_forget_leavings(rig);
	return diff_after(rig, true);
}
