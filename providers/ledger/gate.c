/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gate: sends run when the shell lets them pass, one by one. */
#include "providers/ledger/cq.h"
#include "providers/ledger/move.h"
#include "providers/ledger/send.h"

int led_qp_gate(struct sp_qp *qp, bool on)
{
	int err = 0;

	led_qp_lock(qp);
	if (on) {
		qp->tx_mode |= LED_GATE;
	} else {
		qp->tx_mode &= ~LED_GATE;
		err = led_go(qp);
	}
	led_qp_unlock(qp);
	return err > 0 ? -EAGAIN : err;
}

/*
 * Lets atomics run, or holds them. Whether there were any is not recorded: that would cost each
 * post.
 */
int led_qp_atomics(struct sp_qp *qp, bool may, bool *used)
{
	int err = 0;

	*used = true;
	led_qp_lock(qp);
	if (may) {
		qp->tx_mode &= ~LED_HOME;
		err = led_go(qp);
	} else {
		qp->tx_mode |= LED_HOME;
	}
	led_qp_unlock(qp);
	return err > 0 ? -EAGAIN : err;
}

uint32_t led_qp_gated(struct sp_qp *qp, struct sp_read *reads, uint32_t max)
{
	uint32_t n, count = 0;

	led_qp_lock(qp);
	for (n = led_pub(qp); count < max && n != qp->sq.head; n++, count++) {
		const struct ibv_send_wr *wr = &led_slot(qp, n)->wr;

		reads[count] = (struct sp_read){ 0 };
		if (wr->opcode == IBV_WR_RDMA_READ)
			reads[count] =
				(struct sp_read){ wr->wr.rdma.remote_addr, wr->wr.rdma.rkey };
	}
	led_qp_unlock(qp);
	return count;
}

int led_qp_pass(struct sp_qp *qp, uint32_t n)
{
	int err = -EAGAIN;
	uint32_t before;

	led_qp_lock(qp);
	before = led_pub(qp);
	if (!(qp->tx_mode & (LED_HOLD | LED_FENCE)))
		err = led_go_some(qp, n);
	n = led_pub(qp) - before;
	led_qp_unlock(qp);
	if (n)
		return (int)n;
	return err > 0 ? -EAGAIN : err;
}
