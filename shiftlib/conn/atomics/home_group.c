/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder's half of the home of atomics: the groups of connections that share a default
 * NIC.
 */
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/atomics/home_board.h"
#include "shiftlib/conn/atomics/home_shared.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/rights.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/home.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/context.h"

/* pause between looks at what nobody tells: QPs that went, NICs */
#define HOME_LOOK_NS (100 * SH_NS_PER_MS)
/* pause before a board is tried again that another process holds */
#define HOME_AGAIN_NS (2 * SH_NS_PER_MS)

/* The connections of one default NIC: on stock, atomics are atomic there. */
struct home_group {
	struct sc_home_group core;
	struct sc_home_member foreign; /* all that SHIFT has no record of */
	struct sh_home_board *board;   /* of SHIFT_ATOMIC_GROUP */
	bool busy;
	bool has_foreign;
	bool split; /* other processes may have its memory, and nobody has named them */
};

static struct {
	struct home_group group[SH_MAX_NICS];
	struct sh_qp **qps; /* members of the group that is looked at */
	struct sc_home_member **members;
	uint32_t room;
	bool busy; /* of some group */
	bool due;
	bool again;   /* a board could not be had */
	bool regions; /* some are new, or queue pairs to use them */
	uint64_t look_at;
} homes;

/* NULL: its device is none that SHIFT knows. */
static struct home_group *home_group(const struct sh_qp *qp)
{
	return qp->ctx && qp->ctx->nic ? &homes.group[qp->ctx->nic->index] : NULL;
}

/*
 * Connections of other processes, on the same memory, are where they were connected: there all
 * atomics run.
 */
static bool home_fixed(const struct home_group *group)
{
	return sh.config.atomic_home == SH_ATOMIC_HOME_FIXED || group->split;
}

void sh_home_due(void)
{
	homes.due = true;
	if (!sh_awake())
		sh_wake_at(sh_now_ns());
}

/* ---- the group: what is ---------------------------------------------------------------------- */

