/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/verbs_rig.h"

#include <errno.h>
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

#define ENGINE (rig->setup.engine)

enum {
	CQES = 2048,
	WC_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
};

/* -- callbacks -------------------------------------------------------------------------------- */

static void on_error(void *cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
		     enum ibv_wc_status status, uint32_t vendor_err)
{
	struct vrig *rig = cookie;

	rig->events.errors++;
	rig->events.app_errors += cls == SP_ERROR_APPLICATION;
	rig->events.doubts += cls == SP_ERROR_DOUBTFUL;
	rig->events.withheld += withheld;
	rig->events.status = status;
}

static void on_event(void *cookie)
{
	((struct vrig *)cookie)->events.events++;
}

static void on_armed(const struct ibv_cq *cq, bool solicited)
{
}

static void on_key(void *cookie)
{
	((struct vrig *)cookie)->events.keys++;
}

static void on_posted(void *cookie)
{
	((struct vrig *)cookie)->events.posted++;
}

static void on_gated(void *cookie)
{
	((struct vrig *)cookie)->events.gated++;
}

static void on_progress(void *cookie, uint32_t epoch)
{
	((struct vrig *)cookie)->events.progress++;
}

static void on_stuck(void *cookie)
{
	((struct vrig *)cookie)->events.stuck++;
}

static int translate(struct vrig *rig, uint32_t first, uint32_t where, uint32_t key, uint32_t *out)
{
	if (rig->keys_missing || key - first >= VF_KEYS)
		return -ENOENT;
	*out = vf_key_on(key, where);
	return 0;
}

static int on_lkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	struct vrig *rig = cookie;

	return translate(rig, VF_LKEY, rig->carriers[epoch].dev->index, key, out);
}

static int on_rkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	return translate(cookie, VF_RKEY, epoch, key, out);
}

static bool on_lkey_gone(void *cookie, uint32_t key)
{
	return key - VF_LKEY >= VF_KEYS;
}

/* The path of a ring is the number of its device. */
static int on_srq_lkey(void *cookie, uint8_t path, uint32_t key, uint32_t *out)
{
	return translate(cookie, VF_LKEY, path, key, out);
}

static const struct sp_callbacks callbacks = {
	.qp_error = on_error,
	.cq_event = on_event,
	.cq_armed = on_armed,
	.key_missing = on_key,
	.posted = on_posted,
	.gated = on_gated,
	.qp_progress = on_progress,
	.lkey = on_lkey,
	.rkey = on_rkey,
	.lkey_gone = on_lkey_gone,
	.srq_lkey = on_srq_lkey,
	.srq_stuck = on_stuck,
	.srq_limit = on_stuck,
};

/* -- objects ---------------------------------------------------------------------------------- */

static void dev_make(struct vrig *rig, struct vf_dev *dev, uint32_t index, uint32_t knobs)
{
	const char *why = "";

	vf_dev_make(dev, index, knobs);
	MUST(ENGINE->probe(&dev->verbs.context, &why));
	MUST(!ENGINE->dev_init(&dev->verbs.context, !index, &callbacks, &dev->sp));
}

static struct vf_cq *recv_cq(struct vrig *rig)
{
	return rig->setup.one_cq ? &rig->scq : &rig->rcq;
}

static void cqs_make(struct vrig *rig)
{
	uint64_t flags = rig->setup.cq_ex ? WC_FLAGS : 0;
	bool ex = flags && !(rig->dev.knobs & VF_PLAIN_ONLY);

	vf_cq_make(&rig->dev, &rig->scq, CQES, flags);
	MUST(!ENGINE->cq.drive(rig->dev.sp, vf_ibv_cq(&rig->scq), ex, ex ? flags : 0, rig,
			       &rig->sp_scq));
	rig->sp_rcq = rig->sp_scq;
	if (rig->setup.one_cq)
		return;
	vf_cq_make(&rig->dev, &rig->rcq, CQES, flags);
	MUST(!ENGINE->cq.drive(rig->dev.sp, vf_ibv_cq(&rig->rcq), ex, ex ? flags : 0, rig,
			       &rig->sp_rcq));
}

