/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Standby carriers: a real QP on a path's NIC, made and connected ahead of need, by its worker. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/standby.h"
#include "shiftlib/conn/standby_job.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/control/address.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reach.h"
#include "shiftlib/replica/real_qp.h"
#include "shiftlib/replica/srq.h"

#define STANDBY_PORT	  1
#define STANDBY_HOP_LIMIT 64

/* ---- making: shadows of what the QP needs, the QP itself, INIT ------------------------------ */

/*
 * Fills in what the application asked for. On another vendor's device, what it got, as such a
 * device rounds up otherwise; and nothing that only some devices know.
 */
static void standby_attr(const struct sh_qp *qp, bool with_parts, struct ibv_qp_init_attr_ex *attr)
{
	const struct sp_dev *dev = qp->ctx->dev; /* the QP may be the application's no more */
	bool more;

	*attr = qp->init;
	if (sp_has(dev, SP_ANY_DEVICE)) {
		attr->cap = qp->caps;
		attr->comp_mask = IBV_QP_INIT_ATTR_PD;
	}
	more = with_parts && sh_parts_caps(qp, &attr->cap);
	/*
	 * a ring must be as large as the first one, which has one more with a log
	 * (qp_call_logged)
	 */
	attr->cap.max_send_wr += more || sp_has(dev, SP_HIDDEN_SENDS);
}

static struct ibv_qp *standby_create_with(struct sh_standby_job *task, bool with_inline,
					  bool with_parts)
{
	struct sh_qp *qp = task->qp;
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *real;

	standby_attr(qp, with_parts, &attr);
	if (!with_inline)
		attr.cap.max_inline_data = 0;
	attr.qp_context = qp;
	attr.pd = qp->pd->shadow[task->path].pd;
	attr.send_cq = qp->scq->shadow[task->path]->cq;
	attr.recv_cq = qp->rcq->shadow[task->path]->cq;
	attr.srq = qp->srq ? qp->srq->shadow[task->path]->srq : NULL;
	real = ibv_create_qp_ex(task->nic->ctx, &attr);
	task->caps = attr.cap;
	return real;
}

/*
 * Makes the QP; if that fails, without the extra room of parts, which is not worth a standby.
 */
static struct ibv_qp *standby_create(struct sh_standby_job *task)
{
	struct ibv_qp_cap none = { 0 };
	struct ibv_qp *real = NULL;

	if (sh_parts_caps(task->qp, &none))
		real = standby_create_with(task, true, true);
	return real ? real : standby_create_with(task, true, false);
}

/* Another vendor's device may refuse just that, and says no more than that it refuses. */
static const char *standby_not_created(struct sh_standby_job *task)
{
	if (sp_has(task->qp->ctx->dev, SP_ANY_DEVICE) && task->qp->caps.max_inline_data) {
		/* destroyed, as there is a reason */
		task->real = standby_create_with(task, false, false);
		if (task->real)
			return "the NIC of the standby has less room for inline data than its own";
	}
	return "its queue pair could not be made on the NIC of the standby";
}

