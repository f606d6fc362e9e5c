// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A lane is one thread with one CQ and the QPs on it. Three kinds of waiting: polling with naps,
 * a blocking ibv_get_cq_event, and poll() on a non-blocking channel.
 */
#include "complete.h"
#include "lane.h"
#include "qp.h"
#include "report.h"
#include "request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define POLL_BATCH     8
#define POLL_ROUNDS    4
#define SPIN_POLLS     64
#define NAP_US	       50
#define ACK_BATCH      16
#define WAIT_MS	       1000
#define MEMORY_WAIT_MS 1
#define EVENT_GRACE_MS 5000

static unsigned int poll_plain(struct lane *l)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(l->cq, POLL_BATCH, wc);

	if (n < 0)
		verify_fail(NULL, FAIL_VERB_FAILED, "ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++) {
		struct completion c = { .wr_id = wc[i].wr_id,
					.qp_num = wc[i].qp_num,
					.byte_len = wc[i].byte_len,
					.imm = ntohl(wc[i].imm_data),
					.vendor_err = wc[i].vendor_err,
					.flags = wc[i].wc_flags,
					.opcode = wc[i].opcode,
					.status = wc[i].status };

		complete_one(l, &c);
	}
	return (unsigned int)n;
}

static void read_extended(struct lane *l)
{
	struct completion c = { .wr_id = l->cqx->wr_id,
				.status = l->cqx->status,
				.qp_num = ibv_wc_read_qp_num(l->cqx) };

	if (c.status == IBV_WC_SUCCESS) {
		c.opcode = ibv_wc_read_opcode(l->cqx);
		c.flags = ibv_wc_read_wc_flags(l->cqx);
		c.byte_len = ibv_wc_read_byte_len(l->cqx);
		if (c.flags & IBV_WC_WITH_IMM)
			c.imm = ntohl(ibv_wc_read_imm_data(l->cqx));
	} else {
		c.vendor_err = ibv_wc_read_vendor_err(l->cqx);
	}
	complete_one(l, &c);
}

static unsigned int poll_extended(struct lane *l)
{
	struct ibv_poll_cq_attr attr = { 0 };
	unsigned int n = 0;
	int rc = ibv_start_poll(l->cqx, &attr);

	if (rc == ENOENT)
		return 0;
	while (!rc) {
		read_extended(l);
		if (++n == POLL_BATCH)
			break;
		rc = ibv_next_poll(l->cqx);
	}
	ibv_end_poll(l->cqx);
	if (rc && rc != ENOENT)
		verify_fail(NULL, FAIL_VERB_FAILED, "ibv_start_poll or ibv_next_poll: %s",
			    strerror(rc));
	return n;
}

/* Bounded: a peer that floods us must not keep us from posting. */
bool lane_poll(struct lane *l)
{
	bool any = false;
	unsigned int n, rounds = 0;

	do {
		n = l->extended ? poll_extended(l) : poll_plain(l);
		any |= n != 0;
	} while (n == POLL_BATCH && ++rounds < POLL_ROUNDS);
	return any;
}

static void lane_arm(struct lane *l)
{
	int rc = ibv_req_notify_cq(l->cq, 0);

	if (rc)
		verify_fail(NULL, FAIL_VERB_FAILED, "ibv_req_notify_cq: %s", strerror(rc));
}

/* True if an event was taken; false if the channel was non-blocking and empty. */
static bool lane_take_event(struct lane *l)
{
	struct ibv_cq *cq = NULL;
	void *ctx = NULL;

	if (ibv_get_cq_event(l->channel, &cq, &ctx)) {
		if (errno == EAGAIN && l->kind == LANE_NONBLOCKING)
			return false;
		verify_fail(NULL, FAIL_VERB_FAILED, "ibv_get_cq_event: %s", strerror(errno));
	}
	if (cq != l->cq || ctx != l)
		verify_fail(NULL, FAIL_UNEXPECTED_EVENT, "event for CQ %p, should be %p",
			    (void *)cq, (void *)l->cq);
	l->events++;
	if (++l->unacked == ACK_BATCH) {
		ibv_ack_cq_events(l->cq, l->unacked);
		l->unacked = 0;
	}
	return true;
}

static bool lane_polls_memory(const struct lane *l)
{
	for (int i = 0; i < l->nqps; i++)
		if (l->qps[i]->ops->polls_memory)
			return true;
	return false;
}

/* Something must be able to wake the lane: a signaled request, or the peer. */
static bool lane_may_sleep(const struct lane *l)
{
	bool ours = false;

	for (int i = 0; i < l->nqps; i++) {
		const struct vqp *q = l->qps[i];

		if (q->sq.signaled || (q->failed && !vqp_done(q)))
			return true;
		ours |= !q->failed && !q->last_sent &&
			(q->initiator || q->last_seen || vqp_shall_end(q));
	}
	return !ours;
}

/* The armed CQ held completions, yet no event came within the grace time. */
static void lane_check_lost_event(struct lane *l)
{
	struct pollfd pfd = { .fd = l->channel->fd, .events = POLLIN };

	if (lane_poll(l) && poll(&pfd, 1, EVENT_GRACE_MS) == 0)
		verify_fail(NULL, FAIL_LOST_EVENT, "lane %d: completions but no event", l->index);
}

static void lane_wait_nonblocking(struct lane *l)
{
	struct pollfd pfd = { .fd = l->channel->fd, .events = POLLIN };
	bool memory = lane_polls_memory(l);
	int n = poll(&pfd, 1, memory ? MEMORY_WAIT_MS : WAIT_MS);

	if (n < 0 && errno != EINTR)
		verify_fail(NULL, FAIL_VERB_FAILED, "poll: %s", strerror(errno));
	if (n > 0) {
		while (lane_take_event(l))
			;
		lane_arm(l);
	} else if (!memory) {
		lane_check_lost_event(l);
	}
}

static void lane_nap(struct lane *l)
{
	if (++l->idle_polls > SPIN_POLLS)
		usleep(NAP_US);
	else
		sched_yield();
}

static void lane_wait(struct lane *l)
{
	if (l->kind == LANE_POLLED || !lane_may_sleep(l)) {
		lane_nap(l);
		return;
	}
	if (l->kind == LANE_NONBLOCKING) {
		lane_wait_nonblocking(l);
		return;
	}
	lane_take_event(l);
	lane_arm(l);
}

static bool lane_step(struct lane *l)
{
	bool moved = false;

	for (int i = 0; i < l->nqps; i++)
		if (!l->qps[i]->failed)
			moved |= l->qps[i]->ops->step(l->qps[i]);
	return moved;
}

static bool lane_finished(const struct lane *l)
{
	for (int i = 0; i < l->nqps; i++)
		if (!vqp_done(l->qps[i]))
			return false;
	return true;
}

void *lane_run(void *arg)
{
	struct lane *l = arg;

	if (l->kind != LANE_POLLED)
		lane_arm(l);
	while (!lane_finished(l)) {
		bool moved;

		atomic_store(&l->where, "polling");
		moved = lane_poll(l);
		atomic_store(&l->where, "posting");
		moved |= lane_step(l);
		if (!moved && !lane_finished(l)) {
			atomic_store(&l->where, "waiting");
			lane_wait(l);
			continue;
		}
		l->idle_polls = 0;
		atomic_fetch_add(&l->progress, 1);
	}
	if (l->unacked)
		ibv_ack_cq_events(l->cq, l->unacked);
	l->unacked = 0;
	atomic_store(&l->done, true);
	return NULL;
}
