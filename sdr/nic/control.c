/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A queue pair of UD, with a ring of datagrams in each direction. A datagram that finds no room is
 * lost, as on the way.
 */
#include "sdr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { GRH = 40, RECV_SIZE = SDR_DATAGRAM_MAX + 64 };

static uint8_t *send_at(const struct sdr_control *c, uint64_t n)
{
	return c->mem + n % SDR_DATAGRAMS * SDR_DATAGRAM_MAX;
}

static uint8_t *recv_at(const struct sdr_control *c, uint64_t n)
{
	return c->mem + SDR_DATAGRAMS * SDR_DATAGRAM_MAX + n * RECV_SIZE;
}

static int post_recv(struct sdr_control *c, uint64_t n)
{
	struct ibv_sge sge = { (uintptr_t)recv_at(c, n), GRH + SDR_DATAGRAM_MAX, c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(c->qp, &wr, &bad) ? -EIO : 0;
}

static int make_qp(struct sdr_control *c, const struct sdr_nic *nic)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->send_cq,
		.recv_cq = c->recv_cq,
		.cap = { SDR_DATAGRAMS, SDR_DATAGRAMS, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = nic->port,
				    .qkey = c->qkey };
	int err;

	c->qp = ibv_create_qp(nic->pd, &init);
	if (!c->qp)
		return -errno;
	err = ibv_modify_qp(c->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (uint64_t i = 0; !err && i < SDR_DATAGRAMS; i++)
		err = -post_recv(c, i);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -err;
}

int sdr_control_open(struct sdr_control *c, const struct sdr_nic *nic, uint32_t qkey)
{
	int err;

	memset(c, 0, sizeof(*c));
	c->qkey = qkey;
	c->mem_size = SDR_DATAGRAMS * (SDR_DATAGRAM_MAX + RECV_SIZE);
	c->mem =
		mmap(NULL, c->mem_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->mem == MAP_FAILED) {
		c->mem = NULL;
		return -ENOMEM;
	}
	c->mr = ibv_reg_mr(nic->pd, c->mem, c->mem_size, IBV_ACCESS_LOCAL_WRITE);
	c->send_cq = ibv_create_cq(nic->verbs, SDR_DATAGRAMS, NULL, NULL, 0);
	c->recv_cq = ibv_create_cq(nic->verbs, SDR_DATAGRAMS, NULL, NULL, 0);
	err = c->mr && c->send_cq && c->recv_cq ? make_qp(c, nic) : -errno;
	if (err)
		sdr_control_close(c);
	return err;
}

void sdr_control_close(struct sdr_control *c)
{
	if (c->qp)
		ibv_destroy_qp(c->qp);
	if (c->ah)
		ibv_destroy_ah(c->ah);
	if (c->recv_cq)
		ibv_destroy_cq(c->recv_cq);
	if (c->send_cq)
		ibv_destroy_cq(c->send_cq);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->mem)
		munmap(c->mem, c->mem_size);
	memset(c, 0, sizeof(*c));
}

int sdr_control_connect(struct sdr_control *c, const struct sdr_nic *nic,
			const struct sdr_peer *peer, uint32_t qpn, uint32_t qkey)
{
	struct ibv_ah_attr attr;

	sdr_nic_address(nic, peer, &attr);
	c->ah = ibv_create_ah(nic->pd, &attr);
	if (!c->ah)
		return -errno;
	c->peer_qpn = qpn;
	c->peer_qkey = qkey;
	return 0;
}

static int failed(struct sdr_control *c, const char *fault)
{
	c->fault = fault;
	return -EIO;
}

static int reap(struct sdr_control *c)
{
	struct ibv_wc wc[SDR_DATAGRAMS];
	int n = ibv_poll_cq(c->send_cq, SDR_DATAGRAMS, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status)
			return failed(c, ibv_wc_status_str(wc[i].status));
	c->completed += n > 0 ? (uint64_t)n : 0;
	return n < 0 ? failed(c, "a completion queue has failed") : 0;
}

void *sdr_control_room(struct sdr_control *c)
{
	return c->posted - c->completed < SDR_DATAGRAMS ? send_at(c, c->posted) : NULL;
}

int sdr_control_send(struct sdr_control *c, size_t length)
{
	struct ibv_sge sge = { (uintptr_t)send_at(c, c->posted), (uint32_t)length, c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	wr.wr.ud.ah = c->ah;
	wr.wr.ud.remote_qpn = c->peer_qpn;
	wr.wr.ud.remote_qkey = c->peer_qkey;
	if (ibv_post_send(c->qp, &wr, &bad))
		return failed(c, "a datagram cannot be posted");
	c->posted++;
	return 0;
}

int sdr_control_poll(struct sdr_control *c, sdr_control_fn hear, void *arg)
{
	struct ibv_wc wc[SDR_DATAGRAMS];
	int n;

	if (reap(c))
		return -EIO;
	n = ibv_poll_cq(c->recv_cq, SDR_DATAGRAMS, wc);
	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			return failed(c, ibv_wc_status_str(wc[i].status));
		if (wc[i].byte_len > GRH)
			hear(arg, recv_at(c, wc[i].wr_id) + GRH, wc[i].byte_len - GRH);
		if (post_recv(c, wc[i].wr_id))
			return failed(c, "a receive of datagrams cannot be posted");
	}
	return n < 0 ? failed(c, "a completion queue has failed") : n;
}
