/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends: packets of what was told, at the rate that was told, and END behind the last. */
#include "sdr/shell/rel.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_NS	1e18
#define CATCH_UP_NS	1000000ull
#define CATCH_UP_MAX_NS 64000000ull

static struct sdr_send_req *req_of(struct sdr_qp *qp, uint64_t n)
{
	return &qp->sends[n & (qp->attr.max_msgs - 1)];
}

/* ---- the line -------------------------------------------------------------------------------- */

double sdr_rate_share(const struct sdr_qp *qp)
{
	bool is_found = qp->attr.rate_bps == SDR_RATE_AUTO; /* also of NICs that are left */

	return (double)sdr_rate_of(qp) * (is_found ? 1 : sdr_rails_share(qp));
}

static uint64_t time_of(const struct sdr_qp *qp, uint64_t bytes)
{
	double bps = sdr_rate_share(qp);
	double ns = bps > 0 ? (double)bytes * 8e9 / bps : 0;

	return ns < LONGEST_NS ? (uint64_t)ns : (uint64_t)LONGEST_NS;
}

/*
 * Returns how long a sender may have waited for its processor and still catch up. The link was idle
 * for as long: packets that then leave at once fill a queue of at most a quarter of what is under
 * way in a round trip (the least that was seen). Routers of long links have such queues.
 */
static uint64_t catch_up_of(const struct sdr_qp *qp)
{
	uint64_t part = qp->estimate.min_ns / 4;

	if (qp->attr.burst)
		return time_of(qp, qp->attr.burst);
	if (part < CATCH_UP_NS)
		return CATCH_UP_NS;
	return part < CATCH_UP_MAX_NS ? part : CATCH_UP_MAX_NS;
}

uint32_t sdr_pace(struct sdr_qp *qp, uint32_t max)
{
	uint64_t catch_up = catch_up_of(qp);

	if (!qp->attr.rate_bps)
		return max;
	if (qp->share.pace_at + catch_up < qp->now)
		qp->share.pace_at = qp->now - catch_up;
	return qp->share.pace_at > qp->now ? 0 : sdr_share_burst(qp, max);
}

static void charge(struct sdr_qp *qp, uint64_t bytes)
{
	qp->share.pace_at += time_of(qp, bytes);
}

/*
 * True if the message has a place there, and its bytes here. A NIC that came back has neither for
 * older messages.
 */
static bool goes_by(const struct sdr_qp *qp, const struct sdr_send_req *s, uint32_t rail)
{
	uint32_t way = sdr_rail_way(qp, rail);

	return s->cts.rkeys[way] && s->mr->mrs[sdr_way_device(qp, way)];
}

/*
 * Returns the next channel that has room; a rail that is stuck holds up no other. NULL: there is
 * none.
 */
static struct sdr_channel *channel_for(struct sdr_qp *qp, const struct sdr_send_req *s,
				       uint32_t *rail, uint32_t *index)
{
	uint32_t generation = (uint32_t)(s->n / qp->attr.max_msgs % qp->attr.generations);
	uint32_t usable = sdr_rails_usable(qp);

	for (uint32_t i = 0; i < qp->attr.channels; i++) {
		*rail = qp->next_channel++ % qp->attr.channels;
		*index = generation * qp->attr.channels + *rail;
		if (usable >> *rail & 1 && goes_by(qp, s, *rail) &&
		    sdr_channel_room(&qp->channels[*index]))
			return &qp->channels[*index];
	}
	return NULL;
}

static struct sdr_packet_out packet_of(const struct sdr_qp *qp, const struct sdr_send_req *s,
				       uint32_t rail, uint32_t offset)
{
	uint64_t at = (uint64_t)offset * qp->packet, left = at < s->length ? s->length - at : 0;
	struct sdr_packet_out p = { .raddr = s->cts.addr };
	uint32_t way = sdr_rail_way(qp, rail);

	p.rkey = s->cts.rkeys[way];
	p.lkey = s->mr->mrs[sdr_way_device(qp, way)]->lkey;
	p.imm = sdr_imm_make(&qp->core.layout, (uint32_t)(s->n & (qp->attr.max_msgs - 1)), offset,
			     s->imm);
	if (!left)
		return p;
	p.length = left < qp->packet ? (uint32_t)left : qp->packet;
	p.addr = s->addr + at;
	p.raddr += at;
	return p;
}

int sdr_packets_post(struct sdr_qp *qp, const struct sdr_send_req *s, const uint32_t *offsets,
		     uint32_t n, uint64_t *posted)
{
	struct sdr_event e = { .type = SDR_EVENT_INJECTED, .n = s->n };
	struct sdr_packet_out out[SDR_BURST];
	uint32_t rail, index, room;
	struct sdr_channel *c = channel_for(qp, s, &rail, &index);
	uint64_t bytes = 0;

	if (!c)
		return 0;
	room = sdr_channel_room(c);
	n = n < room ? n : room;
	for (uint32_t i = 0; i < n; i++) {
		out[i] = packet_of(qp, s, rail, offsets[i]);
		bytes += out[i].length;
	}
	posted[index] = c->posted + n;
	if (sdr_channel_post(c, out, n)) {
		/* the packets are lost, as on the way */
		sdr_rails_fail(qp, sdr_rail_way(qp, rail), c->fault);
		if (qp->error)
			return qp->error;
	}
	charge(qp, bytes);
	qp->counts.sent += n;
	sdr_share_sent(qp, n);
	e.count = n;
	sdr_qp_step(qp, &e);
	return (int)n;
}