static bool home_connected(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

static bool home_takes_atomics(unsigned int access_flags)
{
	return access_flags & IBV_ACCESS_REMOTE_ATOMIC;
}

/*
 * Is it one to which atomics may come, if it has the right to them? Of direct verbs: a DC
 * target.
 */
static bool home_serves(const struct ibv_qp *real)
{
	return real->qp_type == IBV_QPT_RC || real->qp_type == IBV_QPT_XRC_RECV ||
	       real->qp_type == IBV_QPT_DRIVER;
}

/* True if atomics may come to the QP. Undriven QPs are members as well. */
static bool home_is_member(const struct sh_qp *qp)
{
	if (!home_serves(qp->qp) || !home_takes_atomics(qp->app.attr.qp_access_flags))
		return false;
	/* a QP in ERR executes nothing once its commands are through */
	return home_connected(qp->app.state) || qp->home.entering ||
	       (qp->app.state == IBV_QPS_ERR && qp->busy.jobs);
}

/*
 * The paths this connection may move to: up at both ends and not drained by an operator. Where
 * the peer's group is at home does not count (core/home.h): two ends that counted it would keep
 * each other away from their default NICs for ever.
 */
static uint8_t home_ok(const struct sh_qp *qp)
{
	const struct sc_masks *peer = &qp->core.peer.paths;
	uint8_t drained = peer->drained & (uint8_t)~peer->homed, k;

	if (!qp->core.peer.masks_known)
		return 0;
	for (k = 0; k < qp->paths.n; k++)
		drained |= (uint8_t)(!!qp->ctx->path[k]->drained << k);
	return qp->paths.up & peer->up & (uint8_t)~drained;
}

/* Nobody can be told of it, and it goes nowhere. */
static void home_foreign_update(struct sh_qp *qp)
{
	const struct sh_nic *nic = qp->ctx->nic;

	qp->home.member.silent = true;
	qp->home.member.gone = qp->ctx->incarnation != nic->incarnation || nic->cut.off;
}

static void home_member_update(struct sh_qp *qp) SH_LOCKED
{
	struct sc_home_member *m = &qp->home.member;
	const struct sc_conn *c = &qp->core;

	if (!qp->sp) {
		home_foreign_update(qp);
		return;
	}
	m->epoch = c->epoch;
	m->path = c->path;
	m->ok = qp->conn_id ? home_ok(qp) : 0;
	m->steady = m->ok & qp->paths.steady & c->peer.paths.steady;
	m->asked = c->peer.paths.homed;
	m->cannot = c->peer.paths.cannot;
	m->from = qp->peer ? qp->peer->instance * SH_MAX_NICS + qp->paths.peer_nics[0] + 1 : 0;
	m->silent = !qp->conn_id || !qp->peer || !c->peer.introduced || !sh_home_on(qp) ||
		    qp->level == SH_FOREIGN;
	m->gone = !qp->conn_id && qp->ctx->nic->incarnation != qp->carriers.own.incarnation;
}

/* Enough for all queue pairs, and one that stands for those that are not driven. */
static bool home_room(void)
{
	uint32_t n = 1;
	struct sh_qp *qp, **qps;
	struct sc_home_member **members;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		n += qp ? 1 : 0;
	if (n <= homes.room)
		return true;
	n *= 2;
	qps = realloc(homes.qps, n * sizeof(*qps));
	homes.qps = qps ? qps : homes.qps;
	members = realloc(homes.members, n * sizeof(struct sc_home_member *));
	homes.members = members ? members : homes.members;
	if (!qps || !members)
		return false;
	homes.room = n;
	return true;
}

static bool home_global(const struct sh_qp *qp)
{
	uint8_t k;

	for (k = 0; k < qp->ctx->n_paths; k++)
		if (!qp->ctx->path[k]->max.atomics_global)
			return false;
	return true;
}

static uint32_t home_gather(struct home_group *group) SH_LOCKED
{
	uint32_t n = 0;
	struct sh_qp *qp;

	group->core.any = true;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		if (home_group(qp) != group || !home_is_member(qp))
			continue;
		home_member_update(qp);
		homes.qps[n] = qp;
		homes.members[n++] = &qp->home.member;
		group->core.any = group->core.any && home_global(qp);
	}
	group->core.members = homes.members;
	group->core.n = n;
	if (group->has_foreign || home_fixed(group)) {
		group->foreign.silent = true;
		homes.members[group->core.n++] = &group->foreign;
	}
	return n;
}

/* ---- the group: what follows ----------------------------------------------------------------- */

/* May atomics come to it on the default NIC, unasked? */
static bool home_lets_in(struct home_group *group, const struct sh_ctx *ctx) SH_LOCKED
{
	if (group->busy && !(home_fixed(group) && !group->core.home))
		return false;
	return !sh.config.atomic_group || sh_home_board_enter(&group->board, ctx);
}

/*
 * Lets atomics in to a QP that was connected without the right to them and need not refuse them
 * any more.
 */
static void home_open(struct home_group *group, struct sh_qp *qp) SH_LOCKED
{
	struct sc_home_member *m = &qp->home.member;
	bool asks = (m->bar_no & 1) && m->heard;

	if (!m->shut || qp->app.state != IBV_QPS_RTS || !(asks || home_lets_in(group, qp->ctx)))
		return;
	m->shut = false;
	sh_rights_restore(qp);
}

static void home_follow(struct home_group *group, struct sh_qp *qp) SH_LOCKED
{
	struct sc_home_member *m = &qp->home.member;
	uint8_t drained = sc_home_drained(&group->core, m);
	uint32_t cannot = sc_home_cannot(&group->core, m);

	if (m->news)
		sh_home_tell(qp);
	if (drained != qp->paths.homed || cannot != qp->paths.cannot) {
		qp->paths.homed = drained;
		qp->paths.cannot = cannot;
		sh_paths_changed(qp);
	}
	home_open(group, qp);
}

static void home_moved(const struct home_group *group, uint8_t before, uint32_t n)
{
	const struct sh_ctx *ctx = n ? homes.qps[0]->ctx : NULL;
	uint8_t home = group->core.home;

	if (home == before || !ctx || home >= ctx->n_paths || before >= ctx->n_paths)
		return;
	sh_log(SH_LOG_WARN,
	       "atomics of the connections of %s are at home on %s now, no more on %s: those that "
	       "use atomics go there",
	       ctx->nic->name, ctx->path[home]->name, ctx->path[before]->name);
}

