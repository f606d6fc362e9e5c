/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ledger's queue pair, as the application sees it, and its ledgers. */
#ifndef LED_QP_H
#define LED_QP_H

#include "providers/common/failed.h"
#include "providers/ledger/carrier.h"

#pragma GCC visibility push(hidden)

/* Packet numbers of the active carrier: psn.h. */
struct led_psn {
	uint32_t limit; /* requests of more bytes are counted when they are written */
	uint32_t ahead; /* PSN of the next packet minus sq.pub, mod 2^24 */
	uint32_t fence; /* request behind which the last fence lies */
	uint8_t shift;	/* log2 of the MTU */
	bool on, fenced;
};
#define LED_PSN_NO_LIMIT UINT32_MAX

/*
 * The ledger of a send queue. Request numbers count mod 2^32: [tail, pub) were handed to the
 * provider of the active carrier and are not known complete, [pub, head) are withheld. After a move
 * that could not hand all over again, [pub, owed) ran on an earlier carrier, or may have.
 */
struct led_sq {
	union led_send *slots;
	uint8_t *marks;	      /* enum led_mark, by slot */
	struct ibv_sge *sges; /* SGEs of requests with more than a slot has; NULL: none may have */
	uint8_t *inlined;     /* inline data; allocated at first use, as is wide */
	size_t inline_short;  /* bytes that led_copy_short may copy there; 0 before it is made */
	struct ibv_send_wr *wide; /* see LED_MARK_WIDE */
	struct ibv_sge *scratch;  /* translated SGEs of one batch; made with the first standby */
	uint64_t bytes;		  /* of the slots */
	uint32_t mask, max_post, max_sge, max_inline;
	int32_t one_sge;      /* 1; -1 where a request may not have one */
	uint32_t head, limit; /* limit: see led_limit */
	_Atomic uint32_t pub;
	struct led_psn psn;
	uint32_t scribbled; /* number behind the last slot that a refused post wrote */
	uint32_t two_sided; /* two-sided requests posted since the start */
	bool sig_all;
	/* the post under way; refused: the slot that the provider refused */
	struct ibv_send_wr *posting, **bad, *refused;
	_Atomic bool marks_used; /* true once a slot has had a mark: marks are looked at */
	bool owes;		 /* true until pub has come to owed */
	uint32_t owed;
};

/* A receive in the ledger. If it has more than one SGE, all are in led_rq.sges. */
struct led_recv {
	uint64_t wr_id;
	int32_t num_sge;
	struct ibv_sge sge;
};

/*
 * The ledger of a receive queue. Receives complete in order. Its head is not counted: it follows
 * from where the next one is written, as there is room for more than may be posted.
 */
struct led_rq {
	int (*post)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	/*
	 * The next slot. All slots up to `last` may be written without asking, and are said to have
	 * one SGE; not `last` itself if it is shut, which is the next then.
	 */
	struct led_recv *at, *last;
	bool shut;
	struct ibv_recv_wr *posting, **bad; /* the post under way */
	struct led_recv *slots;
	struct ibv_sge *sges;
	uint32_t mask, max_post, max_sge;
	uint32_t pub;	       /* while rx_mode is not 0; else all are handed over */
	bool odd;	       /* true if a receive had another number of SGEs than one */
	_Atomic uint32_t tail; /* under the receive CQ's lock */
};

/* The builder's state (ibv_wr_*), between wr_start and wr_complete, under sq_lock. */
struct led_builder {
	union led_send *slot; /* slot of the request that is being built */
	int32_t room;	      /* forwarded: slots behind it, up to sq.limit; sq.head stays */
	uint32_t n;	      /* kept: sq.head at wr_start */
	int err;	      /* kept: the first error */
};

struct led_ex {
	bool on;
	bool kept; /* true if the builders in place write into the ledger alone; under sq_lock */
	struct ibv_qp_ex saved;
};

struct sp_qp {
	struct sp_lock sq_lock;
	uint32_t tx_mode;
	const struct shift_provider *engine;
	struct sp_carrier *tx;
	struct ibv_qp *ibv;
	int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	bool plain; /* UD: posts go to the provider, except for receives of a shared queue */
	struct led_sq sq;
	struct led_builder b;

	_Atomic uint32_t tail
		__attribute__((aligned(64))); /* under the send CQ's lock, as marked */
	uint32_t marked;		      /* requests that are DELIVERED and not complete */
	struct sp_qp *marked_next;
	uint32_t recv_counted, send_counted; /* tails up to which led_qp_progressed has counted */

	struct sp_lock rq_lock __attribute__((aligned(64)));
	uint32_t rx_mode;
	struct sp_carrier *rx;
	struct led_rq rq;

