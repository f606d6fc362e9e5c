/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A memory window of type 1 for each slot and NIC, on the user's own region. Each bind gives the
 * window another key: a late packet has a dead key, and is dropped by the device.
 */
#include "sdr/nic/change.h"

#include <errno.h>
#include <stdlib.h>

static void window_close(struct sdr_changer *c, const struct sdr_slots *s)
{
	struct ibv_mw **mw = c->priv;

	for (uint32_t i = 0; mw && i < s->n; i++)
		if (mw[i])
			ibv_dealloc_mw(mw[i]);
	sdr_channel_close(&c->channel);
	free(mw);
	c->priv = NULL;
}

static int window_open(struct sdr_changer *c, const struct sdr_slots *s, uint32_t nic_index)
{
	const struct sdr_nic *nic = sdr_slots_nic(s, nic_index);
	struct sdr_peer self = { .gid = nic->gid, .lid = nic->lid, .mtu = nic->mtu };
	uint32_t depth = 2 * s->n > SDR_SEND_DEPTH ? 2 * s->n : SDR_SEND_DEPTH;
	struct ibv_mw **mw;
	int err;

	if (!nic->windows)
		return -EOPNOTSUPP;
	/*
	 * room to open and close all slots before an answer is looked for, if the device has such a
	 * queue
	 */
	err = sdr_channel_open(&c->channel, nic, depth, 1);
	while (err && depth > SDR_SEND_DEPTH) {
		depth /= 2;
		err = sdr_channel_open(&c->channel, nic, depth, 1);
	}
	if (!err)
		err = sdr_channel_connect(&c->channel, nic, &self, c->channel.qp->qp_num);
	if (err)
		return err;
	c->priv = mw = calloc(s->n, sizeof(struct ibv_mw *));
	if (!mw)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++) {
		mw[i] = ibv_alloc_mw(nic->pd, IBV_MW_TYPE_1);
		if (!mw[i])
			return -errno;
	}
	return 0;
}

/*
 * Binds a window. Without bytes the bind names the region nevertheless, as librxe reads its key
 * whether or not there is one (rdma-core 44).
 */
static int window_ask(struct sdr_changer *c, const struct sdr_slots *s,
		      const struct sdr_change *change)
{
	struct ibv_mw_bind bind = {
		.wr_id = change->slot,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = change->mr, .addr = change->addr, .length = change->length }
	};

	(void)s;
	if (change->length)
		bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	return ibv_bind_mw(c->channel.qp, ((struct ibv_mw **)c->priv)[change->slot], &bind);
}

static uint32_t window_rkey(const struct sdr_changer *c, uint32_t slot)
{
	return ((struct ibv_mw *const *)c->priv)[slot]->rkey;
}

static uint64_t window_place(const struct sdr_slots *s, const struct sdr_change *change)
{
	(void)s;
	return change->addr;
}

static int windows_open(struct sdr_slots *s)
{
	static const struct sdr_change_kind kind = { .open = window_open,
						     .close = window_close,
						     .ask = window_ask,
						     .rkey = window_rkey,
						     .place = window_place };

	return sdr_changes_open(s, &kind);
}

const struct sdr_slots_ops sdr_slots_window = {
	.open = windows_open,
	SDR_CHANGES_OPS,
};
