// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: made, connected, reset, asked for their state, destroyed. */
#include "bystanders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct end *end_at(const char *word)
{
	struct end *e = ends[number(word)];

	must(e, "an end that is there");
	return e;
}

struct receives *end_receives(struct end *e)
{
	return e->srq < 0 ? &e->receives : &shared[e->srq];
}

static int end_memory(struct end *e)
{
	must(!posix_memalign((void **)&e->mem, 4096, (size_t)ZONES * ZONE), "memory");
	memset(e->mem, 0, (size_t)ZONES * ZONE);
	payload_fill_source(e);
	e->mr = ibv_reg_mr(contexts[e->ctx].pd, e->mem, (size_t)ZONES * ZONE,
			   e->type == IBV_QPT_RC ? access_flags
			   : e->type == IBV_QPT_UC
				   ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
				   : IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		return errno;
	return e->srq < 0 ? receives_init(&e->receives, contexts[e->ctx].pd) : 0;
}

static void *no_memory_of_mine(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			       uint64_t type)
{
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void nothing_to_free(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
}

/* A domain with allocators of the program's own: what is in it, SHIFT leaves alone. */
static void end_make_domain(struct end *e)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = contexts[e->ctx].pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = no_memory_of_mine,
		.free = nothing_to_free,
	};

	e->domain = ibv_alloc_parent_domain(contexts[e->ctx].ctx, &attr);
	must(e->domain, "a parent domain");
}

