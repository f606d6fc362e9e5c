/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ring engine: mlx5 send, receive and completion rings driven from user space.
 *
 * Layouts are those of infiniband/mlx5dv.h; what is written and returned equals libmlx5
 * (checked by tests/diff). Objects:
 *   sp_dev      one ibv_context: lookup tables and doorbell registers
 *   sp_cq       what the application polls: rings, backlog, failed queue pairs
 *   sp_qp       what the application posts to: limits, modes, the active carriers
 *   sp_carrier  one real QP: its send and receive ring
 *
 * Locks (all are held for memory operations only, so the shell may take any of them):
 *   sp_cq.lock        consumer indices, backlog, failed lists; tails and error accounts of
 *                     the queues that complete here
 *   sp_qp.sq_lock     the send side: tx, tx_mode, hold, heads, WQEs
 *   sp_qp.rq_lock     the receive side: rx, rx_mode, heads, WQEs
 *   ring_bf.lock      one doorbell register
 * Order: send CQ and receive CQ (by address), sq_lock (never waited for with a CQ held: see
 * ring_qp_lock), rq_lock, ring_bf.lock. sp_cq.ex_lock is held from start_poll to end_poll and
 * orders only pollers; the shell never takes it.
 */
#ifndef RING_H
#define RING_H

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "providers/provider.h"

#define ring_likely(x)	 __builtin_expect(!!(x), 1)
#define ring_unlikely(x) __builtin_expect(!!(x), 0)
#define RING_INLINE	 static inline __attribute__((always_inline))
#define RING_NOINLINE	 __attribute__((noinline, cold))

/* Declarations too, so that accesses go direct instead of through the GOT. */
#pragma GCC visibility push(hidden)

enum ring_limits {
	RING_MAX_FD = 1 << 16,	   /* contexts, by command fd */
	RING_MAX_HANDLE = 1 << 20, /* uverbs handles of QPs and CQs */
	RING_MAX_QPN = 1 << 24,	   /* QPNs are 24 bits wide */
	RING_MAX_DS = 63,	   /* 16-byte units of a send WQE: a 6-bit field */
	RING_CHUNK = 256,	   /* backlog entries of one allocation */
	RING_CQE_DATA = 64,	   /* bytes that a CQE can bring along */
	RING_KEY_SLOTS = 8,	   /* translated keys that a queue remembers, of each kind */
};

/* Taken from a CQE or a WQE's slot; beside the MLX5_OPCODE_* of mlx5dv.h. */
enum ring_pseudo_opcode {
	RING_OP_BIND_MW = 0xf0, /* both are MLX5_OPCODE_UMR on the wire */
	RING_OP_LOCAL_INV = 0xf1,
	RING_OP_HIDDEN = 0xff, /* a NOP of our own: never shown to the application */
};

/*
 * A key of the application and what it is on the carrier, as the NIC reads it. The tag has the
 * generation of the keys in its upper half: no tag of an earlier one is equal to any of now.
 */
struct ring_key {
	uint64_t tag; /* 0: none */
	__be32 wire;
};

enum ring_key_kind {
	RING_LKEY,
	RING_RKEY,
	RING_KEY_KINDS,
};

/* Translations of one queue, whose lock guards them. They are those of its active carrier. */
struct ring_xlat {
	struct ring_key last[RING_KEY_KINDS];
	struct ring_key slots[RING_KEY_KINDS][RING_KEY_SLOTS]; /* those before */
	bool missing; /* a request that is being written has a key that is not known */
};

struct ring_lock {
	_Atomic uint32_t held;
};

void ring_lock_wait(struct ring_lock *lock);

