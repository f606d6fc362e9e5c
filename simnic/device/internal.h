/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of the device engine. Everything here is protected by sn_engine.lock (priority
 * inheriting): commands of application threads take it, the device thread holds it for a batch.
 * Rings, doorbell records and registers are the application's memory and are read with acquire
 * after the register store that announced them.
 */
#ifndef SIMNIC_DEVICE_INTERNAL_H
#define SIMNIC_DEVICE_INTERNAL_H

#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sys/uio.h>

#include "simnic/device.h"
#include "simnic/inbox.h"

#define SN_WINDOW	  128 /* messages in flight per QP, power of two */
#define SN_MAX_RD_ATOMIC  16
#define SN_RD_QUEUE	  32 /* READs being answered per QP: a window of the peer, and re-reads */
#define SN_STAGE_BYTES	  (128 * 1024)
#define SN_PULL_CHUNK	  (256 * 1024)
#define SN_INBOX_BATCH	  64
#define SN_SEND_BATCH	  64
#define SN_WQE_MAX_BYTES  1024
#define SN_WQE_MAX_SGE	  64
#define SN_PSN_MASK	  0xffffff
#define SN_GRH_BYTES	  40
#define SN_MR_BUCKETS	  1024
#define SN_KEPT_KEYS	  64
#define SN_BFREG_SIZE	  512 /* two halves of 256 bytes */
#define SN_BFREG_OFFSET	  0x800
#define SN_BFREGS_PER_UAR 2
#define SN_HALF_BYTES	  (SN_BFREG_SIZE / 2)

struct sn_mr {
	struct sn_mr *next;
	uint32_t key, pdn, access;
	uint64_t addr, length, iova;
};

struct sn_cq {
	struct sn_dev *dev;
	struct sn_cq *next;
	uint32_t cqn;
	struct sn_cq_attr attr;
	uint32_t pi;	 /* CQEs ever written */
	uint32_t sol_pi; /* pi behind the last solicited (or error) CQE */
	uint32_t arm_ci;
	uint8_t fired_sn;
	bool armed, armed_solicited, overrun;
	uint32_t comp_events, async_events;
	uint32_t refs;
};

struct sn_srq {
	struct sn_dev *dev;
	struct sn_srq *next;
	uint32_t srqn;
	struct sn_srq_attr attr;
	uint16_t head;	/* the WQE that is taken next */
	uint16_t taken; /* WQEs so far; the doorbell record counts those posted */
	uint32_t limit, async_events, refs;
};

/* One half of a doorbell register, and a BlueFlame copy there that looked wrong. */
struct sn_uar_half {
	uint64_t taken_ns;   /* the last doorbell */
	uint64_t suspect_ns; /* since when; 0: none */
	uint32_t suspect_qpn;
	uint16_t suspect_idx;
	uint64_t ring[SN_HALF_BYTES / 8]; /* what it should be; zero: not compared */
};

struct sn_uar {
	struct sn_uar *next;
	struct sn_dev *dev;
	uint32_t index;
	uint8_t *page;
	uint32_t users[SN_BFREGS_PER_UAR]; /* QPs of each register */
	struct sn_qp *sharers[SN_BFREGS_PER_UAR];
	struct sn_uar_half half[SN_BFREGS_PER_UAR][2];
};

/* A decoded send WQE. */
struct sn_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct sn_wqe {
	uint8_t opcode, fm_ce_se, ds, syndrome; /* syndrome: the WQE is not executable, why */
	uint16_t idx, nbb;
	uint32_t imm, rkey;
	uint64_t raddr, swap_add, compare;
	uint64_t length;
	uint32_t n_sge;
	bool is_inline;
	struct mlx5_wqe_av av;
	struct sn_sge sge[SN_WQE_MAX_SGE];
	uint8_t inline_data[SN_WQE_MAX_BYTES];
};

/* One message of the send window. */
struct sn_txe {
	uint16_t idx;
	uint8_t opcode, syndrome; /* syndrome != 0: fails when it becomes the oldest */
	bool signaled, sent, done, rd_atomic, to_cqe;
	uint32_t psn;
	uint64_t length, got;
	uint8_t data[64]; /* scatter-to-CQE */
};

