/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The libmlx5 that the NICs of this process are served by: found among the loaded objects, by
 * asking each one about a device. A Python wheel brings its own, under another file name.
 */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "providers/mlx5/libmlx5.h"

#define LIBS_MAX 8 /* loaded objects that may be a libmlx5: the library, and those that use it */

typedef int (*init_obj_fn)(struct mlx5dv_obj *, uint64_t);
typedef bool (*is_supported_fn)(struct ibv_device *device);
typedef struct mlx5dv_qp_ex *(*qp_ex_fn)(struct ibv_qp_ex *qp);

/* A libmlx5. Never freed, as its handle keeps the library loaded. */
struct ring_lib {
	void *handle;
	is_supported_fn is_supported;
	init_obj_fn init_obj; /* NULL: the library is too old */
	ring_reg_dmabuf_fn reg_dmabuf;
	qp_ex_fn qp_ex;
	/* struct mlx5dv_qp_ex has grown: an older library has something else behind its own end */
	bool has_mkey_builders;	  /* rdma-core 36: up to wr_raw_wqe */
	bool has_stream_builders; /* rdma-core 37: up to wr_set_mkey_crypto */
};

/* The first library that a NIC was found to belong to. Devices of another one are not served. */
static _Atomic(const struct ring_lib *) chosen;
static _Atomic(init_obj_fn) init_obj_override;

/* ---- the search ------------------------------------------------------------------------------ */

struct lib_names {
	unsigned long long adds; /* objects loaded so far */
	unsigned long long vain; /* with so many loaded nothing is to be found; 0: not known */
	unsigned int n;
	char *name[LIBS_MAX];
};

static int name_note(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct lib_names *names = arg;
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	names->adds = info->dlpi_adds;
	if (names->adds == names->vain)
		return 1;
	if (base && strstr(base, "mlx5") && names->n < LIBS_MAX) {
		names->name[names->n] = strdup(info->dlpi_name);
		names->n += names->name[names->n] != NULL;
	}
	return 0;
}

/* Returns the library of that name if it claims the device. It is loaded already. */
static const struct ring_lib *lib_claiming(const char *name, struct ibv_device *device)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	struct ring_lib *lib = handle ? calloc(1, sizeof(*lib)) : NULL;

	if (lib)
		*lib = (struct ring_lib){
			.handle = handle,
			.is_supported = (is_supported_fn)dlsym(handle, "mlx5dv_is_supported"),
			/* 1.2 fills struct mlx5dv_qp and mlx5dv_cq as this header has them */
			.init_obj = (init_obj_fn)dlvsym(handle, "mlx5dv_init_obj", "MLX5_1.2"),
			.reg_dmabuf = (ring_reg_dmabuf_fn)dlsym(handle, "mlx5dv_reg_dmabuf_mr"),
			.qp_ex = (qp_ex_fn)dlsym(handle, "mlx5dv_qp_ex_from_ibv_qp_ex"),
			/* functions of the same releases */
			.has_mkey_builders = dlvsym(handle, "_mlx5dv_mkey_check", "MLX5_1.20"),
			.has_stream_builders = dlvsym(handle, "mlx5dv_crypto_login", "MLX5_1.21"),
		};
	if (lib && lib->is_supported && lib->is_supported(device))
		return lib;
	free(lib);
	if (handle)
		dlclose(handle);
	return NULL;
}

/* Not called within dl_iterate_phdr(), whose lock dlopen() takes behind its own. */
static const struct ring_lib *lib_search(struct lib_names *names, struct ibv_device *device)
{
	const struct ring_lib *lib = NULL;
	unsigned int i;

	for (i = 0; i < names->n; i++) {
		if (!lib)
			lib = lib_claiming(names->name[i], device);
		free(names->name[i]);
	}
	return lib;
}

/* Chooses the device's library. Searches again only when something was loaded meanwhile. */
static const struct ring_lib *lib_choose(struct ibv_device *device)
{
	static _Atomic unsigned long long in_vain;     /* objects loaded by the last search */
	static const struct ibv_device *_Atomic asked; /* the device of that search */
	struct lib_names names = { 0 };
	const struct ring_lib *lib, *nobody = NULL;

	if (atomic_load(&asked) == device)
		names.vain = atomic_load(&in_vain);
	dl_iterate_phdr(name_note, &names);
	lib = lib_search(&names, device);
	if (!lib) {
		atomic_store(&asked, device);
		atomic_store(&in_vain, names.adds);
		return NULL;
	}
	/* Two threads may have searched. What the later one has found is the same, and stays. */
	return atomic_compare_exchange_strong(&chosen, &nobody, lib) ? lib : nobody;
}

/*
 * True if the device belongs to the libmlx5 of this process. udev may have given the device any
 * name, such as rocep17s0. A device comes from a library that is loaded, so none is loaded here.
 */
bool ring_serves(struct ibv_device *device)
{
	const struct ring_lib *lib = atomic_load(&chosen);

	if (!lib)
		lib = lib_choose(device);
	return lib && lib->is_supported(device);
}

/* ---- its functions --------------------------------------------------------------------------- */

void ring_init_obj_override(int (*fn)(struct mlx5dv_obj *, uint64_t))
{
	atomic_store(&init_obj_override, fn);
}

static init_obj_fn find_init_obj(void)
{
	const struct ring_lib *lib = atomic_load(&chosen);
	init_obj_fn fn = atomic_load(&init_obj_override);

	return fn || !lib ? fn : lib->init_obj;
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

/* Where the library has no such verb, the program's own counts, if it has one. */
ring_reg_dmabuf_fn ring_reg_dmabuf(void)
{
	const struct ring_lib *lib = atomic_load(&chosen);

	if (lib && lib->reg_dmabuf)
		return lib->reg_dmabuf;
	return (ring_reg_dmabuf_fn)dlsym(RTLD_DEFAULT, "mlx5dv_reg_dmabuf_mr");
}

/* A QP whose library is too old to ask has none of them. */
bool ring_direct_builders(struct ibv_qp_ex *qp)
{
	const struct ring_lib *lib = atomic_load(&chosen);
	struct mlx5dv_qp_ex *direct = lib && lib->qp_ex ? lib->qp_ex(qp) : NULL;

	if (!direct)
		return false;
	if (direct->wr_set_dc_addr || direct->wr_mr_interleaved || direct->wr_mr_list)
		return true;
	if (lib->has_mkey_builders && (direct->wr_mkey_configure || direct->wr_raw_wqe))
		return true;
	return lib->has_stream_builders && (direct->wr_set_dc_addr_stream || direct->wr_memcpy);
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
