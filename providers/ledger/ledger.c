/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table of the ledger engine, as the shell finds it. Operations that mean nothing over plain
 * verbs do nothing, and are here.
 */
#include <assert.h>
#include <stddef.h>

#include "providers/ledger/cq.h"
#include "providers/ledger/failed.h"
#include "providers/ledger/ledger.h"
#include "providers/ledger/log.h"
#include "providers/ledger/move.h"
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"
#include "providers/ledger/srq.h"
#include "providers/common/srq_rings.h"

#define ENGINE_AT(type)                                                                            \
	static_assert(offsetof(struct type, engine) == SP_ENGINE_AT, "where engine.h looks")
ENGINE_AT(sp_dev);
ENGINE_AT(sp_cq);
ENGINE_AT(sp_cq_ring);
ENGINE_AT(sp_qp);
ENGINE_AT(sp_carrier);
ENGINE_AT(sp_srq);
ENGINE_AT(sp_srq_ring);

/* Does nothing: keys are asked for with each request, and none is remembered. */
static void led_keys_changed(void)
{
}

/*
 * Reports no key: what a driver's own commands do to keys is unknown. A key that the shell never
 * saw is noticed in use.
 */
static void led_key_command(const struct ib_uverbs_ioctl_hdr *command, struct sp_key_command *out)
{
	*out = (struct sp_key_command){ .what = SP_KEY_NONE };
}

static int led_dmabuf_flags(const void *driver, uint32_t *flags)
{
	return -EINVAL;
}

static struct ibv_mr *led_dmabuf_reg(struct ibv_pd *pd, const struct sp_dmabuf *buf)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static uint32_t led_pd_number(struct ibv_pd *pd)
{
	return SP_PD_ANY;
}

/* Does nothing: the provider resizes, and goes on with what was not polled. */
static int led_cq_resize(struct sp_cq *cq, struct ibv_cq *real)
{
	return 0;
}

/* Never fails: a completion that is held between start_poll and end_poll is a copy. */
static int led_cq_resize_keep_out(struct sp_cq *cq)
{
	return 0;
}

static void led_cq_resize_let_poll(struct sp_cq *cq)
{
}

/* Does nothing, as nothing is reserved for a resize. */
static void led_cq_resize_release(struct sp_cq *cq)
{
}

/* Always false: the engine does not look for other users of the rings; see led_qp_reason(). */
static bool led_direct_verbs(void)
{
	return false;
}

static bool led_cq_polled(struct sp_cq *cq)
{
	return true;
}

static bool led_qp_posted(struct sp_qp *qp)
{
	return true;
}

/* Never asked: QPs that the engine does not drive share its CQs (SP_SHARES_CQ). */
static int led_foreign_add(struct sp_cq *cq, struct ibv_cq *private_cq, struct sp_cq_ring **events)
{
	return -EOPNOTSUPP;
}

static int led_foreign_feed(struct sp_cq *cq, const struct sp_cq_user *user)
{
	return -EOPNOTSUPP;
}

static void led_foreign_mute(struct sp_cq *cq, const struct ibv_cq *private_cq)
{
}

static void led_foreign_unmute(struct sp_cq *cq, const struct ibv_cq *private_cq, bool reset)
{
}

static int led_foreign_del(struct sp_cq *cq, struct ibv_cq *private_cq)
{
	return -EOPNOTSUPP;
}

static int led_cq_drive_used(struct sp_dev *dev, struct ibv_cq *cq, void *cookie,
			     const struct sp_cq_user *users, uint32_t n, struct sp_cq **out)
{
	return -EOPNOTSUPP;
}