/* One READ that the responder is answering. */
struct sn_rd {
	uint32_t psn;
	uint64_t addr, length, sent;
};

struct sn_atomic_reply {
	bool valid;
	uint32_t psn;
	uint64_t result;
};

/* What the device thread knows of a QP that is not at rest; one may be in several. */
enum sn_list {
	SN_BUSY, /* has anything to do: looked at in each batch */
	SN_WAITING, /* only for answers to what it sent: looked at when the next timer of them is due */
	SN_DEAD, /* in the error state, where only receives may be posted unnoticed: now and then */
	SN_LISTS,
};

struct sn_place {
	struct sn_qp *next, **link; /* link: what points to it; NULL: it is not in the list */
};

struct sn_qp {
	struct sn_dev *dev;
	struct sn_qp *dev_next, **dev_link, *reg_next, **reg_link;
	struct sn_place in[SN_LISTS];
	uint32_t qpn;
	struct sn_qp_attr attr;
	uint8_t *rq_buf, *sq_buf;
	_Atomic uint32_t *db;
	uint32_t reg; /* doorbell register; ~0: not known yet */
	uint32_t async_events;

	/* attributes by modify */
	enum ibv_qp_state state;
	struct ib_uverbs_qp_dest dest, alt_dest;
	uint32_t access, qkey, dest_qpn, rq_psn, sq_psn;
	uint16_t pkey_index;
	uint8_t path_mtu, port, timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic, path_mig_state;
	int dst_host, dst_nic; /* -1: nobody has that address */
	uint64_t gen;

	/* requester */
	uint16_t sq_cons;		    /* next WQEBB to decode */
	uint16_t sq_rung;		    /* WQEBBs announced by the register */
	uint32_t rung_scan;		    /* dev.scans when that last changed */
	uint32_t tx_head, tx_next, tx_tail; /* window: oldest, next to (re)send, next free */
	uint32_t psn;
	uint32_t rd_outstanding;
	uint8_t retry_left, rnr_left;
	uint64_t rto_ns; /* deadline; 0: no timer */
	uint64_t rnr_ns; /* waits until; 0: does not */
	struct sn_txe tx[SN_WINDOW];

	/* responder */
	uint16_t rq_cons;
	uint32_t epsn;
	bool ack_due, nak_sent;
	uint32_t acks_held;
	uint32_t rd_head, rd_tail;
	bool torn; /* blueflame-torn: request torn_idx goes astray */
	uint16_t torn_idx;
	struct sn_rd rd[SN_RD_QUEUE];
	struct sn_atomic_reply replay[SN_MAX_RD_ATOMIC];
	uint32_t replay_next;
};

struct sn_dev {
	struct sn_dev *next;
	uint32_t nic_index;
	struct sn_nic *nic;
	bool fatal; /* saw an internal error: this context never works again */
	int async_fd;
	uint32_t event_gen, port_was_up, gid_gen, incarnation;
	struct sn_qp *qps;
	uint32_t scans;			  /* of the registers, so far */
	struct sn_uar *uars, **uar_at;	  /* as a list, and by index */
	uint32_t n_uar_at, n_reg_unknown; /* QPs of any register */
	struct sn_cq *cqs;
	struct sn_srq *srqs;
	struct sn_mr *mr[SN_MR_BUCKETS];
	uint32_t kept_keys[SN_KEPT_KEYS], n_kept_keys; /* of regions that are no more */
};

struct sn_stage {
	uint8_t *arena; /* NULL: of datagrams, in the fabric; or not made yet */
	uint64_t ticket;
	uint32_t hint;
	uint64_t taken_ns[SN_BOUNCE_SLOTS];
};

/* What a NIC wrote that is not in memory yet, oldest first. */
struct sn_posted_queue {
	struct sn_posted *first, *last;
};

