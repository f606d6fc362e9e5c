/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts: tables by handle and QPN, and the verbs taken over. */
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/bf.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/dev.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/mlx5.h"
#include "providers/mlx5/post.h"
#include "providers/mlx5/srq.h"

struct sp_dev *ring_devs[RING_MAX_FD];
_Atomic(struct sp_qp *) *ring_qps[RING_MAX_FD];
_Atomic(struct sp_cq *) *ring_cqs[RING_MAX_FD];

bool ring_probe(struct ibv_context *ctx, const char **why_not)
{
	if (!ring_serves(ctx->device)) {
		*why_not = "not a device of the libmlx5 that serves this process";
		return false;
	}
	if (!ring_init_obj_there()) {
		*why_not = "its libmlx5 is older than rdma-core 14: no mlx5dv_init_obj";
		return false;
	}
	if (getenv("MLX5_QP_SIGNATURE") || getenv("MLX5_SRQ_SIGNATURE")) {
		*why_not = "MLX5_QP_SIGNATURE or MLX5_SRQ_SIGNATURE is set: signed WQEs are not "
			   "supported";
		return false;
	}
	return true;
}

static bool env_flag(const char *name, bool unset)
{
	const char *value = getenv(name);

	return value ? strcmp(value, "0") != 0 : unset;
}

/* Also sets the pointers that the data path reads. */
static int tables_map(struct sp_dev *dev)
{
	int err = sp_tables_map(&dev->tables, RING_MAX_HANDLE);

	dev->qps = dev->tables.qps.slots;
	dev->cqs = dev->tables.cqs.slots;
	dev->srqs = dev->tables.srqs.slots;
	dev->carriers = dev->tables.carriers.slots;
	return err;
}

static bool atomics_supported(struct ibv_context *ctx)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_device_ex);
	struct ibv_device_attr_ex attr = { 0 };

	/* the provider's own: the exported call may be the drop-in's */
	if (!vctx || vctx->query_device_ex(ctx, NULL, &attr, sizeof(attr)))
		return true; /* atomics that cannot run then fail on the NIC */
	return attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
}

static void install(struct sp_dev *dev)
{
	struct ibv_context_ops *ops = &dev->ctx->ops;

	dev->saved = *ops;
	ring_devs[dev->ctx->cmd_fd] = dev;
	ring_qps[dev->ctx->cmd_fd] = dev->qps;
	ring_cqs[dev->ctx->cmd_fd] = dev->cqs;
	ops->post_send = ring_post_send;
	ops->post_recv = ring_post_recv;
	ops->poll_cq = ring_poll_cq;
	ops->req_notify_cq = ring_req_notify;
	ops->post_srq_recv = ring_post_srq_recv;
	if (ops->bind_mw)
		ops->bind_mw = ring_bind_mw;
	dev->installed = true;
}

int ring_dev_init(struct ibv_context *ctx, bool do_install, const struct sp_callbacks *cb,
		  struct sp_dev **out)
{
	struct sp_dev *dev;

	if (do_install && (ctx->cmd_fd < 0 || ctx->cmd_fd >= RING_MAX_FD))
		return -EMFILE;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	dev->engine = &shift_provider_mlx5;
	dev->ctx = ctx;
	dev->cb = cb;
	if (tables_map(dev)) {
		ring_dev_uninit(dev);
		return -ENOMEM;
	}
	dev->shut_up_bf = env_flag("MLX5_SHUT_UP_BF", false);
	dev->prefer_bf = env_flag("MLX5_POST_SEND_PREFER_BF", true);
	dev->atomics = atomics_supported(ctx);
	dev->saved = ctx->ops;
	if (do_install)
		install(dev);
	*out = dev;
	return 0;
}

void ring_dev_uninit(struct sp_dev *dev)
{
	struct ring_bf *bf;

	if (dev->installed) {
		dev->ctx->ops = dev->saved;
		ring_devs[dev->ctx->cmd_fd] = NULL;
		ring_qps[dev->ctx->cmd_fd] = NULL;
		ring_cqs[dev->ctx->cmd_fd] = NULL;
	}
	while ((bf = dev->bfs)) {
		dev->bfs = bf->next;
		free(bf);
	}
	sp_tables_unmap(&dev->tables);
	free(dev);
}
