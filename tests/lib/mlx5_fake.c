/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/mlx5_fake.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/libmlx5.h"

struct fake_log fake_log;
struct fake_events fake_events;
_Atomic bool fake_keys_missing;
_Atomic uint32_t fake_keys_turn;

/* Tests run in builds with NDEBUG too. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: the NIC trips: %s\n", __FILE__, __LINE__, #cond);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* -- callbacks -------------------------------------------------------------------------------- */

static void on_error(void *cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
		     enum ibv_wc_status status, uint32_t vendor_err)
{
	fake_events.errors++;
	fake_events.app_errors += cls == SP_ERROR_APPLICATION;
	fake_events.withheld += withheld;
	fake_events.status = status;
}

static void on_event(void *cookie)
{
	fake_events.events++;
}

static void on_armed(const struct ibv_cq *cq, bool solicited)
{
}

static void on_key(void *cookie)
{
	fake_events.keys++;
}

static void on_posted(void *cookie)
{
	atomic_fetch_add(&fake_events.posted, 1);
}

static void on_gated(void *cookie)
{
	atomic_fetch_add(&fake_events.gated, 1);
}

static void on_progress(void *cookie, uint32_t epoch)
{
	fake_events.progress++;
}

static int translate(uint32_t first, uint32_t epoch, uint32_t key, uint32_t *out)
{
	if (atomic_load(&fake_keys_missing) || key - first >= FAKE_KEYS)
		return -ENOENT;
	*out = key + epoch * FAKE_KEY_STEP + atomic_load(&fake_keys_turn) * FAKE_TURN_STEP;
	return 0;
}

static int translate_lkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	return translate(FAKE_LKEY, epoch, key, out);
}

static int translate_rkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	return translate(FAKE_RKEY, epoch, key, out);
}

static bool lkey_gone(void *cookie, uint32_t key)
{
	return key - FAKE_LKEY >= FAKE_KEYS;
}

static int srq_translate(void *cookie, uint8_t path, uint32_t key, uint32_t *out)
{
	return translate(FAKE_LKEY, path, key, out);
}

static const struct sp_callbacks callbacks = {
	.qp_error = on_error,
	.cq_event = on_event,
	.cq_armed = on_armed,
	.key_missing = on_key,
	.posted = on_posted,
	.gated = on_gated,
	.qp_progress = on_progress,
	.lkey = translate_lkey,
	.rkey = translate_rkey,
	.lkey_gone = lkey_gone,
	.srq_lkey = srq_translate,
	.srq_stuck = on_key,
	.srq_limit = on_event,
};

void fake_reset(void)
{
	memset(&fake_log, 0, sizeof(fake_log));
	memset(&fake_events, 0, sizeof(fake_events));
	atomic_store(&fake_keys_missing, false);
	atomic_store(&fake_keys_turn, 0);
}

/* -- objects ---------------------------------------------------------------------------------- */

static void describe_qp(const struct fake_qp *qp, struct mlx5dv_qp *dv)
{
	dv->dbrec = (__be32 *)qp->db;
	dv->sq.buf = qp->sq;
	dv->sq.wqe_cnt = qp->sq_cnt;
	dv->sq.stride = 64;
	dv->rq.buf = qp->rq;
	dv->rq.wqe_cnt = qp->rq_cnt;
	dv->rq.stride = qp->rq_stride;
	dv->bf.reg = (void *)qp->bf;
	dv->bf.size = 256;
}

static void describe_cq(const struct fake_cq *cq, struct mlx5dv_cq *dv)
{
	dv->buf = cq->buf;
	dv->dbrec = (__be32 *)cq->db;
	dv->cqe_cnt = cq->cnt;
	dv->cqe_size = cq->size;
	dv->cq_uar = (void *)cq->uar;
	dv->cqn = cq->ex.handle;
}

static int init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	if (type & MLX5DV_OBJ_QP)
		describe_qp((struct fake_qp *)obj->qp.in, obj->qp.out);
	if (type & MLX5DV_OBJ_CQ)
		describe_cq((struct fake_cq *)obj->cq.in, obj->cq.out);
	return 0;
}

