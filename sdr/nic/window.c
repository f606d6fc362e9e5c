/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A memory window of type 1 for each slot and NIC, on the user's own region. Binding and unbinding are requests of a queue pair
 * that is connected to itself, so that no data stands before them. Each gives the window another key: a late packet has a dead
 * one, and is dropped by the device.
 */
#include "sdr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* At one NIC. */
struct binder {
	struct sdr_channel channel;
	struct ibv_mw **mw;
	uint64_t asked, answered;
	bool lost, over;
};

/* A slot, at all of them; bits of NICs. */
struct windowed {
	struct ibv_mr *const *mrs;
	uint64_t addr;
	uint32_t bound, waits;
	bool binding; /* else it is being unbound */
};

struct windows {
	struct binder at[SDR_NICS_MAX];
	struct windowed *slots;
	uint32_t *done; /* a ring of slots at which nothing is waited for: each once at most */
	uint32_t first, n_done;
};

/* ---- open, close ----------------------------------------------------------------------------- */

static void binder_close(struct binder *b, uint32_t n)
{
	for (uint32_t i = 0; b->mw && i < n; i++)
		if (b->mw[i])
			ibv_dealloc_mw(b->mw[i]);
	sdr_channel_close(&b->channel);
	free(b->mw);
	b->mw = NULL;
}

static void windows_close(struct sdr_slots *s)
{
	struct windows *w = s->priv;

	for (uint32_t i = 0; i < s->n_nics; i++)
		binder_close(&w->at[i], s->n);
	free(w->slots);
	free(w->done);
	free(w);
	s->priv = NULL;
}

static int binder_open(struct binder *b, const struct sdr_nic *nic, uint32_t n)
{
	struct sdr_peer self = { .gid = nic->gid, .lid = nic->lid, .mtu = nic->mtu };
	int err = sdr_channel_open(&b->channel, nic, 1);

	if (!err)
		err = sdr_channel_connect(&b->channel, nic, &self, b->channel.qp->qp_num);
	if (err)
		return err;
	b->mw = calloc(n, sizeof(*b->mw));
	if (!b->mw)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		b->mw[i] = ibv_alloc_mw(nic->pd, IBV_MW_TYPE_1);
		if (!b->mw[i])
			return -errno;
	}
	return 0;
}

static int windows_open(struct sdr_slots *s)
{
	struct windows *w;
	int err = 0;

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!s->nics[i].windows)
			return -EOPNOTSUPP;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	s->priv = w;
	w->slots = calloc(s->n, sizeof(*w->slots));
	w->done = calloc(s->n, sizeof(*w->done));
	if (!w->slots || !w->done)
		err = -ENOMEM;
	for (uint32_t i = 0; i < s->n_nics && !err; i++)
		err = binder_open(&w->at[i], &s->nics[i], s->n);
	if (err)
		windows_close(s);
	return err;
}

/* ---- requests and answers -------------------------------------------------------------------- */

/* This NIC has nothing more to say of it. */
static void settle(const struct sdr_slots *s, struct windows *w, uint32_t slot, uint32_t nic)
{
	struct windowed *x = &w->slots[slot];

	if (!(x->waits & 1u << nic))
		return;
	x->waits &= ~(1u << nic);
	if (!x->waits)
		w->done[(w->first + w->n_done++) % s->n] = slot;
}

static void change(struct sdr_slots *s, uint32_t slot, uint32_t nic,
		   const struct ibv_mw_bind_info *info)
{
	struct binder *b = &((struct windows *)s->priv)->at[nic];
	struct ibv_mw_bind bind = { .wr_id = slot,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = *info };

	if (ibv_bind_mw(b->channel.qp, b->mw[slot], &bind))
		s->failed |= 1u << nic;
	else
		b->asked++;
}

static int windows_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation,
			struct ibv_mr *const *mrs, uint64_t addr, uint64_t length)
{
	struct windows *w = s->priv;
	struct windowed *x = &w->slots[slot];

	*x = (struct windowed){ .mrs = mrs, .addr = addr, .binding = true };
	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!w->at[i].lost && mrs[i])
			x->waits |= 1u << i;
	x->bound = x->waits;
	for (uint32_t i = 0; i < s->n_nics; i++) {
		struct ibv_mw_bind_info info = { .mr = mrs[i],
						 .addr = addr,
						 .length = length,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };

		if (x->bound & 1u << i)
			change(s, slot, i, &info);
	}
	return x->bound ? 0 : -EIO;
}

