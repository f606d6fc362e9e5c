/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The core's actions, what is told to the peer, and what is heard from it. */
#include "sdr/shell/mac.h"
#include "sdr/shell/rel.h"

#include <string.h>

/* the shortest pause of a program; shorter ones are a busy machine's */
#define PAUSE_NS 10000000ull

static uint32_t us(uint64_t ns)
{
	uint32_t t = (uint32_t)(ns / 1000);

	return t ? t : 1;
}

/*
 * Returns the time now, not the round's: a program that lost its processor within a round would
 * give round trips that are shorter than the link's.
 */
static uint32_t now_us(void)
{
	return us(sdr_clock_ns());
}

/* The head tells what is known here, and the peer's clock back, without what it waited here. */
static void fill_head(struct sdr_qp *qp, struct sdr_ctrl_head *h)
{
	h->connection = qp->peer_connection;
	h->sequence = ++qp->sequence;
	h->sent_us = now_us();
	h->echo_us = qp->peer_sent_us ? qp->peer_sent_us + (h->sent_us - qp->peer_at_us) : 0;
	h->cts_seen = qp->core.cts_known;
	h->ends_seen = (uint32_t)qp->core.ends_known;
	sdr_rails_head(qp, h);
}

size_t sdr_ctrl_room(const struct sdr_qp *qp)
{
	return (qp->packet < SDR_CTRL_MAX ? qp->packet : SDR_CTRL_MAX) - sdr_mac_size(qp);
}

/* -EAGAIN: no room, as good as lost: all that matters is repeated. */
int sdr_say_ctrl(struct sdr_qp *qp, struct sdr_ctrl *c)
{
	void *room = NULL;
	struct sdr_control *control = sdr_rails_control(qp, &room);
	int n;

	if (!control)
		return -EAGAIN;
	fill_head(qp, &c->head);
	n = sdr_ctrl_write(c, room, sdr_ctrl_room(qp));
	if (n < 0)
		return n;
	qp->counts.datagrams_sent++;
	if (sdr_control_send(control, sdr_mac_put(qp, room, (size_t)n)))
		qp->rails.ways[sdr_rail_way(qp, (uint32_t)(control - qp->rails.controls))].fault =
			"a datagram cannot be posted";
	return 0;
}

void sdr_say_twice(struct sdr_qp *qp, struct sdr_ctrl *c)
{
	sdr_say_ctrl(qp, c);
	sdr_say_ctrl(qp, c);
}

/* Small packets take fewer entries. */
static void say_cts(struct sdr_qp *qp, const struct sdr_action *a)
{
	static _Thread_local struct sdr_ctrl c;
	uint32_t keys = qp->n_ways, size = SDR_CTRL_CTS_SIZE + 4 * keys;
	uint32_t most = (uint32_t)(sdr_ctrl_room(qp) - SDR_CTRL_HEAD - 16) / size;
	uint32_t left = a->count;

	for (uint64_t n = a->n; left; left -= c.count, n += c.count) {
		memset(&c.head, 0, sizeof(c.head));
		c.head.type = SDR_CTRL_CTS;
		c.n = n;
		c.count = left < most ? left : most;
		c.keys = keys;
		for (uint32_t i = 0; i < c.count; i++)
			sdr_core_cts(&qp->core, n + i, &c.cts[i]);
		sdr_say_ctrl(qp, &c);
	}
}

static void say_end(struct sdr_qp *qp, const struct sdr_action *a)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c.head, 0, sizeof(c.head));
	c.head.type = SDR_CTRL_END;
	c.n = a->n;
	c.count = a->count;
	sdr_say_ctrl(qp, &c);
}

static void say_known(struct sdr_qp *qp)
{
	static _Thread_local struct sdr_ctrl c;

	memset(&c.head, 0, sizeof(c.head));
	c.head.type = SDR_CTRL_KNOWN;
	sdr_say_ctrl(qp, &c);
}

static void bind(struct sdr_qp *qp, const struct sdr_action *a)
{
	struct sdr_slot *slot = sdr_core_recv(&qp->core, a->n);
	uint32_t i = (uint32_t)(a->n & (qp->attr.max_msgs - 1));
	int err = qp->backing.ops->bind(&qp->backing, i, atomic_load(&slot->generation),
					qp->recvs[i].mr->mrs, a->addr, a->length);

	if (err)
		qp->error = err;
}

static void unbind(struct sdr_qp *qp, const struct sdr_action *a)
{
	int err = qp->backing.ops->unbind(&qp->backing, (uint32_t)(a->n & (qp->attr.max_msgs - 1)));

	if (err)
		qp->error = err;
}

