/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the fake provider share. */
#ifndef TESTS_LIB_VERBS_FAKE_PRIV_H
#define TESTS_LIB_VERBS_FAKE_PRIV_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/verbs_fake.h"

/* Tests run in builds with NDEBUG too. */
#define TRIP(cond)                                                                                 \
	do {                                                                                       \
		if (cond) {                                                                        \
			fprintf(stderr, "%s:%d: the NIC trips: %s\n", __FILE__, __LINE__, #cond);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct vf_builder {
	pthread_mutex_t lock; /* from wr_start to wr_complete or wr_abort */
	struct vf_send *sends;
	uint32_t n, room;
	bool open, has_data; /* the last one has its SGEs or inline data */
	int error;
};

void vf_lock_make(pthread_mutex_t *lock);
/* Trips where a thread takes it twice. */
void vf_lock(pthread_mutex_t *lock);

/* -- verbs_fake.c: queues, under the lock of the device */

/* 0, or what post_send says. */
int vf_push(struct vf_qp *qp, const struct vf_send *send);
int vf_may_post(struct vf_qp *qp);
void vf_posted(struct vf_qp *qp);
/* Shape of a request, as its provider looks at it before it takes it. */
int vf_check_shape(const struct vf_qp *qp, const struct vf_send *send);

/* -- verbs_fake_cq.c */

/* Flush CQEs that are due; from a poll of that CQ, or (NULL) by the NIC itself. */
void vf_flush(struct vf_qp *qp, const struct vf_cq *polled);
void vf_complete_send(struct vf_qp *qp, uint32_t index, enum ibv_wc_status status);
void vf_complete_recv(struct vf_qp *qp, uint64_t wr_id, uint32_t index, enum ibv_wc_status status,
		      const struct ibv_wc *good);
/* Completions of it that nobody polled go. */
void vf_forget(struct vf_cq *cq, const struct vf_qp *qp);
int vf_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int vf_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* -- verbs_fake_hns.c, a library of its own: libhns_fake.so */

extern int (*vf_hns_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int vf_hns_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/* -- verbs_fake_rxe.c, likewise: librxe_fake.so */

extern int (*vf_rxe_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int vf_rxe_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/* -- verbs_fake_wr.c */

void vf_offer_wr(struct vf_qp *qp);
void vf_builder_free(struct vf_qp *qp);

static inline struct vf_qp *vf_qp_of(struct ibv_qp *qp)
{
	return (struct vf_qp *)qp;
}

static inline struct vf_cq *vf_cq_of(struct ibv_cq *cq)
{
	return (struct vf_cq *)cq;
}

static inline struct vf_send *vf_send_at(const struct vf_qp *qp, uint32_t index)
{
	return &qp->sends[index & (qp->send_room - 1)];
}

static inline struct vf_recv *vf_recv_at(const struct vf_qp *qp, uint32_t index)
{
	return &qp->recvs[index & (qp->recv_room - 1)];
}

static inline bool vf_knob(const struct vf_qp *qp, enum vf_knob knob)
{
	return qp->dev->knobs & knob;
}

#endif
