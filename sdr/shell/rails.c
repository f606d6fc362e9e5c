/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Channels over several NICs: a rail is a channel's way, from a NIC here to one there. Where both
 * ends have as many NICs, rails over the same two share a way, else each rail has its own. A NIC
 * that fails is only loss: its rails are left, and what was under way there is made good as any
 * loss is. The end that finds the failure tells it in the head of each datagram, and the other end
 * leaves the rails, too. What becomes of the rails then is in rejoin.c.
 */
#include "sdr/shell/internal.h"

#include <assert.h>

static_assert((int)SDR_NICS_MAX == (int)SDR_RKEYS_MAX, "a key for each NIC");
static_assert((int)SDR_NICS_MAX == (int)SDR_CTRL_NICS, "a life for each NIC");
static_assert((int)SDR_RAILS_MAX <= (int)SDR_NICS_MAX, "of unequal ends a way for each rail");
static_assert((int)SDR_CHANNELS_MAX == (int)SDR_CTRL_QPS, "all channels in a JOIN");

#define STALL_NS 1000000000ull /* the shortest stall, as a lifetime may be told that is short */
/* The most that a round's time counts: a program that was stopped has waited for nothing. */
#define STEP_NS 5000000ull
#define ASK_NS	20000000ull

static uint32_t all_rails(const struct sdr_qp *qp)
{
	return (1u << qp->attr.channels) - 1;
}

uint32_t sdr_rail_way(const struct sdr_qp *qp, uint32_t rail)
{
	return rail % qp->n_ways;
}

uint32_t sdr_way_device(const struct sdr_qp *qp, uint32_t way)
{
	return way % qp->ctx->n_nics;
}

struct sdr_nic *sdr_way_nic(const struct sdr_qp *qp, uint32_t way)
{
	return &qp->ctx->nics[sdr_way_device(qp, way)];
}

static uint32_t rails_of(const struct sdr_qp *qp, uint32_t way)
{
	uint32_t bits = 0;

	for (uint32_t r = way; r < qp->attr.channels; r += qp->n_ways)
		bits |= 1u << r;
	return bits;
}

static bool is_up(const struct sdr_qp *qp, uint32_t way)
{
	return qp->rails.ways[way].join.join_state == SDR_JOIN_UP;
}

static uint32_t alive(const struct sdr_qp *qp)
{
	return all_rails(qp) & ~qp->rails.dead;
}

uint32_t sdr_rails_usable(const struct sdr_qp *qp)
{
	uint32_t up = alive(qp) & ~(qp->rails.down | qp->rails.peer_down);

	return up ? up : alive(qp); /* ports come back */
}

double sdr_rails_share(const struct sdr_qp *qp)
{
	uint32_t n = (uint32_t)__builtin_popcount(sdr_rails_usable(qp));

	return n ? (double)n / qp->attr.channels : 1;
}

/* Sets dead to the rails that are left, by their ways; an error if these are all. */
void sdr_rails_mask(struct sdr_qp *qp)
{
	qp->rails.dead = 0;
	for (uint32_t i = 0; i < qp->n_ways; i++)
		if (!is_up(qp, i))
			qp->rails.dead |= rails_of(qp, i);
	if (alive(qp) || qp->error)
		return;
	qp->error = -EIO;
	if (!qp->why[0])
		sdr_why(qp, "the other end has left its last device");
}

uint64_t sdr_rails_lifetime(const struct sdr_qp *qp)
{
	return qp->attr.packet_lifetime_ns > STALL_NS ? qp->attr.packet_lifetime_ns : STALL_NS;
}

void sdr_rails_begin(struct sdr_qp *qp)
{
	for (uint32_t i = 0; i < qp->n_ways; i++)
		sdr_join_init(&qp->rails.ways[i].join, sdr_rails_lifetime(qp));
	qp->rails.looked_at = sdr_clock_ns();
}

