/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way back of a NIC that was left: core/join.h says when to do what, and this file does it.
 * Commands to a NIC that failed may not come back for a minute: a thread gives them, one at a time
 * for each NIC and connection.
 *
 * A NIC that fails may still read and write for a while (its firmware is dead, its data path is
 * not), or again later (it was stuck), and a window on it cannot be unbound. A buffer that was open
 * to the NIC is safe when its queue pairs are gone, the peer has said that it sends there no more,
 * and a packet's lifetime has passed since.
 *
 * Keys of an earlier life are forgotten by both ends: a device that was opened anew may give the
 * same number to other memory.
 */
#include "sdr/shell/rel.h"

#include <string.h>

enum { PATIENCE = 30 }; /* lifetimes, for a NIC that failed to be out of the way */

static uint32_t number_of(const struct sdr_watch *w)
{
	return (uint32_t)(w - w->qp->rails.ways);
}

/* ---- what a thread does, that has the NIC for itself ----------------------------------------- */

/* Closes a channel. The count of its posts only grows: messages remember theirs. */
static void close_channel(struct sdr_channel *c)
{
	uint64_t posted = c->posted;

	sdr_channel_close(c);
	c->posted = c->completed = posted;
}

static int open_channel(struct sdr_channel *c, const struct sdr_nic *nic, uint32_t depth)
{
	uint64_t posted = c->posted;
	int err = sdr_channel_open(c, nic, SDR_SEND_DEPTH, depth);

	c->posted = c->completed = posted;
	return err;
}

static void close_all(struct sdr_watch *w)
{
	struct sdr_qp *qp = w->qp;
	uint32_t way = number_of(w);

	for (uint32_t r = way; r < qp->attr.channels; r += qp->n_ways) {
		for (uint32_t i = r; i < qp->n_channels; i += qp->attr.channels)
			close_channel(&qp->channels[i]);
		sdr_control_close(&qp->rails.controls[r]);
	}
	if (w->was_lost && qp->backing.ops->bury)
		qp->backing.ops->bury(&qp->backing, way);
}

static int make_all(struct sdr_watch *w)
{
	struct sdr_qp *qp = w->qp;
	uint32_t way = number_of(w);
	const struct sdr_nic *device = sdr_way_nic(qp, way);
	int err = device->mtu < qp->rails.mtu ? -EMSGSIZE : 0;

	for (uint32_t r = way; r < qp->attr.channels && !err; r += qp->n_ways) {
		for (uint32_t i = r; i < qp->n_channels && !err; i += qp->attr.channels)
			err = open_channel(&qp->channels[i], device, qp->attr.recv_depth);
		if (!err)
			err = sdr_control_open(&qp->rails.controls[r], device, qp->rails.qkey);
	}
	if (!err && w->was_lost && qp->backing.ops->renew)
		err = qp->backing.ops->renew(&qp->backing, way);
	return err;
}

int sdr_rail_connect(struct sdr_qp *qp, uint32_t rail, struct sdr_peer *peer, const uint32_t *qpn,
		     uint32_t control_qpn)
{
	const struct sdr_nic *nic = sdr_way_nic(qp, sdr_rail_way(qp, rail));
	int err = 0;

	peer->mtu = qp->rails.mtu;
	for (uint32_t i = rail; i < qp->n_channels && !err; i += qp->attr.channels)
		err = sdr_channel_connect(&qp->channels[i], nic, peer, qpn[i]);
	return err ? err
		   : sdr_control_connect(&qp->rails.controls[rail], nic, peer, control_qpn,
					 qp->rails.peer_qkey);
}

static int connect_all(struct sdr_watch *w)
{
	int err = 0;

	for (uint32_t r = number_of(w); r < w->qp->attr.channels && !err; r += w->qp->n_ways)
		err = sdr_rail_connect(w->qp, r, &w->peer, w->qpn, w->control_qpn[r]);
	return err;
}

static void *work(void *arg)
{
	struct sdr_watch *w = arg;

	w->result = 0;
	switch (w->job) {
	case SDR_JOB_CLOSE: close_all(w); break;
	case SDR_JOB_MAKE: w->result = make_all(w); break;
	case SDR_JOB_CONNECT: w->result = connect_all(w); break;
	}
	atomic_store(&w->done, true);
	return NULL;
}

/* Gives a job to a thread; does it at once if there is no thread. */
static void employ(struct sdr_qp *qp, struct sdr_watch *w, enum sdr_job job)
{
	w->qp = qp;
	w->job = job;
	w->works = true;
	w->was_lost = w->lost;
	atomic_store(&w->done, false);
	w->has_thread = !pthread_create(&w->worker, NULL, work, w);
	if (!w->has_thread)
		work(w);
}