static int standby_to_init(struct ibv_qp *real, const struct ibv_qp_attr *app, uint16_t pkey_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = pkey_index,
		.port_num = STANDBY_PORT,
		.qp_access_flags = app->qp_access_flags,
	};

	return sh.real->modify_qp(
		real, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/*
 * Takes the QP made ahead, which is in INIT. False: there is none, or its shadows were made
 * anew since.
 */
static bool standby_from_pool(struct sh_standby_job *task)
{
	const struct sh_carrier *ahead = &task->ahead;

	if (!ahead->qp || ahead->incarnation != task->incarnation ||
	    ahead->pkey_index != task->place.pkey_index ||
	    ahead->scq != task->qp->scq->shadow[task->path] ||
	    ahead->rcq != task->qp->rcq->shadow[task->path])
		return false;
	task->real = ahead->qp;
	task->caps = ahead->caps;
	return true;
}

static const char *standby_make(struct sh_standby_job *task)
{
	struct sh_qp *qp = task->qp;
	const char *why;

	task->incarnation = task->nic->incarnation;
	if (sh_yields(task->nic))
		return sh_yield_why;
	if (!task->nic->ctx || !task->nic->control)
		return "the NIC of the standby is not usable";
	if (qp->pd->unprotected)
		return qp->pd->why;
	if (qp->carriers.refused)
		return qp->carriers.refused;
	if (task->own.mtu < task->attr.path_mtu)
		return "its path MTU is larger than that of the NIC of the standby";
	why = sh_gid_missing(task->tenant.gid_kind, &task->own);
	if (!why)
		why = sh_tenant_find(&task->tenant, task->nic, &task->own, &task->place);
	if (why)
		return why;
	if (!sh_pd_shadowed(qp->pd, task->path))
		return "its memory could not be registered on the NIC of the standby";
	if (sh_cq_shadow_make(qp->scq, task->path) || sh_cq_shadow_make(qp->rcq, task->path))
		return "its completion queue could not be made on the NIC of the standby";
	if (qp->srq && sh_srq_shadow_make(qp->srq, task->path))
		return "its shared receive queue could not be made on the NIC of the standby";
	if (standby_from_pool(task))
		return NULL;
	task->real = standby_create(task);
	if (!task->real)
		return standby_not_created(task);
	if (standby_to_init(task->real, &task->attr, task->place.pkey_index))
		return "its queue pair on the NIC of the standby does not reach INIT";
	return NULL;
}

static void standby_address(struct sh_standby_job *task)
{
	const struct sh_tenant_place *place = &task->place;
	struct sc_address *out = &task->address;

	memcpy(out->gid, place->gid, sizeof(out->gid));
	out->pkey = place->pkey;
	out->vlan = place->vlan;
	out->lid = task->own.lid;
	out->nic = task->nic->index;
	out->mtu = task->own.mtu;
	out->qpn = task->real->qp_num;
	out->psn = (uint32_t)sh_random_u64() & 0xffffff;
	out->reads = sh_fit_told(task->attr.max_dest_rd_atomic);
}

/* Another worker may be told a new one meanwhile: by a NIC that was asked when this one hung. */
static void standby_read_nic(struct sh_standby_job *task)
{
	sh_job_lock();
	task->own = task->nic->address;
	sh_job_unlock();
}

void sh_standby_job_make(struct sh_job *job)
{
	struct sh_standby_job *task = (struct sh_standby_job *)job;

	sh.real->thread_inside();
	standby_read_nic(task);
	task->why = standby_make(task);
	if (task->why && task->real) {
		sh.real->destroy_qp(task->real);
		task->real = NULL;
	}
	if (!task->why)
		standby_address(task);
}

/* Said once for each reason: the core tries again. */
static void standby_failed(struct sh_qp *qp, uint32_t epoch, const char *why) SH_LOCKED
{
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);
	bool known = !carrier || qp->pd->unprotected || qp->carriers.refused ||
		     qp->carriers.standby_why == why;

	if (carrier)
		sh_log(known ? SH_LOG_INFO : SH_LOG_WARN,
		       "QP 0x%06x on %s is not protected by %s: %s", qp->qp->qp_num,
		       qp->active->nic->name, carrier->nic->name, why);
	qp->carriers.standby_why = why;
	sh_conn_about(qp, SC_EV_STANDBY_FAILED, SC_REASON_RESOURCE, epoch);
}

static void standby_tell(struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	struct sc_event event = { .type = SC_EV_STANDBY_MADE,
				  .epoch = carrier->epoch,
				  .address = carrier->address };

	sh_conn_event(qp, &event);
}

/*
 * The peer gets the address when it has heard of all keys of the replica: so it cannot be
 * READY, and move, with keys of an earlier incarnation of the NIC, which name other memory by
 * now.
 */
static void standby_tell_or_wait(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_peer *peer = qp->peer;

	carrier->keys = sh_keys_last();
	if (!peer || peer->keys_acked >= carrier->keys) {
		standby_tell(qp, carrier);
		return;
	}
	carrier->keys_wait = true;
	peer->keys_waiting++;
}

