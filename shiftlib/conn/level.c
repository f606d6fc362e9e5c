/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How far a connection is protected, and why it is no further. */
#include "shiftlib/base/log.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/control/address.h"
#include "shiftlib/core/core.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"

const char sh_level_looking[] = "looking for its peer";
const char sh_level_stamped[] =
	"its completions have timestamps, and each NIC has a clock of its own";

const char *sh_level_name(enum sh_level level)
{
	static const char *const names[] = {
		[SH_FOREIGN] = "foreign",
		[SH_DRIVEN] = "driven",
		[SH_PROTECTED] = "protected",
	};

	return names[level];
}

void sh_level_set(struct sh_qp *qp, enum sh_level level, const char *why)
{
	if (qp->level == level && qp->why == why)
		return;
	qp->level = level;
	qp->why = why;
	SH_PARTS_TELL(step.leveled, qp);
	if (level == SH_PROTECTED && !sc_rests(&qp->core) && qp->standby)
		sh_log(SH_LOG_INFO, "QP 0x%06x on %s is protected by %s", qp->qp->qp_num,
		       qp->active->nic->name, qp->standby->nic->name);
	else if (level == SH_PROTECTED)
		sh_log(SH_LOG_INFO, "QP 0x%06x on %s is protected: %s", qp->qp->qp_num,
		       qp->active->nic->name, why);
	else if (qp->core.reason != SC_REASON_APPLICATION && why != sh_level_looking)
		sh_log(SH_LOG_INFO, "QP 0x%06x is not protected: %s", qp->qp->qp_num, why);
}

/*
 * Returns why a connection is not protected. This end's own reasons say more than the core's.
 */
static const char *level_reason(const struct sh_qp *qp, enum sc_reason reason)
{
	const char *why = SH_PARTS_ASK(step.why, qp);

	if (qp->pd && qp->pd->unprotected)
		return qp->pd->why;
	if (qp->carriers.refused)
		return qp->carriers.refused;
	if (why)
		return why;
	if (reason == SC_REASON_RESOURCE && qp->carriers.standby_why)
		return qp->carriers.standby_why;
	if (reason == SC_REASON_PEER) /* nothing has moved, see sh_level_report() */
		return "the peer has no standby for it, and its status says why";
	if (qp->core.config.lazy && qp->core.guarded && !reason)
		return "its standby is being made";
	return reason ? sc_reason_text(reason) : "preparing";
}

/* Returns why the other NICs of a connection could not be opened; NULL: one is there. */
static const char *level_no_nic(const struct sh_qp *qp) SH_LOCKED
{
	const struct sh_nic *nic;
	bool files = false;
	uint32_t k;

	for (k = 0; k < qp->ctx->n_paths; k++) {
		nic = qp->ctx->path[k];
		if (k != qp->active->path && nic->state != SH_NIC_FAILED)
			return NULL;
		files |= k != qp->active->path && nic->why == sh_nic_no_files;
	}
	return files ? sh_nic_no_files : "its backup NICs cannot be opened: see their lines";
}

static const char *level_no_path(const struct sh_qp *qp) SH_LOCKED
{
	const char *why = SH_PARTS_ASK(step.why, qp);
	uint32_t k;

	if (qp->active->path && qp->ctx->n_paths == 2)
		return "it runs on its backup, and there is no third NIC";
	for (k = 0; k < qp->ctx->n_paths && !why; k++) {
		if (k == qp->active->path || qp->ctx->path[k]->state != SH_NIC_OPEN)
			continue;
		why = sh_gid_missing(qp->gid.kind, &qp->ctx->path[k]->address);
		if (!why)
			why = sh_tenant_doubt(qp, qp->ctx->path[k]);
	}
	if (!why)
		why = level_no_nic(qp);
	return why ? why : "no path to its peer over another NIC answers";
}

/* Nothing happens that would be told while no other path answers, so it is found when asked for. */
const char *sh_level_why(const struct sh_qp *qp)
{
	const struct sc_conn *c = &qp->core;
	bool found = qp->why == sh_level_looking && c->peer.introduced;
	uint8_t up = qp->paths.up & (c->peer.masks_known ? c->peer.paths.up : UINT8_MAX);

	if (qp->level != SH_DRIVEN || !qp->conn_id || !qp->peer || c->move != SC_MOVE_NONE ||
	    (up & ~(1u << qp->active->path)))
		return found ? "its peer is found, and its standby is being connected" : qp->why;
	return level_no_path(qp);
}

/* Memory is not lazy: it takes the longest, and is there when a standby is made on that path. */
static void level_rests(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	sh_level_set(qp, SH_PROTECTED, "lazy: its standby is made when it is needed");
	if (path < qp->ctx->n_paths && !sh_pd_queued(qp->pd, path))
		sh_replica_want(qp->ctx, path);
	SH_PARTS_TELL(step.rests, qp, path);
}

void sh_level_report(struct sh_qp *qp, const struct sc_action *action)
{
	/* a line in mid-move would only hold the move up; the outcome is told at its end */
	if (qp->core.move != SC_MOVE_NONE && qp->core.move != SC_MOVE_ENDED)
		return;
	if (qp->level == SH_FOREIGN)
		return; /* why has been said */
	if (sc_rests(&qp->core))
		level_rests(qp, action->path);
	else if (sc_protected(&qp->core))
		sh_level_set(qp, SH_PROTECTED, "its standby answers");
	else if (qp->core.move == SC_MOVE_NONE && qp->active->epoch)
		sh_level_set(qp, SH_DRIVEN, "it moved, and its next standby is not ready");
	else
		sh_level_set(qp, SH_DRIVEN, level_reason(qp, action->reason));
}

void sh_level_again(struct sh_qp *qp)
{
	struct sc_action report = { .type = SC_ACT_REPORT,
				    .path = qp->core.standby.path,
				    .reason = qp->core.reason };

	sh_level_report(qp, &report);
}
