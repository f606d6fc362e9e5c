/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The private functions through which every provider makes QPs, CQs, SRQs and WQs in the kernel,
 * whoever asked for it: an exported verb, struct verbs_context, or a direct-verbs call such as
 * mlx5dv_create_qp(), which no exported verb sees. These functions pass fds to the kernel: the
 * real fds of the context's asynchronous events and of a CQ's channel must be there, not those of
 * the facades.
 *
 * Memory goes through them, too: regions of verbs that are not hooked (ibv_reg_dm_mr is inline,
 * ibv_reg_mr_ex newer than the hooks), of direct-verbs calls (mlx5dv_reg_dmabuf_mr), or of a
 * provider's own commands (mlx5dv_devx_obj_create). Such objects are freed by verbs that are
 * hooked, or by such commands.
 *
 * Their prototypes are not installed and differ between releases of rdma-core. The part that is
 * used here is stable: the first argument (a context or a PD), up to 10 arguments of integer or
 * pointer type, an int returned; for memory, also the arguments that private.c names. Arguments
 * pass through unchanged, also those that the function does not have (SysV ABI of x86-64, AAPCS64,
 * ELFv2).
 */
#ifndef LIBIBVERBS_PRIVATE_H
#define LIBIBVERBS_PRIVATE_H

#include <infiniband/verbs.h>

typedef unsigned long word;

#define WORDS_DECLARE                                                                              \
	word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9
#define WORDS_PASS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9

int ibv_cmd_create_cq(WORDS_DECLARE);
int ibv_cmd_create_cq_ex(WORDS_DECLARE);
int ibv_cmd_create_cq_ex2(WORDS_DECLARE);
int ibv_cmd_create_qp(WORDS_DECLARE);
int ibv_cmd_create_qp_ex(WORDS_DECLARE);
int ibv_cmd_create_qp_ex2(WORDS_DECLARE);
int ibv_cmd_create_srq(WORDS_DECLARE);
int ibv_cmd_create_srq_ex(WORDS_DECLARE);
int ibv_cmd_create_wq(WORDS_DECLARE);
int ibv_cmd_resize_cq(WORDS_DECLARE);
int ibv_cmd_query_mr(WORDS_DECLARE);
int ibv_cmd_reg_dm_mr(WORDS_DECLARE);
int ibv_cmd_reg_dmabuf_mr(WORDS_DECLARE);
int ibv_cmd_reg_mr_ex(WORDS_DECLARE);
int execute_ioctl(WORDS_DECLARE);

struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

#endif