static void standby_keys_heard(struct sh_qp *qp) SH_LOCKED
{
	struct sh_carrier *carrier = qp->standby;

	if (!carrier || !carrier->keys_wait || qp->peer->keys_acked < carrier->keys)
		return;
	carrier->keys_wait = false;
	qp->peer->keys_waiting--;
	standby_tell(qp, carrier);
}

void sh_news_peer_keys_acked(struct sh_peer *peer)
{
	struct sh_qp *qp;

	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->conn_id && qp->peer == peer)
			standby_keys_heard(qp);
	sh_outbox_release();
}

/* While it was made the application took a right away, or gave one: see rights.c. */
static const char *standby_outdated(const struct sh_standby_job *task) SH_LOCKED
{
	const struct ibv_qp_attr *now = &task->qp->app.attr;

	if (task->attr.qp_access_flags != now->qp_access_flags ||
	    task->attr.min_rnr_timer != now->min_rnr_timer)
		return "the application changed its rights meanwhile";
	if (task->tenant.pkey != sh_tenant_of(task->qp).pkey)
		return "its partition changed meanwhile";
	return NULL;
}

/* A closed connection destroys it with its carriers. */
static void standby_made(struct sh_standby_job *task) SH_LOCKED
{
	struct sh_qp *qp = task->qp;
	struct sh_carrier *carrier = sh_carrier_find(qp, task->epoch);
	const char *why;

	if (!carrier || carrier->qp) { /* given up while it was made */
		sh_carrier_destroy(qp, task->nic, task->real);
		return;
	}
	why = standby_outdated(task);
	if (why) {
		sh_carrier_destroy(qp, task->nic, task->real);
		standby_failed(qp, task->epoch, why);
		return;
	}
	qp->pd->shadow[task->path].doubtful = false;
	carrier->qp = task->real;
	carrier->caps = task->caps;
	SH_PARTS_TELL(standby.made, qp, carrier);
	carrier->incarnation = task->incarnation;
	sh_nic_hold(task->nic, task->incarnation);
	carrier->scq = sh_cq_shadow_get(qp->scq, task->path);
	carrier->rcq = sh_cq_shadow_get(qp->rcq, task->path);
	if (qp->srq)
		carrier->srq = sh_srq_shadow_get(qp->srq, task->path);
	carrier->psn = task->address.psn;
	carrier->address = task->address;
	carrier->pkey_index = task->place.pkey_index;
	standby_tell_or_wait(qp, carrier);
}

static void standby_make_done(struct sh_job *job)
{
	struct sh_standby_job *task = (struct sh_standby_job *)job;
	struct sh_qp *qp = task->qp;

	sh_lock();
	if (!job->canceled && task->why)
		standby_failed(qp, task->epoch, task->why);
	else if (!job->canceled)
		standby_made(task);
	if (task->ahead.qp)
		SH_PARTS_TELL(standby.taken, qp, &task->ahead, task->real == task->ahead.qp);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(task);
}

/* ---- connecting: RTR and RTS ---------------------------------------------------------------- */

static enum ibv_mtu standby_mtu(const struct sh_standby_job *task)
{
	enum ibv_mtu mtu = task->attr.path_mtu;

	if (task->local.mtu < mtu)
		mtu = (enum ibv_mtu)task->local.mtu;
	if (task->address.mtu < mtu)
		mtu = (enum ibv_mtu)task->address.mtu;
	return mtu;
}

static void standby_route(const struct sh_standby_job *task, struct ibv_ah_attr *ah)
{
	const struct ibv_ah_attr *app = &task->attr.ah_attr;

	*ah = (struct ibv_ah_attr){
		.port_num = STANDBY_PORT,
		.sl = app->sl,
		.dlid = task->address.lid,
		.static_rate = app->static_rate,
	};
	if (task->own.link_layer != IBV_LINK_LAYER_ETHERNET && !app->is_global)
		return;
	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, task->address.gid, sizeof(ah->grh.dgid.raw));
	ah->grh.sgid_index = task->place.gid_index;
	ah->grh.traffic_class = app->grh.traffic_class;
	ah->grh.flow_label = app->grh.flow_label;
	ah->grh.hop_limit = app->grh.hop_limit > 1 ? app->grh.hop_limit : STANDBY_HOP_LIMIT;
}

