/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A reliable connection (RC) between the same two devices, for the same Writes: what SDR is
 * compared with. Plain verbs; the server only has memory.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sdr/gid/gid.h"
#include "sdr/tools/perf.h"

#define TIMEOUT_UNIT_NS 4096 /* IBA 9.7.6.1.3: 4.096 us * 2^timeout */

enum { RETRIES = 7, LOOK_EVERY = 4096 };

/*
 * An introduction, as it lies in memory: both ends are one machine type, as options are compared.
 */
struct introduction {
	uint8_t gid[16];
	uint64_t addr;
	uint32_t qpn, rkey, psn;
	uint16_t lid;
	uint8_t mtu, pad;
};

struct rc {
	const struct options *o;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *source, *target; /* source: the pair's memory; target: the server's own */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *mem;
	struct introduction mine, theirs;
	int gid_index;
};

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static bool make_memory(struct rc *rc, const struct pair *p)
{
	rc->mem = mmap(NULL, rc->o->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (rc->mem == MAP_FAILED)
		return false;
	rc->source = ibv_reg_mr(rc->pd, p->mem, p->slot * rc->o->inflight, 0);
	rc->target = ibv_reg_mr(rc->pd, rc->mem, rc->o->size,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return rc->source && rc->target;
}

static bool make_objects(struct rc *rc, const struct pair *p)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	rc->ctx = open_named(rc->o->dev);
	rc->pd = rc->ctx ? ibv_alloc_pd(rc->ctx) : NULL;
	if (!rc->pd || !make_memory(rc, p))
		return false;
	rc->cq = ibv_create_cq(rc->ctx, 16, NULL, NULL, 0);
	if (!rc->cq)
		return false;
	attr.send_cq = attr.recv_cq = rc->cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	rc->qp = ibv_create_qp(rc->pd, &attr);
	return rc->qp;
}

static bool describe_me(struct rc *rc)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(rc->ctx, 1, &port))
		return false;
	rc->gid_index = rc->o->gid_index;
	if (rc->gid_index < 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET)
		rc->gid_index = sdr_gid_choose(rc->ctx, 1, port.gid_tbl_len);
	else if (rc->gid_index < 0)
		rc->gid_index = 0;
	if (rc->gid_index < 0 || ibv_query_gid(rc->ctx, 1, rc->gid_index, &gid))
		return false;
	memcpy(rc->mine.gid, gid.raw, sizeof(rc->mine.gid));
	rc->mine.addr = (uintptr_t)rc->mem;
	rc->mine.qpn = rc->qp->qp_num;
	rc->mine.rkey = rc->target->rkey;
	rc->mine.lid = port.lid;
	rc->mine.mtu = (uint8_t)port.active_mtu;
	return true;
}

/*
 * Returns a timeout longer than two round trips, as a NAK is not to be overtaken: perftest's 14 (67
 * ms) for 25 ms.
 */
static uint8_t timeout_for(uint64_t rtt_ns)
{
	uint8_t t = 1;

	while (t < 31 && ((uint64_t)TIMEOUT_UNIT_NS << t) < 2 * rtt_ns)
		t++;
	return t;
}

