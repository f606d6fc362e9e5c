/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs of UC: made, connected, used. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/probe.h"
#include "tools/probe/uc.h"

#define UC_CQES	 256
#define UC_SPINS 1000u /* looks without a nap: what is timed takes microseconds */

/* ---- made ------------------------------------------------------------------------------------ */

static int qp_make(struct pr_uc *pair, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr init = {
		.send_cq = pair->scq,
		.recv_cq = pair->rcq,
		.cap = { UC_WR, UC_WR, 1, 1, 0 },
		.qp_type = IBV_QPT_UC,
	};

	*qp = ibv_create_qp(pair->dev->pd, &init);
	return *qp ? 0 : pr_fail("this NIC has no queue pairs of UC (%s)", strerror(errno));
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int err = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return err ? pr_fail("a queue pair of UC cannot be taken to INIT: %s", strerror(err)) : 0;
}

static int to_rts(struct pr_dev *dev, struct ibv_qp *qp, const struct ibv_qp *peer, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = dev->port.active_mtu,
				    .dest_qp_num = peer->qp_num,
				    .rq_psn = UC_PSN };
	int err;

	pr_ah_fill(dev, &dev->gid, dev->port.lid, &attr.ah_attr);
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN);
	if (err)
		return pr_fail("a queue pair of UC cannot be taken to RTR: %s", strerror(err));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = psn };
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return err ? pr_fail("a queue pair of UC cannot be taken to RTS: %s", strerror(err)) : 0;
}

static int pair_make(struct pr_uc *pair)
{
	struct ibv_context *ctx = pair->dev->ctx;

	pair->scq = ibv_create_cq(ctx, UC_CQES, NULL, NULL, 0);
	pair->rcq = pair->scq ? ibv_create_cq(ctx, UC_CQES, NULL, NULL, 0) : NULL;
	if (!pair->rcq)
		return pr_fail("cannot make a completion queue: %s", strerror(errno));
	if (qp_make(pair, &pair->a) || qp_make(pair, &pair->b))
		return -1;
	if (to_init(pair->a) || to_init(pair->b))
		return -1;
	if (to_rts(pair->dev, pair->b, pair->a, UC_PSN))
		return -1;
	return to_rts(pair->dev, pair->a, pair->b, UC_PSN);
}

int pr_uc_open(struct pr_uc *pair, struct pr_dev *dev)
{
	*pair = (struct pr_uc){ .dev = dev };
	pr_events_clear(dev);
	if (!pair_make(pair))
		return 0;
	pr_uc_close(pair);
	return -1;
}

/* Events name objects that must be there when they are acknowledged. */
void pr_uc_close(struct pr_uc *pair)
{
	if (pair->dev)
		pr_events_clear(pair->dev);
	if (pair->a)
		ibv_destroy_qp(pair->a);
	if (pair->b)
		ibv_destroy_qp(pair->b);
	if (pair->rcq)
		ibv_destroy_cq(pair->rcq);
	if (pair->scq)
		ibv_destroy_cq(pair->scq);
	memset(pair, 0, sizeof(*pair));
}

int pr_uc_begin(struct pr_uc *pair, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int err = ibv_modify_qp(pair->a, &attr, IBV_QP_STATE);

	if (err)
		return pr_fail("a queue pair of UC cannot be taken to RESET: %s", strerror(err));
	return to_init(pair->a) ? -1 : to_rts(pair->dev, pair->a, pair->b, psn);
}

/* ---- used ------------------------------------------------------------------------------------ */

int pr_uc_recv(struct pr_uc *pair, unsigned n)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
	int err = 0;

	while (n-- && !err)
		err = ibv_post_recv(pair->b, &wr, &bad);
	return err ? pr_fail("cannot post a receive of UC: %s", strerror(err)) : 0;
}

int pr_uc_post(struct pr_uc *pair, const struct pr_uc_write *write)
{
	struct pr_dev *dev = pair->dev;
	struct ibv_sge sge = { (uintptr_t)dev->mem + write->from, write->len, dev->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = write->has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM
							   : IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(write->imm) },
			   *bad;
	int err;

	wr.wr.rdma.remote_addr = write->to;
	wr.wr.rdma.rkey = write->rkey;
	err = ibv_post_send(pair->a, &wr, &bad);
	return err ? pr_fail("cannot post a WRITE of UC: %s", strerror(err)) : 0;
}

int pr_uc_await(struct pr_uc *pair, unsigned n)
{
	uint64_t end_ns = pr_now_ns() + UC_LONG_MS * 1000000ull;
	struct ibv_wc wc;

	for (unsigned looks = 0; n; looks++) {
		if (ibv_poll_cq(pair->scq, 1, &wc) == 1) {
			if (wc.status)
				return pr_fail("a request of UC ends with: %s",
					       ibv_wc_status_str(wc.status));
			n--;
		} else if (pr_now_ns() > end_ns) {
			return pr_fail("a request of UC does not complete");
		} else if (looks > UC_SPINS) {
			pr_nap_us(20);
		}
	}
	return 0;
}

int pr_uc_write(struct pr_uc *pair, const struct pr_uc_write *write)
{
	return pr_uc_post(pair, write) ? -1 : pr_uc_await(pair, 1);
}

struct pr_uc_write pr_uc_packet(const struct pr_uc *pair, uint32_t imm, uint32_t to, uint32_t len)
{
	struct pr_dev *dev = pair->dev;

	pr_pattern_fill(dev->mem + PR_OUT + to, len, imm);
	return (struct pr_uc_write){ .from = PR_OUT + to,
				     .len = len,
				     .to = (uintptr_t)dev->mem + to,
				     .rkey = dev->mr->rkey,
				     .has_imm = true,
				     .imm = imm };
}

static void seen_add(struct pr_uc_seen *seen, const struct ibv_wc *wc, uint32_t last)
{
	if (wc->status) {
		seen->failed++;
		return;
	}
	if (seen->n < UC_WR)
		seen->imm[seen->n] = ntohl(wc->imm_data);
	seen->n++;
	seen->last = ntohl(wc->imm_data) == last;
}

void pr_uc_look(struct pr_uc *pair, uint32_t last, struct pr_uc_seen *seen)
{
	uint64_t quiet_ns = pr_now_ns() + UC_LONG_MS * 1000000ull;
	struct ibv_wc wc;

	*seen = (struct pr_uc_seen){ .n = 0 };
	while (!seen->last) {
		if (ibv_poll_cq(pair->rcq, 1, &wc) == 1) {
			seen_add(seen, &wc, last);
			quiet_ns = pr_now_ns() + UC_LONG_MS * 1000000ull;
		} else if (pr_now_ns() >= quiet_ns) {
			return;
		} else {
			pr_nap_us(20);
		}
	}
}

bool pr_uc_is_well(struct pr_uc *pair)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t at_ns;

	if (ibv_query_qp(pair->b, &attr, IBV_QP_STATE, &init) || attr.qp_state != IBV_QPS_RTS)
		return false;
	return pr_event_wait(pair->dev, IBV_EVENT_QP_ACCESS_ERR, pair->b, 0, &at_ns) != 0;
}
