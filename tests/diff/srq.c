/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues: lists of WQEs, completed in any order. */
#include <errno.h>
#include <string.h>

#include "tests/diff/diff.h"

static struct mlx5_wqe_srq_next_seg *slot_link(const struct diff_side *s, uint16_t slot)
{
	return (void *)((uint8_t *)s->dv_srq.buf + (size_t)slot * s->dv_srq.stride);
}

struct mlx5_wqe_data_seg *diff_srq_segs(const struct diff_side *s, uint16_t slot)
{
	return (void *)(slot_link(s, slot) + 1);
}

static uint16_t slot_next(const struct diff_side *s, uint16_t slot)
{
	return be16toh(slot_link(s, slot)->next_wqe_index);
}

/* False: libmlx5 has none of this size. */
bool diff_srq_make(struct diff_rig *rig, struct diff_side *s)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = rig->cfg->recv_wr,
						    .max_sge = rig->cfg->recv_sge } };
	struct mlx5dv_obj obj = { .srq = { .out = &s->dv_srq } };
	uint32_t highest = 0, slot;

	s->srq = ibv_create_srq(s->pd, &init);
	if (!s->srq)
		return false;
	obj.srq.in = s->srq;
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ))
		diff_die("mlx5dv_init_obj of an SRQ");
	rig->srq_sge = init.attr.max_sge;
	for (slot = s->dv_srq.head; slot != s->dv_srq.tail; slot = slot_next(s, slot))
		highest = slot > highest ? slot : highest;
	highest = slot > highest ? slot : highest;
	s->srq_bytes = (size_t)(highest + 1) * s->dv_srq.stride;
	rig->srq_head = s->dv_srq.head;
	return true;
}

/* What nobody writes compares equal. The links stay. */
void diff_srq_prefill(struct diff_side *s)
{
	uint32_t slots = s->srq_bytes / s->dv_srq.stride;

	for (uint32_t i = 0; i < slots; i++)
		memset(diff_srq_segs(s, i), 0x5a, s->dv_srq.stride - 16);
}

static void model_posted(struct diff_rig *rig, const struct ibv_recv_wr *wr, uint32_t n)
{
	for (; n; n--, wr++) {
		rig->srq_wrid[rig->srq_head] = wr->wr_id;
		rig->srq_out[rig->recv_head++ - rig->recv_tail] = rig->srq_head;
		rig->srq_head = slot_next(&rig->l, rig->srq_head);
	}
}

/* Any outstanding one completes. */
uint16_t diff_srq_take(struct diff_rig *rig)
{
	uint32_t n = rig->recv_head - rig->recv_tail, i = diff_chance(50) ? 0 : diff_below(n);
	uint16_t slot = rig->srq_out[i];

	memmove(&rig->srq_out[i], &rig->srq_out[i + 1], (n - i - 1) * sizeof(slot));
	return slot;
}

bool diff_step_srq(struct diff_rig *rig)
{
	struct ibv_recv_wr wr[DIFF_LIST], *bad_l = NULL, *bad_e = NULL;
	struct ibv_sge sge[DIFF_LIST][DIFF_SGE];
	unsigned n = 1 + diff_below(DIFF_LIST), i;
	uint32_t done;
	int l, e;

	for (i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = diff_random(),
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = sge[i],
			.num_sge = diff_make_sges(rig, sge[i], rig->srq_sge, false),
		};
	diff_before(rig);
	diff_trace_on(rig, false);
	l = ibv_post_srq_recv(rig->l.srq, wr, &bad_l);
	diff_trace_off();
	diff_trace_on(rig, true);
	e = ibv_post_srq_recv(rig->e.srq, wr, &bad_e);
	diff_trace_off();
	done = l ? (uint32_t)(bad_l - wr) : n;
	rig->requests += l ? done + 1 : n;
	if (l)
		diff_cover_refused(l == ENOMEM, done, false);
	model_posted(rig, wr, done);
	if (l != e || (l && bad_l != bad_e))
		return diff_fail(rig, "post_srq_recv: libmlx5 %d at %td, engine %d at %td", l,
				 l ? bad_l - wr : -1, e, e ? bad_e - wr : -1);
	return diff_after(rig, true);
}