RING_INLINE bool ring_trylock(struct ring_lock *lock)
{
	return !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

RING_INLINE void ring_lock(struct ring_lock *lock)
{
	if (ring_unlikely(!ring_trylock(lock)))
		ring_lock_wait(lock);
}

RING_INLINE void ring_unlock(struct ring_lock *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/*
 * A doorbell register. Offset and lock belong to the register, not to the QP: later QPs of a
 * context share registers. bf_ds is 0 where a QP that libmlx5 drives may write here too: its
 * lock is not ours, and only single 8-byte stores are safe without one.
 */
struct ring_bf {
	struct ring_lock lock;
	uint32_t offset;	/* which half comes next */
	uint32_t size;		/* bytes of a half */
	_Atomic uint32_t bf_ds; /* largest WQE, in 16-byte units, that is copied whole; 0: none */
	bool prefer;		/* copy also what is not inline */
	uint8_t *reg;
	uint32_t refs; /* under sp_dev.lock */
	struct ring_bf *next;
};

struct sp_dev {
	struct ibv_context *ctx;
	const struct shift_provider *engine;
	const struct sp_callbacks *cb;
	struct ibv_context_ops saved;		/* the provider's own, for what is not driven */
	_Atomic(struct sp_qp *) *qps;		/* by handle; application contexts only */
	_Atomic(struct sp_cq *) *cqs;		/* by handle */
	_Atomic(struct sp_srq *) *srqs;		/* by handle; application contexts only */
	_Atomic(struct sp_carrier *) *carriers; /* by QPN */
	struct ring_lock lock;			/* bfs and their refs */
	struct ring_bf *bfs;
	bool installed, atomics, shut_up_bf, prefer_bf;
};

/* One direction of posting: WQEs in 64-byte units (WQEBB). Also used for withheld WQEs in
 * memory. */
struct ring_sq {
	uint8_t *buf, *end;
	uint32_t mask;	   /* WQEBBs - 1 */
	uint32_t cur_post; /* next WQEBB */
	uint32_t head;	   /* requests posted */
	uint32_t qpn;
	_Atomic uint32_t tail; /* requests known complete; under the send CQ's lock */
	uint8_t fm_cache;      /* fence that the next request owes to a UMR */
	uint64_t *wrid;	       /* these three by WQEBB */
	uint32_t *wqe_head;
	uint8_t *wr_data;   /* what a NOP or a UMR stands for */
	uint8_t *keys;	    /* the application's keys, each where it lies in buf; may be NULL */
	uintptr_t keys_at;  /* from buf to keys */
	uint32_t tail_post; /* WQEBB of the oldest request; kept for hold and failed queues only */
};

struct ring_rq {
	uint8_t *buf;
	uint32_t shift; /* log2 of a WQE's bytes */
	uint32_t mask, cnt;
	uint32_t max_gs;
	uint32_t head;
	uint32_t pub;	       /* entries handed to the NIC; kept in slow modes only */
	_Atomic uint32_t tail; /* under the receive CQ's lock */
	uint64_t *wrid;
	uint8_t *keys;	   /* as of a send ring */
	uintptr_t keys_at; /* from buf to keys */
};

/* sp_carrier.attn: why a completion needs a closer look. */
enum ring_attn {
	RING_ATTN_SQ_SEALED = 1, /* drop send completions */
	RING_ATTN_RQ_SEALED = 2, /* drop receive completions */
	RING_ATTN_PROGRESS = 4,	 /* report the first good one */
	RING_ATTN_SRQ = 8,	 /* its receives are of a shared queue */
};

/* sp_carrier.err_mode: what became of the carrier's first error completion. */
enum ring_err_mode {
	RING_ERR_NONE,
	RING_ERR_PASS,	   /* it and all later ones went to the application */
	RING_ERR_WITHHOLD, /* they are counted and kept from it */
};

struct sp_carrier {
	struct sp_qp *qp;
	const struct shift_provider *engine;
	struct sp_dev *dev;
	_Atomic uint32_t attn;
	uint32_t app_qpn;
	uint32_t qpn, epoch;
	struct ring_sq sq;
	struct ring_rq rq;
	__be32 *dbrec;
	struct ring_bf *bf;
	struct sp_cq_ring *sring, *rring;
	struct ibv_qp *real;
	bool xlat;			 /* keys differ from the application's */
	bool left;			 /* no longer active: nothing in it counts */
	uint32_t nops;			 /* hidden NOPs that may be outstanding */
	uint32_t nop_n[2];		 /* as which requests */
	uint32_t sq_counted, rq_counted; /* tails up to which qp_progressed has counted */
	bool sring_live, rring_live;
	_Atomic uint32_t err_mode;
	_Atomic uint32_t app_status, app_vendor; /* first error that is not a flush */
	bool sq_err;		   /* a send error was seen; under the send CQ's lock */
	bool rq_err;		   /* a receive error; under the receive CQ's lock */
	struct sp_srq_ring *srq;   /* where its receives come from; NULL: its own queue */
	bool srq_user;		   /* it takes receives there; under the shared queue's lock */
	_Atomic bool last_receive; /* it takes no more, and has completed those it took */
	struct sp_carrier *next;
};

/* sp_qp.foreign: who else was seen to write to its rings or to poll its CQs (mlx5dv_init_obj). */
enum ring_hand {
	RING_HAND_NONE,
	RING_HAND_FIRST,    /* before any post through the verbs: its rings, left to it */
	RING_HAND_INTRUDES, /* into rings that the engine has posted to */
};

/* sp_qp.tx_mode and rx_mode. Zero: the fast path. */
enum ring_mode {
	RING_FIRST = 1,	  /* nobody posted yet: is the ring still ours to take? */
	RING_FOREIGN = 2, /* somebody else posts to it: hands off */
	RING_HOLD = 4,	  /* doorbells withheld */
	RING_KEYS = 8,	  /* a key could not be translated: held until it can */
	RING_XLAT = 16,	  /* keys must be translated */
	RING_FAILED = 32, /* what is posted completes with a flush error */
	RING_FENCE = 64,  /* doorbells of sends withheld, behind the fence of an ordered switch */
	RING_LATE =
		128, /* a hidden NOP has the place of a request, which may have to wait for it */
	RING_GATE = 256, /* sends run when the shell lets them pass, one by one */
};

struct ring_batch {
	struct mlx5_wqe_ctrl_seg *ctrl; /* of the last request */
	uint32_t nreq, ds;
	bool inl;
	uint32_t from; /* WQEBB of the first; of requests with missing keys only */
};

/* ibv_wr_*: between wr_start and wr_complete, under sq_lock. */
struct ring_builder {
	struct ring_sq *sq;
	struct mlx5_wqe_ctrl_seg *ctrl;
	uint8_t *data;
	uint32_t ds, nreq, limit;
	int err;
	bool inl;
	bool xlat; /* the application's function pointers are those that translate */
	uint8_t setters;
	uint8_t fm_rb; /* to roll back to, as post_rb */
	uint32_t post_rb;
};

/* A failed queue: its completions are made when they are polled. Under the CQ's lock. */
struct ring_failed {
	bool on;
	bool first_done;
	uint32_t delivered; /* still to complete with success */
	enum ibv_wc_status first;
	uint32_t vendor_err;
	struct sp_qp *next;
};

struct sp_qp {
	struct ring_lock sq_lock;
	uint32_t tx_mode;
	const struct shift_provider *engine;
	struct sp_carrier *tx;
	int max_gs; /* -1 before RTS */
	uint32_t max_post, max_inline;
	uint32_t two_sided; /* posted since the start */
	uint8_t type;	    /* enum ibv_qp_type */
	uint8_t sig_bits;
	bool atomics;
	uint32_t two_sided_rb; /* the builder's: what wr_start found */
	struct ring_builder b;
	struct ring_xlat tx_xlat;

	struct ring_lock rq_lock __attribute__((aligned(64)));
	uint32_t rx_mode;
	struct sp_carrier *rx;
	int rq_max_gs; /* -1 before INIT */
	uint32_t rq_max_post;
	struct ring_xlat rx_xlat;
	uint32_t recv_base; /* good receives of carriers that were left */

	struct ring_sq hold; /* withheld requests, with the application's keys */
	bool hold_made;
	_Atomic bool guard, withheld;
	_Atomic uint32_t foreign; /* enum ring_hand */
	_Atomic bool windows;	  /* it has posted requests of memory windows */
	struct ring_failed tx_failed, rx_failed;
	struct ibv_qp *ibv;
	uint32_t app_qpn;
	struct sp_dev *dev;
	struct sp_cq *scq, *rcq;
	struct sp_srq *srq; /* NULL: none */
	void *cookie;
	int sq_gs, rq_gs;	     /* limits once the state allows posting */
	struct sp_carrier *carriers; /* newest first; the last is carrier 0 */
	bool ex;
	struct ibv_qp_ex saved_ex;
	uint64_t progressed;	  /* of the shell */
	struct sp_qp *late_next;  /* under the send CQ's lock */
	_Atomic bool late_missed; /* a poll found sq_lock held */
};

struct sp_cq_ring {
	uint8_t *buf; /* first struct mlx5_cqe64: 64 bytes in where CQEs have 128 */
	const struct shift_provider *engine;
	uint32_t ci, mask, cnt, shift;
	struct sp_dev *dev;
	__be32 *dbrec;
	struct sp_cq *cq;
	struct ibv_cq *real;
	uint8_t *uar;
	_Atomic uint64_t arm; /* arm number and CQN, as the arm register takes them */
	uint32_t watched;     /* up to which the watch has looked for errors; under the CQ's lock */
	uint32_t live; /* carriers that may complete here; those that were left do not count */
	struct sp_cq_ring *next;
};

/* A completion out of its ring. */
struct ring_entry {
	struct mlx5_cqe64 cqe;
	struct sp_qp *qp;
	uint64_t wr_id;
	uint32_t qpn;
	uint8_t status, op;
	struct ring_entry *next;
};

struct ring_chunk {
	struct ring_chunk *next;
	struct ring_entry entries[RING_CHUNK];
};

enum ring_armed {
	RING_ARMED_ANY,
	RING_ARMED_SOLICITED,
	RING_ARMED_NOT,
};

/* What a thread that arms adds to the count, and what it takes off again when it has done so. */
#define RING_ARMING (1 << 16)
#define RING_ARMER  1

/* Armings of one kind. The two differ above the threads: one of them is not answered yet. */
struct ring_armings {
	_Atomic uint64_t count; /* armings << 16 | threads that are arming */
	_Atomic uint64_t told;	/* what that was when an event was handed out */
};

struct ring_foreign {
	struct ibv_cq *cq;
	struct ring_foreign *next;
};

RING_INLINE bool ring_armings_open(uint64_t count, uint64_t told)
{
	return (count ^ told) / RING_ARMING;
}

/* What a completion says beyond its CQE. */
struct ring_comp {
	const struct mlx5_cqe64 *cqe;
	struct sp_carrier *carrier; /* cached over a poll call */
	uint64_t wr_id;
	uint32_t cqpn; /* of the cached carrier */
	uint32_t qpn;  /* the application's */
	uint8_t status, op;
};

struct sp_cq {
	struct ring_lock lock;
	uint32_t more; /* others than the active ring may have completions; under lock */
	const struct shift_provider *engine;
	uint32_t slow; /* more, or slots may be held: poll_cq takes the long way; under lock */
	struct sp_cq_ring *active; /* where all live carriers complete, unless `more`; under lock */
	struct sp_cq_ring ring;
	bool held; /* between start_poll and end_poll: slots are not given back */
	bool owes; /* end_poll has to give back slots of more than the active ring */
	/* the current completion of start_poll/next_poll; owned by the holder of ex_lock */
	struct ring_comp cur;
	struct ring_entry cur_soft;
	struct ring_lock ex_lock;

	struct ring_entry *first, **last, *free;
	struct ring_chunk *chunks;
	struct sp_qp *failed_tx, *failed_rx;
	struct sp_qp *late; /* whose mode is LATE */
	struct ring_foreign *foreign;
	struct sp_cq_ring *turn;		     /* whose ring is looked at first */
	struct ring_armings armings[RING_ARMED_NOT]; /* by enum ring_armed; see notify() */
	/* the active ring while there is no `more`, else NULL; written under lock */
	_Atomic(struct sp_cq_ring *) lone;
	uint32_t users; /* QPs bound; under lock */
	struct ibv_cq *ibv;
	struct sp_dev *dev;
	void *cookie;
	bool ex;
	struct ibv_cq_ex saved_ex;
};

/* -- lookup ----------------------------------------------------------------------------------- */

/* By command fd: a context, and its tables of QPs and CQs, which spares the data path a load. */
extern struct sp_dev *ring_devs[RING_MAX_FD];
extern _Atomic(struct sp_qp *) *ring_qps[RING_MAX_FD];
extern _Atomic(struct sp_cq *) *ring_cqs[RING_MAX_FD];

RING_INLINE struct sp_dev *ring_dev_of(const struct ibv_context *ctx)
{
	return ring_devs[ctx->cmd_fd];
}

RING_INLINE struct sp_qp *ring_qp_of(const struct ibv_qp *qp)
{
	uint32_t handle = qp->handle;

	if (ring_unlikely(handle >= RING_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&ring_qps[qp->context->cmd_fd][handle], memory_order_acquire);
}

/* Of a QP or CQ whose function pointers are ours: it is driven. */
RING_INLINE struct sp_qp *ring_qp_known(const struct ibv_qp *qp)
{
	return atomic_load_explicit(&ring_qps[qp->context->cmd_fd][qp->handle],
				    memory_order_relaxed);
}

RING_INLINE struct sp_cq *ring_cq_known(const struct ibv_context *ctx, uint32_t handle)
{
	return atomic_load_explicit(&ring_cqs[ctx->cmd_fd][handle], memory_order_relaxed);
}

RING_INLINE struct sp_cq *ring_cq_of(const struct ibv_context *ctx, uint32_t handle)
{
	if (ring_unlikely(handle >= RING_MAX_HANDLE))
		return NULL;
	return atomic_load_explicit(&ring_cqs[ctx->cmd_fd][handle], memory_order_acquire);
}

RING_INLINE struct sp_carrier *ring_carrier_of(struct sp_dev *dev, uint32_t qpn)
{
	return atomic_load_explicit(&dev->carriers[qpn], memory_order_acquire);
}

/* -- dev.c ------------------------------------------------------------------------------------ */
int ring_init_obj(struct mlx5dv_obj *obj, uint64_t type);
void ring_init_obj_override(int (*fn)(struct mlx5dv_obj *, uint64_t)); /* tests */
struct ring_bf *ring_bf_get(struct sp_dev *dev, const struct mlx5dv_qp *dv);
void ring_bf_put(struct sp_dev *dev, struct ring_bf *bf);
void ring_bf_share(struct sp_dev *dev, void *reg, uint32_t size);
bool ring_serves(struct ibv_device *device);
bool ring_probe(struct ibv_context *ctx, const char **why_not);
int ring_dev_init(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
		  struct sp_dev **out);
void ring_dev_uninit(struct sp_dev *dev);
void ring_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp);

/*
 * Are requests written to the active carrier's ring? Else to the hold, with the application's keys.
 * sq_lock is held.
 */
RING_INLINE bool ring_tx_direct(const struct sp_qp *qp)
{
	return !(qp->tx_mode & ~(RING_FIRST | RING_XLAT));
}

/* -- xlat.c ----------------------------------------------------------------------------------- */
void ring_keys_changed(void);
RING_NOINLINE __be32 ring_xlat_find(struct sp_qp *qp, struct sp_carrier *c, struct ring_xlat *x,
				    enum ring_key_kind kind, uint32_t key);
void ring_xlat_forget(struct ring_xlat *x);

/* -- sq.c, wr.c, umr.c, rq.c ------------------------------------------------------------------ */
int ring_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ring_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ring_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
const struct mlx5_wqe_av *ring_ah_av(struct ibv_ah *ah);
void ring_tx_enter(struct sp_qp *qp);
void ring_tx_commit(struct sp_qp *qp, struct ring_sq *sq, const struct ring_batch *batch);
void ring_tx_unlock(struct sp_qp *qp);
uint32_t ring_tx_limit(struct sp_qp *qp);
void ring_sq_unwrite(struct ring_sq *sq, uint32_t from, uint32_t nreq);
int ring_rq_publish(struct sp_qp *qp);
int ring_umr_build(struct ring_sq *sq, uint8_t **seg, uint32_t *ds, enum ibv_mw_type type,
		   uint32_t rkey, const struct ibv_mw_bind_info *info);
void ring_wr_install(struct sp_qp *qp);
void ring_wr_restore(struct sp_qp *qp);

/* -- cq.c, cq_ex.c, backlog.c, errors.c ------------------------------------------------------- */
int ring_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int ring_req_notify(struct ibv_cq *cq, int solicited_only);
bool ring_cq_next_slow(struct sp_cq *cq, struct ring_comp *comp, struct ring_entry *soft);
bool ring_cq_take(struct sp_cq_ring *ring, struct mlx5_cqe64 *cqe, struct ring_comp *comp);
void ring_cq_update_ci(struct sp_cq *cq);
void ring_cq_arm_ring(struct sp_cq_ring *ring, bool solicited);
enum ring_armed ring_cq_armed(struct sp_cq *cq);
void ring_cq_told(struct sp_cq *cq);
void ring_cq_wait_armers(struct sp_cq *cq);
void ring_cq_refresh_slow(struct sp_cq *cq);
void ring_cq_clear(struct sp_cq_ring *ring);

/* Receives of a shared queue whose completions are swept. */
enum ring_sweep {
	RING_SWEEP_NOT_OURS, /* the carrier is new: they are of another owner of its number */
	RING_SWEEP_DROP,     /* they go with the QP, as on stock */
	RING_SWEEP_GIVE_BACK,
};
void ring_cq_sweep(struct sp_cq_ring *ring, struct sp_carrier *c, enum ring_sweep receives);

void ring_cq_ex_install(struct sp_cq *cq, uint64_t wc_flags);
void ring_cq_ex_restore(struct sp_cq *cq);
bool ring_take_attn(struct sp_carrier *c, uint32_t attn, const struct mlx5_cqe64 *cqe);
enum sp_error_class ring_error_class(enum ibv_wc_status status);
bool ring_take_error(struct sp_carrier *c, const struct mlx5_cqe64 *cqe, struct ring_comp *comp);
uint8_t ring_scatter_send(struct ring_sq *sq, uint32_t idx, const void *data, uint32_t size);
uint32_t ring_scatter_list(const struct mlx5_wqe_data_seg *seg, uint32_t n, const uint8_t **data,
			   uint32_t size);
uint8_t ring_scatter_recv(struct ring_rq *rq, uint32_t idx, const void *data, uint32_t size);
int ring_backlog_reserve(struct sp_cq *cq, uint32_t n);
void ring_backlog_push(struct sp_cq *cq, struct sp_qp *qp, const struct ring_comp *comp);
bool ring_backlog_pop(struct sp_cq *cq, struct ring_entry *out);
void ring_backlog_drop(struct sp_cq *cq, struct sp_qp *qp);
void ring_backlog_free(struct sp_cq *cq);
void ring_backlog_event(struct sp_cq *cq, bool solicited);
bool ring_failed_next(struct sp_cq *cq, struct ring_entry *out);
bool ring_failed_waiting(const struct sp_cq *cq);
bool ring_backlog_has(struct sp_cq *cq, uint32_t n);
void ring_soft_make(struct ring_entry *out, struct sp_qp *qp, uint8_t opcode, uint8_t op,
		    enum ibv_wc_status status, uint32_t vendor_err);

/* -- carrier.c, hold.c, move.c, drain.c, wqe.c ---------------------------------------------------- */
int ring_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		      struct sp_carrier **out);
void ring_carrier_free(struct sp_carrier *c);
void ring_qp_lock(struct sp_qp *qp);
bool ring_qp_lock_soon(struct sp_qp *qp);
void ring_qp_unlock(struct sp_qp *qp);
bool ring_qp_own_tx(struct sp_qp *qp);
bool ring_qp_own_rx(struct sp_qp *qp);
void ring_live(struct sp_cq_ring *ring, bool *flag);
void ring_unlive(struct sp_cq_ring *ring, bool *flag);
void ring_failed_unlink(struct sp_qp *qp);
int ring_hold_make(struct sp_qp *qp);
uint32_t ring_hold_len(const struct sp_qp *qp);
void ring_hold_pop(struct sp_qp *qp);
void ring_hold_enter(struct sp_qp *qp);
void ring_hold_exit(struct sp_qp *qp);
int ring_hold_go(struct sp_qp *qp);
void ring_late_poll(struct sp_cq *cq);
void ring_late_unlink(struct sp_qp *qp);
void ring_sq_free(struct ring_sq *sq);
int ring_sq_alloc(struct ring_sq *sq, bool keys);

int ring_cq_drive(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags,
		  void *cookie, struct sp_cq **out);
int ring_cq_undrive(struct sp_cq *cq);
int ring_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
		     struct sp_cq_ring **out);
