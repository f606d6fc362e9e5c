/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/mlx5_rig.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void rig_cqs(struct rig *rig, uint32_t cqe_size)
{
	fake_cq_make(&rig->dev, &rig->scq, 4096, cqe_size);
	fake_cq_make(&rig->dev, &rig->rcq, 4096, cqe_size);
	MUST(!ENGINE->cq.drive(rig->dev.sp, fake_ibv_cq(&rig->scq), rig->cq_ex, 0, rig,
			       &rig->sp_scq));
	MUST(!ENGINE->cq.drive(rig->dev.sp, fake_ibv_cq(&rig->rcq), rig->cq_ex, 0, rig,
			       &rig->sp_rcq));
}

static void nic_make(struct rig *rig, struct rig_nic *nic)
{
	fake_dev_make(&nic->dev, false);
	fake_cq_make(&nic->dev, &nic->shadow_s, 4096, 64);
	fake_cq_make(&nic->dev, &nic->shadow_r, 4096, 64);
	MUST(!ENGINE->cq.ring_add(rig->sp_scq, nic->dev.sp, fake_ibv_cq(&nic->shadow_s),
				  &nic->ring_s));
	MUST(!ENGINE->cq.ring_add(rig->sp_rcq, nic->dev.sp, fake_ibv_cq(&nic->shadow_r),
				  &nic->ring_r));
}

static void nic_free(struct rig_nic *nic)
{
	fake_cq_free(&nic->shadow_s);
	fake_cq_free(&nic->shadow_r);
	fake_dev_free(&nic->dev);
}

/* Each carrier counts packets of another size, and soon past 2^24. */
static void number(struct rig *rig, uint32_t carrier)
{
	struct fake_qp *qp = &rig->carriers[carrier].qp;

	qp->mtu = 8u << carrier % 4;
	qp->psn = 0xfffff0 + carrier;
	ENGINE->qp.number(rig->sp, carrier, qp->psn, qp->mtu);
}

void rig_make(struct rig *rig, const struct fake_geometry *g, uint32_t cqe_size, bool cq_ex)
{
	const char *why = "";

	memset(rig, 0, sizeof(*rig));
	fake_reset();
	rig->cq_ex = cq_ex;
	rig->geometry = *g;
	fake_dev_make(&rig->dev, true);
	rig_cqs(rig, cqe_size);
	for (int i = 0; i < RIG_NICS; i++)
		nic_make(rig, &rig->nics[i]);
	rig->app = &rig->carriers[0].qp;
	fake_qp_make(&rig->dev, rig->app, &rig->scq, &rig->rcq, g);
	MUST(!ENGINE->qp.drive(rig->dev.sp, fake_ibv(rig->app), &rig->app->attr, rig->sp_scq,
			       rig->sp_rcq, rig, &rig->sp, &why));
	number(rig, 0);
	rig->made = 1;
}

void rig_free(struct rig *rig)
{
	ENGINE->qp.undrive(rig->sp);
	for (uint32_t i = 0; i < rig->made; i++)
		fake_qp_free(&rig->carriers[i].qp);
	MUST(!ENGINE->cq.undrive(rig->sp_scq));
	MUST(!ENGINE->cq.undrive(rig->sp_rcq));
	fake_cq_free(&rig->scq);
	fake_cq_free(&rig->rcq);
	for (int i = 0; i < RIG_NICS; i++)
		nic_free(&rig->nics[i]);
	fake_dev_free(&rig->dev);
}

struct rig *rig_new(const struct fake_geometry *g, uint32_t cqe_size, bool cq_ex)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	if (!rig)
		abort();
	rig_make(rig, g, cqe_size, cq_ex);
	return rig;
}

void rig_delete(struct rig *rig)
{
	rig_free(rig);
	free(rig);
}

uint32_t rig_standby_on(struct rig *rig, uint32_t nic, const struct fake_geometry *g)
{
	struct rig_carrier *c = &rig->carriers[rig->made];
	struct rig_nic *on = &rig->nics[nic];

	MUST(rig->made < RIG_CARRIERS);
	fake_qp_make(&on->dev, &c->qp, &on->shadow_s, &on->shadow_r, g);
	c->qp.epoch = rig->made;
	c->qp.xlat = true;
	if (ENGINE->carrier.add(rig->sp, rig->made, on->dev.sp, fake_ibv(&c->qp), NULL, on->ring_s,
				on->ring_r, &c->sp)) {
		fake_qp_free(&c->qp);
		return 0;
	}
	number(rig, rig->made);
	return rig->made++;
}

uint32_t rig_standby(struct rig *rig, const struct fake_geometry *g)
{
	return rig_standby_on(rig, 0, g);
}

