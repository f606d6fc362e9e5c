/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Opens the device and makes a CQ and a QP by libmlx5's own calls, as NCCL does for some QPs:
 * no exported verb makes them, yet their events must reach the application through its channel.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include "tests/e2e/loaders/script.h"

static struct ibv_context *device_open(void)
{
	struct mlx5dv_context_attr attr = { 0 };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? mlx5dv_open_device(list[0], &attr) : NULL;

	LOADER_CHECK(context != NULL);
	ibv_free_device_list(list);
	return context;
}

static struct ibv_qp *qp_make(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct mlx5dv_qp_init_attr direct = { 0 };
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = mlx5dv_create_qp(pd->context, &init, &direct);

	LOADER_CHECK(qp != NULL);
	return qp;
}

static void channel_is_empty(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	LOADER_CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	LOADER_CHECK(ibv_get_cq_event(channel, &cq, &context) == -1 && errno == EAGAIN);
}

/* A flushed receive on a QP in error is the shortest way to a completion. */
static void completion_make(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;

	LOADER_CHECK(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	LOADER_CHECK(!ibv_post_recv(qp, &wr, &bad));
	attr.qp_state = IBV_QPS_ERR;
	LOADER_CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void event_arrives(struct ibv_cq *made, struct ibv_qp *qp, void *expected)
{
	struct ibv_comp_channel *channel = made->channel;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	LOADER_CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK));
	LOADER_CHECK(!ibv_req_notify_cq(made, 0));
	completion_make(qp);
	LOADER_CHECK(!ibv_get_cq_event(channel, &cq, &context));
	LOADER_CHECK(cq == made && context == expected);
	LOADER_CHECK(ibv_poll_cq(made, 1, &wc) == 1);
	LOADER_CHECK(wc.wr_id == 7 && wc.status == IBV_WC_WR_FLUSH_ERR);
	ibv_ack_cq_events(cq, 1);
}

int main(void)
{
	struct ibv_context *context = device_open();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .channel = channel, .cq_context = &pd };
	struct mlx5dv_cq_init_attr direct = { 0 };
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	LOADER_CHECK(pd != NULL && channel != NULL);
	cq = mlx5dv_create_cq(context, &attr, &direct);
	LOADER_CHECK(cq != NULL);
	LOADER_CHECK(ibv_cq_ex_to_cq(cq)->channel == channel);
	qp = qp_make(pd, ibv_cq_ex_to_cq(cq));
	channel_is_empty(channel);
	event_arrives(ibv_cq_ex_to_cq(cq), qp, &pd);
	LOADER_CHECK(!ibv_destroy_qp(qp));
	LOADER_CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	LOADER_CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	LOADER_CHECK(!ibv_destroy_comp_channel(channel));
	LOADER_CHECK(!ibv_dealloc_pd(pd));
	LOADER_CHECK(!ibv_close_device(context));
	return 0;
}