struct sn_engine {
	pthread_mutex_t lock;
	struct sn_fabric *fabric;
	struct sn_proc *proc;
	uint32_t host, slot;
	bool attached, running;
	_Atomic bool frozen;
	pthread_t thread;
	struct sn_dev *devs;
	struct sn_qp *list[SN_LISTS];
	uint64_t waiting_at; /* the first timer of those that wait; 0: none */
	uint32_t n_dead;
	uint64_t dead_at; /* the next look at them */
	struct sn_qp **qp_table[SN_MAX_NICS];
	uint32_t n_active; /* QPs whose registers must be watched: RTS, SQD, SQE, ERR */
	uint32_t next_cqn, next_srqn;
	uint64_t now_ns;
	_Atomic uint64_t protocol_errors;
	struct sn_stage stage, datagrams;
	struct sn_posted_queue posted[SN_MAX_NICS];
	uint64_t n_posted;    /* in all of them */
	struct sn_pkt rx, tx; /* scratch of the device: one packet in, one out */
	struct sn_wqe wqe;
};
extern struct sn_engine sn_engine;

/* engine.c */
void sn_lock(void);
void sn_unlock(void);
uint64_t sn_clock_ns(void);
void sn_engine_kick(void);
bool sn_engine_batch(void); /* one round of work; lock held; true: there was some */
bool sn_dev_stands_still(const struct sn_dev *dev);
void sn_async_event(int fd, uint64_t element, uint32_t type, uint32_t *count);
void sn_protocol_error(const char *what, uint32_t qpn, uint64_t seen, uint64_t expected);

/* uar.c */
void sn_uar_scan(struct sn_dev *dev, bool *worked);
void sn_uar_scan_of(const struct sn_qp *qp); /* its own register, if that is known */
void sn_uar_enter(struct sn_qp *qp);
void sn_uar_leave(struct sn_qp *qp);

/* cq.c */
void sn_cq_push(struct sn_cq *cq, struct mlx5_cqe64 *cqe, const void *data, uint32_t data_len,
		bool solicited);
int sn_cq_put_raw(struct sn_cq *cq, const void *cqe, const void *data); /* for tests */
void sn_cq_arm_all(struct sn_dev *dev);
uint32_t sn_cq_scatter_limit(const struct sn_cq *cq);
struct sn_cq *sn_cq_find(uint32_t cqn);

/* mr.c: translated address, or 0 */
uint64_t sn_mr_translate(struct sn_dev *dev, uint32_t key, uint32_t pdn, uint64_t va, uint64_t len,
			 uint32_t access);
void sn_mr_drop_all(struct sn_dev *dev);

/* wqe.c */
void sn_wqe_decode(const struct sn_qp *qp, uint16_t idx, struct sn_wqe *wqe);
void sn_wqe_raw(const struct sn_qp *qp, uint16_t idx, void *out, uint32_t bytes);
int sn_wqe_gather(const struct sn_qp *qp, const struct sn_wqe *wqe, uint32_t access,
		  struct iovec *iov);
int sn_sge_translate(struct sn_dev *dev, uint32_t pdn, const struct sn_sge *sge, uint32_t n,
		     uint32_t access, struct iovec *iov);
uint32_t sn_wqe_scatter(const uint8_t *segments, uint32_t bytes, struct sn_sge *sge);
uint16_t sn_rq_producer(const struct sn_qp *qp);
uint16_t sn_sq_producer(const struct sn_qp *qp);

/* wire.c */
void sn_wire_prepare(const struct sn_qp *qp, struct sn_pkt *pkt, enum sn_pkt_op op);
int sn_wire_send(const struct sn_qp *qp, struct sn_pkt *pkt);
void sn_wire_release(const struct sn_pkt *pkt); /* frees staging that the packet holds */
int sn_wire_land(const struct sn_pkt *pkt, const struct iovec *dst, uint32_t n_dst, uint64_t bytes);
int sn_wire_stage(struct sn_pkt *pkt, const struct iovec *src, uint32_t n_src, uint64_t bytes);
int sn_wire_find_gid(const uint8_t gid[16], int *host, int *nic);
int sn_wire_find_lid(uint32_t rail, uint16_t lid, int *host, int *nic);
void sn_gen_end(struct sn_qp *qp);
void sn_gen_begin(struct sn_qp *qp);
void sn_count_landed(const struct sn_qp *qp, uint32_t messages, uint64_t bytes);
bool sn_wire_paused(const struct sn_qp *qp);
void sn_copy_in_order(void *dst, const void *src, size_t len);

