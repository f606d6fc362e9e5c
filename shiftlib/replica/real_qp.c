/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Real QPs of SHIFT's own, on their way to where they send. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/real_qp.h"
#include "shiftlib/replica/srq.h"
#include "shiftlib/shift.h"

#define REAL_QP_PORT 1

int sh_real_qp_to_rts(struct ibv_qp *real, const struct ibv_qp_attr *app, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = app->timeout,
		.retry_cnt = app->retry_cnt,
		.rnr_retry = app->rnr_retry,
		.sq_psn = psn,
		.max_rd_atomic = app->max_rd_atomic,
	};

	return sh.real->modify_qp(real, &attr,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					  IBV_QP_MAX_QP_RD_ATOMIC);
}

int sh_real_qp_loop_back(struct ibv_qp *real, const struct sh_address *own,
			 const struct ibv_qp_attr *limits)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = REAL_QP_PORT,
				    .pkey_index = own->pkey_index,
				    .qp_access_flags = limits->qp_access_flags };
	int ret;

	ret = sh.real->modify_qp(
		real, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (ret)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = (enum ibv_mtu)own->mtu,
				     .dest_qp_num = real->qp_num,
				     .rq_psn = limits->sq_psn,
				     .max_dest_rd_atomic = limits->max_dest_rd_atomic,
				     .min_rnr_timer = 1,
				     .ah_attr = { .port_num = REAL_QP_PORT, .dlid = own->lid } };
	if (own->link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, own->gid, sizeof(own->gid));
		attr.ah_attr.grh.sgid_index = own->gid_index;
		attr.ah_attr.grh.hop_limit = 1;
	}
	ret = sh.real->modify_qp(real, &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER);
	return ret ? ret : sh_real_qp_to_rts(real, limits, limits->sq_psn);
}

bool sh_looped_make(struct sh_looped *looped, struct ibv_pd *pd, size_t bytes, uint32_t depth,
		    const struct sh_address *own, const struct ibv_qp_attr *limits)
{
	struct ibv_qp_init_attr init = { .qp_context = (void *)(uintptr_t)&sh_reclaim_mark,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = depth, .max_send_sge = 1 } };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	/* whole pages: what is registered must not be shared with a forked child's heap */
	if (posix_memalign(&looped->memory, page, (bytes + page - 1) / page * page))
		return false;
	memset(looped->memory, 0, bytes);
	looped->mr = sh.real->reg_mr(pd, looped->memory, bytes,
				     IBV_ACCESS_LOCAL_WRITE | (int)limits->qp_access_flags);
	shift_async_real_begin(pd->context);
	looped->cq = sh.real->create_cq(pd->context, (int)depth, NULL, NULL, 0);
	init.send_cq = init.recv_cq = looped->cq;
	if (looped->mr && looped->cq)
		looped->qp = sh.real->create_qp(pd, &init);
	shift_async_real_end(pd->context);
	return looped->qp && !sh_real_qp_loop_back(looped->qp, own, limits);
}

void sh_looped_destroy(const struct sh_looped *looped)
{
	if (looped->qp)
		sh.real->destroy_qp(looped->qp);
	if (looped->mr)
		sh.real->dereg_mr(looped->mr);
	if (looped->cq)
		sh.real->destroy_cq(looped->cq);
	if (looped->pd)
		sh.real->dealloc_pd(looped->pd);
	free(looped->memory);
}