void ring_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring);
struct sp_cq_ring *ring_cq_own_ring(struct sp_cq *cq);
void ring_cq_event_read(struct sp_cq_ring *ring);
int ring_cq_collect(struct sp_cq *cq);
int ring_cq_resize_reserve(struct sp_cq *cq, struct ibv_cq *real);
int ring_cq_resize_begin(struct sp_cq *cq, struct ibv_cq *real);
int ring_cq_resize_end(struct sp_cq *cq, struct ibv_cq *real);
bool ring_cq_error_waiting(struct sp_cq *cq);
int ring_cq_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq);
int ring_cq_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq);

int ring_qp_drive(struct sp_dev *dev, struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		  struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		  const char **why_not);
void ring_qp_undrive(struct sp_qp *qp);
void ring_qp_modified(struct sp_qp *qp, enum ibv_qp_state state);
uint32_t ring_qp_recv_count(struct sp_qp *qp);
void ring_qp_send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done);
enum sp_sending ring_qp_sending(struct sp_qp *qp, uint32_t *number);
void ring_qp_guard(struct sp_qp *qp, bool on);
const char *ring_qp_reason(struct sp_qp *qp, bool *intruder);
int ring_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		     const struct sp_qp_caps *caps, struct sp_cq_ring *sring,
		     struct sp_cq_ring *rring, struct sp_carrier **out);