static void dismiss(struct sdr_watch *w)
{
	if (w->has_thread)
		pthread_join(w->worker, NULL);
	w->has_thread = w->works = false;
}

void sdr_rails_join(struct sdr_qp *qp)
{
	for (uint32_t i = 0; i < SDR_NICS_MAX; i++)
		dismiss(&qp->rails.ways[i]);
}

/* ---- what is due of a NIC -------------------------------------------------------------------- */

/* A NIC that is well has answered: what it had is gone. */
static void closed(struct sdr_qp *qp, struct sdr_watch *w)
{
	if (!w->quiet_at)
		w->quiet_at = qp->now + (w->lost ? qp->attr.packet_lifetime_ns : 0);
	sdr_join_closed(&w->join, qp->now);
}

static void finish_job(struct sdr_qp *qp, struct sdr_watch *w)
{
	if (!w->works || !atomic_load(&w->done))
		return;
	dismiss(w);
	switch (w->job) {
	case SDR_JOB_CLOSE: closed(qp, w); break;
	case SDR_JOB_MAKE: sdr_join_made(&w->join, !w->result, qp->now); break;
	case SDR_JOB_CONNECT: sdr_join_connected(&w->join, !w->result, qp->now); break;
	}
}

static void forget_keys(struct sdr_qp *qp, uint32_t way)
{
	for (uint32_t i = 0; i < qp->attr.max_msgs; i++) {
		qp->slots[i].rkeys[way] = 0;
		qp->core_sends[i].cts.rkeys[way] = 0;
		qp->sends[i].cts.rkeys[way] = 0;
	}
	if (qp->rel)
		sdr_rel_forget_keys(qp->rel, way);
}

static void use_again(struct sdr_qp *qp, uint32_t way)
{
	struct sdr_watch *w = &qp->rails.ways[way];

	if (w->lost && qp->backing.ops->joined)
		qp->backing.ops->joined(&qp->backing, way);
	w->lost = w->over = false;
	w->fault = NULL;
	w->stuck_ns = w->quiet_at = 0;
	qp->backing.failed &= ~(1u << way);
	qp->counts.nics_joined++;
}

static void say_join(struct sdr_qp *qp, uint32_t way)
{
	static _Thread_local struct sdr_ctrl c;
	const struct sdr_nic *device = sdr_way_nic(qp, way);
	struct sdr_join *j = &qp->rails.ways[way].join;
	struct sdr_ctrl_join *said = &c.join;

	if (sdr_join_stage_of(j) == SDR_STAGE_NONE)
		return;
	memset(&c.head, 0, sizeof(c.head));
	c.head.type = SDR_CTRL_JOIN;
	*said = (struct sdr_ctrl_join){
		.nic = way, .life = j->life, .stage = sdr_join_stage_of(j), .lid = device->lid
	};
	memcpy(said->gid, device->gid.raw, sizeof(said->gid));
	if (said->stage >= SDR_STAGE_MADE) {
		said->n_controls = qp->attr.channels;
		said->n_channels = qp->n_channels;
	}
	/* All places are told, so that each end finds its own; those of other ways are 0. */
	for (uint32_t r = way; r < said->n_controls; r += qp->n_ways)
		said->control_qpn[r] = qp->rails.controls[r].qp->qp_num;
	for (uint32_t i = 0; i < said->n_channels; i++)
		if (sdr_rail_way(qp, i % qp->attr.channels) == way)
			said->qpn[i] = qp->channels[i].qp->qp_num;
	sdr_say_ctrl(qp, &c);
}

void sdr_rejoin_hear(struct sdr_qp *qp, const struct sdr_ctrl_join *said)
{
	struct sdr_watch *w = &qp->rails.ways[said->nic < qp->n_ways ? said->nic : 0];
	bool made = said->stage >= SDR_STAGE_MADE;

	if (said->nic >= qp->n_ways || (made && (said->n_controls != qp->attr.channels ||
						 said->n_channels != qp->n_channels))) {
		qp->counts.datagrams_bad++;
		return;
	}
	/* The worker reads it, and within a life it is always the same. */
	if (made && w->join.join_state != SDR_JOIN_CONNECTING && said->life >= w->join.life) {
		memcpy(w->peer.gid.raw, said->gid, sizeof(said->gid));
		w->peer.lid = (uint16_t)said->lid;
		memcpy(w->control_qpn, said->control_qpn, sizeof(w->control_qpn));
		memcpy(w->qpn, said->qpn, sizeof(w->qpn));
	}
	sdr_join_hear(&w->join, (uint8_t)said->life, (enum sdr_join_stage)said->stage, qp->now);
	sdr_rails_mask(qp);
}

