/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/simnic_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RING_PSN   0xfffff0 /* near the end: it wraps soon */
#define PAGE	   4096
#define REG_OFFSET 0x800
#define HALF	   256
#define CQ_DB	   0x20
#define WAIT_SECS  20

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void *pages(size_t bytes)
{
	void *mem = mmap(NULL, (bytes + PAGE - 1) & ~(size_t)(PAGE - 1), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(mem != MAP_FAILED);
	return mem;
}

/* ---- completion queues ---------------------------------------------------------------------- */

void ring_cq_make(struct sn_dev *dev, struct ring_cq *cq, uint32_t cqe_size, bool events)
{
	struct sn_cq_attr attr = { .cqes = RING_CQES,
				   .cqe_size = cqe_size,
				   .channel_fd = -1,
				   .async_fd = -1,
				   .user_handle = (uint64_t)cq };
	uint32_t i;
	int fd[2];

	memset(cq, 0, sizeof(*cq));
	cq->cqe_size = cqe_size;
	cq->ring = pages(RING_CQES * cqe_size);
	cq->db = pages(PAGE);
	cq->event_fd = -1;
	for (i = 1; i <= RING_CQES; i++)
		cq->ring[i * cqe_size - 1] = MLX5_CQE_INVALID << 4;
	if (events) {
		must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd));
		cq->event_fd = fd[0];
		attr.channel_fd = fd[1];
	}
	attr.buf = (uint64_t)cq->ring;
	attr.db = (uint64_t)cq->db;
	must(!sn_cq_create(dev, &attr, &cq->cqn, &cq->cq));
}

void ring_cq_free(struct ring_cq *cq)
{
	uint32_t comp, async;

	must(!sn_cq_destroy(cq->cq, &comp, &async));
	munmap(cq->ring, RING_CQES * cq->cqe_size);
	munmap(cq->db, PAGE);
}

static void wc_read(struct ring_wc *wc, const struct mlx5_cqe64 *cqe, uint8_t op_own)
{
	const struct mlx5_err_cqe *err = (const void *)cqe;

	memset(wc, 0, sizeof(*wc));
	wc->opcode = op_own >> 4;
	wc->qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff;
	wc->wr_opcode = be32toh(cqe->sop_drop_qpn) >> 24;
	wc->index = be16toh(cqe->wqe_counter);
	wc->bytes = be32toh(cqe->byte_cnt);
	wc->imm = cqe->imm_inval_pkey;
	wc->uidx = be32toh(cqe->srqn_uidx);
	if (wc->opcode >= MLX5_CQE_REQ_ERR)
		wc->syndrome = err->syndrome;
	wc->scattered = op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64);
	if (op_own & MLX5_INLINE_SCATTER_32)
		memcpy(wc->data, cqe, 32);
	if (op_own & MLX5_INLINE_SCATTER_64)
		memcpy(wc->data, cqe - 1, 64);
}

bool ring_poll(struct ring_cq *cq, struct ring_wc *wc)
{
	uint8_t *entry = cq->ring + (size_t)(cq->ci & (RING_CQES - 1)) * cq->cqe_size;
	struct mlx5_cqe64 *cqe = (void *)(entry + cq->cqe_size - 64);
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & 1) != !!(cq->ci & RING_CQES))
		return false;
	wc_read(wc, cqe, op_own);
	cq->ci++;
	atomic_store(&cq->db[0], htobe32(cq->ci & 0xffffff));
	return true;
}

