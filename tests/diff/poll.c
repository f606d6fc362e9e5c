/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The same completions into both CQs; what pollers and readers make of them. */
#include <stddef.h>
#include <string.h>

#include "tests/diff/diff.h"

/* Those that the PRM names; any other value comes too. */
static const uint8_t syndromes[] = { 0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11,
				     0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77 };

static uint8_t any_syndrome(void)
{
	uint8_t syndrome =
		diff_chance(70) ? syndromes[diff_below(sizeof(syndromes))] : diff_below(256);

	diff_cover_syndrome(syndrome);
	return syndrome;
}

static void fill_random(void *at, size_t n)
{
	uint8_t *p = at;

	while (n--)
		*p++ = diff_random();
}

/* libmlx5 finds the QP by its user index, 0 for the first of a context; the engine by its
 * number. */
static bool put(struct diff_rig *rig, bool send, struct mlx5_cqe64 *cqe, const void *data)
{
	struct diff_side *sides[2] = { &rig->l, &rig->e };

	cqe->srqn_uidx = htobe32(0);
	cqe->sop_drop_qpn |= htobe32(rig->l.qp->qp_num);
	for (int i = 0; i < 2; i++) {
		if (diff_inject(send ? sides[i]->dv_scq.cqn : sides[i]->dv_rcq.cqn, cqe, data))
			return diff_fail(rig, "inject into CQ %d failed", i);
	}
	if (send || rig->cfg->one_cq)
		rig->scqes++;
	else
		rig->rcqes++;
	return true;
}

static bool large(const struct diff_rig *rig)
{
	return rig->l.dv_scq.cqe_size == 128;
}

/* Bytes that the request's buffers take; inline data takes none. */
static uint64_t send_room(struct diff_rig *rig, const struct diff_sent *sent)
{
	uint32_t mask = rig->l.dv.sq.wqe_cnt - 1, unit = (sent->index & mask) * 4, units, i;
	struct mlx5_wqe_data_seg *ring = rig->l.dv.sq.buf, *seg;
	uint64_t sum = 0;

	units = be32toh(((struct mlx5_wqe_ctrl_seg *)&ring[unit])->qpn_ds) & 0x3f;
	for (i = sent->opcode == MLX5_OPCODE_RDMA_READ ? 2 : 3; i < units; i++) {
		seg = &ring[(unit + i) & (mask * 4 + 3)];
		if (be32toh(seg->byte_count) & MLX5_INLINE_SEG)
			return 0;
		sum += be32toh(seg->byte_count);
	}
	return sum;
}

static uint64_t recv_room(struct diff_rig *rig)
{
	uint32_t idx = rig->recv_tail & (rig->l.dv.rq.wqe_cnt - 1), i;
	struct mlx5_wqe_data_seg *seg =
		(void *)((uint8_t *)rig->l.dv.rq.buf + idx * rig->l.dv.rq.stride);
	uint64_t sum = 0;

	for (i = 0; i < rig->l.dv.rq.stride / 16; i++)
		if (be32toh(seg[i].lkey) == MLX5_INVALID_LKEY)
			break;
		else
			sum += be32toh(seg[i].byte_count);
	return sum;
}

/* Results of READs and atomics, and small receives, may come inside the CQE. */
static void maybe_scatter(struct diff_rig *rig, struct mlx5_cqe64 *cqe, uint8_t *op_own,
			  uint64_t room)
{
	uint32_t most = large(rig) ? 64 : 32;

	if (!diff_chance(40) || room < 8)
		return;
	*op_own |= large(rig) ? MLX5_INLINE_SCATTER_64 : MLX5_INLINE_SCATTER_32;
	cqe->byte_cnt = htobe32(diff_below((room < most ? room : most) + 1));
}

static bool inject_send(struct diff_rig *rig)
{
	uint8_t data[64], op_own = MLX5_CQE_REQ << 4;
	struct diff_sent *sent;
	struct mlx5_cqe64 cqe;
	uint32_t n = rig->sent_tail;

	/* a good completion is of a signaled request, and of all before it */
	while (n != rig->sent_head && !rig->sent[n % DIFF_QUEUE].signaled)
		n++;
	if (n == rig->sent_head || diff_chance(10)) {
		n = rig->sent_tail;
		op_own = MLX5_CQE_REQ_ERR << 4;
	}
	sent = &rig->sent[n % DIFF_QUEUE];
	fill_random(&cqe, sizeof(cqe));
	fill_random(data, sizeof(data));
	cqe.app = 0; /* no tag matching */
	cqe.sop_drop_qpn = htobe32((uint32_t)sent->opcode << 24);
	cqe.wqe_counter = htobe16(sent->index);
	if (op_own >> 4 == MLX5_CQE_REQ_ERR)
		((struct mlx5_err_cqe *)&cqe)->syndrome = any_syndrome();
	else if (!large(rig) &&
		 (sent->opcode == MLX5_OPCODE_RDMA_READ || sent->opcode == MLX5_OPCODE_ATOMIC_CS ||
		  sent->opcode == MLX5_OPCODE_ATOMIC_FA))
		maybe_scatter(rig, &cqe, &op_own, send_room(rig, sent));
	cqe.op_own = op_own;
	rig->sent_tail = n + 1;
	return put(rig, true, &cqe, large(rig) ? data : NULL);
}