static void srq_make(struct vrig *rig)
{
	const struct vf_geometry *g = &rig->setup.app;
	struct ibv_srq_attr attr = { g->recv_wr, g->recv_sge, 0 };

	vf_srq_make(&rig->dev, &rig->carriers[0].srq, g->recv_wr, g->recv_sge);
	rig->carriers[0].srq.any = 1;
	MUST(!ENGINE->srq.drive(rig->dev.sp, &rig->carriers[0].srq.ibv, &attr, rig, &rig->sp_srq));
	rig->carriers[0].ring = ENGINE->srq.own(rig->sp_srq);
}

static void nic_make(struct vrig *rig, uint32_t i)
{
	struct vr_nic *nic = &rig->nics[i];

	dev_make(rig, &nic->dev, i + 1, rig->setup.knobs[i]);
	vf_cq_make(&nic->dev, &nic->shadow_s, CQES, rig->setup.cq_ex ? WC_FLAGS : 0);
	MUST(!ENGINE->cq.ring_add(rig->sp_scq, nic->dev.sp, vf_ibv_cq(&nic->shadow_s),
				  &nic->ring_s));
	nic->ring_r = nic->ring_s;
	if (rig->setup.one_cq)
		return;
	vf_cq_make(&nic->dev, &nic->shadow_r, CQES, rig->setup.cq_ex ? WC_FLAGS : 0);
	MUST(!ENGINE->cq.ring_add(rig->sp_rcq, nic->dev.sp, vf_ibv_cq(&nic->shadow_r),
				  &nic->ring_r));
}

static void qp_make(struct vrig *rig, struct vf_dev *dev, uint32_t epoch, struct vf_cq *scq,
		    struct vf_cq *rcq, const struct vf_geometry *g)
{
	struct vr_carrier *c = &rig->carriers[epoch];
	struct vf_geometry real = *g;

	real.send_wr++; /* the shell asks for one more, for what the engine posts itself */
	if (rig->setup.log_every)
		real.send_wr += sp_log_room(g->send_wr, rig->setup.log_every);
	vf_qp_make(dev, &c->qp, scq, rcq, rig->setup.srq ? &c->srq : NULL, &real);
	c->qp.attr.cap.max_send_wr = g->send_wr;
	c->qp.path = epoch;
	c->qp.no_remote_write = rig->setup.no_write;
	c->qp.no_remote_read = rig->setup.no_read;
	c->dev = dev;
}

void vrig_make(struct vrig *rig, const struct vr_setup *setup)
{
	const char *why = "";

	memset(rig, 0, sizeof(*rig));
	vf_reset();
	rig->setup = *setup;
	dev_make(rig, &rig->dev, 0, setup->knobs[VR_NICS]);
	cqs_make(rig);
	if (setup->srq)
		srq_make(rig);
	for (uint32_t i = 0; i < VR_NICS; i++)
		nic_make(rig, i);
	rig->app = &rig->carriers[0].qp;
	qp_make(rig, &rig->dev, 0, &rig->scq, recv_cq(rig), &setup->app);
	MUST(!ENGINE->qp.drive(rig->dev.sp, vf_ibv(rig->app), &rig->app->attr, rig->sp_scq,
			       rig->sp_rcq, rig, &rig->sp, &why));
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTR);
	ENGINE->qp.modified(rig->sp, IBV_QPS_RTS);
	rig->made = 1;
}

static void nic_free(struct vrig *rig, struct vr_nic *nic)
{
	vf_cq_free(&nic->shadow_s);
	if (!rig->setup.one_cq)
		vf_cq_free(&nic->shadow_r);
	ENGINE->dev_uninit(nic->dev.sp);
	vf_dev_free(&nic->dev);
}

static void srqs_free(struct vrig *rig)
{
	for (uint32_t i = 1; i < rig->made; i++)
		if (rig->carriers[i].ring)
			ENGINE->srq.ring_del(rig->carriers[i].ring);
	ENGINE->srq.undrive(rig->sp_srq);
	for (uint32_t i = 0; i < rig->made; i++)
		vf_srq_free(&rig->carriers[i].srq);
}