/* False: nothing may be said yet. */
static bool home_step(struct home_group *group, uint32_t n) SH_LOCKED
{
	if (sh.config.atomic_group)
		return sh_home_board_step(&group->board, n ? homes.qps[0]->ctx : NULL, &group->core,
					  &group->busy);
	sc_home_step(&group->core);
	group->busy = !sc_home_at_rest(&group->core);
	return true;
}

static void home_run_group(struct home_group *group) SH_LOCKED
{
	uint8_t before = group->core.home;
	uint32_t n = home_gather(group), i;

	if (!group->core.n && !group->board)
		return;
	if (home_step(group, n)) {
		home_moved(group, before, n);
		for (i = 0; i < n; i++) {
			home_follow(group, homes.qps[i]);
			group->busy |= homes.qps[i]->home.member.shut;
		}
	} else {
		homes.again = group->board != NULL;
	}
	homes.busy |= group->busy;
}

/*
 * Before anything may be granted elsewhere; and, to tell the operator in time, when the set-up
 * pauses.
 */
static void homes_check_regions(void) SH_LOCKED
{
	struct home_group *group;
	struct sh_qp *qp;

	if (!homes.regions || (!homes.due && sh_setup_on()))
		return;
	homes.regions = false;
	if (sh.config.atomic_group)
		return;
	sh_home_shared_begin();
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link) {
		group = home_group(qp);
		if (group && !group->split && home_is_member(qp) && !home_global(qp))
			group->split = sh_home_shared(qp);
	}
	sh_home_shared_end();
}

static uint64_t homes_next_poll(uint64_t now) SH_LOCKED
{
	bool deaf = sh.config.atomic_group && sh_home_boards_deaf();

	if (homes.again)
		return now + HOME_AGAIN_NS;
	return homes.busy || homes.regions || deaf ? now + HOME_LOOK_NS : 0;
}

static void homes_run(uint64_t now) SH_LOCKED
{
	uint32_t i;

	if (!homes.due && (!homes.look_at || homes.look_at > now))
		return;
	if (!sh.config.atomic_home)
		return;
	homes_check_regions();
	homes.due = homes.busy = homes.again = false;
	sh_outbox_hold();
	for (i = 0; i < sh_nics.n && home_room(); i++)
		home_run_group(&homes.group[i]);
	sh_outbox_release();
	homes.look_at = homes_next_poll(now);
}

static uint64_t homes_next_timer(void)
{
	return homes.due ? 1 : homes.look_at;
}

static void homes_reset(void)
{
	uint32_t i;

	for (i = 0; i < SH_MAX_NICS; i++)
		sh_home_board_abandon(homes.group[i].board);
	free(homes.qps);
	free(homes.members);
	memset(&homes, 0, sizeof(homes));
}

const struct sh_module sh_homes_module = {
	.name = "homes",
	.reset = homes_reset,
	.run = homes_run,
	.next_timer = homes_next_timer,
};

/* ---- what happens ---------------------------------------------------------------------------- */

static void home_forget(struct sh_qp *qp)
{
	bool shut = qp->home.member.shut, entering = qp->home.entering;

	memset(&qp->home, 0, sizeof(qp->home));
	qp->home.member.shut = shut;
	qp->home.entering = entering;
}

/* Carriers that were left are over when their count is final, which is all that P5 wants. */
static void home_stepped(struct sh_qp *qp) SH_LOCKED
{
	if (qp->core.count_final)
		qp->home.member.quiesced = qp->core.epoch;
	if (homes.busy)
		sh_home_due();
}

/* Is it one to which an atomic may come after that command, and none before? */
static bool home_enters(const struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_qp_attr *own = &qp->app.attr;
	bool had = home_takes_atomics(own->qp_access_flags);
	bool has = mask & IBV_QP_ACCESS_FLAGS ? home_takes_atomics(attr->qp_access_flags) : had;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->app.state;

	return has && home_connected(to) && !(had && home_connected(qp->app.state));
}