int rig_move(struct rig *rig, const struct fake_geometry *g)
{
	struct sp_settled settled;
	uint32_t to = rig_standby(rig, g);
	struct sp_carrier *carrier = rig->carriers[to].sp;
	int err;

	ENGINE->move.withhold(rig->sp);
	ENGINE->move.seal(rig->sp);
	err = ENGINE->move.lay_receives(rig->sp, carrier);
	if (!err)
		err = ENGINE->move.settle(rig->sp, carrier, NULL, 0, &settled);
	if (!err)
		rig->active = to;
	return err;
}

void rig_drop(struct rig *rig, uint32_t carrier)
{
	ENGINE->carrier.del(rig->carriers[carrier].sp);
}

/* ---- the log ---- */

const char *rig_log(struct rig *rig, uint32_t carrier, uint32_t every)
{
	const struct sp_log log = { .addr = RIG_WORD,
				    .rkey = fake_rkey(RIG_WORD) + carrier * FAKE_KEY_STEP,
				    .tag = RIG_TAG + carrier,
				    .every = every };

	return ENGINE->qp.log(rig->sp, carrier, &log);
}

bool rig_logged(const struct fake_done *done, uint32_t carrier, uint32_t *number)
{
	uint64_t word = le64toh(done->word);

	if (done->id != RIG_WORD || done->opcode != MLX5_OPCODE_RDMA_WRITE)
		return false;
	MUST(word >> 32 == RIG_TAG + carrier);
	*number = (uint32_t)word;
	return true;
}

uint32_t rig_log_depth(uint32_t sq_cnt, uint32_t request_bbs, uint32_t every)
{
	uint32_t n = sq_cnt / request_bbs;

	while (n && n * request_bbs + sp_log_room(n, every) + 1 > sq_cnt)
		n--;
	return n;
}

static int send_by_calls(struct rig *rig, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;
	struct ibv_qp_ex *qp = &rig->app->ex;

	ibv_wr_start(qp);
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(qp); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, fake_rkey(wr->wr_id), wr->wr_id); break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, fake_rkey(wr->wr_id), wr->wr_id); break;
	default: ibv_wr_atomic_fetch_add(qp, fake_rkey(wr->wr_id), wr->wr_id, 1); break;
	}
	if (wr->num_sge == 1)
		ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, sge);
	return ibv_wr_complete(qp);
}

/* The newer calls go together. */
static bool by_calls(const struct rig *rig, enum ibv_wr_opcode op, unsigned flags)
{
	return rig->cq_ex && !(flags & IBV_SEND_INLINE) &&
	       (op == IBV_WR_SEND || op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ ||
		op == IBV_WR_ATOMIC_FETCH_AND_ADD);
}

int rig_send(struct rig *rig, enum ibv_wr_opcode op, uint64_t id, unsigned flags, uint32_t sges)
{
	static char bytes[64];
	struct ibv_sge sge[16];
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = op,
				  .send_flags = flags,
				  .sg_list = sge,
				  .num_sge = sges },
			   *bad;

	for (uint32_t i = 0; i < sges; i++) {
		sge[i] = (struct ibv_sge){ id + 16 * i, 8, fake_lkey(id + 16 * i) };
		if (flags & IBV_SEND_INLINE)
			sge[i].addr = (uintptr_t)bytes;
	}
	if (by_calls(rig, op, flags))
		return send_by_calls(rig, &wr);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = id;
		wr.wr.atomic.rkey = fake_rkey(id);
	} else {
		wr.wr.rdma.remote_addr = id;
		wr.wr.rdma.rkey = fake_rkey(id);
	}
	return ibv_post_send(fake_ibv(rig->app), &wr, &bad);
}

int rig_recv(struct rig *rig, uint64_t id, uint32_t sges)
{
	struct ibv_sge sge[16];
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = sges }, *bad;

	for (uint32_t i = 0; i < sges; i++)
		sge[i] = (struct ibv_sge){ id + i, 64, fake_lkey(id + i) };
	return ibv_post_recv(fake_ibv(rig->app), &wr, &bad);
}

static int poll_ex(struct ibv_cq_ex *cq, struct ibv_wc *wc, int n)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int got = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		wc[got].wr_id = cq->wr_id;
		wc[got].status = cq->status;
		wc[got].opcode = ibv_wc_read_opcode(cq);
		wc[got].wc_flags = ibv_wc_read_wc_flags(cq);
		wc[got].vendor_err = ibv_wc_read_vendor_err(cq);
		wc[got].byte_len = ibv_wc_read_byte_len(cq);
		wc[got].qp_num = ibv_wc_read_qp_num(cq);
	} while (++got < n && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return got;
}

int rig_poll(struct rig *rig, bool send, struct ibv_wc *wc, int n)
{
	struct fake_cq *cq = send ? &rig->scq : &rig->rcq;

	return rig->cq_ex ? poll_ex(&cq->ex, wc, n) : ibv_poll_cq(fake_ibv_cq(cq), n, wc);
}
