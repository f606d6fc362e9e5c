/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands: one worker per NIC, one after another, and as slow as the NIC likes. A NIC that hangs
 * keeps them; one that lies says that they are done.
 */
#include "shiftlib/core/internal.h"
#include "sim_command.h"
#include "sim_end.h"
#include "sim_engine.h"
#include "sim_event.h"
#include "sim_label.h"
#include "sim_limits.h"
#include "sim_mutants.h"
#include "sim_nic.h"
#include "sim_shell.h"
#include "sim_world.h"

static struct sim_nic *nic_of(struct sim_world *w, const struct sim_command *c)
{
	return &w->host[c->end & 1].nic[c->path];
}

void sim_command_submit(struct sim_world *w, const struct sim_command *c)
{
	struct sim_nic *nic = nic_of(w, c);
	uint64_t at = (nic->busy_until > w->now ? nic->busy_until : w->now) + SIM_US + sim_delay(w);

	nic->busy_until = at;
	sim_at_payload(w, at - w->now, SIM_EV_COMMAND, c->end)->command = *c;
}

static void park(struct sim_world *w, const struct sim_command *c)
{
	struct sim_nic *nic = nic_of(w, c);

	if (nic->n_parked == SIM_PARKED)
		sim_out_of_room(w, "commands of a NIC that hangs");
	else
		nic->parked[nic->n_parked++] = *c;
}

void sim_command_unpark(struct sim_world *w, uint32_t host, uint32_t path)
{
	struct sim_nic *nic = &w->host[host].nic[path];

	/* before all that came behind them */
	for (uint32_t i = 0; i < nic->n_parked; i++)
		sim_at_payload(w, 0, SIM_EV_COMMAND, nic->parked[i].end)->command = nic->parked[i];
	nic->n_parked = 0;
}

/* ---- standby -------------------------------------------------------------------------------- */

static void standby_failed(struct sim_world *w, const struct sim_command *c, enum sc_reason reason)
{
	sim_shell_later(w, c->end,
			(struct sc_event){ .type = SC_EV_STANDBY_FAILED,
					   .reason = reason,
					   .epoch = c->epoch });
}

static void standby_make(struct sim_world *w, const struct sim_command *c)
{
	struct sc_event ev = { .type = SC_EV_STANDBY_MADE, .epoch = c->epoch, .ok = true };
	struct sim_end *e = &w->end[c->end];

	if (nic_of(w, c)->health != SIM_WELL) {
		standby_failed(w, c, SC_REASON_DEVICE);
		return;
	}
	if (e->resource_misses) {
		e->resource_misses--;
		standby_failed(w, c, SC_REASON_RESOURCE);
		return;
	}
	ev.address.qpn = sim_nic_make(w, c->end, c->path, c->epoch)->qpn;
	ev.address.nic = c->path;
	sim_shell_later(w, c->end, ev);
}

static void standby_connect(struct sim_world *w, const struct sim_command *c)
{
	struct sc_event ev = { .type = SC_EV_STANDBY_CONNECTED, .epoch = c->epoch, .ok = true };
	struct sim_qp *qp = &w->qp[c->qpn];

	if (nic_of(w, c)->health != SIM_WELL || !c->qpn || qp->state != SIM_QP_MADE) {
		standby_failed(w, c, SC_REASON_DEVICE);
		return;
	}
	if (c->address.nic != qp->path)
		sim_violation(w, "P7: a standby on path %u, connected to one on path %u", qp->path,
			      c->address.nic);
	qp->dst = (uint16_t)c->address.qpn;
	qp->state = SIM_QP_RTS;
	sim_shell_later(w, c->end, ev);
}

static void standby_drop(struct sim_world *w, const struct sim_command *c)
{
	struct sim_qp *qp = sim_engine_carrier(w, c->end, c->epoch);

	if (qp)
		sim_command_destroy(w, qp);
}

/* ---- quiesce -------------------------------------------------------------------------------- */