static bool inject_recv(struct diff_rig *rig)
{
	static const uint8_t ops[] = { MLX5_CQE_RESP_WR_IMM, MLX5_CQE_RESP_SEND,
				       MLX5_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_INV };
	uint8_t data[64], op_own = ops[diff_below(4)] << 4 | (diff_chance(30) ? 2 : 0);
	struct mlx5_cqe64 cqe;

	fill_random(&cqe, sizeof(cqe));
	fill_random(data, sizeof(data));
	cqe.sop_drop_qpn = 0;
	cqe.app = 0;
	cqe.wqe_counter = htobe16(rig->recv_tail);
	if (diff_chance(10)) {
		op_own = MLX5_CQE_RESP_ERR << 4;
		((struct mlx5_err_cqe *)&cqe)->syndrome = any_syndrome();
	} else {
		maybe_scatter(rig, &cqe, &op_own, recv_room(rig));
	}
	cqe.op_own = op_own;
	rig->recv_tail++;
	return put(rig, false, &cqe, large(rig) ? data : NULL);
}

bool diff_step_inject(struct diff_rig *rig)
{
	unsigned n = 1 + diff_below(16);
	bool ok = true;

	while (ok && n-- && rig->scqes + rig->rcqes < 200) {
		if (diff_chance(60) && rig->sent_tail != rig->sent_head)
			ok = inject_send(rig);
		else if (rig->recv_tail != rig->recv_head)
			ok = inject_recv(rig);
	}
	return ok;
}

/* -- polling ---------------------------------------------------------------------------------- */

static uint8_t shadow[DIFF_ARENA + 4096];

/* Data out of CQEs goes to the same addresses for both: compare what each has made of them. */
static void arena_keep(struct diff_rig *rig)
{
	memcpy(shadow, rig->arena, sizeof(shadow));
}

static bool arena_same(struct diff_rig *rig)
{
	if (!memcmp(shadow, rig->arena, sizeof(shadow)))
		return true;
	return diff_fail(rig, "data inside CQEs was copied differently");
}

static struct ibv_cq *cq_of(struct diff_side *s, bool send)
{
	return send ? s->scq : s->rcq;
}

static bool same_wc(struct diff_rig *rig, const struct ibv_wc *l, const struct ibv_wc *e, int n)
{
	for (int i = 0; i < n; i++)
		if (memcmp(&l[i], &e[i], sizeof(l[i])))
			return diff_fail(rig,
					 "completion %d: wr_id %#llx %#llx, status %d %d, "
					 "opcode %d %d, flags %#x %#x, length %u %u",
					 i, (long long)l[i].wr_id, (long long)e[i].wr_id,
					 l[i].status, e[i].status, l[i].opcode, e[i].opcode,
					 l[i].wc_flags, e[i].wc_flags, l[i].byte_len,
					 e[i].byte_len);
	return true;
}

static bool same_ci(struct diff_rig *rig)
{
	if (rig->l.dv_scq.dbrec[0] != rig->e.dv_scq.dbrec[0] ||
	    rig->l.dv_rcq.dbrec[0] != rig->e.dv_rcq.dbrec[0])
		return diff_fail(rig, "consumer index");
	return true;
}

static void count(struct diff_rig *rig, bool send, int n)
{
	rig->completions += n;
	if (send || rig->cfg->one_cq)
		rig->scqes -= n;
	else
		rig->rcqes -= n;
	if (!rig->scqes)
		rig->polled_tail = rig->sent_tail;
}

/* What neither of them fills must stay as it was. */
bool diff_step_poll(struct diff_rig *rig)
{
	struct ibv_wc l[DIFF_POLL], e[DIFF_POLL];
	int want = 1 + diff_below(DIFF_POLL), got_l, got_e;
	bool send = diff_chance(50);
	static uint8_t before[sizeof(shadow)];

	memset(l, 0x3c, sizeof(l));
	memset(e, 0x3c, sizeof(e));
	memcpy(before, rig->arena, sizeof(before));
	diff_trace_on(rig, false);
	got_l = ibv_poll_cq(cq_of(&rig->l, send), want, l);
	diff_trace_off();
	arena_keep(rig);
	memcpy(rig->arena, before, sizeof(before));
	diff_trace_on(rig, true);
	got_e = ibv_poll_cq(cq_of(&rig->e, send), want, e);
	diff_trace_off();
	if (got_l != got_e)
		return diff_fail(rig, "poll_cq: libmlx5 %d, engine %d", got_l, got_e);
	count(rig, send, got_l);
	return same_wc(rig, l, e, got_l) && arena_same(rig) && same_ci(rig) &&
	       diff_trace_same(rig, true);
}

struct reading {
	uint64_t wr_id, ts, tag;
	uint32_t status, opcode, vendor_err, byte_len, imm, qp_num, src_qp, flags, slid, sl, bits;
	uint32_t cvlan, flow_tag, priv;
};

