/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts: devices the engine serves, tables by handle and QPN, and the verbs taken over. */
#include <dlfcn.h>
#include <stdlib.h>

#include "providers/ledger/cq.h"
#include "providers/ledger/ledger.h"
#include "providers/ledger/send.h"
#include "providers/ledger/recv.h"
#include "providers/ledger/srq.h"

struct sp_dev *led_devs[LED_MAX_FD];
_Atomic(struct sp_qp *) *led_qps[LED_MAX_FD];
_Atomic(struct sp_cq *) *led_cqs[LED_MAX_FD];

/*
 * True for RoCE and InfiniBand. iWARP connects by its connection manager only, and has no
 * datagrams; others have no RC.
 */
bool led_serves(struct ibv_device *device)
{
	return device->transport_type == IBV_TRANSPORT_IB && device->node_type == IBV_NODE_CA;
}

bool led_probe(struct ibv_context *ctx, const char **why_not)
{
	if (led_serves(ctx->device))
		return true;
	*why_not = ctx->device->transport_type == IBV_TRANSPORT_IWARP
			   ? "iWARP: its queue pairs are connected by rdma_cm only"
			   : "it is not a NIC with reliable connections (RoCE or InfiniBand)";
	return false;
}

/* Also sets the pointers that the data path reads. */
static int tables_map(struct sp_dev *dev)
{
	int err = sp_tables_map(&dev->tables, LED_MAX_HANDLE);

	dev->qps = dev->tables.qps.slots;
	dev->cqs = dev->tables.cqs.slots;
	dev->srqs = dev->tables.srqs.slots;
	dev->carriers = dev->tables.carriers.slots;
	return err;
}

/* A provider is known by the library that its verbs are in: libmlx5.so.1, libirdma-rdmav34.so. */
static bool provider_is(const struct ibv_context *ctx, const char *const *who, size_t n)
{
	const char *name;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)ctx->ops.poll_cq, &info) || !info.dli_fname)
		return false;
	name = strrchr(info.dli_fname, '/');
	name = name ? name + 1 : info.dli_fname;
	for (size_t i = 0; i < n; i++)
		if (!strncmp(name, who[i], strlen(who[i])))
			return true;
	return false;
}

/*
 * True if the driver raises the event when a QP has taken its last receive of a shared queue (Linux
 * 6.1).
 */
static bool tells_last(const struct ibv_context *ctx)
{
	static const char *const who[] = { "libmlx5", "libmlx4",   "libbnxt_re",
					   "libhns",  "libocrdma", "libvmw_pvrdma" };

	return provider_is(ctx, who, sizeof(who) / sizeof(who[0]));
}

/*
 * True if a request that cannot be made a packet of ends with IBV_WC_LOC_QP_OP_ERR (rxe, Linux
 * 6.1). Then so does one whose interface is down or whose peer has no route, and one with a local
 * key that names no memory.
 */
static bool down_is_op(const struct ibv_context *ctx)
{
	static const char *const who[] = { "librxe" };

	return provider_is(ctx, who, sizeof(who) / sizeof(who[0]));
}

/*
 * True if ibv_wr_* may be forwarded. rxe's library (rdma-core 44) has faults there: the ledger
 * keeps what is built, and posts a list.
 */
static bool forwards_wr(const struct ibv_context *ctx)
{
	static const char *const not_by[] = { "librxe" };

	return !provider_is(ctx, not_by, sizeof(not_by) / sizeof(not_by[0]));
}

static void install(struct sp_dev *dev)
{
	struct ibv_context_ops *ops = &dev->ctx->ops;

	led_devs[dev->ctx->cmd_fd] = dev;
	led_qps[dev->ctx->cmd_fd] = dev->qps;
	led_cqs[dev->ctx->cmd_fd] = dev->cqs;
	ops->post_send = led_post_send;
	ops->post_recv = led_post_recv;
	ops->poll_cq = led_poll_cq;
	ops->req_notify_cq = led_req_notify;
	ops->post_srq_recv = led_post_srq_recv;
	if (ops->bind_mw)
		ops->bind_mw = led_bind_mw;
	dev->installed = true;
}

int led_dev_init(struct ibv_context *ctx, bool do_install, const struct sp_callbacks *cb,
		 struct sp_dev **out)
{
	struct sp_dev *dev;

	if (do_install && (ctx->cmd_fd < 0 || ctx->cmd_fd >= LED_MAX_FD))
		return -EMFILE;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	dev->engine = &shift_provider_ledger;
	dev->ctx = ctx;
	dev->cb = cb;
	if (tables_map(dev)) {
		led_dev_uninit(dev);
		return -ENOMEM;
	}
	dev->saved = ctx->ops;
	dev->tells_last = tells_last(ctx);
	dev->down_is_op = down_is_op(ctx);
	dev->forwards_wr = forwards_wr(ctx);
	if (do_install)
		install(dev);
	*out = dev;
	return 0;
}

void led_dev_uninit(struct sp_dev *dev)
{
	if (dev->installed) {
		dev->ctx->ops = dev->saved;
		led_devs[dev->ctx->cmd_fd] = NULL;
		led_qps[dev->ctx->cmd_fd] = NULL;
		led_cqs[dev->ctx->cmd_fd] = NULL;
	}
	sp_tables_unmap(&dev->tables);
	free(dev);
}
