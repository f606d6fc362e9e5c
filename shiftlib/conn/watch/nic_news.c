/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* News of NICs: what they mean for the connections that run there, or may. */
#include "shiftlib/base/list.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/parts/pool.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/srq.h"

/* ---- faults --------------------------------------------------------------------------------- */

static uint32_t nic_users(const struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint32_t n = 0;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		n += qp->conn_id && qp->active->nic == nic;
	return n;
}

/* Every connection whose traffic or whose standby is on this NIC hears of it; the paths first, as
 * what a fault sets off chooses among them. */
void sh_news_nic_fault(struct sh_nic *nic, enum sc_reason reason, bool guarded_only)
{
	struct sh_qp *qp;
	uint32_t i;

	sh_outbox_hold();
	sh_conns.faulted = nic_users(nic);
	sh_paths_changed_nic(nic);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (!qp->conn_id || (guarded_only && !qp->core.guarded))
			continue;
		for (i = 0; i < SH_MAX_CARRIERS; i++)
			if (sh_carrier_at(qp, i)->nic == nic)
				sh_carrier_fault(qp, sh_carrier_at(qp, i), reason);
	}
	sh_conns.faulted = 0;
	sh_outbox_release();
}

static void pkeys_leave(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	if (carrier == qp->standby)
		qp->carriers.standby_why =
			"the partition table of its NIC has changed: its standby is made anew";
	sh_carrier_fault(qp, carrier, SC_REASON_RESOURCE);
}

/* Gives up carriers in a partition that their connection is not in any more. */
void sh_news_nic_pkeys(struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint32_t i;

	(void)nic; /* the application's own partition is told by its default NIC's table */
	sh_outbox_hold();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		for (i = 1; qp->conn_id && i < SH_MAX_CARRIERS; i++)
			if (sh_carrier_at(qp, i)->nic && sh_tenant_left(qp, sh_carrier_at(qp, i)))
				pkeys_leave(qp, sh_carrier_at(qp, i));
		sh_paths_changed(qp);
	}
	sh_outbox_release();
}

/* A standby that a move is on its way to counts as what runs there. */
static bool nic_carries(const struct sh_nic *nic, const struct sh_qp *qp)
{
	const struct sh_carrier *carrier;
	uint32_t i;

	for (i = 0; qp->conn_id && i < SH_MAX_CARRIERS; i++) {
		carrier = sh_carrier_at(qp, i);
		if (carrier->nic == nic &&
		    (carrier != qp->standby || qp->core.move != SC_MOVE_NONE))
			return true;
	}
	return false;
}

bool sh_news_nic_used(const struct sh_nic *nic)
{
	struct sh_ctx *ctx;
	struct sh_qp *qp;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		if (ctx->nic == nic)
			return true;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (nic_carries(nic, qp))
			return true;
	return false;
}

bool sh_news_nic_away(const struct sh_nic *nic)
{
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (qp->conn_id && qp->ctx->nic == nic &&
		    (qp->active->epoch || qp->core.move != SC_MOVE_NONE))
			return true;
	return false;
}

void sh_news_nic_changed(struct sh_nic *nic)
{
	sh_paths_changed_nic(nic);
}

void sh_news_nic_healed(struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint8_t k;

	sh_outbox_hold();
	sh_paths_changed_nic(nic);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (k = 0; qp->conn_id && k < qp->ctx->n_paths; k++)
			if (qp->ctx->path[k] == nic)
				sh_conn_simple(qp, SC_EV_PATH_UP, SC_REASON_NONE);
	sh_outbox_release();
}

/* ---- opened again --------------------------------------------------------------- */

/* Gives up carriers of the dead incarnation: nobody may wait for them. */
static void nic_fault_stale(struct sh_nic *nic) SH_LOCKED
{
	struct sh_qp *qp;
	uint32_t i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 1; qp->conn_id && i < SH_MAX_CARRIERS; i++)
			if (sh_carrier_at(qp, i)->nic == nic &&
			    sh_carrier_at(qp, i)->incarnation != nic->incarnation)
				sh_carrier_fault(qp, sh_carrier_at(qp, i), SC_REASON_DEVICE);
}

