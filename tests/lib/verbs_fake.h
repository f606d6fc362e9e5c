/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A plain-verbs provider with its NICs, for tests of an engine over plain verbs: in this process,
 * several devices at once, and nothing is executed before a test says so. It copies what is posted
 * at the post, checks what a careful provider or NIC would trip over (numbers, keys, rights, cycles,
 * overruns, two threads in one queue), and ends the program at the first of these.
 *
 * Addresses are the test's numbers, but for inline data and for memory made known by vf_reg.
 */
#ifndef TESTS_LIB_VERBS_FAKE_H
#define TESTS_LIB_VERBS_FAKE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/verbs_knob.h"

enum vf_limits {
	VF_LOG = 1 << 14,
	VF_SGES = 8,
	VF_INLINE = 256,
	VF_DATA = 16, /* first bytes of a message that are logged */
	VF_DELAY = 3, /* polls for which a late flush is late */
	VF_REGIONS = 64,
	VF_QPS = 1024, /* of one device, ever */
	VF_LKEY = 0x700,
	VF_RKEY = 0x900,
	VF_KEYS = 11,	       /* of each kind: the key of an address is vf_lkey or vf_rkey */
	VF_KEY_STEP = 0x10000, /* a key of NIC or path e is the application's + e steps */
	VF_TURN_STEP = 0x100,  /* and + as many of these as vf_keys_turn says */
};

struct vf_region {
	const uint8_t *at;
	size_t length;
	uint32_t lkey;
};

struct vf_dev {
	struct ibv_device device;
	struct verbs_context verbs;
	struct sp_dev *sp; /* the test's */
	pthread_mutex_t lock;
	uint32_t knobs, index, next_handle;
	uint32_t n_qps, n_regions;
	void (*posted)(void); /* what another thread does between a post of sends and its return */
	struct vf_qp *qps[VF_QPS];
	struct vf_region regions[VF_REGIONS];
};

struct vf_cqe {
	struct ibv_wc wc;
	struct vf_qp *qp;
	uint32_t index; /* of the request or receive; polled, it frees the places up to there */
	bool send;
};

struct vf_cq {
	struct ibv_cq_ex ex;
	struct vf_dev *dev;
	struct vf_cqe *cqes;
	uint32_t size, head, tail, events;
	int armed; /* 1: for any completion, 2: for errors and receives */
	pthread_mutex_t poll_lock;
	bool polling; /* between start_poll and end_poll */
	struct ibv_wc now;
};

/* A request as its NIC executed it. */
struct vf_done {
	uint64_t id; /* remote address, or that of the first SGE, or 0 */
	uint8_t data[VF_DATA];
	uint64_t mark; /* vf_mark of its SGEs and operands; 0 of those in known memory */
	uint32_t length, imm, path;
	uint8_t opcode, n_sge;
};

struct vf_send {
	uint64_t wr_id, remote_addr, compare_add, swap;
	struct ibv_sge sge[VF_SGES];
	uint8_t data[VF_INLINE]; /* inline: as it was at the post */
	uint32_t rkey, imm, length, n_sge, flags;
	uint8_t opcode;
	struct vf_done done; /* once it was executed */
};

struct vf_recv {
	uint64_t wr_id;
	struct ibv_sge sge[VF_SGES];
	uint32_t n_sge;
	bool lost; /* posted in ERR on a NIC that never looks at it */
};

struct vf_srq {
	struct ibv_srq ibv;
	struct vf_dev *dev;
	struct vf_recv *recvs;
	uint32_t max_wr, max_sge, n, held; /* held: taken, the completion is not polled */
	uint64_t
		any; /* not 0: QPs take any of them, by this state of a generator; else the oldest */
};

struct vf_geometry {
	uint32_t send_wr, recv_wr, send_sge, recv_sge, max_inline;
	bool sig_all, plain; /* plain: made without ibv_wr_* */
};

struct vf_qp {
	struct ibv_qp_ex ex;
	uint32_t driver_mask; /* where libibverbs keeps what ibv_qp_to_qp_ex looks at */
	struct vf_dev *dev;
	struct ibv_qp_cap cap;
	struct ibv_qp_init_attr_ex attr;
	struct vf_send *sends;
	struct vf_recv *recvs;
	uint32_t send_room, recv_room; /* what the rings take, a power of two */
	/* Requests: [tail, acked) acknowledged, [acked, executed) executed and not, [executed,
	 * head) posted. tail: behind the last one whose completion was polled; reported: behind
	 * the last one that has a completion; the NIC flushes what lies before flushable. */
	uint32_t tail, reported, acked, executed, flushable, head;
	/* Receives: [next, head) posted; tail as above. */
	uint32_t recv_tail, recv_next, recv_flushable, recv_head;
	uint32_t path; /* its rkeys are those of this path */
	enum ibv_qp_state hw;
	enum ibv_wc_status cause;		 /* of its death; SUCCESS: none, or reported */
	uint32_t late, send_errors, recv_errors; /* error completions so far */
	bool last_wqe, last_told, gone, loopback, no_remote_write, no_remote_read, caused;
	_Atomic bool in_send, in_recv;
	uint32_t refuse_send,
		refuse_recv; /* that one from now on, once, by its provider; 0: none */
	struct vf_builder *builder;
};