void ring_carrier_del(struct sp_carrier *carrier);

void ring_qp_withhold(struct sp_qp *qp);
int ring_qp_fence(struct sp_qp *qp, bool *atomics);
bool ring_qp_fenced(struct sp_qp *qp);
uint64_t ring_qp_progressed(struct sp_qp *qp);
int ring_qp_resume(struct sp_qp *qp);
void ring_qp_flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out);
void ring_qp_seal(struct sp_qp *qp);
int ring_qp_lay_receives(struct sp_qp *qp, struct sp_carrier *to);
uint32_t ring_qp_outstanding(struct sp_qp *qp, struct sp_request *info, uint32_t max);
int ring_qp_settle(struct sp_qp *qp, struct sp_carrier *to, const enum sp_fate *fates, uint32_t n,
		   struct sp_settled *out);
int ring_qp_publish(struct sp_qp *qp);
int ring_qp_gate(struct sp_qp *qp, bool on);
uint32_t ring_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max);
int ring_qp_pass(struct sp_qp *qp, uint32_t n);
void ring_qp_fail(struct sp_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		  uint32_t n_delivered);

/* A WQE out of its ring, in a straight line, with the application's keys. */
struct ring_wqe {
	uint32_t slot, bbs, ds;
	uint64_t keys;	/* 16-byte units that carry a key, bit per unit */
	uint64_t rkeys; /* those of them whose key is a remote one */
	uint8_t bytes[(RING_MAX_DS + 1) * 16] __attribute__((aligned(16)));
};
bool ring_sq_find(const struct ring_sq *sq, uint32_t n, uint32_t *post);
uint32_t ring_wqe_bbs(const struct ring_sq *sq, uint32_t post);
void ring_wqe_load(const struct ring_sq *sq, uint32_t post, enum ibv_qp_type type,
		   struct ring_wqe *out);
