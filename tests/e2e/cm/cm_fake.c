/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The unit tests' librdmacm as a library, by the names and the version that programs know. */
#include "tests/unit/cm/fake_rdmacm.h"

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return fake_real.get_cm_event(channel, event);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return fake_real.ack_cm_event(event);
}

/* As the real one: then the kernel would speak to its peer, over a path that is dead. */
int rdma_disconnect(struct rdma_cm_id *id)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(id->qp, &error, IBV_QP_STATE) ? -1 : fake_real.disconnect(id);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return fake_real.destroy_id(id);
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return fake_real.migrate_id(id, channel);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	return fake_real.create_id(channel, id, context, (int)ps);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	return fake_real.resolve_addr(id, src, dst, ms);
}
