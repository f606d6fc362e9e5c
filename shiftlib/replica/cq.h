/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues of the application, and their shadows. */
#ifndef SHIFTLIB_REPLICA_CQ_H
#define SHIFTLIB_REPLICA_CQ_H

#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/replica/context.h"

/* Carriers hold on to it: it outlives its place in the CQ when its NIC has died. */
struct sh_shadow_cq {
	uint32_t refs;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* that of all shadow CQs of the facade there */
	struct sh_cq_feed feed;
	struct sp_cq_ring *ring; /* NULL: the engine has let go of it */
	bool holds;		 /* the incarnation */
};

struct sh_cq {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.cqs */
	struct ibv_cq *cq;
	struct sh_ctx *ctx;
	struct ibv_comp_channel *facade; /* NULL: none */
	struct ibv_comp_channel *real_channel;
	struct sh_cq_events events;
	bool ex;
	uint64_t wc_flags;
	int comp_vector;
	struct sp_cq *sp; /* NULL: not driven */
	bool overrun;	  /* it shows nothing any more */
	int cqe;	  /* what the application has asked for since its NIC is dead; or 0 */
	uint32_t qps, foreign_qps;
	uint32_t guarded;			   /* connections on it that may move */
	struct sh_shadow_cq *shadow[SC_MAX_PATHS]; /* the present ones */
};

void sh_cq_forget(struct sh_cq *cq);
/* On a context of the application, for it; lock not held. */
struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector);
int sh_cq_drive(struct sh_cq *cq);
/* On the worker of the path's NIC, lock NOT held. The QP that it serves keeps the CQ alive. */
int sh_cq_shadow_make(struct sh_cq *cq, uint8_t path);
struct sh_shadow_cq *sh_cq_shadow_get(struct sh_cq *cq,
				      uint8_t path);		      /* lock held: for a carrier */
void sh_cq_shadow_put(struct sh_cq *cq, struct sh_shadow_cq *shadow); /* lock given up meanwhile */

#endif
