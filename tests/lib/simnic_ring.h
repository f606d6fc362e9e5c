/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A poster of its own for tests of the device engine: writes WQEs, doorbell records and registers
 * by hand from mlx5dv.h, without any library, so that the engine can be linked directly (and run
 * under sanitizers).
 */
#ifndef TESTS_LIB_SIMNIC_RING_H
#define TESTS_LIB_SIMNIC_RING_H

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_verbs.h>

#include "simnic/device/device.h"

#define RING_SQ_BB    64
#define RING_RQ_WQES  64
#define RING_RQ_SHIFT 6 /* four segments */
#define RING_CQES     512
#define RING_MAX_SGE  8

struct ring_cq {
	struct sn_cq *cq;
	uint32_t cqn, ci, cqe_size;
	uint8_t *ring;
	_Atomic uint32_t *db;
	int event_fd; /* application's end, -1: none */
};

struct ring_wc {
	uint8_t opcode, syndrome, wr_opcode;
	uint16_t index;
	uint32_t qpn, bytes, imm, uidx;
	bool scattered;
	uint8_t data[64];
};

struct ring_qp {
	struct sn_dev *dev;
	struct sn_qp *qp;
	uint32_t qpn, uidx;
	uint8_t *rq, *sq, *uar;
	_Atomic uint32_t *db;
	uint16_t sq_pi, rq_pi, last_idx;
	uint32_t bf_offset;
	int async_fd;
};

struct ring_wr {
	uint8_t opcode;
	bool signaled, fence, solicited, blueflame;
	uint32_t imm, rkey;
	uint64_t raddr, swap_add, compare;
	uint32_t n_sge;
	struct {
		const void *addr;
		uint32_t len, lkey;
	} sge[RING_MAX_SGE];
	const void *inline_data; /* before sge; instead of it where n_sge is 0 */
	uint32_t inline_len;
	struct mlx5_wqe_av *av; /* UD */
};

struct ring_qp_options {
	uint8_t type;
	bool sig_all, scatter;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	int32_t psn_off;    /* the first one sent is so far from the one expected */
	uint32_t uar_index; /* own register when unique */
	uint8_t mtu;	    /* as enum ibv_mtu counts; 0: 4096 bytes */
	uint32_t psn;	    /* that both ends begin with; 0: one that wraps soon */
};

void ring_cq_make(struct sn_dev *dev, struct ring_cq *cq, uint32_t cqe_size, bool events);
void ring_cq_free(struct ring_cq *cq);
bool ring_poll(struct ring_cq *cq, struct ring_wc *wc);
bool ring_wait(struct ring_cq *cq, struct ring_wc *wc); /* false after some seconds */
void ring_arm(struct ring_cq *cq, struct ring_qp *qp, uint8_t sn, bool solicited);

void ring_qp_make(struct sn_dev *dev, struct ring_qp *qp, struct ring_cq *scq, struct ring_cq *rcq,
		  const struct ring_qp_options *options);
void ring_qp_free(struct ring_qp *qp);
void ring_qp_connect(struct ring_qp *qp, const uint8_t gid[16], uint32_t dest_qpn,
		     const struct ring_qp_options *options);
int ring_qp_to(struct ring_qp *qp, enum ibv_qp_state state);

uint16_t ring_write_wqe(struct ring_qp *qp, const struct ring_wr *wr); /* returns its index */
void ring_publish_record(struct ring_qp *qp);
void ring_doorbell(struct ring_qp *qp, bool blueflame);
uint16_t ring_post(struct ring_qp *qp, const struct ring_wr *wr); /* all three */
void ring_post_recv(struct ring_qp *qp, void *addr, uint32_t len, uint32_t lkey);

#endif
