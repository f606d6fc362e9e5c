/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The distribution's functions: found by handle, as RTLD_NEXT depends on who loaded whom. */
#ifndef LIBIBVERBS_REAL_H
#define LIBIBVERBS_REAL_H

#include "shiftlib/shift.h"

/* Private functions of libibverbs, without the node that changes with each release. */
struct real_private {
	struct ibv_context *(*open_device)(struct ibv_device *device, void *private_data);
	void *create_cq, *create_cq_ex, *create_cq_ex2;
	void *create_qp, *create_qp_ex, *create_qp_ex2;
	void *create_srq, *create_srq_ex, *create_wq;
	void *resize_cq;
	void *query_mr, *reg_dm_mr, *reg_dmabuf_mr, *reg_mr_ex;
	void *execute_ioctl;
};

/*
 * Resolves at the first call, from any thread. Ends the process with a message if the installed
 * library is not usable.
 */
const struct shift_real *real_verbs(void);
const struct real_private *real_private(void);

/* Reports creation calls of the installed library that this one does not know. Once, after
 * shift_init(). */
void real_note_unknown(void);

#endif
