/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log: behind each n-th request that changes the peer's memory, a hidden WRITE of one word
 * there, which says how many ran (shiftlib/core/settle.h). A log WQE is unsignaled, takes no slot,
 * and completes with an error only. Its wr_id is one more than the address of the slot of the
 * request before it.
 */
#ifndef LED_LOG_H
#define LED_LOG_H

#include "providers/ledger/qp.h"

#pragma GCC visibility push(hidden)

/* The memory that a log WQE in the making refers to. */
struct led_log_data {
	uint64_t word;
	struct ibv_sge sge;
};

LED_INLINE bool led_log_is(const struct sp_qp *qp, uint64_t wr_id)
{
	uint64_t at = wr_id - (uintptr_t)qp->sq.slots;

	return at < qp->sq.bytes && at % sizeof(union led_send) == 1;
}

/*
 * Counts a request of that kind, bound for a logged carrier. True: a log WQE is due behind it.
 * sq_lock held.
 */
LED_INLINE bool led_log_due(struct sp_carrier *c, enum sp_request_kind kind)
{
	if (kind != SP_REQ_WRITE && kind != SP_REQ_ATOMIC)
		return false;
	if (++c->log.since < c->log.at.every)
		return false;
	c->log.since = 0;
	return true;
}

void led_log_put(struct sp_carrier *c, uint32_t n, struct ibv_send_wr *wr,
		 struct led_log_data *data);
void led_log_missed(struct sp_carrier *c);
uint32_t led_log_behind(const struct sp_qp *qp, uint64_t wr_id);
const char *led_qp_log(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log);
int32_t led_qp_logged(struct sp_qp *qp, uint32_t number);

#pragma GCC visibility pop

#endif