static int provider_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	fake_events.provider_posts++;
	return 0;
}

/* Asked for nothing, it would write its consumer index, which is 0 before the engine drives. */
static int provider_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return 0;
}

void fake_dev_make(struct fake_dev *dev, bool install)
{
	enum { FIRST_FD = 1000, FDS = 4096 }; /* the engine's table of them is bounded */
	static int made;

	memset(dev, 0, sizeof(*dev));
	ring_init_obj_override(init_obj);
	strcpy(dev->device.name, "mlx5_0");
	dev->verbs.sz = sizeof(dev->verbs);
	dev->verbs.context.abi_compat = (void *)UINTPTR_MAX;
	dev->verbs.context.device = &dev->device;
	dev->verbs.context.cmd_fd = FIRST_FD + made++ % FDS;
	dev->verbs.context.ops.post_send = provider_post_send;
	dev->verbs.context.ops.poll_cq = provider_poll_cq;
	dev->next_qpn = 0x40;
	CHECK(!shift_provider_mlx5.dev_init(&dev->verbs.context, install, &callbacks, &dev->sp));
}

void fake_dev_free(struct fake_dev *dev)
{
	shift_provider_mlx5.dev_uninit(dev->sp);
}

/* Present and never called: the engine replaces what the provider offers. */
static int no_start(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	abort();
}

static int no_next(struct ibv_cq_ex *cq)
{
	abort();
}

static void no_end(struct ibv_cq_ex *cq)
{
	abort();
}

static uint32_t no_u32(struct ibv_cq_ex *cq)
{
	abort();
}

static enum ibv_wc_opcode no_opcode(struct ibv_cq_ex *cq)
{
	abort();
}

static void offer_readers(struct ibv_cq_ex *ex)
{
	ex->start_poll = no_start;
	ex->next_poll = no_next;
	ex->end_poll = no_end;
	ex->read_opcode = no_opcode;
	ex->read_vendor_err = no_u32;
	ex->read_wc_flags = no_u32;
	ex->read_qp_num = no_u32;
	ex->read_byte_len = no_u32;
}

static void cq_ring_make(struct fake_cq *cq, uint32_t cnt)
{
	cq->cnt = cq->places = cnt;
	cq->ex.cqe = (int)cnt - 1;
	cq->buf = aligned_alloc(64, (size_t)cnt * cq->size);
	/* opcode "invalid", as the library fills it */
	memset(cq->buf, 0xf0, (size_t)cnt * cq->size);
}

void fake_cq_make(struct fake_dev *dev, struct fake_cq *cq, uint32_t cnt, uint32_t size)
{
	memset(cq, 0, sizeof(*cq));
	cq->ex.context = &dev->verbs.context;
	cq->ex.handle = dev->next_handle++;
	offer_readers(&cq->ex);
	cq->size = size;
	cq_ring_make(cq, cnt);
}

void fake_cq_free(struct fake_cq *cq)
{
	free(cq->buf);
}

static void no_wr(struct ibv_qp_ex *qp)
{
	abort();
}

static int no_complete(struct ibv_qp_ex *qp)
{
	abort();
}

static void no_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	abort();
}

static void no_atomic(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t add)
{
	abort();
}

static void no_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	abort();
}

static void no_sges(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *sge)
{
	abort();
}

static void offer_wr(struct ibv_qp_ex *ex)
{
	ex->wr_start = no_wr;
	ex->wr_abort = no_wr;
	ex->wr_complete = no_complete;
	ex->wr_send = no_wr;
	ex->wr_rdma_write = no_write;
	ex->wr_rdma_read = no_write;
	ex->wr_atomic_fetch_add = no_atomic;
	ex->wr_set_sge = no_sge;
	ex->wr_set_sge_list = no_sges;
}