/* -- a page that is not there ----------------------------------------------------------------- */

static bool inject(struct diff_side *s, uint8_t opcode, uint16_t slot)
{
	struct mlx5_cqe64 cqe = { .wqe_counter = htobe16(slot),
				  .sop_drop_qpn = htobe32(s->qp->qp_num),
				  .op_own = opcode << 4 };
	struct mlx5_err_cqe *err = (void *)&cqe;
	uint8_t none[64] = { 0 };

	if (opcode == MLX5_CQE_RESP_ERR) {
		err->syndrome = MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR;
		err->vendor_err_synd = MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT;
	}
	return !diff_inject(s->dv_rcq.cqn, &cqe, s->dv_rcq.cqe_size == 128 ? none : NULL);
}

/* As if so many receives had gone before that the counter in the record is about to wrap. */
void diff_srq_age(struct diff_rig *rig)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_wc wc;
	uint16_t slot;

	while (rig->recv_head < UINT16_MAX - 50) {
		if (ibv_post_srq_recv(rig->l.srq, &wr, &bad) ||
		    ibv_post_srq_recv(rig->e.srq, &wr, &bad))
			diff_die("ibv_post_srq_recv");
		model_posted(rig, &wr, 1);
		slot = diff_srq_take(rig);
		rig->recv_tail++;
		if (!inject(&rig->l, MLX5_CQE_RESP_SEND, slot) ||
		    !inject(&rig->e, MLX5_CQE_RESP_SEND, slot) ||
		    ibv_poll_cq(rig->l.rcq, 1, &wc) != 1 || ibv_poll_cq(rig->e.rcq, 1, &wc) != 1)
			diff_die("a completion");
	}
}

/* The engine, of which the faulting request is asked for in the slot where it must be now. */
static bool posted_again(struct diff_rig *rig, uint16_t slot, const void *segs, size_t n)
{
	uint16_t to = rig->srq_head;
	struct ibv_wc wc;

	if (memcmp(diff_srq_segs(&rig->e, to), segs, n))
		return diff_fail(rig, "page fault: the request was not posted again");
	if (!inject(&rig->e, MLX5_CQE_RESP_SEND, to) || ibv_poll_cq(rig->e.rcq, 1, &wc) != 1 ||
	    wc.status || wc.wr_id != rig->srq_wrid[slot])
		return diff_fail(rig, "page fault: the request did not complete afterwards");
	return true;
}

/*
 * The last step on a queue, as the lists differ behind it: libmlx5 lets the slot rest in one of its
 * own, the engine takes the next free one. Neither tells the application, both post again.
 */
bool diff_srq_page_fault(struct diff_rig *rig)
{
	size_t n = rig->l.dv_srq.stride - 16;
	uint8_t segs[4096];
	struct ibv_wc wc;
	uint16_t slot;
	int l, e;

	while (rig->scqes + rig->rcqes)
		if (!diff_step_poll(rig))
			return false;
	if (rig->recv_head == rig->recv_tail)
		return true;
	slot = diff_srq_take(rig);
	memcpy(segs, diff_srq_segs(&rig->e, slot), n);
	if (!inject(&rig->l, MLX5_CQE_RESP_ERR, slot) || !inject(&rig->e, MLX5_CQE_RESP_ERR, slot))
		diff_die("inject");
	l = ibv_poll_cq(rig->l.rcq, 1, &wc);
	e = ibv_poll_cq(rig->e.rcq, 1, &wc);
	if (l || e || *rig->l.dv_srq.dbrec != *rig->e.dv_srq.dbrec)
		return diff_fail(rig, "page fault: libmlx5 %d, record %08x; engine %d, record %08x",
				 l, be32toh(*rig->l.dv_srq.dbrec), e,
				 be32toh(*rig->e.dv_srq.dbrec));
	return posted_again(rig, slot, segs, n);
}