bool sdr_all_left(const struct sdr_qp *qp, const uint64_t *posted)
{
	for (uint32_t i = 0; i < qp->n_channels; i++) {
		uint32_t rail = i % qp->attr.channels;

		if (sdr_rail_dead(qp, rail) ? posted[i] && sdr_rail_rests(qp, rail)
					    : qp->channels[i].completed < posted[i])
			return false;
	}
	return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void end(struct sdr_qp *qp, struct sdr_send_req *s)
{
	struct sdr_event e = { .type = SDR_EVENT_SEND_END, .n = s->n };

	s->over = true;
	qp->n_sending--;
	sdr_qp_step(qp, &e);
	qp->urgent = true;
}

/*
 * Counts the fragments of the immediate that are left: empty packets follow a message that is
 * shorter than its fragments.
 */
static void count_fillers(const struct sdr_qp *qp, struct sdr_send_req *s)
{
	uint32_t packets = (uint32_t)((s->length + qp->packet - 1) / qp->packet);
	uint32_t fragments = sdr_imm_fragments(&qp->core.layout);

	s->fillers = packets < fragments ? fragments - packets : 0;
}

void sdr_send_allowed(struct sdr_qp *qp, const struct sdr_action *a)
{
	struct sdr_send_req *s = req_of(qp, a->n);

	if (qp->rel) {
		sdr_rel_allowed(qp->rel, a);
		return;
	}
	s->cts = a->cts;
	s->allowed = true;
	qp->n_sending++;
	count_fillers(qp, s);
	if (s->length <= a->cts.length)
		return;
	s->status = -EMSGSIZE;
	end(qp, s);
}

void sdr_send_gone(struct sdr_qp *qp, const struct sdr_action *a)
{
	struct sdr_send_req *s = req_of(qp, a->n);

	if (qp->rel) {
		sdr_rel_gone(qp->rel, a->n);
		return;
	}
	s->status = -ECANCELED;
	s->over = true;
}

/* Offsets of packets that are to be sent next. */
static uint32_t gather(const struct sdr_send_req *s, uint32_t *offsets, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_spans && n < max; i++) {
		const struct sdr_span *span = &s->spans[(s->first_span + i) % SDR_PARTS_MAX];

		for (uint32_t at = span->first; at < span->end && n < max; at++)
			offsets[n++] = at;
	}
	return n;
}

static void consume(struct sdr_send_req *s, uint32_t n)
{
	while (n) {
		struct sdr_span *span = &s->spans[s->first_span];
		uint32_t left = span->end - span->first, take = left < n ? left : n;

		span->first += take;
		n -= take;
		if (span->first < span->end)
			continue;
		s->first_span = (s->first_span + 1) % SDR_PARTS_MAX;
		s->n_spans--;
	}
}

/*
 * Gathers empty packets. An immediate that finds no room behind the receive's packets stays
 * incomplete, and the receiver's -EAGAIN says so.
 */
static uint32_t gather_fillers(const struct sdr_qp *qp, const struct sdr_send_req *s,
			       uint32_t *offsets)
{
	uint32_t room = (uint32_t)((s->cts.length + qp->packet - 1) / qp->packet);
	uint32_t first = sdr_imm_fragments(&qp->core.layout) - s->fillers, n = 0;

	for (uint32_t i = 0; i < s->fillers; i++)
		if (sdr_imm_filler(&qp->core.layout, room, first + i, &offsets[n]))
			n++;
	return n;
}

/*
 * True if each NIC that the message was allowed by was left since; a leave is not told again. A
 * Write ends at its deadline.
 */
static bool has_no_place(const struct sdr_qp *qp, const struct sdr_send_req *s)
{
	for (uint32_t way = 0; way < qp->n_ways; way++)
		if (s->cts.rkeys[way])
			return false;
	return true;
}

/* Ends a message whose packets have nowhere to go. true: it ended. */
static bool displace(struct sdr_qp *qp, struct sdr_send_req *s)
{
	if (!sdr_all_left(qp, s->posted))
		return false;
	s->status = -EIO;
	sdr_why(qp,
		"all devices by which message %llu could go were lost since its receive was posted",
		(unsigned long long)s->n);
	end(qp, s);
	return true;
}

