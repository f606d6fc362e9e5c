/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Contexts: lookup tables, doorbell registers, and the engine's face to the shell. */
#include <assert.h>
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "providers/mlx5/mlx5.h"
#include "providers/mlx5/srq.h"

#define LOCK_YIELDS 16
#define LOCK_NAP_NS 50000

struct sp_dev *ring_devs[RING_MAX_FD];
_Atomic(struct sp_qp *) *ring_qps[RING_MAX_FD];
_Atomic(struct sp_cq *) *ring_cqs[RING_MAX_FD];

/* -- libmlx5 ---------------------------------------------------------------------------------- */

typedef int (*init_obj_fn)(struct mlx5dv_obj *, uint64_t);
static _Atomic(init_obj_fn) init_obj;
typedef bool (*is_supported_fn)(struct ibv_device *device);
static _Atomic(is_supported_fn) is_supported;

/* Not linked: the drop-in must not force libmlx5 on a process without such a device. */
static init_obj_fn find_init_obj(void)
{
	init_obj_fn fn = atomic_load(&init_obj);
	void *lib;

	if (fn)
		return fn;
	lib = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		return NULL;
	/* 1.2 fills struct mlx5dv_qp and mlx5dv_cq as this header has them */
	fn = (init_obj_fn)dlvsym(lib, "mlx5dv_init_obj", "MLX5_1.2");
	atomic_store(&init_obj, fn);
	return fn;
}

void ring_init_obj_override(int (*fn)(struct mlx5dv_obj *, uint64_t))
{
	atomic_store(&init_obj, fn);
}

int ring_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	init_obj_fn fn = find_init_obj();

	if (!fn)
		return -ENOENT;
	return -fn(obj, type);
}

/* -- address handles -------------------------------------------------------------------------- */

/* Where libmlx5 keeps the address vector inside its ibv_ah: the same for all of them. */
static _Atomic ptrdiff_t av_offset = PTRDIFF_MIN;

static RING_NOINLINE ptrdiff_t find_av_offset(struct ibv_ah *ah)
{
	struct mlx5dv_ah dv = { 0 };
	struct mlx5dv_obj obj = { .ah = { .in = ah, .out = &dv } };
	ptrdiff_t offset;

	if (ring_init_obj(&obj, MLX5DV_OBJ_AH))
		abort(); /* it has answered for the QP that this is posted to */
	offset = (char *)dv.av - (char *)ah;
	atomic_store(&av_offset, offset);
	return offset;
}

const struct mlx5_wqe_av *ring_ah_av(struct ibv_ah *ah)
{
	ptrdiff_t offset = atomic_load_explicit(&av_offset, memory_order_relaxed);

	if (ring_unlikely(offset == PTRDIFF_MIN))
		offset = find_av_offset(ah);
	return (const struct mlx5_wqe_av *)((char *)ah + offset);
}

/* -- locks ------------------------------------------------------------------------------------ */

/*
 * Held for memory operations only, so a few rounds do; then let the holder run. One that does not get
 * the lock by yielding may keep the holder from its core by its own priority, and sleeps.
 */