static void act(struct sdr_qp *qp, uint32_t way, uint32_t todo)
{
	struct sdr_watch *w = &qp->rails.ways[way];

	if (todo & SDR_TODO_CLOSE) {
		forget_keys(qp, way);
		employ(qp, w, SDR_JOB_CLOSE);
	}
	if (todo & SDR_TODO_MAKE)
		employ(qp, w, SDR_JOB_MAKE);
	if (todo & SDR_TODO_CONNECT)
		employ(qp, w, SDR_JOB_CONNECT);
	if (todo & SDR_TODO_USE)
		use_again(qp, way);
	if (todo & SDR_TODO_SAY)
		say_join(qp, way);
	if (todo & SDR_TODO_TELL)
		sdr_rails_answer(qp);
}

/*
 * Notes that nothing comes any more by a way that is left; fails the connection if that takes too
 * long.
 */
static void bury(struct sdr_qp *qp, uint32_t way)
{
	struct sdr_watch *w = &qp->rails.ways[way];
	const struct sdr_join *j = &w->join;

	if (w->over || j->join_state == SDR_JOIN_UP)
		return;
	if (j->join_state < SDR_JOIN_BURIED) {
		if (qp->error || qp->now <= j->left_at + PATIENCE * j->lifetime_ns)
			return;
		qp->error = -ETIMEDOUT;
		sdr_why(qp,
			"%s: a command to it, or the other end's leave of it, does not come back",
			sdr_way_nic(qp, way)->name);
		return;
	}
	w->over = true;
	if (w->lost && qp->backing.ops->lost)
		qp->backing.ops->lost(&qp->backing, way, true);
}

static bool holds(const struct sdr_watch *w)
{
	return !w->lost || w->works || w->join.join_state <= SDR_JOIN_CLOSING ||
	       w->join.join_state >= SDR_JOIN_MAKING;
}

bool sdr_nic_holds(const struct sdr_qp *qp, uint32_t nic)
{
	for (uint32_t i = nic; i < qp->n_ways; i += qp->ctx->n_nics)
		if (holds(&qp->rails.ways[i]))
			return true;
	return false;
}

void sdr_way_tend(struct sdr_qp *qp, uint32_t way)
{
	struct sdr_watch *w = &qp->rails.ways[way];
	const struct sdr_nic *device = sdr_way_nic(qp, way);

	if (w->join.join_state == SDR_JOIN_UP && !w->join.todo)
		return;
	finish_job(qp, w);
	if (qp->rails.peer_over)
		sdr_join_hear_life(&w->join, w->join.life, qp->now);
	if (w->lost && device->gone && w->join.ready_at)
		sdr_join_fail(&w->join, qp->now); /* once more, before it was used */
	if (!device->gone && w->join.join_state > SDR_JOIN_CLOSING)
		sdr_join_ready(&w->join, qp->now);
	act(qp, way, sdr_join_tick(&w->join, qp->now));
	bury(qp, way);
}

/* ---- a connection that has failed ------------------------------------------------------------ */

static bool is_quiet(const struct sdr_qp *qp, const struct sdr_watch *w)
{
	return w->join.join_state > SDR_JOIN_CLOSING && w->quiet_at && qp->now >= w->quiet_at;
}

/*
 * Shuts all ways. The other end may not know, and go on writing: queue pairs are closed, and what a
 * NIC that failed has taken is waited for, before anybody gets a buffer back. A command that does
 * not return is not waited for for ever.
 */
void sdr_rails_shut(struct sdr_qp *qp)
{
	uint32_t all = (1u << qp->n_ways) - 1;

	if (!qp->rails.error_at)
		qp->rails.error_at = qp->now;
	for (uint32_t i = 0; i < qp->n_ways; i++) {
		struct sdr_watch *w = &qp->rails.ways[i];

		if (qp->rails.shut_ways >> i & 1)
			continue;
		if (w->join.join_state == SDR_JOIN_UP)
			sdr_join_fail(&w->join, qp->now);
		sdr_rails_mask(qp); /* a thread has its queue pairs from now on */
		sdr_way_tend(qp, i);
		if (is_quiet(qp, w))
			qp->rails.shut_ways |= 1u << i;
	}
	qp->rails.shut = qp->rails.shut_ways == all ||
			 qp->now > qp->rails.error_at + PATIENCE * sdr_rails_lifetime(qp);
}
