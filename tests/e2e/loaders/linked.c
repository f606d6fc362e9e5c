/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Linked with -libverbs, as perftest and UCX are. */
#include "tests/e2e/loaders/script.h"

#undef ibv_reg_mr

int main(void)
{
	const struct loader_verbs verbs = {
		.get_device_list = ibv_get_device_list,
		.free_device_list = ibv_free_device_list,
		.open_device = ibv_open_device,
		.close_device = ibv_close_device,
		.alloc_pd = ibv_alloc_pd,
		.dealloc_pd = ibv_dealloc_pd,
		.reg_mr = ibv_reg_mr,
		.reg_mr_iova2 = ibv_reg_mr_iova2,
		.dereg_mr = ibv_dereg_mr,
		.create_comp_channel = ibv_create_comp_channel,
		.destroy_comp_channel = ibv_destroy_comp_channel,
		.create_cq = ibv_create_cq,
		.destroy_cq = ibv_destroy_cq,
		.create_qp = ibv_create_qp,
		.modify_qp = ibv_modify_qp,
		.query_qp = ibv_query_qp,
		.destroy_qp = ibv_destroy_qp,
	};

	return loader_script(&verbs);
}
