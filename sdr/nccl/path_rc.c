/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path over a reliable connection (RC), for peers that are near, in the shape of NCCL's own
 * net_ib: the receiver writes a record of each receive to the sender's memory (CTS), and the sender
 * writes its bytes with an immediate that tells their number. A connection has the first NIC of its
 * device alone, and ends with it.
 */
#include "path.h"
#include "sdr/gid/gid.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRIES = 7, RNR_TIMER = 12, POLLED = 16, HOPS = 64 };

/* A receive, as the sender's memory has it. The number is written last: the record is whole. */
struct record {
	uint64_t addr, length, word;
	uint32_t rkey;
	_Atomic uint32_t number; /* the message's, counted from 1 */
};

_Static_assert(sizeof(struct record) == 32, "a record on the wire");

struct plug_op {
	bool used, over;
	int status;
	uint64_t length;
};

struct plug_path {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	bool sends;
	uint8_t timeout;
	uint32_t in_flight;
	uint64_t next; /* number of the next message, from 0 */
	uint64_t ended;
	struct plug_op *ops;
	struct record *records; /* sender: written by the receiver; receiver: what it writes */
	struct ibv_mr *records_mr;
	uint64_t peer_records;
	uint32_t peer_rkey;
	int error;
	char why[128];
};

/* Words that an end tells the other, little endian. */
enum { INFO_MTU_LID, INFO_QPN, INFO_RECORDS, INFO_RKEY, INFO_GID, INFO_WORDS = INFO_GID + 2 };

/* ---- life ------------------------------------------------------------------------------------ */

