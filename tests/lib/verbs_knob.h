/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What one RDMA provider does and another does not. */
#ifndef TESTS_LIB_VERBS_KNOB_H
#define TESTS_LIB_VERBS_KNOB_H

#include <stdint.h>

/*
 * In what providers differ: any set of these is a device. Said of rdma-core's providers (or the
 * kernel's driver where it says so), by function.
 */
enum vf_knob {
	/* post_send to a QP in ERR fails. mana: mana_ib_post_send (state is not RTS), ocrdma:
	 * ocrdma_post_send. Both make flush CQEs out of their own queue, so what is acknowledged,
	 * unsignaled and behind the last completion is flushed too if the QP was brought to ERR
	 * by a modify (mana_qp_move_flush_err; ocrdma_update_err_scqe goes on from sq.tail).
	 * Others take the request and flush it. */
	VF_REFUSES_IN_ERR = 1 << 0,
	/* Acknowledged requests behind the last completion that was polled are reported as flushed,
	 * and the first of them with the cause. bnxt_re: bnxt_re_poll_err_scqe,
	 * bnxt_re_poll_flush_wcs (both from last_idx); irdma up to generation 2:
	 * irdma_uk_cq_poll_cmpl (from sq_ring.tail, the CQE is parked). */
	VF_ACKED_FLUSHED = 1 << 1,
	/* A receive posted in ERR is taken and leaves no CQE. rxe: rxe_post_recv rings no doorbell,
	 * and the kernel's flush_recv_queue had its turn at the modify. */
	VF_NO_LATE_RECV_FLUSH = 1 << 2,
	/* Takes more than the returned max_send_wr and max_recv_wr. rxe: rxe_post_one_recv,
	 * check_qp_queue_full look at a ring of a power of two. Taking it up is the caller's fault. */
	VF_TAKES_MORE = 1 << 3,
	/* Flushes only while ibv_qp.state says ERR. irdma: irdma_upost_send and irdma_upost_recv
	 * (reflush); hns: hns_roce_u_v2_post_send, hns_roce_u_v2_post_recv ask for it then. */
	VF_FLUSH_BY_STATE = 1 << 4,
	/* No IBV_EVENT_QP_LAST_WQE_REACHED. Of Linux 6.1 irdma, qedr and rxe raise
	 * none (rxe does in later ones: flush_recv_queue). */
	VF_NO_LAST_WQE = 1 << 5,
	/* Neither ibv_cq_ex nor ibv_wr_*: ocrdma, vmw_pvrdma; qedr has qelr_create_qp_ex, but no
	 * builders. */
	VF_PLAIN_ONLY = 1 << 6,
	/* Flush CQEs are made by polls of their CQ. bnxt_re: bnxt_re_poll_flush_lists; mana:
	 * mana_flush_completions_in_err; ionic: ionic_flush_send_many. Others' NICs write them at the modify. */
	VF_FLUSH_IN_POLL = 1 << 7,
	/* Flush CQEs come late: the kernel makes them in a worker (irdma, Linux: irdma_flush_worker,
	 * hns: flush_work_handle, rxe: rxe_requester's task). Here: after some polls or vf_tick. */
	VF_FLUSH_LATE = 1 << 8,
	/* post_recv to a QP in ERR fails. ocrdma: ocrdma_post_recv. */
	VF_REFUSES_RECV_IN_ERR = 1 << 9,
	VF_KNOBS = 10,
	/* Not in the sets of knobs, as it says which driver it is. A request that no packet can be made of
	 * ends with IBV_WC_LOC_QP_OP_ERR: where the link is down as where its local key is wrong. rxe, Linux
	 * 6.1: rxe_requester, by init_req_packet (the GID's interface is not up), by finish_packet (no route;
	 * no region of that key). It raises no IBV_EVENT_QP_LAST_WQE_REACHED. */
	VF_DOWN_IS_OP = 1 << 10,
};

/* Of one knob; NULL: there is none of that number. */
const char *vf_knob_name(uint32_t number);

#endif