static bool is_lost(const struct sdr_qp *qp, uint32_t device)
{
	for (uint32_t i = device; i < qp->n_ways; i += qp->ctx->n_nics)
		if (qp->rails.ways[i].lost)
			return true;
	return false;
}

void sdr_rails_fail(struct sdr_qp *qp, uint32_t way, const char *fault)
{
	struct sdr_watch *w = &qp->rails.ways[way];

	if (w->lost)
		return;
	sdr_why(qp, "%s: %s", sdr_way_nic(qp, way)->name, fault);
	qp->counts.nics_lost += !is_lost(qp, sdr_way_device(qp, way));
	w->lost = true;
	w->fault = NULL;
	if (qp->backing.ops->lost)
		qp->backing.ops->lost(&qp->backing, way, false);
	sdr_join_fail(&w->join, qp->now);
	sdr_rails_mask(qp);
	qp->rails.ask_at = 0;
	qp->urgent = true;
}

/* True if what was given to the rail may still leave, or be read. */
bool sdr_rail_rests(const struct sdr_qp *qp, uint32_t rail)
{
	const struct sdr_watch *w = &qp->rails.ways[sdr_rail_way(qp, rail)];

	return w->join.join_state != SDR_JOIN_UP && (!w->quiet_at || qp->now < w->quiet_at);
}

bool sdr_rail_dead(const struct sdr_qp *qp, uint32_t rail)
{
	return qp->rails.dead >> rail & 1;
}

/* ---- what is seen of a NIC ------------------------------------------------------------------- */

/* Returns the number of requests that the way has answered; waits: of those that it has not. */
static uint64_t count(const struct sdr_qp *qp, uint32_t way, uint64_t *waits)
{
	uint64_t answered = 0;

	*waits = 0;
	if (qp->backing.ops->waits)
		*waits = qp->backing.ops->waits(&qp->backing, way, &answered);
	for (uint32_t i = 0; i < qp->n_channels; i++) {
		if (sdr_rail_way(qp, i % qp->attr.channels) != way)
			continue;
		answered += qp->channels[i].completed;
		*waits += qp->channels[i].posted - qp->channels[i].completed;
	}
	for (uint32_t r = way; r < qp->attr.channels; r += qp->n_ways) {
		answered += qp->rails.controls[r].completed;
		*waits += qp->rails.controls[r].posted - qp->rails.controls[r].completed;
	}
	return answered;
}

/*
 * True if requests wait for too long: no packet may leave that was posted more than a lifetime ago,
 * or ids would be used again before it arrives.
 */
static bool is_stuck(struct sdr_qp *qp, uint32_t way, uint64_t step)
{
	struct sdr_watch *w = &qp->rails.ways[way];
	uint64_t waits, answered = count(qp, way, &waits);

	if (!waits || answered != w->answered)
		w->stuck_ns = 0;
	else
		w->stuck_ns += step;
	w->answered = answered;
	return w->stuck_ns > sdr_rails_lifetime(qp);
}

static void look_at_ports(struct sdr_qp *qp)
{
	uint32_t down = 0;

	for (uint32_t i = 0; i < qp->n_ways; i++)
		if (sdr_way_nic(qp, i)->down)
			down |= rails_of(qp, i);
	if (down != qp->rails.down)
		qp->rails.answer = qp->urgent = true;
	qp->rails.down = down;
}

/* Returns what a way has failed of; NULL: it has not. */
static const char *fault_of(struct sdr_qp *qp, uint32_t way, uint64_t step)
{
	if (sdr_way_nic(qp, way)->gone)
		return "the device reports a fatal error";
	if (qp->backing.failed >> way & 1)
		return qp->backing.fault;
	if (qp->rails.ways[way].fault)
		return qp->rails.ways[way].fault;
	if (is_up(qp, way) && is_stuck(qp, way, step))
		return "it answers no request for longer than a packet's lifetime, or a second";
	return NULL;
}