static void end_create_qp(struct end *e, uint32_t sq, uint32_t rq)
{
	struct ibv_qp_init_attr attr = { .send_cq = queues[e->send_cq].cq,
					 .recv_cq = queues[e->recv_cq].cq,
					 .srq = e->srq < 0 ? NULL : shared[e->srq].srq,
					 .qp_type = e->type,
					 .sq_sig_all = e->all_signaled,
					 .cap = { .max_send_wr = sq,
						  .max_recv_wr = e->srq < 0 ? rq : 0,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	e->qp = ibv_create_qp(e->domain ? e->domain : contexts[e->ctx].pd, &attr);
}

static void end_tell_address(struct end *e, int mr)
{
	struct context *c = &contexts[e->ctx];
	char hex[33];

	if (!e->qp) {
		reply("= mr %d qp %d", mr, errno);
		return;
	}
	e->own.qpn = e->qp->qp_num;
	e->own.psn = 1000 * e->unit + e->side;
	for (int i = 0; i < 16; i++)
		snprintf(hex + (ptrdiff_t)2 * i, 3, "%02x", c->gid.raw[i]);
	reply("at %u %u %u %llu %u %s", e->own.qpn, e->own.psn, e->mr ? e->mr->rkey : 0,
	      (unsigned long long)(uintptr_t)e->mem, c->lid, hex);
	reply("= mr %d qp 0", mr);
}

static enum ibv_qp_type type_of(const char *word)
{
	if (!strcmp(word, "ud"))
		return IBV_QPT_UD;
	return !strcmp(word, "uc") ? IBV_QPT_UC : IBV_QPT_RC;
}

/* qp ID CTX rc|uc|ud|foreign UNIT SIDE SENDCQ RECVCQ SRQ|-1 SQ RQ ALLSIGNALED */
void end_make(char **word)
{
	struct end *e = calloc(1, sizeof(*e));
	int mr;

	must(e, "memory");
	ends[number(word[0])] = e;
	e->ctx = number(word[1]);
	e->type = type_of(word[2]);
	e->unit = (uint32_t)number(word[3]);
	e->side = (uint32_t)number(word[4]);
	e->send_cq = number(word[5]);
	e->recv_cq = number(word[6]);
	e->srq = number(word[7]);
	e->all_signaled = number(word[10]);
	mr = end_memory(e);
	if (!strcmp(word[2], "foreign"))
		end_make_domain(e);
	end_create_qp(e, (uint32_t)number(word[8]), (uint32_t)number(word[9]));
	end_tell_address(e, mr);
}

/* ---- states --------------------------------------------------------------------------------- */

static int to_init(struct end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.qp_access_flags = e->type == IBV_QPT_UC ? (unsigned int)IBV_ACCESS_REMOTE_WRITE
						     : (unsigned int)access_flags;
	return ibv_modify_qp(e->qp, &attr,
			     mask | (e->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static struct ibv_ah_attr way_to(const struct end *e)
{
	return (struct ibv_ah_attr){ .is_global = 1,
				     .dlid = e->peer.lid,
				     .port_num = PORT,
				     .grh = { .dgid = e->peer.gid,
					      .sgid_index = (uint8_t)contexts[e->ctx].gid_index,
					      .hop_limit = 8 } };
}

static int to_rtr(struct end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = e->peer.qpn,
				    .rq_psn = e->peer.psn,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 1,
				    .ah_attr = way_to(e) };
	int mask = IBV_QP_STATE;

	if (e->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (e->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(e->qp, &attr, mask);
}

static int to_rts(struct end *e, uint8_t timeout)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = e->own.psn,
				    .timeout = timeout,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (e->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(e->qp, &attr, mask);
}

static int end_make_ah(struct end *e)
{
	struct ibv_ah_attr way = way_to(e);

	if (e->type != IBV_QPT_UD)
		return 0;
	if (e->ah)
		ibv_destroy_ah(e->ah);
	e->ah = ibv_create_ah(contexts[e->ctx].pd, &way);
	return e->ah ? 0 : errno;
}

/* connect ID QPN PSN RKEY ADDR LID GID TIMEOUT: stops at the first answer that is not 0 */
void end_connect(char **word)
{
	struct end *e = end_at(word[0]);
	int init, rtr = -1, rts = -1, ah = -1;

	e->peer.qpn = (uint32_t)number(word[1]);
	e->peer.psn = (uint32_t)number(word[2]);
	e->peer.rkey = (uint32_t)strtoul(word[3], NULL, 10);
	e->peer.addr = strtoull(word[4], NULL, 10);
	e->peer.lid = (uint16_t)number(word[5]);
	for (size_t i = 0; i < 16; i++) {
		unsigned int byte;

		must(sscanf(word[6] + 2 * i, "%2x", &byte) == 1, "a GID");
		e->peer.gid.raw[i] = (uint8_t)byte;
	}
	init = to_init(e);
	if (!init)
		rtr = to_rtr(e);
	if (!rtr)
		rts = to_rts(e, (uint8_t)number(word[7]));
	if (!rts)
		ah = end_make_ah(e);
	reply("= init %d rtr %d rts %d ah %d", init, rtr, rts, ah);
}

/* A queue pair that was reset begins anew: what is outstanding will not complete. */
static void end_forget(struct end *e)
{
	struct receives *r = &e->receives;

	e->done = e->posted = 0;
	e->arrived = 0;
	e->dead = e->adds_known = false;
	e->receives_out = 0;
	if (e->srq < 0)
		for (r->n_free = 0; r->n_free < SLOTS; r->n_free++)
			r->free[r->n_free] = SLOTS - 1 - r->n_free;
}

/* reset ID */
void end_reset(char **word)
{
	struct end *e = end_at(word[0]);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int rc = e->qp ? ibv_modify_qp(e->qp, &attr, IBV_QP_STATE) : -1;

	end_forget(e);
	reply("= %d", rc);
}

/* state ID */
void end_state(char **word)
{
	struct end *e = end_at(word[0]);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { 0 };
	int rc = e->qp ? ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init) : -1;

	reply("= answer %d state %d", rc, rc ? -1 : (int)attr.qp_state);
}

/* dropqp ID */
void end_drop(char **word)
{
	struct end *e = end_at(word[0]);
	int ah = e->ah ? ibv_destroy_ah(e->ah) : 0, qp = e->qp ? ibv_destroy_qp(e->qp) : 0, mr;

	if (e->domain)
		ibv_dealloc_pd(e->domain); /* it is busy where the queue pair stays */
	receives_uninit(&e->receives);
	mr = e->mr ? ibv_dereg_mr(e->mr) : 0;
	if (!mr)
		free(e->mem);
	free(e);
	ends[number(word[0])] = NULL;
	reply("= ah %d qp %d mr %d", ah, qp, mr);
}