/* What NICs have executed, in order. */
struct vf_log {
	struct vf_done done[VF_LOG];
	uint32_t n;
};
extern struct vf_log vf_log;
extern struct vf_log vf_acks; /* what was acknowledged, likewise */

struct vf_stats {
	_Atomic uint64_t refused_err, refused_room, refused_shape, refused_reset, flushed_acked,
		recvs_lost;
};
extern struct vf_stats vf_stats;
/* Every key that is not the application's stands for another now; NICs take only those of now. */
extern _Atomic uint32_t vf_keys_turn;

void vf_reset(void);
void vf_dev_make(struct vf_dev *dev, uint32_t index, uint32_t knobs);
void vf_dev_free(struct vf_dev *dev);
/* Memory that SGEs with that key may lie in; read when the request is executed. */
uint32_t vf_reg(struct vf_dev *dev, const void *at, size_t length);
void vf_dereg(struct vf_dev *dev, uint32_t lkey);

/* wc_flags: 0 for a plain CQ; else readers of these, unless the device is VF_PLAIN_ONLY. */
void vf_cq_make(struct vf_dev *dev, struct vf_cq *cq, uint32_t size, uint64_t wc_flags);
void vf_cq_free(struct vf_cq *cq);
void vf_srq_make(struct vf_dev *dev, struct vf_srq *srq, uint32_t max_wr, uint32_t max_sge);
void vf_srq_free(struct vf_srq *srq);
/* In RTS. srq may be NULL. */
void vf_qp_make(struct vf_dev *dev, struct vf_qp *qp, struct vf_cq *scq, struct vf_cq *rcq,
		struct vf_srq *srq, const struct vf_geometry *g);
/* Its completions that nobody polled go with it. */
void vf_qp_free(struct vf_qp *qp);
/* To ERR, RESET or RTS, as ibv_modify_qp: also in ibv_qp.state. */
void vf_modify(struct vf_qp *qp, enum ibv_qp_state state);

/* The peer executes and acknowledges up to n posted requests, those first that it had executed
 * already. Returns how many. */
uint32_t vf_run(struct vf_qp *qp, uint32_t n);
/* It executes up to n more, but its answers are lost. Returns how many. */
uint32_t vf_run_silently(struct vf_qp *qp, uint32_t n);
/* What it executed is acknowledged now: up to n. In ERR too, while its flush is late: these had come. */
uint32_t vf_ack(struct vf_qp *qp, uint32_t n);
uint32_t vf_waiting(const struct vf_qp *qp); /* posted and not acknowledged */
/* The next receive completes with a message; *got: what was posted. False: there is none. In ERR too,
 * while its flush is late: the message had come. */
bool vf_receive(struct vf_qp *qp, enum ibv_wc_opcode opcode, uint32_t imm, uint32_t length,
		struct vf_recv *got);
/* The NIC gives up by itself: ibv_qp.state stays as it is. */
void vf_die(struct vf_qp *qp, enum ibv_wc_status cause);
/* Its link goes down under requests: it gives up, with the status that its kind has for that. */
void vf_link_down(struct vf_qp *qp);
/* The same by the other half: the oldest receive completes with an error. */
void vf_die_receiving(struct vf_qp *qp, enum ibv_wc_status cause);
/* Its link or bus is gone: nothing is executed any more, and no modify brings a flush. */
void vf_vanish(struct vf_qp *qp);
/* What a completion of a send says of what was asked for. */
enum ibv_wc_opcode vf_completes_as(enum ibv_wr_opcode opcode);
/* As vf_run, but the completions are lost: the CQ overran. */
uint32_t vf_lose(struct vf_qp *qp, uint32_t n);
/* It is back, and its completions come that were under way when it went. */
void vf_haunt(struct vf_qp *qp);
/* Time passes for the device's workers: late flushes come. */
void vf_tick(struct vf_dev *dev);
/* IBV_EVENT_QP_LAST_WQE_REACHED was raised, and is taken. */
bool vf_last_wqe(struct vf_qp *qp);

static inline uint32_t vf_lkey(uint64_t addr)
{
	return VF_LKEY + addr / 16 % VF_KEYS;
}

static inline uint32_t vf_rkey(uint64_t addr)
{
	return VF_RKEY + addr / 16 % VF_KEYS;
}

/* What the application's key is on that NIC (lkeys) or path (rkeys). */
static inline uint32_t vf_key_on(uint32_t key, uint32_t where)
{
	return where ? key + where * VF_KEY_STEP + atomic_load(&vf_keys_turn) * VF_TURN_STEP : key;
}

/* Of what a request is made of: the next SGE or operand. */
static inline uint64_t vf_mark(uint64_t mark, uint64_t a, uint64_t b)
{
	return (mark * 31 + a) * 31 + b;
}

static inline struct ibv_qp *vf_ibv(struct vf_qp *qp)
{
	return &qp->ex.qp_base;
}

static inline struct ibv_cq *vf_ibv_cq(struct vf_cq *cq)
{
	return ibv_cq_ex_to_cq(&cq->ex);
}

#endif