void sh_news_nic_reopened(struct sh_nic *nic)
{
	nic_fault_stale(nic);
	sh_pool_nic_reopened(nic);
	sh_quiesce_nic_reopened(nic);
	sh_news_nic_healed(nic);
}

void sh_news_nic_cut_off(struct sh_nic *nic)
{
	(void)nic; /* quiesce_over() asks the NIC */
	sh_quiesce_poll_all();
}

void sh_news_context_over(const struct ibv_context *context)
{
	sh_quiesce_context_over(context);
}

/* ---- asynchronous events of SHIFT's own contexts --------------------------------------------- */

static bool carrier_completes_in(const struct sh_carrier *carrier,
				 const struct sh_shadow_cq *shadow)
{
	return carrier->nic && (carrier->scq == shadow || carrier->rcq == shadow);
}

static struct sh_shadow_cq *qp_shadow_of(const struct sh_qp *qp, const struct ibv_cq *real)
{
	const struct sh_carrier *carrier;
	uint32_t i;

	for (i = 1; i < SH_MAX_CARRIERS; i++) {
		carrier = sh_carrier_at(qp, i);
		if (carrier->scq && carrier->scq->cq == real)
			return carrier->scq;
		if (carrier->rcq && carrier->rcq->cq == real)
			return carrier->rcq;
	}
	return NULL;
}

/*
 * Finds a shadow CQ. The current shadow is with its CQ; one that has lost its place is with the
 * carriers on it.
 */
static struct sh_shadow_cq *shadow_of(const struct ibv_cq *real) SH_LOCKED
{
	struct sh_shadow_cq *shadow = NULL;
	struct sh_ctx *ctx;
	struct sh_cq *cq;
	struct sh_qp *qp;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		list_for_each (&ctx->cqs, cq, struct sh_cq, link)
			if (!shadow)
				shadow = sh_cq_shadow_find(cq, real);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (!shadow)
			shadow = qp_shadow_of(qp, real);
	return shadow;
}

static void shadow_fault(const struct sh_shadow_cq *shadow) SH_LOCKED
{
	struct sh_qp *qp;
	uint32_t i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		sh_conns.faulted += qp->conn_id && carrier_completes_in(qp->active, shadow);
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 1; qp->conn_id && i < SH_MAX_CARRIERS; i++)
			if (carrier_completes_in(sh_carrier_at(qp, i), shadow))
				sh_carrier_fault(qp, sh_carrier_at(qp, i), SC_REASON_DEVICE);
	sh_conns.faulted = 0;
}

uint32_t sh_news_nic_qps(const struct sh_nic *nic, bool home)
{
	struct sh_qp *qp;
	uint32_t n = 0;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		n += qp->conn_id && qp->core.move != SC_MOVE_ENDED &&
		     (qp->active->nic == nic || (home && qp->ctx && qp->ctx->nic == nic));
	return n;
}

/*
 * An overrun CQ shows no completion any more, so its connections leave. A shadow overruns as
 * the application's own does: by flushes, where the CQ was made for signaled requests only;
 * where the shadow is smaller, by what the application lets lie in it.
 */
void sh_news_cq_overran(const struct sh_nic *nic, const struct ibv_cq *real)
{
	struct sh_shadow_cq *shadow = shadow_of(real);

	if (!shadow || shadow->overrun)
		return;
	shadow->overrun = true;
	sh_log(SH_LOG_WARN, "%s: a completion queue overran; the connections on it move away",
	       nic->name);
	sh_outbox_hold();
	shadow_fault(shadow);
	(void)sh_pool_give_back(nic); /* some of the pool complete in it */
	sh_outbox_release();
}