/* Each reader that libmlx5 gave this CQ. */
static void read_all(struct ibv_cq_ex *cq, struct reading *r)
{
	struct ibv_wc_tm_info tm = { 0 };

	memset(r, 0, sizeof(*r));
	r->wr_id = cq->wr_id;
	r->status = cq->status;
	r->qp_num = cq->read_qp_num ? ibv_wc_read_qp_num(cq) : 0;
	r->vendor_err = ibv_wc_read_vendor_err(cq);
	r->byte_len = cq->read_byte_len ? ibv_wc_read_byte_len(cq) : 0;
	r->imm = cq->read_imm_data ? ibv_wc_read_imm_data(cq) : 0;
	r->src_qp = cq->read_src_qp ? ibv_wc_read_src_qp(cq) : 0;
	r->slid = cq->read_slid ? ibv_wc_read_slid(cq) : 0;
	r->sl = cq->read_sl ? ibv_wc_read_sl(cq) : 0;
	r->bits = cq->read_dlid_path_bits ? ibv_wc_read_dlid_path_bits(cq) : 0;
	r->ts = cq->read_completion_ts ? ibv_wc_read_completion_ts(cq) : 0;
	r->cvlan = cq->read_cvlan ? ibv_wc_read_cvlan(cq) : 0;
	r->flow_tag = cq->read_flow_tag ? ibv_wc_read_flow_tag(cq) : 0;
	if (cq->read_tm_info)
		ibv_wc_read_tm_info(cq, &tm);
	r->tag = tm.tag;
	r->priv = tm.priv;
	r->opcode = ibv_wc_read_opcode(cq);
	r->flags = ibv_wc_read_wc_flags(cq);
}

static int read_some(struct ibv_cq *cq, int want, struct reading *r)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0, ret = ibv_start_poll(ex, &attr);

	if (ret)
		return ret == ENOENT ? 0 : -ret;
	do {
		read_all(ex, &r[n++]);
	} while (n < want && !(ret = ibv_next_poll(ex)));
	ibv_end_poll(ex);
	return ret && ret != ENOENT ? -ret : n;
}

bool diff_step_poll_ex(struct diff_rig *rig)
{
	struct reading l[DIFF_POLL], e[DIFF_POLL];
	int want = 1 + diff_below(DIFF_POLL), got_l, got_e;
	bool send = diff_chance(50);
	static uint8_t before[sizeof(shadow)];

	memcpy(before, rig->arena, sizeof(before));
	diff_trace_on(rig, false);
	got_l = read_some(cq_of(&rig->l, send), want, l);
	diff_trace_off();
	arena_keep(rig);
	memcpy(rig->arena, before, sizeof(before));
	diff_trace_on(rig, true);
	got_e = read_some(cq_of(&rig->e, send), want, e);
	diff_trace_off();
	if (got_l != got_e)
		return diff_fail(rig, "start_poll: libmlx5 %d, engine %d", got_l, got_e);
	for (int i = 0; i < got_l; i++)
		if (memcmp(&l[i], &e[i], sizeof(l[i])))
			return diff_fail(rig,
					 "completion %d: a reader differs: status %d %d, "
					 "opcode %d %d, wr_id %#llx %#llx",
					 i, l[i].status, e[i].status, l[i].opcode, e[i].opcode,
					 (long long)l[i].wr_id, (long long)e[i].wr_id);
	count(rig, send, got_l > 0 ? got_l : 0);
	return arena_same(rig) && (got_l <= 0 || same_ci(rig)) && diff_trace_same(rig, true);
}

static uint64_t cq_register(const struct mlx5dv_cq *cq)
{
	uint64_t v;

	memcpy(&v, (uint8_t *)cq->cq_uar + 0x20, 8);
	return be64toh(v);
}

bool diff_step_arm(struct diff_rig *rig)
{
	bool send = diff_chance(50), solicited = diff_chance(50);
	struct mlx5dv_cq *l = send ? &rig->l.dv_scq : &rig->l.dv_rcq;
	struct mlx5dv_cq *e = send ? &rig->e.dv_scq : &rig->e.dv_rcq;
	uint64_t word_l, word_e;

	diff_trace_on(rig, false);
	ibv_req_notify_cq(cq_of(&rig->l, send), solicited);
	diff_trace_off();
	diff_trace_on(rig, true);
	ibv_req_notify_cq(cq_of(&rig->e, send), solicited);
	diff_trace_off();
	word_l = cq_register(l);
	word_e = cq_register(e);
	if (l->dbrec[1] != e->dbrec[1] || word_l >> 32 != word_e >> 32 ||
	    (uint32_t)word_l != l->cqn || (uint32_t)word_e != e->cqn)
		return diff_fail(rig, "arming: record %08x %08x, register %016llx %016llx",
				 be32toh(l->dbrec[1]), be32toh(e->dbrec[1]), (long long)word_l,
				 (long long)word_e);
	return diff_trace_same(rig, true);
}