static int standby_to_rtr(struct sh_standby_job *task)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = standby_mtu(task),
		.dest_qp_num = task->address.qpn,
		.rq_psn = task->address.psn,
		.max_dest_rd_atomic = task->attr.max_dest_rd_atomic,
		.min_rnr_timer = task->attr.min_rnr_timer,
	};

	standby_route(task, &attr.ah_attr);
	return sh.real->modify_qp(task->real, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
}

/* Looks the GID up again, as its index may have changed since the peer was told. */
static const char *standby_gid(struct sh_standby_job *task)
{
	const char *why = sh_tenant_find(&task->tenant, task->nic, &task->own, &task->place);

	if (!why && task->place.vlan != task->local.vlan)
		return "the GIDs of the NIC of the standby changed meanwhile";
	return why;
}

static void standby_connect_run(struct sh_job *job)
{
	struct sh_standby_job *task = (struct sh_standby_job *)job;

	sh.real->thread_inside();
	standby_read_nic(task);
	task->why = standby_gid(task);
	if (task->why)
		return;
	if (standby_to_rtr(task))
		task->why = "its queue pair on the NIC of the standby does not reach RTR";
	else if (task->rts && sh_real_qp_to_rts(task->real, &task->attr, task->local.psn))
		task->why = "its queue pair on the NIC of the standby does not reach RTS";
}

static const char *standby_add(struct sh_qp *qp, struct sh_carrier *carrier)
{
	if (carrier->incarnation != carrier->nic->incarnation)
		return "the NIC of the standby died meanwhile";
	if (sh_carrier_unseen(qp, carrier))
		return "its completion queue on the NIC of the standby overran meanwhile";
	if (carrier->srq && !sh_srq_shadow_usable(carrier->srq))
		return "the receives of its shared receive queue there have moved away meanwhile";
	switch (sp_carrier_add(qp->sp, carrier->epoch,
			       sh_nic_dev(carrier->nic, sh_nic_engine(qp->ctx->nic)), carrier->qp,
			       &carrier->caps, carrier->scq->ring, carrier->rcq->ring,
			       &carrier->sp)) {
	case 0: return NULL;
	case -EOPNOTSUPP:
		return "the driver of the NIC of the standby does not tell when a queue pair has "
		       "taken its last receive of a shared queue";
	default: return "the rings of the NIC of the standby are smaller than its own";
	}
}

static void standby_connected(struct sh_standby_job *task, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_qp *qp = task->qp;

	if (!task->why)
		task->why = standby_add(qp, carrier);
	if (task->why) {
		standby_failed(qp, task->epoch, task->why);
		return;
	}
	if (sh.config.core.exact)
		sp_qp_number(qp->sp, carrier->epoch, carrier->psn, sh_mtu_bytes(standby_mtu(task)));
	qp->carriers.standby_why = NULL;
	carrier->rts = task->rts;
	sh_carriers_to_rts(qp);
	sh_conn_about(qp, SC_EV_STANDBY_CONNECTED, SC_REASON_NONE, task->epoch);
	SH_PARTS_TELL(standby.connected, qp, task->epoch, &task->attr);
}

static void standby_connect_done(struct sh_job *job)
{
	struct sh_standby_job *task = (struct sh_standby_job *)job;
	struct sh_qp *qp = task->qp;
	struct sh_carrier *carrier;

	sh_lock();
	carrier = sh_carrier_find(qp, task->epoch);
	if (carrier && carrier->qp == task->real)
		carrier->prompt = !carrier->in_line;
	if (!job->canceled && qp->conn_id && carrier && carrier->qp == task->real)
		standby_connected(task, carrier);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(task);
}