	_Atomic bool guard, withheld;
	_Atomic bool windows;		  /* true if requests of memory windows were posted */
	_Atomic bool may_write, may_read; /* operations that the peer's QP was asked for: fence.c */
	struct sp_failed tx_failed, rx_failed;
	uint32_t app_qpn;
	struct sp_dev *dev;
	struct sp_cq *scq, *rcq;
	struct sp_qp *next_on_scq; /* under that CQ's lock */
	struct sp_srq *srq;	   /* NULL: none */
	struct {
		struct ibv_srq *srq; /* the real queue, unknown to the application; NULL: known */
		struct ibv_srq *shown;
		struct sp_qp *next;
	} stand_in; /* under the receive CQ's lock: stand_in.c */
	void *cookie;
	struct sp_carrier *carriers; /* newest first; the last is carrier 0 */
	struct led_ex ex;
	uint64_t progressed; /* the shell's count */
};

LED_INLINE union led_send *led_slot(const struct sp_qp *qp, uint32_t n)
{
	return &qp->sq.slots[n & qp->sq.mask];
}

LED_INLINE uint8_t *led_mark(const struct sp_qp *qp, uint32_t n)
{
	return &qp->sq.marks[n & qp->sq.mask];
}

/* Notes that slots from head to n were written, and are free again. */
LED_INLINE void led_scribbled(struct led_sq *sq, uint32_t n)
{
	if ((int32_t)(n - sq->scribbled) > 0 || sq->scribbled - sq->head > sq->mask + 1)
		sq->scribbled = n;
}

/* Returns the number back from which slots have what they had. */
LED_INLINE uint32_t led_written(const struct led_sq *sq)
{
	return sq->scribbled - sq->head <= sq->mask + 1 ? sq->scribbled : sq->head;
}

/* The same numbers for receives. rq_lock is held. */
LED_INLINE uint32_t led_recv_head(const struct led_rq *rq)
{
	uint32_t at = (uint32_t)(rq->at - rq->slots);
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_acquire);

	return tail + ((at - tail) & rq->mask);
}

LED_INLINE uint32_t led_recv_pub(const struct sp_qp *qp)
{
	return qp->rx_mode ? qp->rq.pub : led_recv_head(&qp->rq);
}

LED_INLINE struct led_recv *led_recv_slot(const struct led_rq *rq, uint32_t n)
{
	return &rq->slots[n & rq->mask];
}

LED_INLINE const struct ibv_sge *led_recv_sges(const struct led_rq *rq, uint32_t n)
{
	if (led_recv_slot(rq, n)->num_sge <= 1)
		return &led_recv_slot(rq, n)->sge;
	return rq->sges + (size_t)(n & rq->mask) * rq->max_sge;
}

LED_INLINE uint32_t led_tail(const struct sp_qp *qp)
{
	return atomic_load_explicit(&qp->tail, memory_order_acquire);
}

LED_INLINE uint32_t led_pub(const struct sp_qp *qp)
{
	return atomic_load_explicit(&qp->sq.pub, memory_order_relaxed);
}

/* Returns the number behind the last request given to any provider. sq_lock held. */
LED_INLINE uint32_t led_given(const struct sp_qp *qp)
{
	return led_unlikely(qp->sq.owes) ? qp->sq.owed : led_pub(qp);
}

/* True if the application asked for a completion. */
LED_INLINE bool led_signaled(const struct sp_qp *qp, uint32_t n)
{
	return qp->sq.sig_all || (led_slot(qp, n)->wr.send_flags & IBV_SEND_SIGNALED);
}

/* True if the provider gives a completion. */
LED_INLINE bool led_completes(const struct sp_qp *qp, uint32_t n)
{
	uint8_t mark = *led_mark(qp, n);

	return !(mark & LED_MARK_DELIVERED) && ((mark & LED_MARK_SIGNAL) || led_signaled(qp, n));
}

LED_INLINE enum sp_request_kind led_kind_of(const struct sp_qp *qp, uint32_t n)
{
	return led_kind(led_slot(qp, n)->wr.opcode);
}

void led_qp_lock(struct sp_qp *qp);
bool led_qp_lock_soon(struct sp_qp *qp);
void led_qp_unlock(struct sp_qp *qp);
const char *led_qp_drivable(struct sp_dev *dev, struct ibv_qp *qp,
			    const struct ibv_qp_init_attr_ex *attr);
int led_qp_drive(struct sp_dev *dev, struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		 struct sp_cq *scq, struct sp_cq *rcq, void *cookie, struct sp_qp **out,
		 const char **why_not);
void led_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp);
const char *led_qp_reason(struct sp_qp *qp, bool *intruder);
void led_qp_undrive(struct sp_qp *qp);
void led_qp_modified(struct sp_qp *qp, enum ibv_qp_state state);
uint32_t led_qp_recv_count(struct sp_qp *qp);
void led_qp_send_counts(struct sp_qp *qp, uint32_t *posted, uint32_t *done);
enum sp_sending led_qp_sending(struct sp_qp *qp, uint32_t *number);
bool led_qp_tell(struct sp_qp *qp, uint32_t number);
void led_qp_sent(struct sp_qp *qp, struct sp_sent *sent);
void led_qp_guard(struct sp_qp *qp, bool on);
uint64_t led_qp_progressed(struct sp_qp *qp);

#pragma GCC visibility pop

#include "providers/common/carriers.h"

#endif
