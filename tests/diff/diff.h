/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ring engine against the installed libmlx5: the same work requests to two equal QPs of a
 * frozen software NIC, one posted by libmlx5 (l), one by the engine (e); the same completions
 * into both CQs. Compared after every call: rings, doorbell records, doorbell registers, return
 * codes, bad_wr, work completions, data out of CQEs; of a shared receive queue the list of WQEs and
 * its record after each post.
 *
 * Half of the cases run on fixed configurations, half on random ones: queue sizes, segments, inline
 * room, no or a shared receive queue, sq_sig_all, one or two CQs, 64 and 128-byte CQEs, resized CQs,
 * ibv_wr and cq_ex with any readers, MLX5_SHUT_UP_BF and MLX5_POST_SEND_PREFER_BF. Memory windows are
 * on the fixed ones only; the software NIC has none, so those requests are built but not executed.
 *
 * Not compared: a resize of a CQ that is driven already (tests/pyverbs does it), the wall clock
 * reader (refused), sequence numbers of arming after events. Bytes that libmlx5 leaves unspecified
 * behind refused requests are taken over; those of requests under way must stay as they were.
 *
 * Two bugs of libmlx5 44 that the engine does not copy:
 * - ibv_wr_* on a full queue: libmlx5 goes on behind a refused builder, and writes to address 0 or into
 *   a request that the NIC may be executing (wr.c). The man page allows an application to look at errors
 *   in ibv_wr_complete only. A LOCAL_INV that hit a READ or an atomic under way crashed libmlx5 in some
 *   random runs, when data came inside the CQE. Only SENDs without data are built on a full queue.
 * - When a later request of an ibv_post_send list fails behind its control segment, libmlx5 rings with
 *   that segment's bytes, size and flags. There it is only checked that the engine rang with the last
 *   good WQE, not the bytes and number of stores to the register.
 */
#ifndef DIFF_H
#define DIFF_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "providers/mlx5/mlx5.h"

enum diff_limits {
	DIFF_LIST = 12, /* requests of one call */
	DIFF_SGE = 40,	/* segments of one request, too many included */
	DIFF_ARENA = 1 << 16,
	DIFF_QUEUE = 1 << 12, /* outstanding requests that the model keeps */
	DIFF_POLL = 24,
	DIFF_SLOTS = 1 << 16, /* of a shared receive queue */
};

struct diff_config {
	const char *name;
	enum ibv_qp_type type;
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_bytes;
	bool sig_all, cq_ex, one_cq, wr_calls;
	const char *cqe_size, *shut_up_bf, *prefer_bf; /* environment of libmlx5; NULL: unset */
	uint64_t wc_flags;			       /* of cq_ex */
	bool no_windows; /* a bind may be larger than the WQEs that the queue was sized for */
	bool resized;	 /* the CQs were made small and resized */
	bool srq;	 /* it receives from a shared receive queue */
	bool domain;	 /* the QP has the doorbell register of a thread domain */
};

extern const struct diff_config diff_configs[];
extern const unsigned int diff_config_count;
void diff_config_random(struct diff_config *cfg);

/* One of the two. */
struct diff_side {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *qp_pd; /* the same, or a parent domain of it */
	struct ibv_td *td;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr; /* all of the arena, for memory windows */
	union ibv_gid peer;
	struct mlx5dv_qp dv;
	struct mlx5dv_cq dv_scq, dv_rcq;
	struct ibv_srq *srq; /* NULL: receives are the QP's own */
	struct mlx5dv_srq dv_srq;
	size_t srq_bytes;
	uint8_t *uar; /* the page of its doorbell register */
};

struct diff_sent {
	uint16_t index;
	uint8_t opcode;
	bool signaled;
};

