/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Driven QPs, as the application sees them, and their ledgers. */
#ifndef LED_QP_H
#define LED_QP_H

#include "providers/ledger/carrier.h"

#pragma GCC visibility push(hidden)

/* Packet numbers of the active carrier: psn.h. */
struct led_psn {
	uint32_t limit; /* of more bytes are those that are counted when they are written */
	uint32_t ahead; /* of sq.pub: the PSN of the next packet, mod 2^24 */
	uint32_t fence; /* request behind which the last fence lies */
	uint8_t shift;	/* of its MTU */
	bool on, fenced;
};
#define LED_PSN_NO_LIMIT UINT32_MAX

/*
 * The ledger of a send queue. Numbers (mod 2^32) of requests: [tail, pub) were handed to the
 * provider of the active carrier and are not known complete, [pub, head) are withheld. After a move of
 * which not all could be handed over again, [pub, owed) are those that ran on an earlier carrier, or may have.
 */
struct led_sq {
	union led_send *slots;
	uint8_t *marks;	      /* enum led_mark, by slot */
	struct ibv_sge *sges; /* of requests with more than a slot has; NULL: none may have */
	uint8_t *inlined;     /* made at first use, as wide */
	size_t inline_short;  /* bytes that led_copy_short may copy there; 0 before it is made */
	struct ibv_send_wr *wide; /* see LED_MARK_WIDE */
	struct ibv_sge *scratch;  /* translated, of one batch; made with the first standby */
	uint64_t bytes;		  /* of the slots */
	uint32_t mask, max_post, max_sge, max_inline;
	int32_t one_sge;      /* 1; -1 where a request may not have one */
	uint32_t head, limit; /* limit: see led_limit */
	_Atomic uint32_t pub;
	struct led_psn psn;
	uint32_t scribbled; /* behind the last slot that a post wrote which was refused */
	uint32_t two_sided; /* posted since the start */
	bool sig_all;
	/* Of the post under way; refused: by the provider, a slot's. */
	struct ibv_send_wr *posting, **bad, *refused;
	_Atomic bool marks_used; /* some slot has had a mark: they are looked at */
	bool owes;		 /* pub has not come to owed yet */
	uint32_t owed;
};

/* A receive in the ledger. Of more than one SGE, all are in led_rq.sges. */
struct led_recv {
	uint64_t wr_id;
	int32_t num_sge;
	struct ibv_sge sge;
};

/*
 * The same of a receive queue. Receives complete in order. Its head is not counted: it follows from where
 * the next one is written, as there is room for more than may be posted.
 */
struct led_rq {
	int (*post)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	/*
	 * The next slot. Up to `last` all may be written without asking, and are said to have one SGE. Not
	 * `last` itself if it is shut: then that is the next.
	 */
	struct led_recv *at, *last;
	bool shut;
	struct ibv_recv_wr *posting, **bad; /* of the post under way */
	struct led_recv *slots;
	struct ibv_sge *sges;
	uint32_t mask, max_post, max_sge;
	uint32_t pub;	       /* while rx_mode is not 0; else all are handed over */
	bool odd;	       /* some have had another number of SGEs than one */
	_Atomic uint32_t tail; /* under the receive CQ's lock */
};

/* ibv_wr_*: between wr_start and wr_complete, under sq_lock. */
struct led_builder {
	union led_send *slot; /* of the request that is being built */
	int32_t room;	      /* forwarded: slots behind it, up to sq.limit; sq.head is as it was */
	uint32_t n;	      /* else: what head was */
	int err;	      /* else */
};

/* A failed queue: its completions are made when they are polled. Under the CQ's lock. */
struct led_failed {
	bool on;
	bool first_done;
	uint32_t delivered; /* still to complete with success */
	enum ibv_wc_status first;
	uint32_t vendor_err;
	struct sp_qp *next;
};

struct led_ex {
	bool on;
	bool kept; /* the builders that are in place write into the ledger alone; under sq_lock */
	struct ibv_qp_ex saved;
};

struct sp_qp {
	struct sp_lock sq_lock;
	uint32_t tx_mode;
	const struct shift_provider *engine;
	struct sp_carrier *tx;
	struct ibv_qp *ibv;
	int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	bool plain; /* UD: its provider's, but for the receives of a shared queue */
	struct led_sq sq;
	struct led_builder b;

	_Atomic uint32_t tail
		__attribute__((aligned(64))); /* under the send CQ's lock, as marked */
	uint32_t marked;		      /* requests that are DELIVERED and not complete */
	struct sp_qp *marked_next;
	uint32_t recv_counted, send_counted; /* up to which led_qp_progressed has counted */

	struct sp_lock rq_lock __attribute__((aligned(64)));
	uint32_t rx_mode;
	struct sp_carrier *rx;
	struct led_rq rq;

	_Atomic bool guard, withheld;
	_Atomic bool windows;		  /* it has posted requests of memory windows */
	_Atomic bool may_write, may_read; /* what the peer's QP was seen to be asked for: fence.c */
	struct led_failed tx_failed, rx_failed;
	uint32_t app_qpn;
	struct sp_dev *dev;
	struct sp_cq *scq, *rcq;
	struct sp_qp *next_on_scq; /* under that CQ's lock */
	struct sp_srq *srq;	   /* NULL: none */
	struct {
		struct ibv_srq *srq; /* real, which the application does not see; NULL: it does */
		struct ibv_srq *shown;
		struct sp_qp *next;
	} stand_in; /* under the receive CQ's lock: stand_in.c */
	void *cookie;
	struct sp_carrier *carriers; /* newest first; the last is carrier 0 */
	struct led_ex ex;
	uint64_t progressed; /* of the shell */
};

LED_INLINE union led_send *led_slot(const struct sp_qp *qp, uint32_t n)
{
	return &qp->sq.slots[n & qp->sq.mask];
}

LED_INLINE uint8_t *led_mark(const struct sp_qp *qp, uint32_t n)
{
	return &qp->sq.marks[n & qp->sq.mask];
}

/* Slots from head to n were written, and are free again. */
LED_INLINE void led_scribbled(struct led_sq *sq, uint32_t n)
{
	if ((int32_t)(n - sq->scribbled) > 0 || sq->scribbled - sq->head > sq->mask + 1)
		sq->scribbled = n;
}

/* Slots have what they had, back from here. */
LED_INLINE uint32_t led_written(const struct led_sq *sq)
{
	return sq->scribbled - sq->head <= sq->mask + 1 ? sq->scribbled : sq->head;
}

/* These of receives: rq_lock is held. */
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

/* Behind the last request that a provider was given, of whichever carrier. sq_lock held. */
LED_INLINE uint32_t led_given(const struct sp_qp *qp)
{
	return led_unlikely(qp->sq.owes) ? qp->sq.owed : led_pub(qp);
}

/* Did the application ask for its completion? */
LED_INLINE bool led_signaled(const struct sp_qp *qp, uint32_t n)
{
	return qp->sq.sig_all || (led_slot(qp, n)->wr.send_flags & IBV_SEND_SIGNALED);
}

/* Does the provider give one? */
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
void led_qp_sent(struct sp_qp *qp, struct sp_sent *sent);
void led_qp_guard(struct sp_qp *qp, bool on);
uint64_t led_qp_progressed(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