static int connect_qp(struct rc *rc)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = rc->mine.mtu < rc->theirs.mtu ? rc->mine.mtu
									     : rc->theirs.mtu,
				   .dest_qp_num = rc->theirs.qpn,
				   .rq_psn = rc->theirs.psn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = timeout_for(rc->o->rtt_ns),
				   .retry_cnt = RETRIES,
				   .rnr_retry = RETRIES,
				   .sq_psn = rc->mine.psn,
				   .max_rd_atomic = 1 };
	int err =
		ibv_modify_qp(rc->qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	rtr.ah_attr = (struct ibv_ah_attr){ .dlid = rc->theirs.lid, .port_num = 1, .is_global = 1 };
	rtr.ah_attr.grh.hop_limit = 64;
	rtr.ah_attr.grh.sgid_index = (uint8_t)rc->gid_index;
	memcpy(rtr.ah_attr.grh.dgid.raw, rc->theirs.gid, 16);
	if (!err)
		err = ibv_modify_qp(rc->qp, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	if (!err)
		err = ibv_modify_qp(rc->qp, &rts,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

/* Nobody writes before both are connected. */
static bool meet(struct rc *rc)
{
	uint32_t size = sizeof(rc->theirs);
	char byte = 'r';

	if (!oob_send(&rc->mine, sizeof(rc->mine)) ||
	    !oob_receive(&rc->theirs, &size, rc->o->wait_s))
		return false;
	errno = size == sizeof(rc->theirs) ? connect_qp(rc) : EBADMSG;
	if (errno) {
		complain("no reliable connection to the other end: %s", strerror(errno));
		return false;
	}
	size = 1;
	return oob_send(&byte, 1) && oob_receive(&byte, &size, rc->o->wait_s);
}

struct rc *rc_open(const struct pair *p, const struct options *o)
{
	struct rc *rc = calloc(1, sizeof(*rc));

	if (!rc)
		return NULL;
	rc->o = o;
	rc->mem = MAP_FAILED;
	if (!make_objects(rc, p) || !describe_me(rc))
		complain("no reliable connection on %s: %s", o->dev, strerror(errno));
	else if (meet(rc))
		return rc;
	rc_close(rc);
	return NULL;
}

void rc_close(struct rc *rc)
{
	if (!rc)
		return;
	if (rc->qp)
		ibv_destroy_qp(rc->qp);
	if (rc->cq)
		ibv_destroy_cq(rc->cq);
	if (rc->target)
		ibv_dereg_mr(rc->target);
	if (rc->source)
		ibv_dereg_mr(rc->source);
	if (rc->pd)
		ibv_dealloc_pd(rc->pd);
	if (rc->ctx)
		ibv_close_device(rc->ctx);
	if (rc->mem != MAP_FAILED)
		munmap(rc->mem, rc->o->size);
	free(rc);
}

/*
 * Waits for a Write over RC. The other connection goes on meanwhile: what it repeats must be
 * answered. The other end's receive waits as long as --timeout for it.
 */
static int await(struct rc *rc, const struct pair *p, uint64_t until)
{
	struct ibv_wc wc;
	int n = 0;

	for (uint32_t i = 1; !n; i++) {
		n = ibv_poll_cq(rc->cq, 1, &wc);
		sdr_poll(p->ctx);
		if (i % LOOK_EVERY)
			continue;
		if (oob_gone())
			return -ECONNRESET;
		if (!n && now_ns() > until) {
			complain("a Write over the reliable connection was not over within "
				 "--timeout: give both ends more");
			return -EIO;
		}
	}
	if (n > 0 && !wc.status)
		return 0;
	complain("a Write over the reliable connection: %s",
		 n < 0 ? "the device reports an error" : ibv_wc_status_str(wc.status));
	return -EIO;
}

int rc_write(struct rc *rc, const struct pair *p, uint8_t *from, struct tally *t)
{
	uint64_t began = now_ns(), left = rc->o->size;
	struct ibv_sge sge = { (uintptr_t)from, (uint32_t)left, rc->source->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.wr.rdma = { rc->theirs.addr, rc->theirs.rkey } };
	int err = ibv_post_send(rc->qp, &wr, &bad);

	if (!err)
		err = -await(rc, p, began + rc->o->timeout_ns);
	if (err)
		return -err;
	t->ns[t->n++] = now_ns() - began;
	return 0;
}

bool rc_check(const struct rc *rc)
{
	uint64_t at = pattern_check(rc->mem, rc->o->size, rc->o->n - 1);

	if (at == rc->o->size)
		return true;
	complain("the last Write over the reliable connection is wrong at byte %llu",
		 (unsigned long long)at);
	return false;
}
