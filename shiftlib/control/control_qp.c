/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sending and receiving by the control QP. Only receives may wake the background thread, so there
 * are two CQs; the next sender takes the send completions. Each send is copied into a ring of
 * bytes, as datagrams are mostly much smaller than the largest.
 */
#include "shiftlib/control/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"

/* ---- addresses ------------------------------------------------------------------------------ */

void sh_control_address(const struct sh_control *control, struct sh_address *out)
{
	struct sh_control *locked = (struct sh_control *)control;

	pthread_mutex_lock(&locked->lock);
	*out = control->address;
	pthread_mutex_unlock(&locked->lock);
}

int sh_control_refresh(struct sh_control *control, const struct sh_gid_place *use,
		       struct sh_address *out)
{
	struct sh_address before, now;
	bool grh_required;
	int ret;

	sh_control_address(control, &before);
	if (use)
		memcpy(before.gid, use->gid, sizeof(before.gid));
	ret = sh_address_query(control->real, control->context, control->port, &before, &now,
			       &grh_required);
	if (ret)
		return ret;
	now.qpn = before.qpn;
	now.qkey = before.qkey;
	pthread_mutex_lock(&control->lock);
	now.pkey_index = control->address.pkey_index; /* it may be given another one meanwhile */
	control->address = now;
	control->grh_required = grh_required;
	pthread_mutex_unlock(&control->lock);
	*out = now;
	return 0;
}

const struct sh_pkeys *sh_control_pkeys(const struct sh_control *control)
{
	return &control->pkeys;
}

struct ibv_qp *sh_control_qp(const struct sh_control *control)
{
	return control->qp;
}

int sh_control_fd(const struct sh_control *control)
{
	return control->channel->fd;
}

void sh_control_mark_dead(struct sh_control *control)
{
	atomic_store_explicit(&control->dead, true, memory_order_relaxed);
}

bool sh_control_dead(const struct sh_control *control)
{
	return atomic_load_explicit(&control->dead, memory_order_relaxed);
}

bool sh_control_wide(const struct sh_control *control)
{
	return atomic_load_explicit(&control->wide, memory_order_acquire);
}

bool sh_control_tight(const struct sh_control *control)
{
	return atomic_load_explicit(&control->tight, memory_order_relaxed);
}

static void control_tighten(struct sh_control *control)
{
	if (!sh_control_wide(control))
		atomic_store_explicit(&control->tight, true, memory_order_relaxed);
}

