// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A ledger of work requests, for comparison: how a layer that cannot read the rings keeps what may
 * have to be posted again. Each request is copied, with its list, into a ring of the QP before the
 * provider gets it; each completion takes off what it acknowledges. As such a layer must, it finds
 * the QP of a call by its number and keeps the order of a QP under a lock of its own.
 */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { QPN_BITS = 16, SLOTS = 1024 };

struct send_copy {
	struct ibv_send_wr wr;
	struct ibv_sge sge[SGES];
	uint8_t data[INLINE_MAX];
};

struct recv_copy {
	struct ibv_recv_wr wr;
	struct ibv_sge sge[SGES];
};

struct ledger {
	pthread_spinlock_t lock;
	uint32_t send_head, send_tail, recv_head, recv_tail;
	struct send_copy sends[SLOTS];
	struct recv_copy recvs[SLOTS];
};

static struct ledger *by_qpn[1 << QPN_BITS];
static struct ibv_context_ops stock;

static struct ledger *ledger_of(uint32_t qpn)
{
	return by_qpn[qpn & ((1 << QPN_BITS) - 1)];
}

static void copy_inline(struct send_copy *copy, const struct ibv_send_wr *wr)
{
	uint8_t *at = copy->data;

	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(at, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
}

static void copy_send(struct ledger *l, const struct ibv_send_wr *wr)
{
	struct send_copy *copy = &l->sends[l->send_head++ % SLOTS];

	copy->wr = *wr;
	memcpy(copy->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	copy->wr.sg_list = copy->sge;
	if (wr->send_flags & IBV_SEND_INLINE)
		copy_inline(copy, wr);
}

static void copy_recv(struct ledger *l, const struct ibv_recv_wr *wr)
{
	struct recv_copy *copy = &l->recvs[l->recv_head++ % SLOTS];

	copy->wr = *wr;
	memcpy(copy->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	copy->wr.sg_list = copy->sge;
}

static int ledger_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ledger *l = ledger_of(qp->qp_num);
	int ret;

	pthread_spin_lock(&l->lock);
	for (const struct ibv_send_wr *at = wr; at; at = at->next)
		copy_send(l, at);
	ret = stock.post_send(qp, wr, bad);
	pthread_spin_unlock(&l->lock);
	return ret;
}

static int ledger_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ledger *l = ledger_of(qp->qp_num);
	int ret;

	pthread_spin_lock(&l->lock);
	for (const struct ibv_recv_wr *at = wr; at; at = at->next)
		copy_recv(l, at);
	ret = stock.post_recv(qp, wr, bad);
	pthread_spin_unlock(&l->lock);
	return ret;
}

/* A signaled completion acknowledges the unsignaled requests before it too. */
static void pop(const struct ibv_wc *wc)
{
	struct ledger *l = ledger_of(wc->qp_num);

	pthread_spin_lock(&l->lock);
	if (wc->opcode & IBV_WC_RECV) {
		l->recv_tail++;
	} else {
		while (l->send_tail != l->send_head)
			if (l->sends[l->send_tail++ % SLOTS].wr.send_flags & IBV_SEND_SIGNALED)
				break;
	}
	pthread_spin_unlock(&l->lock);
}

static int ledger_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = stock.poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++)
		pop(&wc[i]);
	return got;
}

void ledger_start(struct ibv_context *ctx)
{
	stock = ctx->ops;
	ctx->ops.post_send = ledger_post_send;
	ctx->ops.post_recv = ledger_post_recv;
	ctx->ops.poll_cq = ledger_poll_cq;
}

void ledger_add(struct ibv_qp *qp)
{
	struct ledger *l = calloc(1, sizeof(*l));

	must(l, "memory");
	must_zero(pthread_spin_init(&l->lock, PTHREAD_PROCESS_PRIVATE), "a lock");
	by_qpn[qp->qp_num & ((1 << QPN_BITS) - 1)] = l;
}
