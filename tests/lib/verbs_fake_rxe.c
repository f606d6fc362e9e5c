/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One verb, in a library that is named as the provider of soft-RoCE. */
#include "tests/lib/verbs_fake_priv.h"

#pragma GCC visibility push(default)

int (*vf_rxe_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

int vf_rxe_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return vf_rxe_poll(cq, n, wc);
}

#pragma GCC visibility pop
