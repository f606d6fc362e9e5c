/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the engine asks of libmlx5 when it looks for it, as of rdma-core's release RELEASE. Every
 * device is this library's; the builders of a QP are wherever the test has put them.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED bool mlx5dv_is_supported(struct ibv_device *device)
{
	return device;
}

EXPORTED int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	return ENOTSUP;
}

EXPORTED struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
	return (struct mlx5dv_qp_ex *)qp;
}

#if RELEASE >= 36
EXPORTED int _mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *info, size_t size)
{
	return ENOTSUP;
}
#endif

#if RELEASE >= 37
EXPORTED int mlx5dv_crypto_login(struct ibv_context *context, struct mlx5dv_crypto_login_attr *attr)
{
	return ENOTSUP;
}
#endif