int ring_wqe_translate(struct sp_carrier *to, const struct ring_wqe *in, struct ring_wqe *out);
struct mlx5_wqe_ctrl_seg *ring_wqe_lay(struct ring_sq *dst, const struct ring_wqe *app,
				       const struct ring_wqe *wire, uint64_t wr_id,
				       uint8_t wr_data);
uint32_t ring_wqe_data_len(const struct ring_wqe *wqe);
void ring_lay(struct sp_carrier *to, const struct ring_wqe *app, const struct ring_wqe *wire,
	      uint64_t wr_id, uint8_t wr_data, struct ring_batch *batch);

/* Over the requests of a queue that are the application's and outstanding. */
struct ring_walk {
	const struct ring_sq *sq;
	uint32_t n, post;
};
bool ring_walk_start(struct ring_walk *w, const struct ring_sq *sq);
int64_t ring_walk_next(struct ring_walk *w);
enum sp_request_kind ring_wr_kind(const struct ring_sq *sq, uint32_t slot);

/* What a hidden NOP at the end of a send ring would be good for. */
enum ring_nop_need {
	RING_NOP_IDLE,	   /* nothing is outstanding */
	RING_NOP_SIGNALED, /* the last request is signaled: its completion will tell */
	RING_NOP_NEEDED,
	RING_NOP_NO_ROOM, /* or one whose ring cannot be read */
};
enum ring_nop_need ring_nop_need(const struct sp_carrier *c);
void ring_nop_post(struct sp_carrier *c);

/* How many hidden NOPs are outstanding: places that are not the application's. */
RING_INLINE uint32_t ring_nops(const struct sp_carrier *c, uint32_t tail)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->nops; i++)
		n += (int32_t)(c->nop_n[i] - tail) >= 0;
	return n;
}

RING_INLINE struct mlx5_wqe_ctrl_seg *ring_sq_ctrl(const struct ring_sq *sq, uint32_t post)
{
	return (struct mlx5_wqe_ctrl_seg *)(sq->buf +
					    ((size_t)(post & sq->mask) << MLX5_SEND_WQE_SHIFT));
}

RING_INLINE uint8_t ring_ctrl_opcode(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return be32toh(ctrl->opmod_idx_opcode) & 0xff;
}

RING_INLINE bool ring_ctrl_send_fence(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return (ctrl->fm_ce_se & 0xe0) == MLX5_WQE_CTRL_FENCE;
}

RING_INLINE bool ring_ctrl_signaled(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return (ctrl->fm_ce_se & 0x0c) == MLX5_WQE_CTRL_CQ_UPDATE;
}

#pragma GCC visibility pop

#endif