RING_NOINLINE void ring_lock_wait(struct ring_lock *lock)
{
	const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };

	for (uint32_t round = 0;; round++) {
		for (int i = 0; i < 64; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    ring_trylock(lock))
				return;
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
		if (round < LOCK_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

/* -- doorbell registers ----------------------------------------------------------------------- */

static struct ring_bf *bf_find(struct sp_dev *dev, const void *reg)
{
	struct ring_bf *bf = dev->bfs;

	while (bf && bf->reg != reg)
		bf = bf->next;
	return bf;
}

static struct ring_bf *bf_make(struct sp_dev *dev, void *reg, uint32_t size)
{
	struct ring_bf *bf = calloc(1, sizeof(*bf));

	if (!bf)
		return NULL;
	bf->reg = reg;
	bf->size = size;
	bf->prefer = dev->prefer_bf;
	atomic_init(&bf->bf_ds, dev->shut_up_bf ? 0 : size / 16);
	bf->next = dev->bfs;
	dev->bfs = bf;
	return bf;
}

struct ring_bf *ring_bf_get(struct sp_dev *dev, const struct mlx5dv_qp *dv)
{
	struct ring_bf *bf;

	ring_lock(&dev->lock);
	bf = bf_find(dev, dv->bf.reg);
	if (!bf)
		bf = bf_make(dev, dv->bf.reg, dv->bf.size);
	if (bf)
		bf->refs++;
	ring_unlock(&dev->lock);
	return bf;
}

/* The register's state outlives its QPs: the next QP there goes on with the other half, as libmlx5
 * does. */
void ring_bf_put(struct sp_dev *dev, struct ring_bf *bf)
{
	ring_lock(&dev->lock);
	bf->refs--;
	ring_unlock(&dev->lock);
}

void ring_bf_share(struct sp_dev *dev, void *reg, uint32_t size)
{
	struct ring_bf *bf;

	ring_lock(&dev->lock);
	bf = bf_find(dev, reg);
	if (!bf)
		bf = bf_make(dev, reg, size);
	if (bf)
		atomic_store(&bf->bf_ds, 0);
	ring_unlock(&dev->lock);
}

/* A QP that libmlx5 posts: from now on no WQE is copied to the register it shares with ours. */
void ring_qp_foreign(struct sp_dev *dev, struct ibv_qp *qp)
{
	struct mlx5dv_qp dv = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = qp, .out = &dv } };

	if (!ring_init_obj(&obj, MLX5DV_OBJ_QP) && dv.bf.reg)
		ring_bf_share(dev, dv.bf.reg, dv.bf.size);
}

/* -- contexts --------------------------------------------------------------------------------- */

/* udev may have given it any name, such as rocep17s0. */
bool ring_serves(struct ibv_device *device)
{
	is_supported_fn fn = atomic_load(&is_supported);
	void *lib = fn ? NULL : dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (lib) {
		fn = (is_supported_fn)dlsym(lib, "mlx5dv_is_supported");
		atomic_store(&is_supported, fn);
	}
	return fn && fn(device);
}

bool ring_probe(struct ibv_context *ctx, const char **why_not)
{
	if (!find_init_obj()) {
		*why_not = "libmlx5.so.1 with mlx5dv_init_obj was not found";
		return false;
	}
	if (!ring_serves(ctx->device)) {
		*why_not = "not an mlx5 device";
		return false;
	}
	if (getenv("MLX5_QP_SIGNATURE")) {
		*why_not = "MLX5_QP_SIGNATURE is set: signed WQEs are not supported";
		return false;
	}
	return true;
}

static bool env_flag(const char *name, bool unset)
{
	const char *value = getenv(name);

	return value ? strcmp(value, "0") != 0 : unset;
}

static void *table_map(size_t entries)
{
	void *table = mmap(NULL, entries * sizeof(void *), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return table == MAP_FAILED ? NULL : table;
}

static void table_unmap(void *table, size_t entries)
{
	if (table)
		munmap(table, entries * sizeof(void *));
}

static bool atomics_supported(struct ibv_context *ctx)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_device_ex);
	struct ibv_device_attr_ex attr = { 0 };

	/* the provider's own: the exported call may be the drop-in's */
	if (!vctx || vctx->query_device_ex(ctx, NULL, &attr, sizeof(attr)))
		return true; /* what cannot run then fails on the NIC */
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
	dev->qps = table_map(RING_MAX_HANDLE);
	dev->cqs = table_map(RING_MAX_HANDLE);
	dev->srqs = table_map(RING_MAX_HANDLE);
	dev->carriers = table_map(RING_MAX_QPN);
	if (!dev->qps || !dev->cqs || !dev->srqs || !dev->carriers) {
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
	table_unmap(dev->carriers, RING_MAX_QPN);
	table_unmap(dev->srqs, RING_MAX_HANDLE);
	table_unmap(dev->cqs, RING_MAX_HANDLE);
	table_unmap(dev->qps, RING_MAX_HANDLE);
	free(dev);
}

