/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <endian.h>

#include "providers/ledger/log.h"

/*
 * Makes the log WQE behind request n. The word is inline: the provider has it when the post
 * returns. sq_lock held.
 */
void led_log_put(struct sp_carrier *c, uint32_t n, struct ibv_send_wr *wr,
		 struct led_log_data *data)
{
	data->word = htole64(sp_log_word(c->log.at.tag, n + 1));
	data->sge =
		(struct ibv_sge){ .addr = (uintptr_t)&data->word, .length = sizeof(data->word) };
	memset(wr, 0, offsetof(struct ibv_send_wr, qp_type));
	wr->wr_id = (uintptr_t)led_slot(c->qp, n) + 1;
	wr->sg_list = &data->sge;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->send_flags = IBV_SEND_INLINE;
	wr->wr.rdma.remote_addr = c->log.at.addr;
	wr->wr.rdma.rkey = c->log.at.rkey;
}

/* A batch did not go to the provider as a whole: nobody counted what did. */
void led_log_missed(struct sp_carrier *c)
{
	c->log.since = c->log.at.every;
}

/*
 * Returns the number of the request behind the log WQE. The request before the log WQE may be
 * complete and its slot free: then it seems further from the tail than a queue is long, and nothing
 * lies before it. The send CQ's lock is held.
 */
uint32_t led_log_behind(const struct sp_qp *qp, uint64_t wr_id)
{
	uint32_t slot = (uint32_t)((wr_id - (uintptr_t)qp->sq.slots) / sizeof(union led_send));
	uint32_t tail = led_tail(qp), from_tail = (slot - tail) & qp->sq.mask;

	return from_tail < qp->sq.max_post ? tail + from_tail + 1 : tail;
}

static const char *why_not_logged(const struct sp_qp *qp)
{
	if (qp->plain || !qp->sq.max_post)
		return "it sends nothing that could be logged";
	if (qp->sq.sig_all)
		return "each of its requests is signaled (sq_sig_all)";
	if (qp->sq.max_inline < sizeof(uint64_t))
		return "its NIC has no room for inline data";
	return NULL;
}

const char *led_qp_log(struct sp_qp *qp, uint32_t epoch, const struct sp_log *log)
{
	const char *why = why_not_logged(qp);
	struct sp_carrier *c;

	if (why || !log)
		return why;
	led_qp_lock(qp);
	c = sp_carrier_at(qp, epoch);
	if (c && !c->left) {
		c->log = (struct led_log){ .on = true, .at = *log };
		if (c == qp->tx)
			qp->tx_mode |= LED_LOG;
	}
	led_qp_unlock(qp);
	return NULL;
}

int32_t led_qp_logged(struct sp_qp *qp, uint32_t number)
{
	int32_t ran;

	led_qp_lock(qp);
	ran = (int32_t)(number - led_tail(qp));
	led_qp_unlock(qp);
	return ran;
}