/* qp.c */
struct sn_qp *sn_qp_find(uint32_t nic, uint32_t qpn);
void sn_qp_set(struct sn_qp *qp, enum sn_list list); /* once there, it stays */
void sn_qp_unset(struct sn_qp *qp, enum sn_list list);
void sn_qp_set_busy(struct sn_qp *qp);
void sn_qp_stop(struct sn_qp *qp);
void sn_qp_enter_error(struct sn_qp *qp); /* and flushes */
bool sn_qp_flush(struct sn_qp *qp);
/* The same, of what was posted in ERR. */
bool sn_qp_flush_posted(struct sn_qp *qp);
void sn_qp_destroy_all(struct sn_dev *dev);
bool sn_qp_needs_work(const struct sn_qp *qp);
bool sn_qp_waits(const struct sn_qp *qp); /* for answers, and for nothing else */

/* requester.c */
bool sn_requester_run(struct sn_qp *qp);
bool sn_requester_timers(struct sn_qp *qp);
void sn_requester_complete(struct sn_qp *qp);		    /* retires what is done, oldest first */
void sn_requester_fail(struct sn_qp *qp, uint8_t syndrome); /* oldest message */
void sn_requester_req_err(struct sn_qp *qp, uint16_t idx, uint8_t opcode, uint8_t syndrome);

void sn_requester_progress(struct sn_qp *qp); /* an answer came: counters and timer start over */
void sn_requester_rnr(struct sn_qp *qp, uint64_t wait_ns);

/* completer.c */
void sn_completer_receive(struct sn_qp *qp, const struct sn_pkt *pkt);

/* responder.c */
void sn_responder_receive(struct sn_qp *qp, const struct sn_pkt *pkt);
bool sn_responder_run(struct sn_qp *qp); /* pending READ responses and acknowledgements */
void sn_responder_resp_err(struct sn_qp *qp, uint16_t idx, uint8_t syndrome);

/* posted.c */
int sn_posted_land(const struct sn_qp *qp, const struct sn_pkt *pkt, const struct iovec *dst,
		   uint32_t n_dst, uint64_t bytes);
void sn_posted_flush(const struct sn_dev *dev); /* all that its NIC wrote is in memory then */
/* The same, if something of it goes where this is. */
void sn_posted_flush_under(const struct sn_dev *dev, const struct iovec *iov, uint32_t n);
bool sn_posted_run(void);	  /* what is due */
uint64_t sn_posted_next_ns(void); /* when the next one is; UINT64_MAX: none */

/* ud.c */
int sn_ud_send(struct sn_qp *qp, const struct sn_wqe *wqe);
void sn_ud_receive(struct sn_qp *qp, const struct sn_pkt *pkt);

/* srq.c */
uint32_t sn_srq_available(const struct sn_srq *srq);
const uint8_t *sn_srq_wqe(const struct sn_srq *srq, uint16_t idx);
uint16_t sn_srq_take(struct sn_srq *srq);
void sn_srq_destroy_all(struct sn_dev *dev);

/* receive.c: the receive queue, the QP's own or a shared one, for all transports */
enum sn_rq_verdict { SN_RQ_OK, SN_RQ_EMPTY, SN_RQ_TOO_LONG, SN_RQ_PROT, SN_RQ_LOST };
enum sn_rq_verdict sn_rq_consume(struct sn_qp *qp, const struct sn_pkt *pkt, const void *grh);
bool sn_rq_ready(const struct sn_qp *qp);
void sn_rq_complete_imm(struct sn_qp *qp, const struct sn_pkt *pkt);
void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome); /* takes one, completes it with an error */

static inline void sn_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline bool sn_qp_is_connected(const struct sn_qp *qp)
{
	return qp->attr.type != IBV_QPT_UD;
}

static inline int32_t sn_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
