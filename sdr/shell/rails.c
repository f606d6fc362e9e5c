/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Channels over several NICs: a rail is a channel's way, from a NIC here to one there. A NIC that fails is only loss: its rails are
 * left, what was under way there is made good as any loss is. Who finds it tells the other end, in the head of
 * each datagram, which then leaves them, too.
 *
 * A NIC that fails may still read and write for a while (its firmware is dead, its data path is not), or again later (it was
 * stuck), and a window on it cannot be unbound. A buffer that was open to it is safe when its queue pairs are gone, the peer has
 * said that it sends there no more, and a packet's lifetime has passed since. Commands to such a NIC may not come back for
 * a minute: a thread gives them.
 */
#include "sdr/shell/internal.h"

#include <assert.h>

static_assert((int)SDR_NICS_MAX == (int)SDR_RKEYS_MAX, "a key for each NIC");

enum { PATIENCE = 30 }; /* lifetimes, for a NIC that failed to be out of the way */

#define STALL_NS 1000000000ull /* at least, as a lifetime may be told that is short */
#define STEP_NS                                                                                    \
	5000000ull /* at most, of a round's time: a program that was stopped has waited for nothing */
#define ASK_NS 20000000ull

static uint32_t nics_of(const struct sdr_qp *qp)
{
	return qp->ctx->n_nics;
}

static uint32_t all_rails(const struct sdr_qp *qp)
{
	return (1u << qp->attr.channels) - 1;
}

uint32_t sdr_rail_nic(const struct sdr_qp *qp, uint32_t rail)
{
	return rail % nics_of(qp);
}

/* Bits of the rails that begin at a NIC. */
static uint32_t rails_of(const struct sdr_qp *qp, uint32_t nic)
{
	uint32_t bits = 0;

	for (uint32_t r = nic; r < qp->attr.channels; r += nics_of(qp))
		bits |= 1u << r;
	return bits;
}