void vrig_free(struct vrig *rig)
{
	ENGINE->qp.undrive(rig->sp);
	for (uint32_t i = 0; i < rig->made; i++)
		vf_qp_free(&rig->carriers[i].qp);
	if (rig->setup.srq)
		srqs_free(rig);
	MUST(!ENGINE->cq.undrive(rig->sp_scq));
	if (!rig->setup.one_cq)
		MUST(!ENGINE->cq.undrive(rig->sp_rcq));
	for (int i = 0; i < VR_NICS; i++)
		nic_free(rig, &rig->nics[i]);
	vf_cq_free(&rig->scq);
	if (!rig->setup.one_cq)
		vf_cq_free(&rig->rcq);
	ENGINE->dev_uninit(rig->dev.sp);
	vf_dev_free(&rig->dev);
}

/* A queue that gave back its receives is never used again: each standby has one of its own. */
static void shadow_srq(struct vrig *rig, struct vr_carrier *c, struct vf_dev *dev)
{
	const struct vf_geometry *g = &rig->setup.app;
	struct ibv_srq_attr attr = { g->recv_wr, g->recv_sge, 0 };

	vf_srq_make(dev, &c->srq, g->recv_wr, g->recv_sge);
	c->srq.any = rig->made + 1;
	MUST(!ENGINE->srq.ring_add(rig->sp_srq, dev->sp, &c->srq.ibv, &attr, (uint8_t)dev->index,
				   &c->ring));
}

uint32_t vrig_standby(struct vrig *rig, uint32_t nic, const struct vf_geometry *g)
{
	struct vr_carrier *c = &rig->carriers[rig->made];
	struct vr_nic *on = &rig->nics[nic];

	MUST(rig->made < VR_CARRIERS);
	if (rig->setup.srq)
		shadow_srq(rig, c, &on->dev);
	qp_make(rig, &on->dev, rig->made, &on->shadow_s,
		rig->setup.one_cq ? &on->shadow_s : &on->shadow_r, g);
	if (!ENGINE->carrier.add(rig->sp, rig->made, on->dev.sp, vf_ibv(&c->qp), &c->qp.attr.cap,
				 on->ring_s, on->ring_r, &c->sp))
		return rig->made++;
	vf_qp_free(&c->qp);
	if (rig->setup.srq) {
		ENGINE->srq.ring_del(c->ring);
		vf_srq_free(&c->srq);
	}
	return 0;
}

void vrig_drop(struct vrig *rig, uint32_t carrier)
{
	struct vr_carrier *c = &rig->carriers[carrier];

	ENGINE->carrier.del(c->sp);
	if (!c->ring)
		return;
	vrig_recover(rig); /* what it still had */
	ENGINE->srq.ring_del(c->ring);
	c->ring = NULL;
}

void vrig_recover(struct vrig *rig)
{
	struct sp_srq_state state;

	for (uint32_t i = 0; rig->setup.srq && i < rig->made; i++) {
		if (!rig->carriers[i].ring)
			continue;
		ENGINE->srq.query(rig->carriers[i].ring, &state);
		if (!state.users && !state.spoiled && state.receives)
			(void)ENGINE->srq.recover(rig->carriers[i].ring);
	}
}

/* -- what requests are made of ---------------------------------------------------------------- */

static uint64_t sge_addr(uint64_t id, uint32_t sge)
{
	return (id * VF_SGES + sge) * 16;
}

uint64_t vrig_recv_addr(uint64_t id, uint32_t sge)
{
	return sge_addr(id, sge) + (1ull << 40);
}