static void home_say_shut(const struct sh_qp *qp)
{
	if (qp->sp)
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x refuses atomics until its peer has been told where atomics of "
		       "connections of %s run now",
		       qp->qp->qp_num, qp->ctx->nic->name);
	else
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x, which SHIFT does not drive, refuses atomics: those of "
		       "connections of %s run on another NIC now",
		       qp->qp->qp_num, qp->ctx->nic->name);
}

/*
 * Before it is introduced its peer cannot be told that it must ask; that of one which is not
 * driven never can. So while atomics of the group are not at home on the default NIC, it is
 * connected without the right to them.
 */
void sh_home_modify(struct sh_qp *qp, struct ibv_qp_attr *attr, int *mask)
{
	struct home_group *group = home_group(qp);
	bool enters = home_enters(qp, attr, *mask);
	unsigned int flags =
		*mask & IBV_QP_ACCESS_FLAGS ? attr->qp_access_flags : qp->app.attr.qp_access_flags;

	if (!group || !home_serves(qp->qp) || !sh.config.atomic_home || !home_takes_atomics(flags))
		return;
	qp->home.entering = enters;
	if (enters)
		sh_home_region();
	if (enters && !home_lets_in(group, qp->ctx)) {
		qp->home.member.shut = true;
		homes.busy = true; /* the peer is told as soon as possible */
		home_say_shut(qp);
	}
	if (!qp->home.member.shut || !(enters || (*mask & IBV_QP_ACCESS_FLAGS)))
		return;
	attr->qp_access_flags = flags & ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
}

void sh_home_modified(struct sh_qp *qp)
{
	qp->home.entering = false;
	if (qp->app.state == IBV_QPS_RESET || qp->app.state == IBV_QPS_INIT)
		qp->home.member.shut = false;
}

/* Nobody knows when it is gone: it is there for good. Lets its right through, or not. */
void sh_home_modify_unknown(const struct ibv_qp *real, const struct sh_ctx *ctx,
			    struct ibv_qp_attr *attr, int mask)
{
	struct home_group *group = ctx && ctx->nic ? &homes.group[ctx->nic->index] : NULL;

	if (!group || !sh.config.atomic_home || !home_serves(real) ||
	    !(mask & IBV_QP_ACCESS_FLAGS) || !home_takes_atomics(attr->qp_access_flags))
		return;
	if (!home_lets_in(group, ctx)) {
		attr->qp_access_flags &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x, which SHIFT does not know, refuses atomics for good: those of "
		       "connections of %s run on another NIC now",
		       real->qp_num, ctx->nic->name);
		return;
	}
	group->has_foreign = true;
}

uint8_t sh_home_path(const struct sh_qp *qp)
{
	const struct home_group *group = home_group(qp);

	return group ? group->core.home : 0;
}

bool sh_home_alone(struct sh_qp *qp)
{
	const struct sc_home_member *m = &qp->home.member;

	if (!home_group(qp) || !home_is_member(qp))
		return false;
	home_member_update(qp);
	return (m->silent || home_fixed(home_group(qp))) && !m->gone && !m->shut;
}

/* Before the first connection there is no thread to wake. */
void sh_home_region(void)
{
	homes.regions = true;
	if (!homes.look_at)
		homes.look_at = sh_now_ns() + HOME_LOOK_NS;
	if (!sh_awake() && !list_empty(&sh_conns.qps))
		sh_wake_at(homes.look_at);
}

uint32_t sh_home_processes(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < sh_nics.n; i++)
		if (homes.group[i].board)
			n = sh_home_board_processes(homes.group[i].board);
	return n;
}

/* A connection may take part from now on, or no more, which other processes are to read. */
static void home_leveled(struct sh_qp *qp) SH_LOCKED
{
	(void)qp;
	if (sh.config.atomic_group)
		sh_home_due();
}

const struct sh_conn_part sh_home_group_part = {
	.name = "home_group",
	.life.reset = home_forget,
	.step = { .stepped = home_stepped, .leveled = home_leveled },
};
