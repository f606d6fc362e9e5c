/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The carrier: a real QP that carries a driven one. */
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
	LED_ATTN_EACH = 8,	/* one by one: a shared queue, the provider's own QP, or marks */
	LED_ATTN_NAMED = 16,	/* the QP number is not the one that the application knows */
};

/* sp_carrier.err_mode: what became of the carrier's first error completion. */
enum led_err_mode {
	LED_ERR_NONE,
	LED_ERR_PASS,	  /* passed to the application, as all later ones */
	LED_ERR_WITHHOLD, /* counted and kept from the application, as all later ones */
};

/* A request of our own: a signaled WRITE of no bytes. Its completion is that of all before it. */
struct led_hidden {
	union led_send slot;
	uint32_t n; /* number of the request behind it */
	bool out;   /* posted and not complete; under the send CQ's lock */
};

enum led_hidden_kind {
	LED_HIDDEN_FENCE,
	LED_HIDDEN_MARKER,
	LED_HIDDEN_KINDS,
};

/* The carrier's log (log.c). Under the QP's sq_lock. */
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
	bool xlat;	   /* true if keys differ from the application's */
	bool left;	   /* true if no longer active: nothing in the carrier counts */
	bool recalled;	   /* true if what was acknowledged is outstanding again */
	uint32_t acked;	   /* tail before the recall */
	uint32_t first;	   /* number of the first request that the carrier got */
	uint32_t psn, mtu; /* PSN of the first packet; MTU of the path, 0: not known */
	bool sring_live, rring_live;
	struct sp_cq_ring *sring, *rring;
	_Atomic uint32_t err_mode;
	_Atomic uint32_t app_status, app_vendor; /* first error that is not a flush */
	bool sq_err; /* true if a send error was seen; under the send CQ's lock */
	/* true if a receive error was seen; under the receive CQ's lock */
	bool rq_err;
	/* true if the QP takes no marker: no flush of it can be made visible */
	bool mute;
	struct sp_srq_ring *srq; /* source of the receives; NULL: the QP's own queue */
	/* true if it takes receives there; under the shared queue's lock */
	bool srq_user;
	/* true if it takes no more receives and has completed those it took */
	_Atomic bool last_receive;
	struct sp_carrier *next;
	struct led_hidden hidden[LED_HIDDEN_KINDS];
	struct led_log log;
};

/* The entry of a QPN whose QP is not driven any more: what still completes there is nobody's. */
extern struct sp_carrier led_carrier_gone;

int led_carrier_make(struct sp_qp *qp, struct sp_dev *dev, struct ibv_qp *real,
		     struct sp_carrier **out);
void led_carrier_publish(struct sp_qp *qp, struct sp_carrier *c);
void led_carrier_retract(struct sp_carrier *c);
void led_carrier_seal(struct sp_carrier *c);
void led_carriers_each(struct sp_qp *qp);
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