static void inline_bytes(uint64_t id, uint32_t n, uint8_t *bytes)
{
	memcpy(bytes, &id, n < 8 ? n : 8);
	for (uint32_t i = 8; i < n; i++)
		bytes[i] = (uint8_t)(id * 7 + i);
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

void vrig_expect(const struct vr_request *r, struct vf_done *done)
{
	bool inlined = r->flags & IBV_SEND_INLINE;
	uint8_t bytes[VF_INLINE];

	memset(done, 0, sizeof(*done));
	done->opcode = (uint8_t)r->op;
	done->imm = has_imm(r->op) ? (uint32_t)r->id : 0;
	done->length = inlined ? r->bytes : r->bytes * r->sges;
	if (inlined) {
		inline_bytes(r->id, VF_INLINE, bytes);
		memcpy(done->data, bytes, r->bytes < VF_DATA ? r->bytes : VF_DATA);
	}
	for (uint32_t i = 0; i < r->sges && !inlined; i++)
		done->mark = vf_mark(done->mark, sge_addr(r->id, i), r->bytes);
	if (is_atomic(r->op))
		done->mark = vf_mark(done->mark, r->id * 3,
				     r->op == IBV_WR_ATOMIC_CMP_AND_SWP ? r->id * 5 : 0);
}

uint64_t vrig_id(const struct vf_done *done)
{
	uint64_t id;

	if (!is_send(done->opcode))
		return done->id / 16;
	if (done->opcode == IBV_WR_SEND_WITH_IMM)
		return done->imm;
	if (done->id)
		return done->id / 16 / VF_SGES;
	memcpy(&id, done->data, sizeof(id));
	return id;
}

/* -- posting ---------------------------------------------------------------------------------- */

/* What an application passes: its own, until the call is back. */
struct vr_passed {
	struct ibv_send_wr wr[VR_LIST];
	struct ibv_sge sge[VR_LIST][2 * VF_SGES];
	uint8_t bytes[VR_LIST][VF_INLINE];
};
static struct vr_passed passed, before;

static void fill_sges(const struct vr_request *r, struct ibv_sge *sge, uint8_t *bytes)
{
	uint32_t at = 0, part;

	inline_bytes(r->id, VF_INLINE, bytes);
	for (uint32_t i = 0; i < r->sges; i++) {
		sge[i] = (struct ibv_sge){ sge_addr(r->id, i), r->bytes,
					   vf_lkey(sge_addr(r->id, i)) };
		if (!(r->flags & IBV_SEND_INLINE))
			continue;
		part = i + 1 == r->sges ? r->bytes - at : r->bytes / r->sges;
		/* the key of inline data is not looked at */
		sge[i] = (struct ibv_sge){ (uintptr_t)bytes + at, part, 0xdead };
		at += part;
	}
}

static void fill(const struct vr_request *r, uint32_t i)
{
	struct ibv_send_wr *wr = &passed.wr[i];

	memset(wr, 0, sizeof(*wr));
	fill_sges(r, passed.sge[i], passed.bytes[i]);
	wr->wr_id = VR_WR_ID(r->id);
	wr->opcode = r->op;
	wr->send_flags = r->flags;
	wr->sg_list = r->sges ? passed.sge[i] : NULL;
	wr->num_sge = (int)r->sges;
	if (has_imm(r->op))
		wr->imm_data = (uint32_t)r->id;
	if (is_atomic(r->op)) {
		wr->wr.atomic.remote_addr = r->id * 16;
		wr->wr.atomic.rkey = vf_rkey(r->id * 16);
		wr->wr.atomic.compare_add = r->id * 3;
		if (r->op == IBV_WR_ATOMIC_CMP_AND_SWP)
			wr->wr.atomic.swap = r->id * 5;
	} else if (!is_send(r->op)) {
		wr->wr.rdma.remote_addr = r->id * 16;
		wr->wr.rdma.rkey = vf_rkey(r->id * 16);
	}
}

static void build_op(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	uint32_t rkey = wr->wr.rdma.rkey;
	uint64_t at = wr->wr.rdma.remote_addr;

	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(qp); break;
	case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qp, wr->imm_data); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, rkey, at); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_rdma_write_imm(qp, rkey, at, wr->imm_data); break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, rkey, at); break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
	}
}

static void build_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[2 * VF_SGES];
	const struct ibv_sge *sge = wr->sg_list;
	int n = wr->num_sge;

	if (!n)
		return;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (n == 1)
			ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
		else
			ibv_wr_set_sge_list(qp, (size_t)n, sge);
		return;
	}
	for (int i = 0; i < n; i++)
		bufs[i] = (struct ibv_data_buf){ (void *)(uintptr_t)sge[i].addr, sge[i].length };
	if (n == 1)
		ibv_wr_set_inline_data(qp, bufs[0].addr, bufs[0].length);
	else
		ibv_wr_set_inline_data_list(qp, (size_t)n, bufs);
}