/*
 * Of no bytes: the region is named nevertheless, as librxe reads its key whether or not there is one (rdma-core 44).
 * Where a NIC was lost, nothing can be asked of it: what was bound there waits until nothing comes any more.
 */
static int windows_unbind(struct sdr_slots *s, uint32_t slot)
{
	struct windows *w = s->priv;
	struct windowed *x = &w->slots[slot];
	uint32_t was = x->bound;

	x->binding = false;
	x->waits = was;
	for (uint32_t i = 0; i < s->n_nics; i++) {
		if (!(was & 1u << i))
			continue;
		if (!w->at[i].lost)
			change(s, slot, i,
			       &(struct ibv_mw_bind_info){ .mr = x->mrs[i], .addr = x->addr });
		else if (w->at[i].over)
			settle(s, w, slot, i);
	}
	if (!was) /* every NIC that it was bound at is over: one says so for all */
		w->done[(w->first + w->n_done++) % s->n] = slot;
	return 0;
}

static void poll_binder(struct sdr_slots *s, struct windows *w, uint32_t nic)
{
	struct ibv_wc wc[SDR_BURST];
	int n = ibv_poll_cq(w->at[nic].channel.send_cq, SDR_BURST, wc);

	for (int i = 0; i < n && !wc[i].status; i++) {
		w->at[nic].answered++;
		settle(s, w, (uint32_t)wc[i].wr_id, nic);
	}
	for (int i = 0; i < n; i++)
		if (wc[i].status)
			n = -1;
	if (n < 0)
		s->failed |= 1u << nic;
}

static struct sdr_slot_event event_of(const struct sdr_slots *s, const struct windows *w,
				      uint32_t slot)
{
	const struct windowed *x = &w->slots[slot];
	struct sdr_slot_event e = { .bound = x->binding, .slot = slot, .addr = x->addr };

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (x->bound & 1u << i && !w->at[i].lost)
			e.rkeys[i] = w->at[i].mw[slot]->rkey;
	return e;
}

static int windows_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max)
{
	struct windows *w = s->priv;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!w->at[i].lost)
			poll_binder(s, w, i);
	for (; n < max && w->n_done; n++, w->n_done--) {
		events[n] = event_of(s, w, w->done[w->first]);
		w->first = (w->first + 1) % s->n;
	}
	return (int)n;
}

/* A key that was not told yet binds nothing; one that was told is dead only when it is all over. */
static void windows_lost(struct sdr_slots *s, uint32_t nic, bool over)
{
	struct windows *w = s->priv;

	w->at[nic].lost = true;
	w->at[nic].over |= over;
	for (uint32_t i = 0; i < s->n; i++) {
		struct windowed *x = &w->slots[i];

		if (!(x->waits & 1u << nic) || (!x->binding && !over))
			continue;
		if (x->binding)
			x->bound &= ~(1u << nic);
		settle(s, w, i, nic);
	}
	for (uint32_t i = 0; over && i < s->n; i++)
		w->slots[i].bound &= ~(1u << nic);
}

static void windows_bury(struct sdr_slots *s, uint32_t nic)
{
	binder_close(&((struct windows *)s->priv)->at[nic], s->n);
}

static int windows_renew(struct sdr_slots *s, uint32_t nic)
{
	struct binder *b = &((struct windows *)s->priv)->at[nic];

	b->asked = b->answered = 0;
	return s->nics[nic].windows ? binder_open(b, &s->nics[nic], s->n) : -EOPNOTSUPP;
}

static void windows_joined(struct sdr_slots *s, uint32_t nic)
{
	struct binder *b = &((struct windows *)s->priv)->at[nic];

	b->lost = b->over = false;
	s->failed &= ~(1u << nic);
}

static uint64_t windows_waits(const struct sdr_slots *s, uint32_t nic, uint64_t *answered)
{
	const struct binder *b = &((const struct windows *)s->priv)->at[nic];

	*answered = b->answered;
	return b->lost ? 0 : b->asked - b->answered;
}

const struct sdr_slots_ops sdr_slots_window = {
	.open = windows_open,
	.close = windows_close,
	.bind = windows_bind,
	.unbind = windows_unbind,
	.poll = windows_poll,
	.lost = windows_lost,
	.bury = windows_bury,
	.renew = windows_renew,
	.joined = windows_joined,
	.waits = windows_waits,
};