static uint32_t alive(const struct sdr_qp *qp)
{
	return all_rails(qp) & ~(qp->rails.dead | qp->rails.peer_dead);
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

/* ---- a NIC fails ----------------------------------------------------------------------------- */

static void close_rail(struct sdr_qp *qp, uint32_t rail)
{
	for (uint32_t i = rail; i < qp->n_channels; i += qp->attr.channels)
		sdr_channel_close(&qp->channels[i]);
	sdr_control_close(&qp->rails.controls[rail]);
}

/* Nobody else touches them: the NIC is dead. */
static void *close_nic(void *arg)
{
	struct sdr_watch *w = arg;

	for (uint32_t r = (uint32_t)(w - w->qp->rails.nics); r < w->qp->attr.channels;
	     r += nics_of(w->qp))
		close_rail(w->qp, r);
	atomic_store(&w->closed, true);
	return NULL;
}

void sdr_rails_join(struct sdr_qp *qp)
{
	for (uint32_t i = 0; i < SDR_NICS_MAX; i++) {
		if (qp->rails.nics[i].has_closer)
			pthread_join(qp->rails.nics[i].closer, NULL);
		qp->rails.nics[i].has_closer = false;
	}
}

void sdr_rails_fail(struct sdr_qp *qp, uint32_t nic)
{
	struct sdr_watch *w = &qp->rails.nics[nic];

	if (w->dead)
		return;
	w->dead = true;
	w->dead_at = qp->now;
	qp->rails.dead |= rails_of(qp, nic);
	qp->rails.ask_at = 0;
	qp->counts.nics_lost++;
	qp->urgent = true;
	w->qp = qp;
	w->has_closer = !pthread_create(&w->closer, NULL, close_nic, w);
	if (!w->has_closer)
		close_nic(w);
	if (qp->backing.ops->lost)
		qp->backing.ops->lost(&qp->backing, nic, false);
	if (!alive(qp))
		qp->error = -EIO;
}

/* What was given to it may still leave, or be read. */
bool sdr_rail_rests(const struct sdr_qp *qp, uint32_t rail)
{
	const struct sdr_watch *w = &qp->rails.nics[sdr_rail_nic(qp, rail)];

	return w->dead && (!w->closed_at || qp->now < w->closed_at + qp->attr.packet_lifetime_ns);
}

bool sdr_rail_dead(const struct sdr_qp *qp, uint32_t rail)
{
	return qp->rails.dead >> rail & 1;
}

/* ---- what is seen of a NIC ------------------------------------------------------------------- */

static uint64_t lifetime(const struct sdr_qp *qp)
{
	return qp->attr.packet_lifetime_ns > STALL_NS ? qp->attr.packet_lifetime_ns : STALL_NS;
}

/* Requests that it has answered; waits: and not. */
static uint64_t count(const struct sdr_qp *qp, uint32_t nic, uint64_t *waits)
{
	uint64_t answered = 0;

	*waits = 0;
	if (qp->backing.ops->waits)
		*waits = qp->backing.ops->waits(&qp->backing, nic, &answered);
	for (uint32_t i = 0; i < qp->n_channels; i++) {
		if (sdr_rail_nic(qp, i % qp->attr.channels) != nic)
			continue;
		answered += qp->channels[i].completed;
		*waits += qp->channels[i].posted - qp->channels[i].completed;
	}
	for (uint32_t r = nic; r < qp->attr.channels; r += nics_of(qp)) {
		answered += qp->rails.controls[r].completed;
		*waits += qp->rails.controls[r].posted - qp->rails.controls[r].completed;
	}
	return answered;
}

/* No packet may leave that was posted more than a lifetime ago: ids would be used again before it arrives. */
static bool is_stuck(struct sdr_qp *qp, uint32_t nic, uint64_t step)
{
	struct sdr_watch *w = &qp->rails.nics[nic];
	uint64_t waits, answered = count(qp, nic, &waits);

	if (!waits || answered != w->answered)
		w->stuck_ns = 0;
	else
		w->stuck_ns += step;
	w->answered = answered;
	return w->stuck_ns > lifetime(qp);
}

static void look_at_ports(struct sdr_qp *qp)
{
	uint32_t down = 0;

	for (uint32_t i = 0; i < nics_of(qp); i++)
		if (qp->ctx->nics[i].down)
			down |= rails_of(qp, i);
	if (down != qp->rails.down)
		qp->rails.answer = qp->urgent = true;
	qp->rails.down = down;
}

/* Of a NIC that is dead: may anything still come by it? */
static void bury(struct sdr_qp *qp, uint32_t nic)
{
	struct sdr_watch *w = &qp->rails.nics[nic];

	if (w->over)
		return;
	if (!w->closed_at && atomic_load(&w->closed))
		w->closed_at = qp->now;
	if ((!w->told_at || !w->closed_at) && qp->now > w->dead_at + PATIENCE * lifetime(qp))
		qp->error = -ETIMEDOUT;
	if (!w->told_at || qp->now < w->told_at + qp->attr.packet_lifetime_ns ||
	    sdr_rail_rests(qp, nic))
		return;
	w->over = true;
	if (qp->backing.ops->lost)
		qp->backing.ops->lost(&qp->backing, nic, true);
}

void sdr_rails_look(struct sdr_qp *qp)
{
	uint64_t step = qp->now - qp->rails.looked_at;

	if (step > STEP_NS)
		step = STEP_NS;
	qp->rails.looked_at = qp->now;
	for (uint32_t i = 0; i < nics_of(qp); i++) {
		if (qp->rails.nics[i].dead)
			bury(qp, i);
		else if (qp->rails.nics[i].failed || qp->ctx->nics[i].gone ||
			 qp->backing.failed >> i & 1 || is_stuck(qp, i, step))
			sdr_rails_fail(qp, i);
	}
	look_at_ports(qp);
}

/* ---- what both ends say of it ---------------------------------------------------------------- */

void sdr_rails_head(const struct sdr_qp *qp, struct sdr_ctrl_head *h)
{
	h->dead = (uint8_t)(qp->rails.dead | qp->rails.peer_dead);
	h->down = (uint8_t)qp->rails.down;
}

static bool asks(const struct sdr_qp *qp)
{
	for (uint32_t i = 0; i < nics_of(qp); i++)
		if (qp->rails.nics[i].dead && !qp->rails.nics[i].told_at)
			return true;
	return false;
}

void sdr_rails_hear(struct sdr_qp *qp, const struct sdr_ctrl_head *h)
{
	struct sdr_rails *r = &qp->rails;
	uint32_t before = r->peer_dead;

	r->peer_dead |= h->dead & all_rails(qp);
	if (r->peer_dead != before || h->flags & SDR_CTRL_ASKS)
		r->answer = qp->urgent = true;
	if ((int32_t)(h->sequence - r->newest) > 0) {
		r->newest = h->sequence;
		r->peer_down = h->down;
	}
	for (uint32_t i = 0; i < nics_of(qp); i++)
		if (r->nics[i].dead && !r->nics[i].told_at && !(rails_of(qp, i) & ~r->peer_dead))
			r->nics[i].told_at = qp->now;
	if (!alive(qp))
		qp->error = -EIO;
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
			sdr_rails_fail(qp, sdr_rail_nic(qp, r));
		sum += n > 0 ? n : 0;
	}
	return sum;
}