static bool older(const struct sim_qp *qp, uint32_t epoch)
{
	return qp->state == SIM_QP_RTS && !qp->sealed && sc_epoch_cmp(qp->epoch, epoch) < 0;
}

/* Also on a NIC that was sick and obeyed in the end. One that has not yet, is taken for sick. */
static void label_flushed(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	const struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		const struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (sc_epoch_cmp(qp->epoch, epoch) >= 0 || qp->sealed)
			continue;
		if (qp->state == SIM_QP_ERR && !sim_nic_of(w, qp)->cqes_lost)
			sim_label(end ^ 1, "flushed %u", qp->epoch);
		else if (qp->state == SIM_QP_RTS && sim_nic_of(w, qp)->health == SIM_WELL)
			sim_label(end ^ 1, "hang %u", qp->epoch);
	}
}

static void quiesced(struct sim_world *w, uint32_t end)
{
	struct sim_end *e = &w->end[end];
	struct sc_event ev = { .type = SC_EV_QUIESCED, .epoch = e->quiesce.epoch };

	ev.final = sim_engine_flushed(w, end, e->quiesce.epoch);
	label_flushed(w, end, e->quiesce.epoch);
	if (sim_mutant == SIM_MUTANT_NOT_FINAL)
		ev.final = true;
	ev.dead = ev.cut = sim_engine_died(w, end, e->quiesce.epoch);
	ev.cut |= sim_engine_cut(w, end, e->quiesce.epoch);
	ev.recv_count = e->recv_count;
	if (sim_mutant == SIM_MUTANT_COUNT_ANEW)
		ev.recv_count -= w->base_count;
	e->quiesce.running &= !ev.final;
	sim_shell_later(w, end, ev);
}

void sim_command_quiesce(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	e->quiesce.epoch = epoch;
	e->quiesce.pending = 0;
	e->quiesce.running = true;
	e->quiesce.generation++;
	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];

		if (!older(qp, epoch))
			continue;
		e->quiesce.pending++;
		sim_command_submit(w, &(struct sim_command){ .end = (uint8_t)end,
							     .action = SC_ACT_QUIESCE,
							     .path = qp->path,
							     .qpn = qp->qpn,
							     .epoch = epoch });
	}
	sim_at_generation(w, w->now + (e->quiesce.pending ? SIM_FLUSH_NS : 0), SIM_EV_FLUSH, end, 0,
			  e->quiesce.generation);
}

/* Not final then; it may become so later. */
void sim_command_flush_over(struct sim_world *w, uint32_t end, uint32_t generation)
{
	struct sim_end *e = &w->end[end];

	if (generation == e->quiesce.generation && e->quiesce.running)
		quiesced(w, end);
}

void sim_command_recount(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	w->end[end].quiesce.epoch = epoch;
	quiesced(w, end);
}

static void modify_err(struct sim_world *w, const struct sim_command *c)
{
	struct sim_end *e = &w->end[c->end];
	struct sim_nic *nic = nic_of(w, c);
	struct sim_command again = *c;

	if (nic->health == SIM_ZOMBIE && nic->hangs && !c->late) {
		again.late = true;
		sim_at_payload(w, sim_pick(w, 10 * SIM_MS), SIM_EV_COMMAND, c->end)->command =
			again;
		return;
	}
	if (nic->health == SIM_WELL || c->late)
		sim_nic_modify_err(w, &w->qp[c->qpn]);
	if (!e->quiesce.running || e->quiesce.epoch != c->epoch)
		return;
	if (e->quiesce.pending && --e->quiesce.pending == 0)
		quiesced(w, c->end);
}

/* ---- the exact count ------------------------------------------------------------------------ */

void sim_command_ask_psn(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	const struct sim_qp *qp = sim_engine_carrier(w, end, epoch);

	if (qp)
		sim_command_submit(w, &(struct sim_command){ .end = (uint8_t)end,
							     .action = SC_ACT_ASK_PSN,
							     .path = qp->path,
							     .qpn = qp->qpn,
							     .epoch = epoch });
	else
		sim_shell_later(w, end, (struct sc_event){ .type = SC_EV_PSN, .epoch = epoch });
}

