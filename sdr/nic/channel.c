/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A queue pair of UC. Each packet is a WRITE with immediate of at most the path's MTU, and takes an
 * empty receive at the other end. A packet that finds no receive is dropped there, as if it had
 * been lost.
 */
#include "sdr/nic/nic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum { SIGNAL_EVERY = 16 }; /* sends; the last of a call is signaled, too */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int make_qp(struct sdr_channel *c, const struct sdr_nic *nic)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->send_cq,
		.recv_cq = c->recv_cq,
		.cap = { .max_send_wr = c->send_depth,
			 .max_recv_wr = c->recv_depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UC,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = nic->port,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	c->qp = ibv_create_qp(nic->pd, &init);
	if (!c->qp)
		return -errno;
	return -ibv_modify_qp(c->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int refill(struct sdr_channel *c)
{
	struct ibv_recv_wr wr[SDR_BURST], *bad;
	uint32_t n;

	memset(wr, 0, sizeof(wr));
	while (c->used) {
		n = least(c->used, SDR_BURST);
		for (uint32_t i = 0; i < n; i++)
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		if (ibv_post_recv(c->qp, wr, &bad)) {
			c->fault = "a receive cannot be posted";
			return -EIO;
		}
		c->used -= n;
	}
	return 0;
}

int sdr_channel_open(struct sdr_channel *c, const struct sdr_nic *nic, uint32_t send_depth,
		     uint32_t recv_depth)
{
	int err;

	memset(c, 0, sizeof(*c));
	c->send_depth = least(send_depth, least(nic->max_wr, nic->max_cqe));
	c->recv_depth = least(recv_depth, least(nic->max_wr, nic->max_cqe));
	c->send_cq = ibv_create_cq(nic->verbs, (int)c->send_depth, NULL, NULL, 0);
	c->recv_cq = ibv_create_cq(nic->verbs, (int)c->recv_depth, NULL, NULL, 0);
	err = c->send_cq && c->recv_cq ? make_qp(c, nic) : -errno;
	c->used = c->recv_depth;
	if (!err)
		err = refill(c);
	if (err)
		sdr_channel_close(c);
	return err;
}

void sdr_channel_close(struct sdr_channel *c)
{
	if (c->qp)
		ibv_destroy_qp(c->qp);
	if (c->recv_cq)
		ibv_destroy_cq(c->recv_cq);
	if (c->send_cq)
		ibv_destroy_cq(c->send_cq);
	memset(c, 0, sizeof(*c));
}

int sdr_channel_connect(struct sdr_channel *c, const struct sdr_nic *nic,
			const struct sdr_peer *peer, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = peer->mtu,
				    .dest_qp_num = qpn };
	int err;

	sdr_nic_address(nic, peer, &attr.ah_attr);
	err = ibv_modify_qp(c->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN);
	if (err)
		return -err;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	return -ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

uint32_t sdr_channel_room(const struct sdr_channel *c)
{
	return least(SDR_BURST, c->send_depth - (uint32_t)(c->posted - c->completed));
}

int sdr_channel_post(struct sdr_channel *c, const struct sdr_packet_out *packets, uint32_t n)
{
	struct ibv_send_wr wr[SDR_BURST], *bad;
	struct ibv_sge sge[SDR_BURST];

	for (uint32_t i = 0; i < n; i++) {
		const struct sdr_packet_out *p = &packets[i];
		bool last = i + 1 == n;

		sge[i] = (struct ibv_sge){ p->addr, p->length, p->lkey };
		wr[i] = (struct ibv_send_wr){ .wr_id = ++c->posted,
					      .next = last ? NULL : &wr[i + 1],
					      .sg_list = &sge[i],
					      .num_sge = p->length ? 1 : 0,
					      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					      .imm_data = htonl(p->imm) };
		wr[i].wr.rdma.remote_addr = p->raddr;
		wr[i].wr.rdma.rkey = p->rkey;
		if (last || c->posted % SIGNAL_EVERY == 0)
			wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	if (!ibv_post_send(c->qp, wr, &bad))
		return 0;
	c->fault = "a packet cannot be posted";
	return -EIO;
}

/* wc: NULL: the queue itself. */
static int failed(struct sdr_channel *c, const struct ibv_wc *wc)
{
	c->fault = wc ? ibv_wc_status_str(wc->status) : "a completion queue has failed";
	return -EIO;
}

int sdr_channel_reap(struct sdr_channel *c)
{
	struct ibv_wc wc[SDR_BURST];
	int n, sum = 0;

	while ((n = ibv_poll_cq(c->send_cq, SDR_BURST, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				return failed(c, &wc[i]);
			c->completed = wc[i].wr_id;
		}
		sum += n;
	}
	return n < 0 ? failed(c, NULL) : sum;
}

int sdr_channel_poll(struct sdr_channel *c, uint32_t *imms)
{
	struct ibv_wc wc[SDR_BURST];
	int n = ibv_poll_cq(c->recv_cq, SDR_BURST, wc), err;

	if (n <= 0)
		return n ? failed(c, NULL) : 0;
	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			return failed(c, &wc[i]);
		imms[i] = ntohl(wc[i].imm_data);
	}
	c->used += (uint32_t)n;
	err = refill(c);
	return err ? err : n;
}