void sdr_actions_do(struct sdr_qp *qp, const struct sdr_actions *actions)
{
	for (uint32_t i = 0; i < actions->n; i++) {
		const struct sdr_action *a = &actions->list[i];

		switch (a->type) {
		case SDR_ACTION_BIND: bind(qp, a); break;
		case SDR_ACTION_UNBIND: unbind(qp, a); break;
		case SDR_ACTION_SEND_CTS: say_cts(qp, a); break;
		case SDR_ACTION_SEND_END: say_end(qp, a); break;
		case SDR_ACTION_RECV_DONE: sdr_recv_done(qp, a->n); break;
		case SDR_ACTION_SEND_ALLOWED: sdr_send_allowed(qp, a); break;
		case SDR_ACTION_SEND_GONE: sdr_send_gone(qp, a); break;
		case SDR_ACTION_SEND_KNOWN: say_known(qp); break;
		}
	}
}

/*
 * True if a datagram waited here for a round that came late: it says how long that was, and neither
 * end may take it for the link's time; unless nothing else comes, as with a program that naps
 * whenever there is nothing: its round trips are as long. The question of a sender that finds its
 * rate is about less.
 */
static bool is_stale(struct sdr_qp *qp, const struct sdr_ctrl_head *h)
{
	bool asks = h->flags & SDR_CTRL_ASKS;
	bool late = sdr_pause_is(&qp->rounds.pause, asks ? sdr_share_late_ns(qp) : PAUSE_NS);

	if (!late)
		qp->rounds.skipped = 0;
	return late && qp->rounds.skipped++ < SDR_DATAGRAMS * qp->attr.channels;
}

/* Takes the times of a head. How long a question took to the other end was seen there. */
static void learn_clock(struct sdr_qp *qp, const struct sdr_ctrl_head *h)
{
	uint32_t now = now_us(), rtt = now - h->echo_us;
	bool stale = is_stale(qp, h);

	qp->peer_sent_us = stale ? 0 : h->sent_us;
	qp->peer_at_us = now;
	if (!h->echo_us || rtt >= 60u * 1000 * 1000) {
		sdr_share_alive(qp);
		return;
	}
	if (!stale)
		sdr_estimate_rtt(&qp->estimate, (uint64_t)(rtt ? rtt : 1) * 1000);
	sdr_share_heard(qp, (uint64_t)(rtt ? rtt : 1) * 1000, h->sent_us - h->echo_us);
}

static void hear_cts(struct sdr_qp *qp, const struct sdr_ctrl *c)
{
	struct sdr_event e = { .type = SDR_EVENT_CTS };

	for (uint32_t i = 0; i < c->count; i++) {
		e.n = c->n + i;
		e.cts = c->cts[i];
		for (uint32_t k = 0; k < c->keys; k++)
			if (!sdr_join_takes_keys(&qp->rails.ways[k].join, c->head.life[k]))
				e.cts.rkeys[k] = 0;
		sdr_qp_step(qp, &e);
	}
	qp->urgent = true;
}

void sdr_heard(void *arg, const void *datagram, size_t length)
{
	static _Thread_local struct sdr_ctrl c;
	struct sdr_event e = { .type = SDR_EVENT_HEARD };
	struct sdr_qp *qp = arg;

	if (!sdr_mac_check(qp, datagram, &length)) {
		if (!qp->why[0]) /* a Write will tell of its deadline alone */
			sdr_why(qp, "a datagram is not signed by this end's mac_key: is the other "
				    "end's the same?");
		qp->counts.datagrams_bad++;
		return;
	}
	if (sdr_ctrl_read(&c, datagram, length) || c.head.connection != qp->connection ||
	    !qp->connected) {
		qp->counts.datagrams_bad++;
		return;
	}
	if (c.head.type == SDR_CTRL_CTS && c.keys != qp->n_ways) {
		qp->counts.datagrams_bad++;
		return;
	}
	qp->counts.datagrams_received++;
	sdr_rails_hear(qp, &c.head);
	learn_clock(qp, &c.head);
	e.n = c.head.cts_seen;
	e.count = c.head.ends_seen;
	sdr_qp_step(qp, &e);
	switch (c.head.type) {
	case SDR_CTRL_CTS: hear_cts(qp, &c); break;
	case SDR_CTRL_END:
		e = (struct sdr_event){ .type = SDR_EVENT_PEER_END, .n = c.n, .count = c.count };
		sdr_qp_step(qp, &e);
		break;
	case SDR_CTRL_ACK:
	case SDR_CTRL_PROBE:
	case SDR_CTRL_DONE:
	case SDR_CTRL_OFFER:
		if (qp->rel)
			sdr_rel_hear(qp->rel, &c);
		break;
	case SDR_CTRL_KNOWN: break;
	case SDR_CTRL_JOIN: sdr_rejoin_hear(qp, &c.join); break;
	}
}