/* A stale one: what it was some packets ago. */
static uint32_t psn_told(struct sim_world *w, const struct sim_nic *nic, const struct sim_qp *qp)
{
	uint32_t taken = (qp->epsn - w->first_psn) & SC_PSN_MASK, late = 1 + sim_pick(w, 3);

	if (!nic->stale)
		return qp->epsn;
	return (qp->epsn - (late < taken ? late : taken)) & SC_PSN_MASK;
}

/* One that does not obey answers too. */
static void tell_psn(struct sim_world *w, const struct sim_command *c)
{
	const struct sim_qp *qp = &w->qp[c->qpn];
	const struct sim_nic *nic = nic_of(w, c);
	struct sc_event ev = { .type = SC_EV_PSN, .epoch = c->epoch };
	uint64_t delay = SIM_US + sim_pick(w, 50 * SIM_US);

	ev.ok = !nic->refuses && nic->health != SIM_DISASSOCIATED &&
		(qp->state == SIM_QP_RTS || qp->state == SIM_QP_ERR);
	ev.psn = ev.ok ? psn_told(w, nic, qp) : 0;
	if (nic->slow)
		delay = sim_random(w) % (3 * SIM_EXACT_NS);
	sim_at_payload(w, delay, SIM_EV_CORE, c->end)->core = ev;
}

/* ---- destroy -------------------------------------------------------------------------------- */

void sim_command_destroy(struct sim_world *w, struct sim_qp *qp)
{
	if (qp->destroyed)
		return;
	qp->destroyed = qp->sealed = true;
	sim_command_submit(w, &(struct sim_command){ .end = qp->end,
						     .action = SC_ACT_DROP_OLD,
						     .path = qp->path,
						     .qpn = qp->qpn });
}

/* Carrier 0 stays as a husk. */
void sim_command_drop_old(struct sim_world *w, uint32_t end, uint32_t epoch)
{
	struct sim_end *e = &w->end[end];

	for (uint32_t i = 0; i < e->n_carriers; i++) {
		struct sim_qp *qp = &w->qp[e->carriers[i]];
		int32_t age = sc_epoch_cmp(qp->epoch, epoch);

		if (qp->epoch && (age < 0 || (age == 0 && sim_mutant == SIM_MUTANT_DROP_LIVE)))
			sim_command_destroy(w, qp);
	}
}

/* ---- the worker ----------------------------------------------------------------------------- */

void sim_command_run(struct sim_world *w, const struct sim_command *c)
{
	struct sim_nic *nic = nic_of(w, c);

	if (w->host[c->end & 1].dead)
		return;
	if (nic->health == SIM_FROZEN) {
		park(w, c);
		return;
	}
	switch ((enum sc_action_type)c->action) {
	case SC_ACT_STANDBY_MAKE:
		if (!w->end[c->end].app.closed && !w->end[c->end].failed)
			standby_make(w, c);
		break;
	case SC_ACT_STANDBY_CONNECT: standby_connect(w, c); break;
	case SC_ACT_STANDBY_DROP: standby_drop(w, c); break;
	case SC_ACT_QUIESCE: modify_err(w, c); break;
	case SC_ACT_ASK_PSN: tell_psn(w, c); break;
	case SC_ACT_DROP_OLD:
		if (nic->health == SIM_WELL)
			w->qp[c->qpn].state = SIM_QP_GONE;
		break;
	case SC_ACT_SEND_STANDBY:
	case SC_ACT_SEND_STATE:
	case SC_ACT_GUARD:
	case SC_ACT_WITHHOLD:
	case SC_ACT_RECOUNT:
	case SC_ACT_SEAL:
	case SC_ACT_LAY_RECEIVES:
	case SC_ACT_SETTLE:
	case SC_ACT_FENCE:
	case SC_ACT_UNFENCE:
	case SC_ACT_STAY:
	case SC_ACT_FAIL:
	case SC_ACT_REPORT: break;
	}
}