bool ring_wait(struct ring_cq *cq, struct ring_wc *wc)
{
	struct timespec nap = { .tv_nsec = 20000 };
	time_t end = time(NULL) + WAIT_SECS;

	while (!ring_poll(cq, wc)) {
		if (time(NULL) > end)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

void ring_arm(struct ring_cq *cq, struct ring_qp *qp, uint8_t sn, bool solicited)
{
	uint32_t word = (uint32_t)sn << 28 | (solicited ? 1u << 24 : 0) | (cq->ci & 0xffffff);
	uint64_t value = htobe64((uint64_t)word << 32 | cq->cqn);

	atomic_store(&cq->db[1], htobe32(word));
	__atomic_store_n((uint64_t *)(qp->uar + CQ_DB), value, __ATOMIC_RELEASE);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

void ring_qp_make(struct sn_dev *dev, struct ring_qp *qp, struct ring_cq *scq, struct ring_cq *rcq,
		  const struct ring_qp_options *options)
{
	static uint32_t next_uidx = 1000;
	struct sn_qp_attr attr = {
		.type = options->type,
		.pdn = 1,
		.scq = scq->cq,
		.rcq = rcq->cq,
		.sq_wqe_cnt = RING_SQ_BB,
		.rq_wqe_cnt = RING_RQ_WQES,
		.rq_wqe_shift = RING_RQ_SHIFT,
		.bfreg_index = options->uar_index * 2,
		.sig_all = options->sig_all,
		.scatter_to_cqe = options->scatter,
		.scatter_to_cqe_send = options->scatter,
		.user_handle = (uint64_t)qp,
	};
	int fd[2];

	memset(qp, 0, sizeof(*qp));
	qp->dev = dev;
	qp->uidx = attr.uidx = next_uidx++;
	qp->rq = pages((RING_RQ_WQES << RING_RQ_SHIFT) + RING_SQ_BB * 64);
	qp->sq = qp->rq + (RING_RQ_WQES << RING_RQ_SHIFT);
	qp->db = pages(PAGE);
	qp->uar = pages(PAGE);
	attr.buf = (uint64_t)qp->rq;
	attr.db = (uint64_t)qp->db;
	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd));
	qp->async_fd = fd[0];
	attr.async_fd = fd[1];
	must(!sn_uar_add(dev, options->uar_index, qp->uar));
	must(!sn_qp_create(dev, &attr, &qp->qpn, &qp->qp));
}

void ring_qp_free(struct ring_qp *qp)
{
	uint32_t events;

	must(!sn_qp_destroy(qp->qp, &events));
	close(qp->async_fd);
	munmap(qp->rq, (RING_RQ_WQES << RING_RQ_SHIFT) + RING_SQ_BB * 64);
	munmap(qp->db, PAGE);
	/* Its doorbell page is watched as long as the context is open. */
}

int ring_qp_to(struct ring_qp *qp, enum ibv_qp_state state)
{
	struct ib_uverbs_modify_qp cmd = { .attr_mask = IBV_QP_STATE, .qp_state = state };

	if (state == IBV_QPS_RESET) {
		atomic_store(&qp->db[0], 0);
		atomic_store(&qp->db[1], 0);
		qp->sq_pi = qp->rq_pi = 0;
	}
	return sn_qp_modify(qp->qp, &cmd);
}

static void connect_init(struct ring_qp *qp)
{
	struct ib_uverbs_modify_qp cmd = {
		.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
			     IBV_QP_QKEY,
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1234,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	must(!sn_qp_modify(qp->qp, &cmd));
}

void ring_qp_connect(struct ring_qp *qp, const uint8_t gid[16], uint32_t dest_qpn,
		     const struct ring_qp_options *options)
{
	uint32_t psn = options->psn ? options->psn : RING_PSN;
	struct ib_uverbs_modify_qp rtr = {
		.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		.qp_state = IBV_QPS_RTR,
		.path_mtu = options->mtu ? options->mtu : IBV_MTU_4096,
		.dest_qp_num = dest_qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = options->min_rnr_timer,
		.dest.is_global = 1,
	};
	struct ib_uverbs_modify_qp rts = {
		.attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
		.qp_state = IBV_QPS_RTS,
		.sq_psn = (psn + (uint32_t)options->psn_off) & 0xffffff,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.max_rd_atomic = 16,
	};

	connect_init(qp);
	memcpy(rtr.dest.dgid, gid, 16);
	must(!sn_qp_modify(qp->qp, &rtr));
	must(!sn_qp_modify(qp->qp, &rts));
}

/* ---- posting -------------------------------------------------------------------------------- */

static void sq_put(struct ring_qp *qp, uint32_t *at, const void *bytes, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		qp->sq[(*at + i) % (RING_SQ_BB * 64)] = ((const uint8_t *)bytes)[i];
	*at += n;
}

static void put_remote(struct ring_qp *qp, uint32_t *at, const struct ring_wr *wr)
{
	struct mlx5_wqe_raddr_seg raddr = { htobe64(wr->raddr), htobe32(wr->rkey), 0 };
	struct mlx5_wqe_atomic_seg atomic = { htobe64(wr->swap_add), htobe64(wr->compare) };

	if (wr->av)
		sq_put(qp, at, wr->av, sizeof(*wr->av));
	if (wr->opcode == MLX5_OPCODE_SEND || wr->opcode == MLX5_OPCODE_SEND_IMM ||
	    wr->opcode == MLX5_OPCODE_NOP)
		return;
	sq_put(qp, at, &raddr, sizeof(raddr));
	if (wr->opcode == MLX5_OPCODE_ATOMIC_CS || wr->opcode == MLX5_OPCODE_ATOMIC_FA)
		sq_put(qp, at, &atomic, sizeof(atomic));
}

static void put_data(struct ring_qp *qp, uint32_t *at, const struct ring_wr *wr)
{
	static const uint8_t zero[16];
	uint32_t i, head = htobe32(wr->inline_len | MLX5_INLINE_SEG);

	if (wr->inline_len) {
		sq_put(qp, at, &head, 4);
		sq_put(qp, at, wr->inline_data, wr->inline_len);
		sq_put(qp, at, zero, (16 - (wr->inline_len + 4) % 16) % 16);
	}
	for (i = 0; i < wr->n_sge; i++) {
		struct mlx5_wqe_data_seg seg;

		mlx5dv_set_data_seg(&seg, wr->sge[i].len, wr->sge[i].lkey,
				    (uintptr_t)wr->sge[i].addr);
		sq_put(qp, at, &seg, sizeof(seg));
	}
}

uint16_t ring_write_wqe(struct ring_qp *qp, const struct ring_wr *wr)
{
	uint32_t start = (uint32_t)(qp->sq_pi % RING_SQ_BB) * 64, at = start + 16, ctrl_at = start;
	struct mlx5_wqe_ctrl_seg ctrl;
	uint8_t fm_ce_se = (wr->signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
			   (wr->fence ? MLX5_WQE_CTRL_FENCE : 0) |
			   (wr->solicited ? MLX5_WQE_CTRL_SOLICITED : 0);
	uint32_t ds;

	put_remote(qp, &at, wr);
	put_data(qp, &at, wr);
	ds = (at - start) / 16;
	memset(&ctrl, 0, sizeof(ctrl));
	mlx5dv_set_ctrl_seg(&ctrl, qp->sq_pi, wr->opcode, 0, qp->qpn, fm_ce_se, (uint8_t)ds, 0,
			    wr->imm);
	sq_put(qp, &ctrl_at, &ctrl, sizeof(ctrl));
	qp->last_idx = qp->sq_pi;
	qp->sq_pi = (uint16_t)(qp->sq_pi + (ds + 3) / 4);
	return qp->last_idx;
}

void ring_publish_record(struct ring_qp *qp)
{
	atomic_store(&qp->db[MLX5_SND_DBR], htobe32(qp->sq_pi));
}

void ring_doorbell(struct ring_qp *qp, bool blueflame)
{
	uint64_t *reg = (uint64_t *)(qp->uar + REG_OFFSET + qp->bf_offset);
	const uint64_t *wqe = (const uint64_t *)(qp->sq + (qp->last_idx % RING_SQ_BB) * 64);
	uint32_t i;

	__atomic_store_n(&reg[0], wqe[0], __ATOMIC_RELEASE);
	for (i = 1; blueflame && i < 8; i++)
		__atomic_store_n(&reg[i], wqe[i], __ATOMIC_RELAXED);
	qp->bf_offset ^= HALF;
}

uint16_t ring_post(struct ring_qp *qp, const struct ring_wr *wr)
{
	uint16_t index = ring_write_wqe(qp, wr);

	ring_publish_record(qp);
	ring_doorbell(qp, wr->blueflame);
	return index;
}

void ring_post_recv(struct ring_qp *qp, void *addr, uint32_t len, uint32_t lkey)
{
	struct mlx5_wqe_data_seg *seg =
		(void *)(qp->rq + ((qp->rq_pi % RING_RQ_WQES) << RING_RQ_SHIFT));

	if (len)
		mlx5dv_set_data_seg(seg++, len, lkey, (uintptr_t)addr);
	mlx5dv_set_data_seg(seg, 0, MLX5_INVALID_LKEY, 0);
	atomic_store(&qp->db[MLX5_RCV_DBR], htobe32(++qp->rq_pi));
}