void fake_qp_make(struct fake_dev *dev, struct fake_qp *qp, struct fake_cq *scq,
		  struct fake_cq *rcq, const struct fake_geometry *g)
{
	memset(qp, 0, sizeof(*qp));
	qp->sq_cnt = g->sq_cnt;
	qp->rq_cnt = g->rq_cnt;
	qp->rq_stride = 16;
	while (qp->rq_stride < g->rq_sge * 16)
		qp->rq_stride *= 2;
	qp->sq = aligned_alloc(64, (size_t)g->sq_cnt * 64);
	qp->rq = aligned_alloc(64, (size_t)g->rq_cnt * qp->rq_stride + 64);
	memset(qp->sq, 0x5a, (size_t)g->sq_cnt * 64);
	qp->ex.qp_base.context = &dev->verbs.context;
	qp->ex.qp_base.handle = dev->next_handle++;
	qp->ex.qp_base.qp_num = dev->next_qpn++;
	qp->ex.qp_base.qp_type = IBV_QPT_RC;
	qp->ex.qp_base.state = IBV_QPS_RTS;
	qp->attr = (struct ibv_qp_init_attr_ex){
		.send_cq = fake_ibv_cq(scq),
		.recv_cq = fake_ibv_cq(rcq),
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = g->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = { g->send_wr, g->rq_cnt, g->send_sge, g->rq_sge, 64 },
	};
	qp->ex.qp_base.send_cq = fake_ibv_cq(scq);
	qp->ex.qp_base.recv_cq = fake_ibv_cq(rcq);
	offer_wr(&qp->ex);
	qp->first_flush = true;
}

void fake_qp_free(struct fake_qp *qp)
{
	free(qp->sq);
	free(qp->rq);
}

/* -- completions ------------------------------------------------------------------------------ */

static void write_cqe(struct fake_cq *cq, struct mlx5_cqe64 *cqe, uint8_t op_own)
{
	uint32_t ci = be32toh(__atomic_load_n(&cq->db[0], __ATOMIC_ACQUIRE));
	uint8_t *at = cq->buf + (size_t)(cq->pi & (cq->cnt - 1)) * cq->size + cq->size - 64;

	CHECK(((cq->pi - ci) & 0xffffff) < cq->places); /* overrun */
	op_own = (op_own & ~1) | !!(cq->pi & cq->cnt);
	cqe->op_own = op_own;
	memcpy(at, cqe, 63);
	__atomic_store_n(at + 63, op_own, __ATOMIC_RELEASE);
	cq->pi++;
}

uint8_t *fake_cq_resize(struct fake_cq *cq, uint32_t cnt)
{
	struct mlx5_cqe64 mark = { 0 };
	uint8_t *old = cq->buf;

	write_cqe(cq, &mark, MLX5_CQE_RESIZE_CQ << 4);
	cq_ring_make(cq, cnt);
	return old;
}

static struct fake_cq *send_cq(struct fake_qp *qp)
{
	return (struct fake_cq *)qp->ex.qp_base.send_cq;
}

static struct fake_cq *recv_cq(struct fake_qp *qp)
{
	return (struct fake_cq *)qp->ex.qp_base.recv_cq;
}

static void complete_send(struct fake_qp *qp, uint16_t index, uint8_t opcode, uint8_t syndrome)
{
	struct mlx5_cqe64 cqe = { 0 };

	cqe.sop_drop_qpn = htobe32((uint32_t)opcode << 24 | qp->ex.qp_base.qp_num);
	cqe.wqe_counter = htobe16(index);
	cqe.byte_cnt = htobe32(100);
	if (syndrome)
		((struct mlx5_err_cqe *)&cqe)->syndrome = syndrome;
	write_cqe(send_cq(qp), &cqe, (syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ) << 4);
}

/* -- execution -------------------------------------------------------------------------------- */

uint32_t fake_published(const struct fake_qp *qp)
{
	uint32_t pi = be32toh(__atomic_load_n(&qp->db[MLX5_SND_DBR], __ATOMIC_ACQUIRE));

	return (pi - qp->sq_ci) & 0xffff;
}

static struct mlx5_wqe_data_seg *unit_at(struct fake_qp *qp, uint32_t unit)
{
	return (struct mlx5_wqe_data_seg *)qp->sq + ((qp->sq_ci * 4 + unit) & (qp->sq_cnt * 4 - 1));
}

