// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Preloaded before a program that asks for 7 retries and offers no other number: with rxe, 7 is for ever, and a
 * connection whose packets are lost hangs where it ends with an error on a NIC. Here 7 becomes 6.
 * librdmacm's own calls come through here too.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define FOR_EVER 7
#define AS_LONG	 6

__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
							 struct ibv_qp_attr *attr, int attr_mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_qp_attr ours = *attr;

	*(void **)&modify = dlsym(RTLD_NEXT, "ibv_modify_qp"); /* SHIFT's, or the installed one's */
	if (!modify) {
		fprintf(stderr, "retry: no libibverbs behind this library\n");
		abort();
	}
	if ((attr_mask & IBV_QP_RETRY_CNT) && ours.retry_cnt == FOR_EVER)
		ours.retry_cnt = AS_LONG;
	return modify(qp, &ours, attr_mask);
}