/* ---- asked for by the core ------------------------------------------------------------------ */

void sh_standby_job_capture(struct sh_standby_job *task, struct sh_qp *qp)
{
	task->qp = qp;
	task->attr = qp->app.attr;
	task->attr.max_dest_rd_atomic =
		sh_fit_reads(task->attr.max_dest_rd_atomic, task->nic->max.reads_in);
	task->attr.max_rd_atomic =
		sh_fit_reads_out(task->attr.max_rd_atomic, &task->nic->max, task->address.reads);
	task->tenant = sh_tenant_of(qp);
}

static void standby_ahead_unused(struct sh_qp *qp, const struct sh_standby_job *request) SH_LOCKED
{
	if (request->ahead.qp)
		SH_PARTS_TELL(standby.taken, qp, &request->ahead, false);
}

static void standby_submit(struct sh_qp *qp, const struct sh_standby_job *request,
			   void (*run)(struct sh_job *), void (*done)(struct sh_job *)) SH_LOCKED
{
	struct sh_standby_job *task = calloc(1, sizeof(*task));

	if (!task) {
		standby_ahead_unused(qp, request);
		standby_failed(qp, request->epoch, "no memory");
		return;
	}
	*task = *request;
	task->job = (struct sh_job){ .fn = run, .done = done };
	sh_standby_job_capture(task, qp);
	sh_job_begin(&qp->busy);
	if (!sh_worker_submit(task->nic->worker, &task->job))
		return;
	sh_job_end(&qp->busy);
	free(task);
	standby_ahead_unused(qp, request);
	standby_failed(qp, request->epoch, "its NIC takes no more work");
}

void sh_standby_make(struct sh_qp *qp, uint32_t epoch, uint8_t path)
{
	struct sh_nic *nic = path < qp->ctx->n_paths ? qp->ctx->path[path] : NULL;
	struct sh_standby_job request = { .epoch = epoch, .path = path, .nic = nic };
	struct sh_carrier *carrier;

	if (!nic || !nic->worker) {
		sh_conn_about(qp, SC_EV_STANDBY_FAILED, SC_REASON_RESOURCE, epoch);
		return;
	}
	if (qp->core.move != SC_MOVE_NONE) {
		sh_yield_end(nic);
	} else if (sh_yields(nic) || !sh_reach_covers(qp->ctx, path)) {
		standby_failed(qp, epoch, sh_yields(nic) ? sh_yield_why : sh_reach_why);
		return;
	}
	carrier = sh_carrier_new(qp, epoch, path);
	if (!carrier) {
		sh_log(SH_LOG_INFO, "QP 0x%06x: too many carriers are given up at once",
		       qp->qp->qp_num);
		sh_conn_about(qp, SC_EV_STANDBY_FAILED, SC_REASON_RESOURCE, epoch);
		return;
	}
	carrier->incarnation = nic->incarnation;
	qp->standby = carrier;
	sh_replica_need(qp->ctx, path);
	(void)SH_PARTS_ASK(standby.take, qp, path, &request.ahead);
	standby_submit(qp, &request, sh_standby_job_make, standby_make_done);
}

void sh_standby_connect(struct sh_qp *qp, uint32_t epoch, const struct sc_address *peer)
{
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);
	struct sh_standby_job request = { .epoch = epoch, .address = *peer };
	const char *why;

	if (!carrier || !carrier->qp) {
		sh_conn_about(qp, SC_EV_STANDBY_FAILED, SC_REASON_RESOURCE, epoch);
		return;
	}
	carrier->reads_told = peer->reads;
	why = sh_tenant_differ(&carrier->address, peer);
	if (why) {
		standby_failed(qp, epoch, why);
		return;
	}
	request.path = carrier->path;
	request.nic = carrier->nic;
	request.real = carrier->qp;
	request.local = carrier->address;
	request.rts = qp->app.state == IBV_QPS_RTS;
	standby_submit(qp, &request, standby_connect_run, standby_connect_done);
}
