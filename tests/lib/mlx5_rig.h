/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A driven QP on a fake NIC, and standbys on a second one. */
#ifndef TESTS_LIB_MLX5_RIG_H
#define TESTS_LIB_MLX5_RIG_H

#include "tests/lib/mlx5_fake.h"

enum {
	RIG_CARRIERS = 512,
	RIG_NICS = 3, /* beside the application's own context; the last: its NIC, opened again */
};

struct rig_carrier {
	struct fake_qp qp;
	struct sp_carrier *sp;
};

/* A context of the shell's, with the shadows of the CQs. */
struct rig_nic {
	struct fake_dev dev;
	struct fake_cq shadow_s, shadow_r;
	struct sp_cq_ring *ring_s, *ring_r;
};

struct rig {
	struct fake_dev dev;
	struct fake_cq scq, rcq;
	struct sp_cq *sp_scq, *sp_rcq;
	struct rig_nic nics[RIG_NICS];
	struct fake_qp *app;
	struct sp_qp *sp;
	struct rig_carrier carriers[RIG_CARRIERS]; /* 0: the application's own */
	uint32_t active, made;
	bool cq_ex; /* polled by start_poll */
	struct fake_geometry geometry;
};

void rig_make(struct rig *rig, const struct fake_geometry *g, uint32_t cqe_size, bool cq_ex);
void rig_free(struct rig *rig);
/* The same, with the memory for it. */
struct rig *rig_new(const struct fake_geometry *g, uint32_t cqe_size, bool cq_ex);
void rig_delete(struct rig *rig);
/* A standby on the first backup NIC; 0: refused. */
uint32_t rig_standby(struct rig *rig, const struct fake_geometry *g);
uint32_t rig_standby_on(struct rig *rig, uint32_t nic, const struct fake_geometry *g);
/* To a new standby on the first backup NIC; nothing is counted: all that is outstanding goes again. 0, or what refused. */
int rig_move(struct rig *rig, const struct fake_geometry *g);
void rig_drop(struct rig *rig, uint32_t carrier);

/* A carrier's log (behind each `every`th) goes to that address, under a tag of its own. NULL, or why not. */
enum { RIG_WORD = 1 << 24, RIG_TAG = 0x7ffffff0 };
const char *rig_log(struct rig *rig, uint32_t carrier, uint32_t every);
/* Is it that? Then what it says. */
bool rig_logged(const struct fake_done *done, uint32_t carrier, uint32_t *number);
/* The longest queue that a ring of so many WQEBBs has room for, log and hidden NOP included. */
uint32_t rig_log_depth(uint32_t sq_cnt, uint32_t request_bbs, uint32_t every);

int rig_send(struct rig *rig, enum ibv_wr_opcode op, uint64_t id, unsigned flags, uint32_t sges);
int rig_recv(struct rig *rig, uint64_t id, uint32_t sges);
int rig_poll(struct rig *rig, bool send, struct ibv_wc *wc, int n);

static inline struct fake_qp *rig_active(struct rig *rig)
{
	return &rig->carriers[rig->active].qp;
}

#define ENGINE (&shift_provider_mlx5)

#endif