/* true: something was posted, or it ended. */
static bool inject(struct sdr_qp *qp, struct sdr_send_req *s)
{
	uint32_t offsets[SDR_BURST], n = gather(s, offsets, sdr_pace(qp, SDR_BURST));
	int done;

	if (n && has_no_place(qp, s))
		return displace(qp, s);
	if (n) {
		done = sdr_packets_post(qp, s, offsets, n, s->posted);
		if (done > 0)
			consume(s, (uint32_t)done);
		return done > 0;
	}
	if (s->n_spans || !s->closed)
		return false;
	n = gather_fillers(qp, s, offsets);
	if (n && has_no_place(qp, s))
		return displace(qp, s);
	if (n) {
		done = sdr_packets_post(qp, s, offsets, n, s->posted);
		s->fillers -= done > 0 ? (uint32_t)done : 0;
		return done > 0;
	}
	/*
	 * END says that the rest of a lifetime is enough: a packet in a NIC's queue has not begun
	 * its lifetime
	 */
	if (!sdr_all_left(qp, s->posted))
		return false;
	end(qp, s);
	return true;
}

bool sdr_sends_inject(struct sdr_qp *qp)
{
	bool any = false;

	for (uint32_t i = 0; i < qp->attr.max_msgs && qp->n_sending; i++) {
		struct sdr_send_req *s = &qp->sends[(qp->next_send + i) % qp->attr.max_msgs];

		if (!s->used || !s->allowed || s->over || !inject(qp, s))
			continue;
		any = true;
	}
	qp->next_send++;
	return any;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int start(struct sdr_qp *qp, const struct sdr_send_wr *wr, bool stream,
		 struct sdr_send_req **send)
{
	struct sdr_send_req *s = req_of(qp, qp->core.send_next);
	struct sdr_event e = { .type = SDR_EVENT_SEND_POST };
	struct sdr_span *spans = s->spans;
	int err;

	qp->now = sdr_clock_ns();
	if (qp->error || qp->rel || !qp->connected)
		return qp->error ? qp->error : qp->rel ? -EBUSY : -ENOTCONN;
	if (!wr->length || wr->length > qp->attr.max_msg_size)
		return wr->length ? -EMSGSIZE : -EINVAL;
	if (!sdr_mr_covers(wr->mr, qp, (uintptr_t)wr->addr, wr->length))
		return -EINVAL;
	if (s->used)
		return -EAGAIN;
	if (!spans)
		spans = calloc(SDR_PARTS_MAX, sizeof(*spans));
	if (!spans)
		return -ENOMEM;
	*s = (struct sdr_send_req){ .qp = qp,
				    .used = true,
				    .stream = stream,
				    .closed = !stream,
				    .n = qp->core.send_next,
				    .addr = (uintptr_t)wr->addr,
				    .length = wr->length,
				    .mr = wr->mr,
				    .imm = wr->imm,
				    .spans = spans,
				    .n_spans = !stream };
	spans[0] = (struct sdr_span){ 0, (uint32_t)((wr->length + qp->packet - 1) / qp->packet) };
	err = sdr_qp_step(qp, &e);
	s->used = !err;
	wr->mr->uses += !err;
	*send = s;
	return err;
}

SDR_API int sdr_send_post(struct sdr_qp *qp, const struct sdr_send_wr *wr,
			  struct sdr_send_req **send)
{
	return start(qp, wr, false, send);
}

SDR_API int sdr_send_stream_start(struct sdr_qp *qp, const struct sdr_send_wr *wr,
				  struct sdr_send_req **send)
{
	return start(qp, wr, true, send);
}

static int part_check(const struct sdr_send_req *s, const struct sdr_part *p)
{
	uint64_t chunk = sdr_chunk_bytes(s->qp);

	if (p->offset % chunk || !p->length || p->offset >= s->length ||
	    p->length > s->length - p->offset)
		return -EINVAL;
	return p->length % chunk && p->offset + p->length != s->length ? -EINVAL : 0;
}

SDR_API int sdr_send_stream_continue(struct sdr_send_req *s, const struct sdr_part *parts,
				     uint32_t n)
{
	uint32_t packet = s->qp->packet;

	if (!s->stream || s->closed)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		if (part_check(s, &parts[i]))
			return -EINVAL;
	if (n > SDR_PARTS_MAX - s->n_spans)
		return -EAGAIN;
	for (uint32_t i = 0; i < n; i++)
		s->spans[(s->first_span + s->n_spans++) % SDR_PARTS_MAX] = (struct sdr_span){
			(uint32_t)(parts[i].offset / packet),
			(uint32_t)((parts[i].offset + parts[i].length + packet - 1) / packet),
		};
	return s->status;
}

SDR_API int sdr_send_stream_end(struct sdr_send_req *s)
{
	if (!s->stream || s->closed)
		return -EINVAL;
	s->closed = true;
	return 0;
}

void sdr_send_let_go(struct sdr_send_req *s)
{
	if (s->used)
		s->mr->uses--;
	s->used = false;
}

SDR_API int sdr_send_poll(struct sdr_send_req *s)
{
	int status = s->qp->error ? s->qp->error : s->status;

	if (s->qp->error && !s->qp->rails.shut)
		return 0; /* the device may still read */
	if (!status && (!s->over || !sdr_all_left(s->qp, s->posted)))
		return 0;
	sdr_send_let_go(s);
	return status ? status : 1;
}
