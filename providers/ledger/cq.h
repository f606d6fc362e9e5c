/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ledger's completion queue. */
#ifndef LED_CQ_H
#define LED_CQ_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

struct sp_cq_ring {
	struct sp_cq *cq;
	const struct shift_provider *engine;
	struct ibv_cq *real;
	int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	_Atomic(struct sp_carrier *) *carriers; /* the table of dev */
	struct sp_dev *dev;
	uint32_t live; /* number of carriers that may complete here, without those that were left */
	struct sp_cq_ring *next;
};

/* A completion that was taken out of its ring, or made. */
struct led_entry {
	struct ibv_wc wc;
	struct sp_qp *qp; /* the queue pair; NULL: none of ours */
	uint32_t epoch;	  /* epoch of the carrier that completed it; UINT32_MAX: none */
	bool send;
	struct led_entry *next;
};

struct led_chunk {
	struct led_chunk *next;
	struct led_entry entries[LED_CHUNK];
};

enum led_armed {
	LED_ARMED_ANY,
	LED_ARMED_SOLICITED,
	LED_ARMED_NOT,
};

/* Armings of one kind. told: the count when an event was handed out. */
struct led_armings {
	_Atomic uint32_t count, told;
};

/*
 * Completions ahead of ibv_start_poll and ibv_next_poll: what the provider gave at once, and the
 * part still to be shown. All of it was in the application's own ring, and is accounted for. Under
 * the lock.
 */
struct led_ahead {
	struct ibv_wc wc[LED_BATCH];
	struct ibv_wc *at, *end;
};

struct sp_cq {
	struct sp_lock lock;
	/* true if others than the application's own ring may have completions; under lock */
	uint32_t slow;
	const struct shift_provider *engine;
	int (*arm)(struct ibv_cq *cq, int solicited_only); /* the provider's own function */
	struct sp_cq_ring ring; /* the application's own ring; behind it those of other NICs */
	uint32_t polls, looked; /* polls so far; and their number when the shell looked */
	/* arguments of the poll under way, as room: in registers they would cost more */
	int places;
	struct ibv_wc *room;

	struct led_entry *first, **last, *free;
	struct led_chunk *chunks;
	struct sp_qp *failed_tx, *failed_rx;
	struct sp_qp *marked; /* QPs with requests that are DELIVERED and not complete */
	struct sp_qp *qps;    /* QPs that send here */
	/* QPs that receive here, from the stand-in of their shared queue */
	struct sp_qp *stand_ins;
	struct sp_cq_ring *turn;
	struct led_armings armings[LED_ARMED_NOT]; /* by enum led_armed */
	_Atomic bool slow_to_arm;		   /* copy of slow for those without the lock */
	uint32_t users;				   /* number of QPs bound; under lock */
	struct ibv_cq *ibv;
	struct sp_dev *dev;
	void *cookie;
	/* true if polls that find nothing ask whether the shell's threads get on; under lock */
	bool watched;

	bool ex;
	struct sp_lock ex_lock;
	/* completion of start_poll and next_poll; owned by the holder of ex_lock */
	const struct ibv_wc *now;
	/* place of a completion that is not in ahead; owned by the holder of ex_lock */
	struct ibv_wc cur;
	struct led_ahead ahead;
	struct ibv_cq_ex saved_ex;
};

/* The findings of take() about a completion, for the backlog. */
struct led_taken {
	struct sp_qp *qp;
	uint32_t epoch;
	bool send;
};

/*
 * Sets slow. The lock is held. A thread that arms must see the rise before anything else that is
 * done now; the fall may come later.
 */
LED_INLINE void led_cq_slow(struct sp_cq *cq, bool on)
{
	cq->slow = on;
	if (on)
		atomic_store(&cq->slow_to_arm, true);
	else
		atomic_store_explicit(&cq->slow_to_arm, false, memory_order_release);
}

/* True if completions are ahead. The lock is held. */
LED_INLINE bool led_has_ahead(const struct sp_cq *cq)
{
	return cq->ahead.at != cq->ahead.end;
}

int led_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int led_cq_take_ahead(struct sp_cq *cq, int got);
int led_req_notify(struct ibv_cq *cq, int solicited_only);
bool led_take(struct sp_cq_ring *ring, struct ibv_wc *wc, struct led_taken *taken);
bool led_cq_next(struct sp_cq *cq, struct ibv_wc *wc);
void led_cq_refresh(struct sp_cq *cq);
enum led_armed led_cq_armed(struct sp_cq *cq);
void led_cq_ex_install(struct sp_cq *cq);
void led_cq_ex_restore(struct sp_cq *cq);

bool led_marked_next(struct sp_cq *cq, struct ibv_wc *wc, struct led_taken *taken);
void led_marked_link(struct sp_qp *qp);
void led_marked_unlink(struct sp_qp *qp);

int led_cq_drive(struct sp_dev *dev, struct ibv_cq *cq, bool cq_ex, uint64_t wc_flags, void *cookie,
		 struct sp_cq **out);
int led_cq_undrive(struct sp_cq *cq);
int led_cq_ring_add(struct sp_cq *cq, struct sp_dev *dev, struct ibv_cq *shadow,
		    struct sp_cq_ring **out);
void led_cq_ring_del(struct sp_cq *cq, struct sp_cq_ring *ring);
void led_cq_take_over(struct sp_cq *cq, const struct sp_cq_past *past);
struct sp_cq_ring *led_cq_own_ring(struct sp_cq *cq);
bool led_cq_event_read(struct sp_cq_ring *ring);
int led_cq_collect(struct sp_cq *cq);
bool led_cq_error_waiting(struct sp_cq *cq);
void led_cq_watch_locked(struct sp_cq *cq);
void led_cq_watch(struct sp_cq *cq);
bool led_cq_owed(struct sp_cq *cq);
void led_live(struct sp_cq_ring *ring, bool *flag);
void led_unlive(struct sp_cq_ring *ring, bool *flag);

#pragma GCC visibility pop

#endif