/* As the shell finds it. */
#define ENGINE_AT(type)                                                                            \
	static_assert(offsetof(struct type, engine) == SP_ENGINE_AT, "where engine.h looks")
ENGINE_AT(sp_dev);
ENGINE_AT(sp_cq);
ENGINE_AT(sp_cq_ring);
ENGINE_AT(sp_qp);
ENGINE_AT(sp_carrier);
ENGINE_AT(sp_srq);
ENGINE_AT(sp_srq_ring);

/* -- the engine ------------------------------------------------------------------------------- */

const struct shift_provider shift_provider_mlx5 = {
	.name = "mlx5",
	.serves = ring_serves,
	.probe = ring_probe,
	.dev_init = ring_dev_init,
	.dev_uninit = ring_dev_uninit,
	.keys_changed = ring_keys_changed,
	.cq.drive = ring_cq_drive,
	.cq.undrive = ring_cq_undrive,
	.cq.ring_add = ring_cq_ring_add,
	.cq.ring_del = ring_cq_ring_del,
	.cq.own_ring = ring_cq_own_ring,
	.cq.event_read = ring_cq_event_read,
	.cq.collect = ring_cq_collect,
	.cq.resize_reserve = ring_cq_resize_reserve,
	.cq.resize_begin = ring_cq_resize_begin,
	.cq.resize_end = ring_cq_resize_end,
	.cq.foreign_add = ring_cq_foreign_add,
	.cq.foreign_del = ring_cq_foreign_del,
	.srq.drive = ring_srq_drive,
	.srq.undrive = ring_srq_undrive,
	.srq.ring_add = ring_srq_ring_add,
	.srq.ring_del = ring_srq_ring_del,
	.srq.own = ring_srq_own,
	.srq.look = ring_srq_look,
	.srq.recover = ring_srq_recover,
	.srq.feed = ring_srq_feed,
	.srq.hand_back = ring_srq_hand_back,
	.srq.limit = ring_srq_limit,
	.srq.share = ring_srq_share,
	.reclaim.make = ring_reclaim_make,
	.reclaim.free = ring_reclaim_free,
	.reclaim.ask = ring_reclaim_ask,
	.reclaim.collect = ring_reclaim_collect,
	.qp.drive = ring_qp_drive,
	.qp.foreign = ring_qp_foreign,
	.qp.reason = ring_qp_reason,
	.qp.undrive = ring_qp_undrive,
	.qp.modified = ring_qp_modified,
	.qp.recv_count = ring_qp_recv_count,
	.qp.send_counts = ring_qp_send_counts,
	.qp.sending = ring_qp_sending,
	.qp.guard = ring_qp_guard,
	.carrier.add = ring_carrier_add,
	.carrier.del = ring_carrier_del,
	.move.last_receive = ring_qp_last_receive,
	.move.withhold = ring_qp_withhold,
	.move.fence = ring_qp_fence,
	.move.fenced = ring_qp_fenced,
	.qp.progressed = ring_qp_progressed,
	.move.resume = ring_qp_resume,
	.move.flushed = ring_qp_flushed,
	.move.seal = ring_qp_seal,
	.move.lay_receives = ring_qp_lay_receives,
	.move.outstanding = ring_qp_outstanding,
	.move.settle = ring_qp_settle,
	.move.publish = ring_qp_publish,
	.qp.gate = ring_qp_gate,
	.qp.gated = ring_qp_gated,
	.qp.pass = ring_qp_pass,
	.move.fail_all = ring_qp_fail,
	.cq.error_waiting = ring_cq_error_waiting,
};
