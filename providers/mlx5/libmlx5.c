/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The installed libmlx5: what the engine asks of it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "providers/mlx5/libmlx5.h"

typedef int (*init_obj_fn)(struct mlx5dv_obj *, uint64_t);
static _Atomic(init_obj_fn) init_obj;
typedef bool (*is_supported_fn)(struct ibv_device *device);
static _Atomic(is_supported_fn) is_supported;

/*
 * Finds the function. Not linked: the drop-in must not force libmlx5 on a process without such a
 * device.
 */
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

bool ring_init_obj_there(void)
{
	return find_init_obj();
}

/* udev may have given the device any name, such as rocep17s0. */
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

/* Finds the verb as the program would find it. */
ring_reg_dmabuf_fn ring_reg_dmabuf(void)
{
	static _Atomic(ring_reg_dmabuf_fn) found;
	ring_reg_dmabuf_fn fn = atomic_load(&found);
	void *lib;

	if (fn)
		return fn;
	fn = (ring_reg_dmabuf_fn)dlsym(RTLD_DEFAULT, "mlx5dv_reg_dmabuf_mr");
	lib = fn ? NULL : dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (lib) {
		fn = (ring_reg_dmabuf_fn)dlsym(lib, "mlx5dv_reg_dmabuf_mr");
		dlclose(lib);
	}
	atomic_store(&found, fn);
	return fn;
}

/* A QP whose library is too old to ask has none of them. */
bool ring_direct_builders(struct ibv_qp_ex *qp)
{
	struct mlx5dv_qp_ex *(*from)(struct ibv_qp_ex *), *direct;
	void *lib = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!lib)
		return false;
	*(void **)&from = dlsym(lib, "mlx5dv_qp_ex_from_ibv_qp_ex");
	direct = from ? from(qp) : NULL;
	dlclose(lib);
	return direct && (direct->wr_set_dc_addr || direct->wr_mr_interleaved ||
			  direct->wr_mr_list || direct->wr_mkey_configure || direct->wr_raw_wqe ||
			  direct->wr_set_dc_addr_stream || direct->wr_memcpy);
}

/* -- address handles --------------------------------------------------------------------------- */

/* The place of the address vector inside libmlx5's ibv_ah: the same for all of them. */
static _Atomic ptrdiff_t av_offset = PTRDIFF_MIN;

static RING_NOINLINE ptrdiff_t find_av_offset(struct ibv_ah *ah)
{
	struct mlx5dv_ah dv = { 0 };
	struct mlx5dv_obj obj = { .ah = { .in = ah, .out = &dv } };
	ptrdiff_t offset;

	if (ring_init_obj(&obj, MLX5DV_OBJ_AH))
		abort(); /* libmlx5 has answered for the QP that this is posted to */
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
