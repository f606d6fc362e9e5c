/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of the ring engine, as the shell finds it. */
#include <assert.h>
#include <stddef.h>

#include "providers/mlx5/backlog.h"
#include "providers/mlx5/bf.h"
#include "providers/mlx5/command.h"
#include "providers/mlx5/cq.h"
#include "providers/mlx5/driven_cq.h"
#include "providers/mlx5/foreign.h"
#include "providers/mlx5/failed.h"
#include "providers/mlx5/fence.h"
#include "providers/mlx5/gate.h"
#include "providers/mlx5/hold.h"
#include "providers/mlx5/intruder.h"
#include "providers/mlx5/libmlx5.h"
#include "providers/mlx5/log.h"
#include "providers/mlx5/mlx5.h"
#include "providers/mlx5/move.h"
#include "providers/mlx5/recall.h"
#include "providers/mlx5/reclaim.h"
#include "providers/mlx5/sample.h"
#include "providers/mlx5/settle.h"
#include "providers/mlx5/srq_pool.h"
#include "providers/mlx5/xlat.h"
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

const struct shift_provider shift_provider_mlx5 = {
	.name = "mlx5",
	.traits = SP_OWN_CQ_SIZE,
	.serves = ring_serves,
	.direct_verbs = ring_direct_verbs,
	.probe = ring_probe,
	.dev_init = ring_dev_init,
	.dev_uninit = ring_dev_uninit,
	.keys_changed = ring_keys_changed,
	.key_command = ring_key_command,
	.pd_number = ring_pd_number,
	.dmabuf_flags = ring_dmabuf_flags,
	.dmabuf_reg = ring_dmabuf_reg,
	.cq.drive = ring_cq_drive,
	.cq.drive_used = ring_cq_drive_used,
	.cq.take_over = ring_cq_take_over,
	.cq.undrive = ring_cq_undrive,
	.cq.ring_add = ring_cq_ring_add,
	.cq.ring_del = ring_cq_ring_del,
	.cq.own_ring = ring_cq_own_ring,
	.cq.event_read = ring_cq_event_read,
	.cq.collect = ring_cq_collect,
	.cq.resize_reserve = ring_cq_resize_reserve,
	.cq.resize_release = ring_backlog_trim,
	.cq.resize_keep_out = ring_cq_resize_keep_out,
	.cq.resize_let_poll = ring_cq_resize_let_poll,
	.cq.polled = ring_cq_polled,
	.cq.resize_begin = ring_cq_resize_begin,
	.cq.resize_end = ring_cq_resize_end,
	.cq.foreign_add = ring_foreign_add,
	.cq.foreign_feed = ring_foreign_feed,
	.cq.foreign_mute = ring_foreign_mute,
	.cq.foreign_unmute = ring_foreign_unmute,
	.cq.foreign_del = ring_foreign_del,
	.srq.drive = ring_srq_drive,
	.srq.undrive = ring_srq_undrive,
	.srq.ring_add = ring_srq_ring_add,
	.srq.ring_del = ring_srq_ring_del,
	.srq.own = sp_rings_own,
	.srq.query = sp_ring_query,
	.srq.recover = ring_srq_recover,
	.srq.renew = sp_ring_renew,
	.srq.rest = sp_ring_rest,
	.srq.feed = sp_rings_feed,
	.srq.hand_back = ring_srq_hand_back,
	.srq.limit = sp_rings_limit,
	.srq.share = sp_pool_share,
	.srq.starving = sp_pool_starving,
	.reclaim.make = ring_reclaim_make,
	.reclaim.free = ring_reclaim_free,
	.reclaim.ask = ring_reclaim_ask,
	.reclaim.collect = ring_reclaim_collect,
	.qp.drive = ring_qp_drive,
	.qp.drivable = ring_qp_drivable,
	.qp.foreign = ring_qp_foreign,
	.qp.posted = ring_qp_posted,
	.qp.reason = ring_qp_reason,
	.qp.keys = ring_qp_keys,
	.qp.undrive = ring_qp_undrive,
	.qp.modified = ring_qp_modified,
	.qp.recv_count = ring_qp_recv_count,
	.qp.number = ring_qp_number,
	.qp.send_counts = ring_qp_send_counts,
	.qp.sending = ring_qp_sending,
	.qp.tell = ring_qp_tell,
	.qp.sent = ring_qp_sent,
	.qp.guard = ring_qp_guard,
	.carrier.add = ring_carrier_add,
	.carrier.del = ring_carrier_del,
	.move.last_receive = ring_qp_last_receive,
	.move.withhold = ring_qp_withhold,
	.move.fence = ring_qp_fence,
	.move.fenced = ring_qp_fenced,
	.qp.progressed = ring_qp_progressed,
	.move.resume = ring_qp_resume,
	.move.flushed = ring_qp_flushed,
	.move.seal = ring_qp_seal,
	.move.lay_receives = ring_qp_lay_receives,
	.move.recall = ring_qp_recall,
	.move.writes_only = ring_qp_writes_only,
	.move.outstanding = ring_qp_outstanding,
	.move.settle = ring_qp_settle,
	.move.publish = ring_qp_publish,
	.qp.gate = ring_qp_gate,
	.qp.gated = ring_qp_gated,
	.qp.atomics = ring_qp_atomics,
	.qp.pass = ring_qp_pass,
	.qp.log = ring_qp_log,
	.qp.logged = ring_qp_logged,
	.move.fail_all = ring_qp_fail,
	.cq.error_waiting = ring_cq_error_waiting,
	.cq.watch = ring_cq_watch,
};
