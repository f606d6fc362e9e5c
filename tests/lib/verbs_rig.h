/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A driven QP on a fake provider's device, and standbys on others: what the shell and the
 * application do with an engine, through the seam alone. */
#ifndef TESTS_LIB_VERBS_RIG_H
#define TESTS_LIB_VERBS_RIG_H

#include "providers/provider.h"
#include "tests/lib/verbs_fake.h"

enum {
	VR_CARRIERS = 256,
	VR_NICS = 3, /* beside the application's own context; the last: its NIC, opened again */
	VR_LIST = 16,
};

struct vr_nic {
	struct vf_dev dev;
	struct vf_cq shadow_s, shadow_r;
	struct sp_cq_ring *ring_s, *ring_r;
};

struct vr_carrier {
	struct vf_qp qp;
	struct vf_dev *dev;
	struct sp_carrier *sp;
	struct vf_srq srq; /* where it takes receives from, where the application shares them */
	struct sp_srq_ring *ring;
};

/* What the engine told its shell. */
struct vr_events {
	_Atomic uint32_t errors, app_errors, doubts, withheld, events, keys, gated, posted,
		progress, stuck;
	enum ibv_wc_status status;
};

struct vr_setup {
	const struct shift_provider *engine;
	struct vf_geometry app;	     /* as the application sees it */
	uint32_t knobs[VR_NICS + 1]; /* of the backups, and of the application's own */
	bool srq, no_write, no_read; /* rights that the peers' QPs do not give */
	bool cq_ex, one_cq;	     /* one_cq: for both directions */
	uint32_t log_every;	     /* 0: queues have no room for a log */
};

struct vrig {
	struct vr_setup setup;
	struct vf_dev dev;
	struct vf_cq scq, rcq;
	struct sp_cq *sp_scq, *sp_rcq;
	struct sp_srq *sp_srq;
	struct vr_nic nics[VR_NICS];
	struct vf_qp *app;
	struct sp_qp *sp;
	struct vr_carrier carriers[VR_CARRIERS]; /* 0: the application's own */
	uint32_t active, made;
	struct vr_events events;
	_Atomic bool keys_missing;
};

void vrig_make(struct vrig *rig, const struct vr_setup *setup);
void vrig_free(struct vrig *rig);
/* A standby on that NIC; 0: refused. */
uint32_t vrig_standby(struct vrig *rig, uint32_t nic, const struct vf_geometry *g);
void vrig_drop(struct vrig *rig, uint32_t carrier);
/* What the shell does after receives were laid elsewhere: those of queues that nobody takes from any
 * more go where they are wanted. */
void vrig_recover(struct vrig *rig);

struct vr_request {
	uint64_t id;
	enum ibv_wr_opcode op;
	unsigned flags;
	uint32_t sges;
	uint32_t bytes; /* of inline data, or of each SGE */
};

/* Post them in one call, by ibv_wr_* if so said and possible. Returns what it said; *taken: how many
 * it took. All memory that was passed is checked to be untouched, and is garbage afterwards. */
int vrig_post(struct vrig *rig, const struct vr_request *requests, uint32_t n, bool by_calls,
	      uint32_t *taken);
/* Receives first..first+n), of so many SGEs each. */
int vrig_post_recv(struct vrig *rig, uint64_t first, uint32_t n, const uint32_t *sges,
		   uint32_t *taken);
int vrig_poll(struct vrig *rig, bool send, bool by_calls, struct ibv_wc *wc, int n);

/* What the NIC must have executed for it: number, operands, bytes. */
void vrig_expect(const struct vr_request *request, struct vf_done *done);
uint64_t vrig_id(const struct vf_done *done);
uint64_t vrig_recv_addr(uint64_t id, uint32_t sge);

static inline struct vf_qp *vrig_active(struct vrig *rig)
{
	return &rig->carriers[rig->active].qp;
}

/* The application's numbers, as it passes them: all 64 bits are its own. */
#define VR_WR_ID(id)   ((id) | 0xfedc000000000000ull)
#define VR_RECV_ID(id) ((id) | 0x0bad000000000000ull)

#endif