struct diff_rig {
	const struct diff_config *cfg;
	struct diff_side l, e;
	struct ibv_qp_cap cap;
	struct sp_dev *dev;
	struct sp_cq *scq, *rcq;
	struct sp_qp *sp;
	struct sp_srq *sp_srq;
	/* what is outstanding, read out of libmlx5's ring */
	struct diff_sent sent[DIFF_QUEUE];
	uint32_t sent_head, sent_tail, cur_post;
	uint32_t recv_head, recv_tail;
	uint16_t srq_out
		[DIFF_SLOTS]; /* outstanding slots, in no order; recv_head - recv_tail of them */
	uint16_t srq_head;
	uint64_t srq_wrid[DIFF_SLOTS]; /* by slot */
	uint32_t srq_sge;
	uint32_t scqes, rcqes; /* injected and not polled */
	uint8_t *arena;
	uint64_t requests, stores, completions, failures, traced;
	uint32_t polled_tail; /* of sent: no request before it takes room any more */
	bool built;	      /* libmlx5 has a place for the data of ibv_wr_* */
	bool spoil;	      /* self-test: change a byte before the next comparison */
};

/* srq.c */
bool diff_srq_make(struct diff_rig *rig, struct diff_side *s);
void diff_srq_prefill(struct diff_side *s);
bool diff_step_srq(struct diff_rig *rig);
bool diff_srq_page_fault(struct diff_rig *rig);
void diff_srq_age(struct diff_rig *rig);
uint16_t diff_srq_take(struct diff_rig *rig);
struct mlx5_wqe_data_seg *diff_srq_segs(const struct diff_side *s, uint16_t slot);

/* random.c: a seed replays */
void diff_seed(uint64_t seed);
uint64_t diff_random(void);
uint32_t diff_below(uint32_t n);
bool diff_chance(uint32_t percent);

/* rig.c */
bool diff_rig_make(struct diff_rig *rig, const struct diff_config *cfg);
void diff_rig_free(struct diff_rig *rig);
void diff_die(const char *what) __attribute__((noreturn));
extern int (*diff_inject)(uint32_t cqn, const void *cqe, const void *data);

/* compare.c: true if equal; else says where */
bool diff_fail(struct diff_rig *rig, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diff_before(struct diff_rig *rig);
bool diff_after(struct diff_rig *rig, bool register_too);
void diff_forget_leavings(struct diff_rig *rig);
bool diff_engine_rang(struct diff_rig *rig);

/* cover.c */
void diff_cover_wqe(const struct mlx5dv_qp *dv, uint32_t post,
		    const struct mlx5_wqe_ctrl_seg *ctrl);
void diff_cover_inline(uint32_t len);
void diff_cover_refused(bool full, bool later, bool send);
void diff_cover_syndrome(uint8_t syndrome);
bool diff_cover_report(uint64_t cases);
void diff_print_version(void);

/* trace.c: the stores of a call, in order, and the fences between them; x86-64 only */
extern bool diff_tracing;
bool diff_trace_possible(void);
bool diff_trace_setup(struct diff_rig *rig);
void diff_trace_on(struct diff_rig *rig, bool engine);
void diff_trace_off(void);
bool diff_trace_same(struct diff_rig *rig, bool register_too);

/* post.c, wr.c, poll.c: one step each, of random content */
bool diff_step_send(struct diff_rig *rig);
bool diff_step_recv(struct diff_rig *rig);
bool diff_step_wr(struct diff_rig *rig);
bool diff_step_bind(struct diff_rig *rig);
void diff_make_bind(struct diff_rig *rig, struct ibv_mw_bind_info *info, bool any);
bool diff_step_inject(struct diff_rig *rig);
bool diff_step_poll(struct diff_rig *rig);
bool diff_step_poll_ex(struct diff_rig *rig);
bool diff_step_arm(struct diff_rig *rig);
uint32_t diff_make_sges(struct diff_rig *rig, struct ibv_sge *sge, uint32_t max, bool inl);
void diff_model_posted(struct diff_rig *rig);
bool diff_sq_full(const struct diff_rig *rig);

#endif
