/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/device/invalidate.h"

#include "simnic/device/dev.h"
#include "simnic/device/mr.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/fabric/check.h"

/* A window of type 2 is ended by the queue pair that bound it; a region of verbs never is. */
bool sn_key_may_end(const struct sn_qp *qp, uint32_t key)
{
	const struct sn_mr *mr = sn_mr_of_index(qp->dev, key);

	if (!mr || mr->key != key || mr->pdn != qp->attr.pdn)
		return false;
	switch (mr->kind) {
	case SN_MR_WINDOW_2: return mr->length && mr->qpn == qp->qpn;
	case SN_MR_INDIRECT:
	case SN_MR_PAGED: return mr->remote_end && !mr->free;
	case SN_MR_REGION:
	case SN_MR_WINDOW_1: break;
	}
	return false;
}

void sn_key_end(struct sn_qp *qp, uint32_t key)
{
	struct sn_mr *mr = sn_mr_of_index(qp->dev, key);

	SN_ASSERT(mr && mr->key == key);
	sn_posted_push(qp->dev); /* what was written by the key lands before */
	if (mr->kind == SN_MR_WINDOW_2) {
		mr->access = 0;
		mr->length = 0;
		mr->qpn = 0;
	} else {
		mr->free = true;
	}
}