const struct shift_provider shift_provider_ledger = {
	.name = "ledger",
	.traits = SP_SHARES_CQ | SP_ANY_DEVICE | SP_OWN_STATE_WORD | SP_HIDDEN_SENDS |
		  SP_PROVIDER_ARMS,
	.serves = led_serves,
	.direct_verbs = led_direct_verbs,
	.probe = led_probe,
	.dev_init = led_dev_init,
	.dev_uninit = led_dev_uninit,
	.keys_changed = led_keys_changed,
	.key_command = led_key_command,
	.pd_number = led_pd_number,
	.dmabuf_flags = led_dmabuf_flags,
	.dmabuf_reg = led_dmabuf_reg,
	.cq.drive = led_cq_drive,
	.cq.drive_used = led_cq_drive_used,
	.cq.take_over = led_cq_take_over,
	.cq.undrive = led_cq_undrive,
	.cq.ring_add = led_cq_ring_add,
	.cq.ring_del = led_cq_ring_del,
	.cq.own_ring = led_cq_own_ring,
	.cq.event_read = led_cq_event_read,
	.cq.collect = led_cq_collect,
	.cq.resize_reserve = led_cq_resize,
	.cq.resize_release = led_cq_resize_release,
	.cq.resize_keep_out = led_cq_resize_keep_out,
	.cq.resize_let_poll = led_cq_resize_let_poll,
	.cq.polled = led_cq_polled,
	.cq.resize_begin = led_cq_resize,
	.cq.resize_end = led_cq_resize,
	.cq.foreign_add = led_foreign_add,
	.cq.foreign_feed = led_foreign_feed,
	.cq.foreign_mute = led_foreign_mute,
	.cq.foreign_unmute = led_foreign_unmute,
	.cq.foreign_del = led_foreign_del,
	.cq.error_waiting = led_cq_error_waiting,
	.cq.watch = led_cq_watch,
	.srq.drive = led_srq_drive,
	.srq.undrive = led_srq_undrive,
	.srq.ring_add = led_srq_ring_add,
	.srq.ring_del = led_srq_ring_del,
	.srq.own = sp_rings_own,
	.srq.query = sp_ring_query,
	.srq.recover = led_srq_recover,
	.srq.renew = sp_ring_renew,
	.srq.rest = sp_ring_rest,
	.srq.feed = sp_rings_feed,
	.srq.hand_back = led_srq_hand_back,
	.srq.limit = sp_rings_limit,
	.srq.share = sp_pool_share,
	.srq.starving = sp_pool_starving,
	.reclaim.make = led_reclaim_make,
	.reclaim.free = led_reclaim_free,
	.reclaim.ask = led_reclaim_ask,
	.reclaim.collect = led_reclaim_collect,
	.qp.drive = led_qp_drive,
	.qp.drivable = led_qp_drivable,
	.qp.foreign = led_qp_foreign,
	.qp.posted = led_qp_posted,
	.qp.reason = led_qp_reason,
	.qp.keys = led_qp_keys,
	.qp.undrive = led_qp_undrive,
	.qp.modified = led_qp_modified,
	.qp.number = led_qp_number,
	.qp.recv_count = led_qp_recv_count,
	.qp.send_counts = led_qp_send_counts,
	.qp.sending = led_qp_sending,
	.qp.tell = led_qp_tell,
	.qp.sent = led_qp_sent,
	.qp.guard = led_qp_guard,
	.qp.progressed = led_qp_progressed,
	.qp.gate = led_qp_gate,
	.qp.gated = led_qp_gated,
	.qp.atomics = led_qp_atomics,
	.qp.pass = led_qp_pass,
	.qp.log = led_qp_log,
	.qp.logged = led_qp_logged,
	.carrier.add = led_carrier_add,
	.carrier.del = led_carrier_del,
	.move.last_receive = led_qp_last_receive,
	.move.withhold = led_qp_withhold,
	.move.fence = led_qp_fence,
	.move.fenced = led_qp_fenced,
	.move.resume = led_qp_resume,
	.move.flushed = led_qp_flushed,
	.move.seal = led_qp_seal,
	.move.lay_receives = led_qp_lay_receives,
	.move.recall = led_qp_recall,
	.move.writes_only = led_qp_writes_only,
	.move.outstanding = led_qp_outstanding,
	.move.settle = led_qp_settle,
	.move.publish = led_qp_publish,
	.move.fail_all = led_qp_fail,
};
