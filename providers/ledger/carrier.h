/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A real QP that carries a driven one. */
#ifndef LED_CARRIER_H
#define LED_CARRIER_H

#include "providers/ledger/dev.h"
#include "providers/ledger/slot.h"

#pragma GCC visibility push(hidden)

/* sp_carrier.attn: why a completion needs a closer look. */
enum led_attn {
	LED_ATTN_SQ_SEALED = 1, /* drop send completions */
	LED_ATTN_RQ_SEALED = 2, /* drop receive completions */
	LED_ATTN_PROGRESS = 4,	/* report the first good one */
	LED_ATTN_EACH = 8,   /* of a shared queue, its provider's own, or with marks: one by one */
	LED_ATTN_NAMED = 16, /* its number is not the one that the application knows */
};

/* sp_carrier.err_mode: what became of the carrier's first error completion. */
enum led_err_mode {
	LED_ERR_NONE,
	LED_ERR_PASS,	  /* it and all later ones went to the application */
	LED_ERR_WITHHOLD, /* they are counted and kept from it */
};

/* A request of our own, a signaled WRITE of no bytes. Its completion is that of all before it. */
struct led_hidden {
	union led_send slot;
	uint32_t n; /* the request that comes behind it */
	bool out;   /* under the send CQ's lock */
};

enum led_hidden_kind {
	LED_HIDDEN_FENCE,
	LED_HIDDEN_MARKER,
	LED_HIDDEN_KINDS,
};

/* Under the QP's sq_lock: log.c. */
struct led_log {
	bool on;
	struct sp_log at;
	uint32_t since; /* requests that change the peer's memory, since the last log WQE */
};

struct sp_carrier {
	struct sp_qp *qp;
	const struct shift_provider *engine;
	struct sp_dev *dev;
	struct ibv_qp *real;
	_Atomic uint32_t attn;
	uint32_t app_qpn;
	uint32_t qpn, epoch;
	bool xlat;	   /* keys differ from the application's */
	bool left;	   /* no longer active: nothing in it counts */
	bool recalled;	   /* what was acknowledged is outstanding again */
	uint32_t acked;	   /* recalled: what the tail was */
	uint32_t first;	   /* the first request that it got */
	uint32_t psn, mtu; /* of its first packet; of its path, 0: not known */
	bool sring_live, rring_live;
	struct sp_cq_ring *sring, *rring;
	_Atomic uint32_t err_mode;
	_Atomic uint32_t app_status, app_vendor; /* first error that is not a flush */
	bool sq_err;		   /* a send error was seen; under the send CQ's lock */
	bool rq_err;		   /* a receive error; under the receive CQ's lock */
	bool mute;		   /* it takes no marker: no flush of it can be made to be seen */
	struct sp_srq_ring *srq;   /* where its receives come from; NULL: its own queue */
	bool srq_user;		   /* it takes receives there; under the shared queue's lock */
	_Atomic bool last_receive; /* it takes no more, and has completed those it took */
	struct sp_carrier *next;
	struct led_hidden hidden[LED_HIDDEN_KINDS];
	struct led_log log;
};

/* Of a QPN whose QP is not driven any more: what still completes is nobody's. */
extern struct sp_carrier led_carrier_gone;

int led_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		     struct sp_carrier **out);
void led_carrier_publish(struct sp_qp *qp, struct sp_carrier *c);
void led_carrier_retract(struct sp_carrier *c);
void led_carrier_seal(struct sp_carrier *c);
void led_carriers_each(struct sp_qp *qp);
struct sp_carrier *led_carrier_zero(struct sp_qp *qp);
int led_carrier_add(struct sp_qp *qp, uint32_t epoch, struct sp_dev *dev, struct ibv_qp *real,
		    const struct ibv_qp_cap *caps, struct sp_cq_ring *sring,
		    struct sp_cq_ring *rring, struct sp_carrier **out);
void led_carrier_del(struct sp_carrier *carrier);

LED_INLINE bool led_sealed(const struct sp_carrier *c, enum led_attn queue)
{
	return atomic_load(&c->attn) & queue;
}

LED_INLINE bool led_error_seen(const struct sp_carrier *c)
{
	return atomic_load(&c->err_mode) != LED_ERR_NONE;
}

#pragma GCC visibility pop

#endif
