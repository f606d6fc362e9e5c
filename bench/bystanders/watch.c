// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completions: waiting for them, by polling or by completion events, and telling them. */
#include "bystanders.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, TURN_MS = 1, NAP_MS = 20 };

static struct end *end_of(const struct queue *q, uint32_t qpn)
{
	for (int i = 0; i < ENDS; i++)
		if (ends[i] && ends[i]->qp && ends[i]->own.qpn == qpn && ends[i]->ctx == q->ctx)
			return ends[i];
	return NULL;
}

static void see(struct seen *seen, const char *prefix, uint32_t n, int status)
{
	seen->len += (size_t)snprintf(seen->text + seen->len, LOG - seen->len, " %s%u:%d", prefix,
				      n, status);
}

static void send_completed(struct end *e, const struct ibv_wc *wc)
{
	uint32_t seq = (uint32_t)wc->wr_id;
	char what[2] = { e->request[seq % SLOTS].what, 0 };

	if (seq < e->done || seq >= e->posted)
		wrong("unit %u side %u: completion %u, of %u to %u", e->unit, e->side, seq, e->done,
		      e->posted);
	if (wc->status) {
		e->dead = true;
	} else {
		for (uint32_t i = e->done; i <= seq && i < e->posted; i++)
			payload_came_back(e, i);
	}
	e->done = seq + 1;
	e->sends.n++;
	see(&e->sends, what, seq, wc->status);
}

static void recv_completed(struct end *e, const struct ibv_wc *wc)
{
	struct receives *r = end_receives(e);
	uint64_t slot = wc->wr_id & ~RECEIVE;

	must(slot < SLOTS && r->n_free < SLOTS, "a receive that was posted");
	e->recvs.n++;
	if (wc->status) {
		e->dead = true;
		see(&e->recvs, "x", 0, wc->status);
	} else {
		payload_arrived(e, wc, r->mem + (size_t)slot * SLOT);
	}
	r->free[r->n_free++] = (int)slot;
	if (e->srq < 0 && e->receives_out)
		e->receives_out--;
}

static void completed(struct queue *q, const struct ibv_wc *wc)
{
	struct end *e = end_of(q, wc->qp_num);

	if (!e) {
		wrong("a completion of queue pair 0x%x, which is not there", wc->qp_num);
		return;
	}
	if (wc->wr_id & RECEIVE)
		recv_completed(e, wc);
	else
		send_completed(e, wc);
}

static bool queue_poll(struct queue *q)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int n;

	while ((n = ibv_poll_cq(q->cq, BATCH, wc)) > 0) {
		any = true;
		for (int i = 0; i < n; i++)
			completed(q, &wc[i]);
	}
	if (n < 0)
		wrong("ibv_poll_cq() answers %d", n);
	return any;
}

static void channel_events(struct channel *c)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(c->channel, &cq, &context)) {
		struct queue *q = context;

		ibv_ack_cq_events(cq, 1);
		must(q >= queues && q < queues + CQS, "a completion queue's context");
		if (q->cq != cq)
			odd("the event of cq%td names another queue", q - queues);
		q->rung = true;
	}
}

/* Queues with a channel are polled only when they are armed, or when their event came. */
static bool queue_turn(struct queue *q)
{
	if (q->channel < 0)
		return queue_poll(q);
	if (q->armed && !q->rung)
		return false;
	q->rung = false;
	q->armed = !ibv_req_notify_cq(q->cq, q->solicited);
	return queue_poll(q);
}

static void turn(void)
{
	struct pollfd fds[CHANNELS];
	nfds_t n = 0;
	bool polled = false, any = false;

	for (int i = 0; i < CHANNELS; i++)
		if (channels[i].channel)
			channel_events(&channels[i]);
	for (int i = 0; i < CQS; i++) {
		if (!queues[i].cq)
			continue;
		polled |= queues[i].channel < 0;
		any |= queue_turn(&queues[i]);
	}
	for (int i = 0; i < CHANNELS; i++)
		if (channels[i].channel)
			fds[n++] =
				(struct pollfd){ .fd = channels[i].channel->fd, .events = POLLIN };
	if (!any)
		poll(fds, n, polled ? TURN_MS : NAP_MS);
}

/* ---- what is waited for --------------------------------------------------------------------- */

static bool end_is_settled(const struct end *e)
{
	if (e->dead)
		return e->done == e->posted && (e->srq >= 0 || !e->receives_out);
	for (uint32_t i = e->done; i < e->posted; i++)
		if (e->request[i % SLOTS].signaled)
			return false;
	return true;
}

/*
 * True if a target is reached: ID:SENDS:RECEIVES, numbers of completions since the last "seen";
 * "x": all that must come; "-": any.
 */
static bool is_reached(const char *target)
{
	int id;
	char sends[16], recvs[16];
	struct end *e;

	must(sscanf(target, "%d:%15[^:]:%15s", &id, sends, recvs) == 3, "a target");
	e = ends[id];
	must(e, "an end that is there");
	if (*sends == 'x' && !end_is_settled(e))
		return false;
	if (*sends != 'x' && *sends != '-' && e->sends.n < (unsigned int)atoi(sends))
		return false;
	return *recvs == '-' || e->recvs.n >= (unsigned int)atoi(recvs);
}

/* watch MS TARGET...: a target is reached once and for all */
void watch(char **word)
{
	double end = now_s() + number(word[0]) / 1e3;
	bool late;

	do {
		late = now_s() > end;
		turn();
		while (word[1] && is_reached(word[1]))
			word++;
	} while (word[1] && !late);
	if (word[1])
		reply("= late %s", word[1]);
	else
		reply("= reached");
}

static void tell_one(int id, const char *what, struct seen *seen)
{
	if (seen->len)
		reply("%s %d%s", what, id, seen->text);
	seen->len = seen->n = 0;
	seen->text[0] = 0;
}

/* seen: what each end saw since it was asked last */
void tell_seen(char **word)
{
	(void)word;
	turn();
	for (int i = 0; i < ENDS; i++) {
		if (!ends[i])
			continue;
		tell_one(i, "sends", &ends[i]->sends);
		tell_one(i, "recvs", &ends[i]->recvs);
	}
	reply("=");
}
