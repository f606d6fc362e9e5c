/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A memory window of type 1 for each slot, on the user's own region. Binding and unbinding are requests of a queue pair that is
 * connected to itself, so that no data stands before them. Each gives the window another key: a late packet has a dead
 * one, and is dropped by the device.
 */
#include "sdr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct windows {
	struct sdr_channel binder;
	struct ibv_mw **mw;
	uint64_t *addr;
};

/* What a request's wr_id says: the slot, and whether it binds. */
static uint64_t id_of(uint32_t slot, bool bind)
{
	return (uint64_t)slot << 1 | bind;
}

static void windows_close(struct sdr_slots *s)
{
	struct windows *w = s->priv;

	for (uint32_t i = 0; w->mw && i < s->n; i++)
		if (w->mw[i])
			ibv_dealloc_mw(w->mw[i]);
	sdr_channel_close(&w->binder);
	free(w->mw);
	free(w->addr);
	free(w);
	s->priv = NULL;
}

static int make_windows(struct sdr_slots *s, struct windows *w)
{
	w->mw = calloc(s->n, sizeof(*w->mw));
	w->addr = calloc(s->n, sizeof(*w->addr));
	if (!w->mw || !w->addr)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++) {
		w->mw[i] = ibv_alloc_mw(s->nic->pd, IBV_MW_TYPE_1);
		if (!w->mw[i])
			return -errno;
	}
	return 0;
}

static int windows_open(struct sdr_slots *s)
{
	const struct sdr_nic *nic = s->nic;
	struct sdr_peer self = { .gid = nic->gid, .lid = nic->lid, .mtu = nic->mtu };
	struct windows *w;
	int err;

	if (!nic->windows)
		return -EOPNOTSUPP;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	s->priv = w;
	err = sdr_channel_open(&w->binder, nic, 1);
	if (!err)
		err = sdr_channel_connect(&w->binder, nic, &self, w->binder.qp->qp_num);
	if (!err)
		err = make_windows(s, w);
	if (err)
		windows_close(s);
	return err;
}

static int change(struct windows *w, uint32_t slot, const struct ibv_mw_bind_info *info)
{
	struct ibv_mw_bind bind = { .wr_id = id_of(slot, info->length),
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = *info };

	return -ibv_bind_mw(w->binder.qp, w->mw[slot], &bind);
}

static int windows_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation, struct ibv_mr *mr,
			uint64_t addr, uint64_t length)
{
	struct windows *w = s->priv;
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = addr, .length = length, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE
	};

	w->addr[slot] = addr;
	return change(w, slot, &info);
}

static int windows_unbind(struct sdr_slots *s, uint32_t slot)
{
	return change(s->priv, slot, &(struct ibv_mw_bind_info){ 0 });
}

static int windows_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max)
{
	struct windows *w = s->priv;
	struct ibv_wc wc[SDR_BURST];
	int n = ibv_poll_cq(w->binder.send_cq, max < SDR_BURST ? (int)max : SDR_BURST, wc);

	for (int i = 0; i < n; i++) {
		uint32_t slot = (uint32_t)(wc[i].wr_id >> 1);

		if (wc[i].status)
			return -EIO;
		events[i] = (struct sdr_slot_event){ .bound = wc[i].wr_id & 1,
						     .slot = slot,
						     .rkey = w->mw[slot]->rkey,
						     .addr = w->addr[slot] };
	}
	return n < 0 ? -EIO : n;
}

const struct sdr_slots_ops sdr_slots_window = {
	.open = windows_open,
	.close = windows_close,
	.bind = windows_bind,
	.unbind = windows_unbind,
	.poll = windows_poll,
};