static uint32_t key_of(const struct fake_qp *qp, uint32_t key)
{
	if (!qp->xlat)
		return key;
	return key + qp->epoch * FAKE_KEY_STEP + atomic_load(&fake_keys_turn) * FAKE_TURN_STEP;
}

/* Returns how many bytes it is. */
static uint32_t check_data(struct fake_qp *qp, uint32_t unit, uint32_t ds, struct fake_done *done)
{
	struct mlx5_wqe_data_seg *seg;
	uint32_t n, bytes = 0;

	while (unit < ds) {
		seg = unit_at(qp, unit);
		n = be32toh(seg->byte_count);
		if (n & MLX5_INLINE_SEG) {
			if ((n & 0x3ff) == sizeof(done->word))
				memcpy(&done->word, &seg->lkey, sizeof(done->word));
			unit += ((n & 0x3ff) + 4 + 15) / 16;
			bytes += n & 0x3ff;
			continue;
		}
		bytes += n;
		CHECK(be32toh(seg->lkey) == key_of(qp, fake_lkey(be64toh(seg->addr))));
		if (!done->id)
			done->id = be64toh(seg->addr);
		unit++;
	}
	return bytes;
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_FA || opcode == MLX5_OPCODE_ATOMIC_CS;
}

static void send_packets(struct fake_qp *qp, uint8_t opcode, uint32_t bytes)
{
	if (!qp->mtu || opcode == MLX5_OPCODE_UMR)
		return;
	qp->psn++; /* the first one may be empty, or an atomic's */
	for (; bytes > qp->mtu && !is_atomic(opcode); bytes -= qp->mtu)
		qp->psn++;
}

/* One request: parsed as a NIC would. Returns its size in WQEBBs. */
static uint32_t execute(struct fake_qp *qp, uint8_t *opcode, bool *signaled)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)unit_at(qp, 0);
	uint32_t ds = be32toh(ctrl->qpn_ds) & 0x3f, first = 1;
	struct mlx5_wqe_raddr_seg *raddr;
	struct fake_done done = { 0 };

	CHECK(be32toh(ctrl->qpn_ds) >> 8 == qp->ex.qp_base.qp_num);
	CHECK((be32toh(ctrl->opmod_idx_opcode) >> 8 & 0xffff) == (qp->sq_ci & 0xffff));
	CHECK(ds);
	*opcode = be32toh(ctrl->opmod_idx_opcode) & 0xff;
	*signaled = (ctrl->fm_ce_se & 0x0c) == 8;
	if (*opcode == MLX5_OPCODE_NOP)
		return (ds + 3) / 4;
	if (*opcode == MLX5_OPCODE_RDMA_WRITE || *opcode == MLX5_OPCODE_RDMA_WRITE_IMM ||
	    *opcode == MLX5_OPCODE_RDMA_READ || is_atomic(*opcode)) {
		raddr = (struct mlx5_wqe_raddr_seg *)unit_at(qp, 1);
		/* without data the key is not looked at */
		done.id = be64toh(raddr->raddr);
		CHECK(ds == 2 || be32toh(raddr->rkey) == key_of(qp, fake_rkey(done.id)));
		first = is_atomic(*opcode) ? 3 : 2;
	}
	send_packets(qp, *opcode, check_data(qp, first, ds, &done));
	CHECK(fake_log.n < FAKE_LOG);
	done.opcode = *opcode;
	fake_log.done[fake_log.n++] = done;
	return (ds + 3) / 4;
}

uint32_t fake_run(struct fake_qp *qp, uint32_t n)
{
	uint32_t done = 0, bbs;
	bool signaled;
	uint8_t opcode;

	for (; done < n && fake_published(qp); done++) {
		bbs = execute(qp, &opcode, &signaled);
		if (signaled)
			complete_send(qp, qp->sq_ci, opcode, 0);
		qp->sq_ci += bbs;
	}
	return done;
}

