/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The builders of ibv_wr_*. */
#ifndef LED_WR_H
#define LED_WR_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

/* clang-format off: a list, one name a line */
#define LED_WR_FUNCS(X)                                                                            \
	X(wr_start)                                                                                \
	X(wr_complete)                                                                             \
	X(wr_abort)                                                                                \
	X(wr_send)                                                                                 \
	X(wr_send_imm)                                                                             \
	X(wr_send_inv)                                                                             \
	X(wr_send_tso)                                                                             \
	X(wr_rdma_write)                                                                           \
	X(wr_rdma_write_imm)                                                                       \
	X(wr_rdma_read)                                                                            \
	X(wr_atomic_cmp_swp)                                                                       \
	X(wr_atomic_fetch_add)                                                                     \
	X(wr_bind_mw)                                                                              \
	X(wr_local_inv)                                                                            \
	X(wr_set_sge)                                                                              \
	X(wr_set_sge_list)                                                                         \
	X(wr_set_inline_data)                                                                      \
	X(wr_set_inline_data_list)
/* clang-format on */

/*
 * Two sets of builders. Both have the same wr_start, which installs the set that the state of the
 * queue asks for: the others are called between it and wr_complete only, under sq_lock.
 */
/* go to the provider's own, and are logged: forward.c */
extern const struct ibv_qp_ex led_wr_forwarded;
extern const struct ibv_qp_ex led_wr_kept; /* write into the ledger, which posts them: wr.c */

LED_INLINE struct sp_qp *led_qp_of_ex(const struct ibv_qp_ex *ex)
{
	const struct ibv_qp *qp = &ex->qp_base;

	return atomic_load_explicit(&led_qps[qp->context->cmd_fd][qp->handle],
				    memory_order_relaxed);
}

void led_wr_start(struct ibv_qp_ex *ex);
void led_wr_install(struct sp_qp *qp);
void led_wr_restore(struct sp_qp *qp);

#pragma GCC visibility pop

#endif