static int control_die(struct sh_control *control, const char *what)
{
	sh_control_mark_dead(control);
	sh_log(SH_LOG_INFO, "%s port %u: control QP: %s; not used any more", control_nic(control),
	       control->port, what);
	return -EIO;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static bool grh_needed(const struct sh_address *local, const struct sh_address *peer,
		       bool grh_required)
{
	return local->link_layer == IBV_LINK_LAYER_ETHERNET || grh_required ||
	       memcmp(local->gid, peer->gid, 8);
}

static struct ibv_ah *path_create_ah(struct sh_control *control, const struct sh_address *local,
				     const struct sh_address *peer)
{
	struct ibv_ah_attr attr = { .dlid = peer->lid, .sl = peer->sl, .port_num = control->port };

	attr.is_global = grh_needed(local, peer, control->grh_required);
	if (attr.is_global) {
		memcpy(attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
		attr.grh.sgid_index = local->gid_index;
		attr.grh.traffic_class = peer->traffic_class;
		attr.grh.hop_limit = ROCE_HOP_LIMIT;
	}
	errno = 0;
	return control->real->create_ah(control->pd, &attr);
}

int sh_control_path_open(struct sh_control *control, const struct sh_address *peer,
			 struct sh_path **out)
{
	struct sh_address local;
	struct sh_path *path;
	int ret;

	sh_control_address(control, &local);
	if (local.link_layer != peer->link_layer)
		return -EPROTOTYPE;
	if (sh_control_dead(control))
		return -EIO;
	path = calloc(1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	path->ah = path_create_ah(control, &local, peer);
	if (!path->ah) {
		ret = sh_errno_or(EIO);
		free(path);
		return ret;
	}
	path->control = control;
	path->qpn = peer->qpn;
	path->qkey = peer->qkey;
	path->payload_max = sh_address_payload_max(&local, peer);
	*out = path;
	return 0;
}

void sh_control_path_close(struct sh_path *path)
{
	path->control->real->destroy_ah(path->ah);
	free(path);
}

size_t sh_path_payload_max(const struct sh_path *path)
{
	return path->payload_max;
}

/* ---- sending -------------------------------------------------------------------------------- */

#define RING_ALIGN 64u /* a cache line */

/* Takes bytes of the ring for the next send. NULL: too few are free. */
static uint8_t *ring_take(struct sh_control *control, size_t length)
{
	struct control_ring *ring = &control->ring;
	uint32_t need = ((uint32_t)length + RING_ALIGN - 1) & ~(RING_ALIGN - 1);
	bool wraps = ring->head + need > ring->bytes;
	uint32_t skip = wraps ? ring->bytes - ring->head : 0;
	uint8_t *at = ring->at + (wraps ? 0 : ring->head);

	if (ring->used + skip + need > ring->bytes)
		return NULL;
	ring->took[control->sends_posted % SH_CONTROL_SENDS] = skip + need;
	ring->used += skip + need;
	ring->head = (uint32_t)(at - ring->at) + need;
	return at;
}

static void ring_give_back(struct sh_control *control, uint32_t sends)
{
	struct control_ring *ring = &control->ring;
	uint32_t *took;

	while (sends--) {
		took = &ring->took[control->sends_done++ % SH_CONTROL_SENDS];
		ring->used -= *took;
		*took = 0;
	}
}

static int control_reclaim_locked(struct sh_control *control)
{
	struct ibv_wc wc[POLL_BATCH];
	int n, i;

	do {
		n = ibv_poll_cq(control->send_cq, POLL_BATCH, wc);
		if (n < 0)
			return control_die(control, "its send queue cannot be polled");
		for (i = 0; i < n; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				return control_die(control, "a send failed");
		ring_give_back(control, (uint32_t)n);
		if (control->proof_at && (int32_t)(control->sends_done - control->proof) > 0) {
			control->proven_at = control->proof_at;
			control->proof_at = 0;
		}
		if (n)
			control->waiting_since = sh_now_ns();
	} while (n == POLL_BATCH);
	return 0;
}

static int control_post_send_locked(struct sh_control *control, const struct sh_path *path,
				    const uint8_t *copy, size_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)copy,
			       .length = (uint32_t)length,
			       .lkey = control->ring.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	uint64_t now = sh_now_ns(); /* what is sent was posted behind this moment */

	wr.wr.ud.ah = path->ah;
	wr.wr.ud.remote_qpn = path->qpn;
	wr.wr.ud.remote_qkey = path->qkey;
	if (ibv_post_send(control->qp, &wr, &bad))
		return control_die(control, "a send cannot be posted");
	if (!control->proof_at) {
		control->proof = control->sends_posted;
		control->proof_at = now;
	}
	if (control->sends_posted++ == control->sends_done)
		control->waiting_since = now;
	return 0;
}

static int control_send_locked(struct sh_control *control, const struct sh_path *path,
			       const void *buf, size_t length)
{
	uint8_t *copy = NULL;

	if ((control->sends_posted - control->sends_done >= SH_CONTROL_SENDS / 2 ||
	     control->ring.used >= control->ring.bytes / 2) &&
	    control_reclaim_locked(control))
		return -EIO;
	if (control->sends_posted - control->sends_done < SH_CONTROL_SENDS)
		copy = ring_take(control, length);
	if (!copy) {
		control_tighten(control);
		return -EAGAIN;
	}
	memcpy(copy, buf, length);
	return control_post_send_locked(control, path, copy, length);
}

int sh_control_send(struct sh_path *path, const void *buf, size_t length)
{
	struct sh_control *control = path->control;
	int ret;

	if (!length || length > path->payload_max)
		return -EMSGSIZE;
	if (sh_control_dead(control))
		return -EIO;
	if (sh_control_rests(control))
		return -EAGAIN;
	pthread_mutex_lock(&control->lock);
	ret = control_send_locked(control, path, buf, length);
	pthread_mutex_unlock(&control->lock);
	return ret;
}

uint64_t sh_control_waiting_since(struct sh_control *control)
{
	uint64_t since = 0;

	if (!control || sh_control_dead(control))
		return 0;
	pthread_mutex_lock(&control->lock);
	if (control->sends_posted != control->sends_done && !control_reclaim_locked(control) &&
	    control->sends_posted != control->sends_done)
		since = control->waiting_since;
	pthread_mutex_unlock(&control->lock);
	return since;
}

uint64_t sh_control_proven_at(struct sh_control *control)
{
	uint64_t at;

	if (sh_control_dead(control))
		return 0;
	pthread_mutex_lock(&control->lock);
	(void)control_reclaim_locked(control);
	at = control->proven_at;
	pthread_mutex_unlock(&control->lock);
	return at;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Returns the place of a receive, and by *mr its region. */
static uint8_t *control_slot(const struct sh_control *control, uint64_t slot,
			     const struct ibv_mr **mr)
{
	const struct control_memory *memory = &control->memory[CONTROL_FIRST];

	if (slot >= SH_CONTROL_RECEIVES_FIRST && sh_control_wide(control)) {
		memory = &control->memory[CONTROL_WIDE];
		slot -= SH_CONTROL_RECEIVES_FIRST;
	}
	*mr = memory->mr;
	return memory->buffer + slot * RECEIVE_BYTES;
}

int sh_control_post_receive(struct sh_control *control, uint64_t slot)
{
	const struct ibv_mr *mr;
	const uint8_t *at = control_slot(control, slot, &mr);
	struct ibv_sge sge = { .addr = (uintptr_t)at,
			       .length = GRH_BYTES + SH_CONTROL_MTU_MAX,
			       .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return -ibv_post_recv(control->qp, &wr, &bad);
}

int sh_control_arm(struct sh_control *control)
{
	return -ibv_req_notify_cq(control->recv_cq, 0);
}

struct receiver {
	void (*receive)(void *arg, const void *buf, size_t length);
	void *arg;
};

/*
 * Takes and acknowledges events, which only say that there may be something. A channel that cannot
 * be read any more would stay readable for ever: the NIC was taken away.
 */
static int control_take_events(struct sh_control *control)
{
	struct ibv_cq *cq;
	void *cq_context;
	unsigned int n = 0;

	errno = 0;
	while (!control->real->get_cq_event(control->channel, &cq, &cq_context))
		n++;
	if (errno != EAGAIN && errno != EINTR)
		return control_die(control, "its completion channel is gone");
	if (n)
		control->real->ack_cq_events(control->recv_cq, n);
	return 0;
}

static int control_receive_one(struct sh_control *control, const struct ibv_wc *wc,
			       const struct receiver *to)
{
	const struct ibv_mr *mr;
	const uint8_t *buf = control_slot(control, wc->wr_id, &mr);

	if (wc->status != IBV_WC_SUCCESS)
		return control_die(control, "a receive failed");
	if (wc->byte_len > GRH_BYTES)
		to->receive(to->arg, buf + GRH_BYTES, wc->byte_len - GRH_BYTES);
	if (sh_control_post_receive(control, wc->wr_id))
		return control_die(control, "a receive cannot be posted");
	return 0;
}

/* Takes up to max datagrams. Returns their number, or -EIO. */
static int control_poll(struct sh_control *control, int max, const struct receiver *to)
{
	struct ibv_wc wc[POLL_BATCH];
	int done = 0, want, n, i, ret;

	do {
		want = max - done < POLL_BATCH ? max - done : POLL_BATCH;
		n = want ? ibv_poll_cq(control->recv_cq, want, wc) : 0;
		if (n < 0)
			return control_die(control, "its receive queue cannot be polled");
		if (n == POLL_BATCH)
			control_tighten(control);
		for (i = 0; i < n; i++) {
			ret = control_receive_one(control, &wc[i], to);
			if (ret)
				return ret;
		}
		done += n;
	} while (n);
	return done;
}

int sh_control_poll(struct sh_control *control,
		    void (*receive)(void *arg, const void *buf, size_t length), void *arg)
{
	const struct receiver to = { receive, arg };
	int n, more;

	if (sh_control_dead(control))
		return -EIO;
	if (control_take_events(control))
		return -EIO;
	if (sh_control_rests(control))
		return 0;
	n = control_poll(control, SH_CONTROL_RECEIVES, &to);
	if (n < 0 || n == SH_CONTROL_RECEIVES)
		return n;
	if (sh_control_arm(control))
		return control_die(control, "its receive queue cannot be armed");
	/* a datagram between the last poll and the arming may have raised no event */
	more = control_poll(control, SH_CONTROL_RECEIVES - n, &to);
	return more < 0 ? more : n + more;
}