bool fake_run_silently(struct fake_qp *qp, uint32_t n)
{
	uint32_t keep = qp->sq_ci, psn = qp->psn, bbs;
	bool signaled;
	uint8_t opcode;

	for (; n && fake_published(qp); n--) {
		bbs = execute(qp, &opcode, &signaled);
		qp->sq_ci += bbs;
	}
	qp->silent_ci = qp->sq_ci;
	qp->sq_ci = keep; /* to the requester it is still outstanding */
	qp->silent_psn = qp->psn;
	qp->psn = psn;
	return !n;
}

void fake_lose(struct fake_qp *qp, uint32_t n)
{
	bool signaled;
	uint8_t opcode;

	for (; n && fake_published(qp); n--)
		qp->sq_ci += execute(qp, &opcode, &signaled);
}

static uint32_t recv_posted(const struct fake_qp *qp)
{
	uint32_t pi = be32toh(__atomic_load_n(&qp->db[MLX5_RCV_DBR], __ATOMIC_ACQUIRE));

	return (pi - qp->rq_ci) & 0xffff;
}

uint64_t fake_recv_addr(const struct fake_qp *qp, uint32_t index, uint32_t sge)
{
	const struct mlx5_wqe_data_seg *seg =
		(const void *)(qp->rq + (size_t)(index & (qp->rq_cnt - 1)) * qp->rq_stride);

	for (uint32_t i = 0; i < qp->rq_stride / 16; i++) {
		if (be32toh(seg[i].lkey) == MLX5_INVALID_LKEY)
			return 0;
		CHECK(be32toh(seg[i].lkey) == key_of(qp, fake_lkey(be64toh(seg[i].addr))));
		if (i == sge)
			return be64toh(seg[i].addr);
	}
	return 0;
}

bool fake_receive(struct fake_qp *qp, uint8_t opcode, const void *data, uint32_t len)
{
	struct mlx5_cqe64 cqe = { 0 };
	uint8_t op_own = opcode << 4;

	if (!recv_posted(qp))
		return false;
	(void)fake_recv_addr(qp, qp->rq_ci, 0); /* its keys */
	if (data) {
		memcpy(&cqe, data, len);
		op_own |= MLX5_INLINE_SCATTER_32;
	}
	cqe.sop_drop_qpn = htobe32(qp->ex.qp_base.qp_num);
	cqe.wqe_counter = htobe16(qp->rq_ci);
	cqe.byte_cnt = htobe32(len);
	cqe.imm_inval_pkey = htobe32(qp->rq_ci);
	qp->rq_ci++;
	write_cqe(recv_cq(qp), &cqe, op_own);
	return true;
}

void fake_recv_error(struct fake_qp *qp, uint8_t syndrome)
{
	struct mlx5_cqe64 cqe = { 0 };

	cqe.sop_drop_qpn = htobe32(qp->ex.qp_base.qp_num);
	cqe.wqe_counter = htobe16(qp->rq_ci++);
	((struct mlx5_err_cqe *)&cqe)->syndrome = syndrome;
	write_cqe(recv_cq(qp), &cqe, MLX5_CQE_RESP_ERR << 4);
}

static void loopback_receive(struct fake_qp *qp)
{
	fake_recv_error(qp, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

void fake_flush_overrun(struct fake_qp *qp)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (struct mlx5_wqe_ctrl_seg *)unit_at(qp, 0);

	if (fake_published(qp))
		complete_send(qp, qp->sq_ci, be32toh(ctrl->opmod_idx_opcode),
			      MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	if (recv_posted(qp))
		loopback_receive(qp);
	qp->sq_ci += fake_published(qp);
	qp->rq_ci += recv_posted(qp);
}

void fake_flush(struct fake_qp *qp, uint8_t syndrome)
{
	struct mlx5_wqe_ctrl_seg *ctrl;

	for (; fake_published(qp); qp->sq_ci += ((be32toh(ctrl->qpn_ds) & 0x3f) + 3) / 4) {
		ctrl = (struct mlx5_wqe_ctrl_seg *)unit_at(qp, 0);
		complete_send(qp, qp->sq_ci, be32toh(ctrl->opmod_idx_opcode),
			      qp->first_flush ? syndrome : MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		qp->first_flush = false;
	}
	while (recv_posted(qp))
		loopback_receive(qp);
	qp->err = true;
}
