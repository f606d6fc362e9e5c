/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of engines, on the data path: engine locks are held, the shell's lock is not. Each
 * call is a lock-free lookup, or goes into the mailbox.
 */
#include <errno.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/news.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"

static void callback_doubt(struct sh_qp *qp, uint32_t epoch, enum ibv_wc_status status,
			   uint32_t vendor_err)
{
	atomic_store(&qp->mailbox.doubt_epoch, epoch);
	atomic_store(&qp->mailbox.doubt_status, (uint32_t)status);
	atomic_store(&qp->mailbox.doubt_vendor, vendor_err);
	sh_mailbox_push(qp, SH_PENDING_DOUBT);
}

static void callback_error(void *cookie, uint32_t epoch, enum sp_error_class cls, bool withheld,
			   enum ibv_wc_status status, uint32_t vendor_err)
{
	struct sh_qp *qp = cookie;

	if (withheld && cls == SP_ERROR_DOUBTFUL) {
		callback_doubt(qp, epoch, status, vendor_err);
		return;
	}
	if (withheld && cls == SP_ERROR_APPLICATION) {
		sh_mailbox_note_app_error(qp, epoch, (uint32_t)status, vendor_err);
		sh_mailbox_push(qp, SH_PENDING_APP_ERROR);
		return;
	}
	sh_mailbox_note_error(qp, epoch, (uint32_t)status, vendor_err, withheld);
	sh_mailbox_push(qp, SH_PENDING_ERROR);
}

static void callback_cq_event(void *cookie)
{
	sh_comp_channel_raise(&((struct sh_cq *)cookie)->events);
}

static void callback_key_missing(void *cookie)
{
	sh_mailbox_push(cookie, SH_PENDING_KEY);
}

static void callback_posted(void *cookie)
{
	(void)cookie;
	sh_asleep_posted();
}

static void callback_gated(void *cookie)
{
	sh_mailbox_push(cookie, SH_PENDING_GATED);
}

static void callback_progress(void *cookie, uint32_t epoch)
{
	struct sh_qp *qp = cookie;
	uint64_t none = 0;

	atomic_store(&qp->mailbox.progress_epoch, epoch);
	atomic_compare_exchange_strong(&qp->mailbox.progress_ns, &none, sh_now_ns());
	sh_mailbox_push(qp, SH_PENDING_PROGRESS);
}

static int callback_lkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	struct sh_qp *qp = cookie;
	int path = sh_carrier_path(qp, epoch);

	if (path >= 0 && sh_keymap_get(&qp->ctx->lkeys[path], key, out))
		return 0;
	atomic_store_explicit(&qp->mailbox.missing, key, memory_order_relaxed);
	return -ENOENT;
}

static bool pd_has_lkey(const struct sh_pd *pd, uint32_t key)
{
	const struct sh_mr *mr;

	list_for_each (&pd->mrs, mr, struct sh_mr, link)
		if (mr->mr->lkey == key)
			return true;
	return false;
}

static bool callback_lkey_gone(void *cookie, uint32_t key) SH_LOCKED
{
	const struct sh_qp *qp = cookie;
	const struct sh_pd *pd;

	list_for_each (&qp->ctx->pds, pd, struct sh_pd, link)
		if (pd_has_lkey(pd, key))
			return false;
	return true;
}

static int callback_rkey(void *cookie, uint32_t epoch, uint32_t key, uint32_t *out)
{
	struct sh_qp *qp = cookie;
	struct sh_peer *peer = atomic_load_explicit(&qp->peer, memory_order_acquire);
	int path = sh_carrier_path(qp, epoch);
	struct sh_keymap *map = NULL;

	if (peer && path >= 0)
		map = sh_peer_keys(peer, qp->paths.peer_nics[0], qp->paths.peer_nics[path]);
	if (map && sh_keymap_get(map, key, out))
		return 0;
	atomic_store_explicit(&qp->mailbox.missing, SH_KEY_REMOTE | key, memory_order_relaxed);
	return -ENOENT;
}

const struct sp_callbacks sh_callbacks = {
	.qp_error = callback_error,
	.cq_event = callback_cq_event,
	.cq_armed = sh_cq_events_armed,
	.key_missing = callback_key_missing,
	.posted = callback_posted,
	.gated = callback_gated,
	.qp_progress = callback_progress,
	.lkey = callback_lkey,
	.rkey = callback_rkey,
	.lkey_gone = callback_lkey_gone,
	.srq_lkey = sh_srq_cb_lkey,
	.srq_stuck = sh_srq_cb_stuck,
	.srq_limit = sh_srq_cb_limit,
	.owed = sh_give_way_owed,
	.give_way = sh_give_way,
};

bool sh_news_cq_event_read(struct sp_cq_ring *ring)
{
	return sp_cq_event_read(ring);
}