void sdr_rails_look(struct sdr_qp *qp)
{
	uint64_t step = qp->now - qp->rails.looked_at;
	const char *fault;

	if (step > STEP_NS)
		step = STEP_NS;
	qp->rails.looked_at = qp->now;
	for (uint32_t i = 0; i < qp->n_ways; i++) {
		fault = qp->rails.ways[i].lost ? NULL : fault_of(qp, i, step);
		if (fault)
			sdr_rails_fail(qp, i, fault);
		sdr_way_tend(qp, i);
	}
	sdr_rails_mask(qp);
	look_at_ports(qp);
}

/* ---- what both ends say of it ---------------------------------------------------------------- */

void sdr_rails_head(const struct sdr_qp *qp, struct sdr_ctrl_head *h)
{
	for (uint32_t i = 0; i < qp->n_ways; i++)
		h->life[i] = qp->rails.ways[i].join.life;
	h->down = (uint8_t)qp->rails.down;
}

/*
 * True while this end asks: until the other end has left a way, too; and where both are connected,
 * until it is heard that the other end uses the way. The datagram that tells may have come by the
 * way itself, which nobody reads before.
 */
static bool asks(const struct sdr_qp *qp)
{
	const struct sdr_join *j;

	for (uint32_t i = 0; i < qp->n_ways; i++) {
		j = &qp->rails.ways[i].join;
		if (!is_up(qp, i) && (!j->told || j->join_state == SDR_JOIN_CONNECTED))
			return true;
	}
	return false;
}

void sdr_rails_answer(struct sdr_qp *qp)
{
	qp->rails.answer = qp->urgent = true;
}

void sdr_rails_hear(struct sdr_qp *qp, const struct sdr_ctrl_head *h)
{
	struct sdr_rails *r = &qp->rails;

	if (h->flags & SDR_CTRL_ASKS)
		sdr_rails_answer(qp);
	if ((int32_t)(h->sequence - r->newest) > 0) {
		r->newest = h->sequence;
		r->peer_down = h->down;
	}
	for (uint32_t i = 0; i < qp->n_ways; i++)
		sdr_join_hear_life(&r->ways[i].join, h->life[i], qp->now);
	sdr_rails_mask(qp);
}

/* A head is enough. */
void sdr_rails_say(struct sdr_qp *qp)
{
	static _Thread_local struct sdr_ctrl c;
	bool ask = asks(qp) && qp->now >= qp->rails.ask_at;

	if (!ask && !qp->rails.answer)
		return;
	c.head = (struct sdr_ctrl_head){ .type = SDR_CTRL_KNOWN, .flags = ask ? SDR_CTRL_ASKS : 0 };
	if (sdr_say_ctrl(qp, &c))
		return;
	qp->rails.answer = false;
	qp->rails.ask_at = qp->now + ASK_NS;
}

/* Each datagram by the next rail: one that loses all loses its share of them. */
struct sdr_control *sdr_rails_control(struct sdr_qp *qp, void **room)
{
	uint32_t usable = sdr_rails_usable(qp), r;

	for (uint32_t i = 0; i < qp->attr.channels; i++) {
		r = qp->rails.next_control++ % qp->attr.channels;
		*room = usable >> r & 1 ? sdr_control_room(&qp->rails.controls[r]) : NULL;
		if (*room)
			return &qp->rails.controls[r];
	}
	return NULL;
}

int sdr_rails_poll(struct sdr_qp *qp)
{
	int sum = 0, n;

	for (uint32_t r = 0; r < qp->attr.channels; r++) {
		if (sdr_rail_dead(qp, r))
			continue;
		n = sdr_control_poll(&qp->rails.controls[r], sdr_heard, qp);
		if (n < 0)
			sdr_rails_fail(qp, sdr_rail_way(qp, r), qp->rails.controls[r].fault);
		sum += n > 0 ? n : 0;
	}
	return sum;
}