static int build(struct vrig *rig, uint32_t n)
{
	struct ibv_qp_ex *qp = &rig->app->ex;

	ibv_wr_start(qp);
	for (uint32_t i = 0; i < n; i++) {
		build_op(qp, &passed.wr[i]);
		MUST(qp->wr_id == passed.wr[i].wr_id); /* it is the application's own */
		build_data(qp, &passed.wr[i]);
		memset(passed.bytes[i], 0x5a, VF_INLINE); /* the application's again */
	}
	return ibv_wr_complete(qp);
}

int vrig_post(struct vrig *rig, const struct vr_request *requests, uint32_t n, bool by_calls,
	      uint32_t *taken)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		fill(&requests[i], i);
		passed.wr[i].next = i + 1 < n ? &passed.wr[i + 1] : NULL;
	}
	if (by_calls && rig->app->ex.wr_start) {
		err = build(rig, n);
		*taken = err ? 0 : n;
	} else {
		before = passed;
		err = ibv_post_send(vf_ibv(rig->app), passed.wr, &bad);
		MUST(!memcmp(&before, &passed, sizeof(passed)));
		MUST(!err || (bad >= passed.wr && bad < passed.wr + n));
		*taken = err ? (uint32_t)(bad - passed.wr) : n;
	}
	memset(&passed, 0x5a, sizeof(passed));
	return err;
}

int vrig_post_recv(struct vrig *rig, uint64_t first, uint32_t n, const uint32_t *sges,
		   uint32_t *taken)
{
	struct ibv_sge sge[VR_LIST][2 * VF_SGES];
	struct ibv_recv_wr wr[VR_LIST], *bad = NULL;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		wr[i] = (struct ibv_recv_wr){ .wr_id = VR_RECV_ID(first + i),
					      .next = i + 1 < n ? &wr[i + 1] : NULL,
					      .sg_list = sge[i],
					      .num_sge = (int)sges[i] };
		for (uint32_t k = 0; k < sges[i]; k++) {
			uint64_t at = vrig_recv_addr(first + i, k);

			sge[i][k] = (struct ibv_sge){ at, 64, vf_lkey(at) };
		}
	}
	err = rig->setup.srq ? ibv_post_srq_recv(&rig->carriers[0].srq.ibv, wr, &bad)
			     : ibv_post_recv(vf_ibv(rig->app), wr, &bad);
	MUST(!err || (bad >= wr && bad < wr + n));
	*taken = err ? (uint32_t)(bad - wr) : n;
	memset(sge, 0x5a, sizeof(sge));
	memset(wr, 0x5a, sizeof(wr));
	return err;
}

/* -- polling ---------------------------------------------------------------------------------- */

static int poll_ex(struct ibv_cq_ex *cq, struct ibv_wc *wc, int n)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int got = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		memset(&wc[got], 0, sizeof(wc[got]));
		wc[got].wr_id = cq->wr_id;
		wc[got].status = cq->status;
		wc[got].qp_num = ibv_wc_read_qp_num(cq);
		wc[got].vendor_err = ibv_wc_read_vendor_err(cq);
		if (cq->status)
			continue;
		wc[got].opcode = ibv_wc_read_opcode(cq);
		wc[got].wc_flags = ibv_wc_read_wc_flags(cq);
		wc[got].byte_len = ibv_wc_read_byte_len(cq);
		if (wc[got].wc_flags & IBV_WC_WITH_IMM)
			wc[got].imm_data = ibv_wc_read_imm_data(cq);
	} while (++got < n && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return got;
}

int vrig_poll(struct vrig *rig, bool send, bool by_calls, struct ibv_wc *wc, int n)
{
	struct vf_cq *cq = send ? &rig->scq : recv_cq(rig);

	if (by_calls && cq->ex.start_poll)
		return poll_ex(&cq->ex, wc, n);
	return ibv_poll_cq(vf_ibv_cq(cq), n, wc);
}