static struct ibv_context *open_first(const char *nics)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;
	size_t length = strcspn(nics, ",");

	for (int i = 0; list && list[i] && !verbs; i++) {
		const char *name = ibv_get_device_name(list[i]);

		if (strlen(name) == length && !strncmp(name, nics, length))
			verbs = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

/* InfiniBand's first entry is its port's; RoCE's are chosen from as libsdr does. */
static int choose_gid(struct plug_path *p, int wanted)
{
	bool roce = p->port.link_layer == IBV_LINK_LAYER_ETHERNET;

	p->gid_index = wanted >= 0 ? wanted
		       : roce	   ? sdr_gid_choose(p->verbs, 1, p->port.gid_tbl_len)
				   : 0;
	return p->gid_index < 0 || ibv_query_gid(p->verbs, 1, p->gid_index, &p->gid)
		       ? -EADDRNOTAVAIL
		       : 0;
}

static int make_memory(struct plug_path *p)
{
	size_t size = p->in_flight * sizeof(*p->records);

	p->ops = calloc(p->in_flight, sizeof(*p->ops));
	p->records = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	if (!p->ops || !p->records)
		return -ENOMEM;
	memset(p->records, 0, size);
	p->records_mr = ibv_reg_mr(p->pd, p->records, size,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return p->records_mr ? 0 : -errno;
}

static int make_qp(struct plug_path *p)
{
	/* A message of the receiver has a receive and a record. */
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 2 * p->in_flight,
						  .max_recv_wr = p->in_flight,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	p->cq = ibv_create_cq(p->verbs, (int)(3 * p->in_flight), NULL, NULL, 0);
	if (!p->cq)
		return -errno;
	attr.send_cq = attr.recv_cq = p->cq;
	p->qp = ibv_create_qp(p->pd, &attr);
	return p->qp ? 0 : -errno;
}

static void rc_stop(struct plug_path *p)
{
	if (p->qp)
		ibv_destroy_qp(p->qp);
	if (p->cq)
		ibv_destroy_cq(p->cq);
	p->qp = NULL;
	p->cq = NULL;
	p->error = -ESHUTDOWN;
}

static void rc_close(struct plug_path *p)
{
	rc_stop(p);
	if (p->records_mr)
		ibv_dereg_mr(p->records_mr);
	if (p->pd)
		ibv_dealloc_pd(p->pd);
	if (p->verbs)
		ibv_close_device(p->verbs);
	free(p->records);
	free(p->ops);
	free(p);
}

static int rc_open(struct plug_path **path, const char *nics, const struct plug_settings *s,
		   const struct plug_terms *terms, bool sends)
{
	struct plug_path *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	if (!p)
		return -ENOMEM;
	p->sends = sends;
	p->in_flight = terms->in_flight;
	p->timeout = s->rc_timeout;
	p->verbs = open_first(nics);
	p->pd = p->verbs ? ibv_alloc_pd(p->verbs) : NULL;
	if (!p->pd || ibv_query_port(p->verbs, 1, &p->port))
		err = -ENODEV;
	else
		err = choose_gid(p, s->gid_index);
	if (!err)
		err = make_memory(p);
	if (!err)
		err = make_qp(p);
	if (err)
		rc_close(p);
	else
		*path = p;
	return err;
}

static int rc_info_get(struct plug_path *p, void *info, size_t *length)
{
	const uint64_t own[INFO_GID] = {
		[INFO_MTU_LID] = (uint64_t)p->port.active_mtu << 16 | p->port.lid,
		[INFO_QPN] = p->qp->qp_num,
		[INFO_RECORDS] = (uintptr_t)p->records,
		[INFO_RKEY] = p->records_mr->rkey,
	};
	uint8_t *at = info;
	uint64_t word;

	if (*length < 8 * INFO_WORDS)
		return -ENOSPC;
	for (uint32_t i = 0; i < INFO_GID; i++) {
		word = htole64(own[i]);
		memcpy(at + 8 * i, &word, sizeof(word));
	}
	memcpy(at + 8 * INFO_GID, p->gid.raw, sizeof(p->gid.raw));
	*length = 8 * INFO_WORDS;
	return 0;
}

/* Returns 0 or a positive errno, as verbs do. */
static int to_rts(struct plug_path *p, enum ibv_mtu mtu, uint32_t qpn, struct ibv_ah_attr *ah)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int err = ibv_modify_qp(
		p->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (err)
		return err;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = mtu,
				  .dest_qp_num = qpn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = RNR_TIMER,
				  .ah_attr = *ah };
	err = ibv_modify_qp(p->qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = p->timeout,
				  .retry_cnt = RETRIES,
				  .rnr_retry = RETRIES,
				  .max_rd_atomic = 1 };
	return ibv_modify_qp(p->qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int rc_connect(struct plug_path *p, const void *info, size_t length)
{
	struct ibv_ah_attr ah = { .port_num = 1 };
	uint64_t other[INFO_GID];
	enum ibv_mtu mtu;

	if (length != 8 * INFO_WORDS)
		return -EPROTO;
	memcpy(other, info, sizeof(other));
	for (uint32_t i = 0; i < INFO_GID; i++)
		other[i] = le64toh(other[i]);
	mtu = (enum ibv_mtu)(other[INFO_MTU_LID] >> 16);
	ah.dlid = (uint16_t)other[INFO_MTU_LID];
	if (p->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		ah.is_global = 1;
		ah.grh.sgid_index = (uint8_t)p->gid_index;
		ah.grh.hop_limit = HOPS;
		memcpy(ah.grh.dgid.raw, (const uint8_t *)info + 8 * INFO_GID, 16);
	}
	p->peer_records = other[INFO_RECORDS];
	p->peer_rkey = (uint32_t)other[INFO_RKEY];
	return -to_rts(p, mtu < p->port.active_mtu ? mtu : p->port.active_mtu,
		       (uint32_t)other[INFO_QPN], &ah);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int rc_reg(struct plug_path *p, void *addr, size_t length, struct plug_mr **mr)
{
	*mr = (struct plug_mr *)ibv_reg_mr(p->pd, addr, length,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return *mr ? 0 : -errno;
}

static int rc_dereg(struct plug_path *p, struct plug_mr *mr)
{
	return -ibv_dereg_mr((struct ibv_mr *)mr);
}

/* ---- messages -------------------------------------------------------------------------------- */

static int rc_posted(struct plug_path *p, uint32_t ahead, uint64_t *length, uint64_t *word)
{
	const struct record *r = &p->records[(p->next + ahead) % p->in_flight];

	if (p->error)
		return p->error;
	/* Orders the rest of the record behind its number, which the receiver's NIC writes last. */
	if (atomic_load_explicit(&r->number, memory_order_acquire) !=
	    (uint32_t)(p->next + ahead + 1))
		return -EAGAIN;
	*length = r->length;
	*word = r->word;
	return 0;
}

static int op_take(struct plug_path *p, uint64_t length, struct plug_op **op)
{
	struct plug_op *o = &p->ops[p->next % p->in_flight];

	if (p->error)
		return p->error;
	if (o->used)
		return -EAGAIN;
	*o = (struct plug_op){ .used = true, .length = length };
	*op = o;
	return 0;
}

static int rc_send(struct plug_path *p, struct plug_mr *mr, const void *addr, uint64_t length,
		   struct plug_op **op)
{
	const struct record *r = &p->records[p->next % p->in_flight];
	struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)length, ((struct ibv_mr *)mr)->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = p->next % p->in_flight,
					.sg_list = &sge,
					.num_sge = length ? 1 : 0,
					.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.send_flags = IBV_SEND_SIGNALED,
					.imm_data = htobe32((uint32_t)length),
					.wr.rdma = { .remote_addr = r->addr, .rkey = r->rkey } };
	int err = op_take(p, length, op);

	if (err)
		return err;
	err = ibv_post_send(p->qp, &wr, &bad);
	(*op)->used = !err;
	p->next += !err;
	return -err;
}

/* Tells the sender of the receive. */
static int say_record(struct plug_path *p, struct ibv_mr *mr, void *addr, uint64_t length,
		      uint64_t word)
{
	uint64_t i = p->next % p->in_flight;
	struct record *r = &p->records[i];
	struct ibv_sge sge = { (uintptr_t)r, sizeof(*r), p->records_mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .wr_id = p->in_flight,
		       .sg_list = &sge,
		       .num_sge = 1,
		       .opcode = IBV_WR_RDMA_WRITE,
		       .send_flags = IBV_SEND_SIGNALED,
		       .wr.rdma = { .remote_addr = p->peer_records + i * sizeof(struct record),
				    .rkey = p->peer_rkey } };

	r->addr = (uintptr_t)addr;
	r->length = length;
	r->word = word;
	r->rkey = mr->rkey;
	atomic_store_explicit(&r->number, (uint32_t)(p->next + 1), memory_order_relaxed);
	return -ibv_post_send(p->qp, &wr, &bad);
}

static int rc_recv(struct plug_path *p, struct plug_mr *mr, void *addr, uint64_t length,
		   uint64_t word, struct plug_op **op)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = p->next % p->in_flight };
	int err = op_take(p, length, op);

	if (err)
		return err;
	err = -ibv_post_recv(p->qp, &wr, &bad);
	if (!err)
		err = say_record(p, (struct ibv_mr *)mr, addr, length, word);
	(*op)->used = !err;
	p->next += !err;
	return err;
}

static int rc_test(struct plug_path *p, struct plug_op *op, int *status, uint64_t *length)
{
	if (!op->over && !p->error)
		return 0;
	*status = op->over ? op->status : p->error;
	*length = op->length;
	op->used = false;
	return 1;
}

static void take_completion(struct plug_path *p, const struct ibv_wc *wc)
{
	struct plug_op *op = wc->wr_id < p->in_flight ? &p->ops[wc->wr_id] : NULL;

	if (wc->status) {
		snprintf(p->why, sizeof(p->why), "%s", ibv_wc_status_str(wc->status));
		p->error = wc->status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -EIO;
		return;
	}
	if (!op)
		return; /* a record's */
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		op->length = be32toh(wc->imm_data);
	op->over = true;
	p->ended++;
}

static int rc_poll(struct plug_path *p)
{
	struct ibv_wc wc[POLLED];
	int n;

	if (p->error)
		return 0;
	n = ibv_poll_cq(p->cq, POLLED, wc);
	if (n < 0)
		p->error = -EIO;
	for (int i = 0; i < n && !p->error; i++)
		take_completion(p, &wc[i]);
	return n;
}

/* The NIC waits for nobody. */
static void rc_peer_over(struct plug_path *p)
{
}

/* The NIC's own congestion control has the rate. */
static void rc_rate_set(struct plug_path *p, uint64_t bps)
{
}

static const char *rc_why(struct plug_path *p)
{
	return p->why;
}

static void rc_counts(struct plug_path *p, struct plug_counts *c)
{
	c->packets = p->ended; /* of messages: the NIC alone knows packets */
}

const struct plug_path_ops plug_path_rc = {
	.name = "rc",
	.open = rc_open,
	.close = rc_close,
	.stop = rc_stop,
	.info_get = rc_info_get,
	.connect = rc_connect,
	.reg = rc_reg,
	.dereg = rc_dereg,
	.posted = rc_posted,
	.send = rc_send,
	.recv = rc_recv,
	.test = rc_test,
	.poll = rc_poll,
	.peer_over = rc_peer_over,
	.rate_set = rc_rate_set,
	.why = rc_why,
	.counts = rc_counts,
};
