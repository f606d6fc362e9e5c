/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs are modified: what the application sets is recorded, for the QPs that stand in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/parts/rights.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/users.h"
#include "shiftlib/control/address.h"
#include "shiftlib/core/event.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/nic/command.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/qp.h"
#include "shiftlib/object/qp_legal.h"
#include "shiftlib/replica/context.h"

#define ENDING_LOOK_NS (10 * SH_NS_PER_MS)

static void capture_alternate(struct ibv_qp_attr *own, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PATH_MIG_STATE)
		own->path_mig_state = attr->path_mig_state;
	if (!(mask & IBV_QP_ALT_PATH))
		return;
	own->alt_ah_attr = attr->alt_ah_attr;
	own->alt_pkey_index = attr->alt_pkey_index;
	own->alt_port_num = attr->alt_port_num;
	own->alt_timeout = attr->alt_timeout;
}

static void qp_capture(struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->app.attr;

	if (mask & IBV_QP_STATE)
		qp->app.set = qp->app.state = attr->qp_state;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IBV_QP_AV)
		own->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		own->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		own->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = attr->rnr_retry;
	capture_alternate(own, attr, mask);
	qp->app.mask |= mask;
}

/*
 * Takes SHIFT's hands off a QP with an alternate path: its NIC may take that by itself, and the
 * queue pair of another NIC, or one behind a return, would lack it.
 */
static void qp_alternate(struct sh_qp *qp, int mask) SH_LOCKED
{
	if (!(mask & IBV_QP_ALT_PATH))
		return;
	qp->foreign.alternate = true;
	(void)sh_conn_hands_off(qp);
}

/* Lets the engine number packets as the NIC does, from here on. */
static void qp_number(struct sh_qp *qp, int mask)
{
	const struct ibv_qp_attr *attr = &qp->app.attr;

	if ((mask & IBV_QP_STATE) && (mask & IBV_QP_SQ_PSN) && qp->app.state == IBV_QPS_RTS &&
	    qp->init.qp_type == IBV_QPT_RC && sh.config.core.exact)
		sp_qp_number(qp->sp, 0, attr->sq_psn, sh_mtu_bytes(attr->path_mtu));
}

static void qp_state_reached(struct sh_qp *qp, enum ibv_qp_state state) SH_DROPS
{
	sp_qp_modified(qp->sp, state);
	if (state == IBV_QPS_RESET) {
		sh_mailbox_read(); /* the reports of the old connection are not the next one's */
		atomic_store(&qp->mailbox.error_ns, 0);
		qp->gid.valid = false;
		qp->foreign.alternate = false;
		qp->app.mask &= ~(IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
		sh_carriers_drop(qp, true);
	}
	if (qp->init.qp_type != IBV_QPT_RC)
		return;
	if (state == IBV_QPS_INIT || state == IBV_QPS_RTR || state == IBV_QPS_RTS)
		sh_setup_command();
	if (state == IBV_QPS_RTR || state == IBV_QPS_RTS)
		sh_conn_new(qp);
	if (state == IBV_QPS_RTS) {
		sh_carriers_to_rts(qp);
		sh_give_way_expect(qp);
	}
}

/* The carrier in use, on another NIC, goes to ERR. */
struct qp_stop {
	struct sh_command command;
	struct sh_busy waiting;
	struct ibv_qp *carrier;
};

static void stop_run(struct sh_command *command)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	sh.real->modify_qp(((struct qp_stop *)command)->carrier, &error, IBV_QP_STATE);
}

static int stop_pay(void *object)
{
	struct qp_stop *stop = object;

	sh_lock();
	sh_wait_idle(&stop->waiting);
	sh_unlock();
	free(stop);
	return 0;
}

/* By a NIC that hangs it will be done when that obeys. */
static void stop_by_worker(struct sh_ctx *ctx, struct qp_stop *stop) SH_DROPS
{
	struct sh_command *command = &stop->command;

	sh_command_give(command, &stop->waiting);
	if (sh_commands_await(&command, 1, &stop->waiting))
		free(stop);
	else
		(void)sh_debt_defer(ctx, stop_pay, stop, false);
}

static void qp_stop_carrier(struct sh_qp *qp) SH_DROPS
{
	/* sent to the worker that will destroy it */
	struct qp_stop here = { .command = { .nic = qp->active->nic,
					     .worker = sh_carrier_worker(qp->active),
					     .device = qp->active->qp->context->cmd_fd,
					     .run = stop_run },
				.carrier = qp->active->qp };
	struct qp_stop *stop = malloc(sizeof(*stop));

	sh_job_begin(&qp->busy);
	if (stop) {
		*stop = here;
		stop_by_worker(qp->ctx, stop);
	} else {
		sh_command_here(&here.command);
	}
	sh_job_end(&qp->busy);
}

void sh_qp_ends(struct sh_qp *qp)
{
	sh_mailbox_read(); /* an error that is withheld comes before the flush */
	if (qp->conn_id)
		sh_conn_simple(qp, SC_EV_APP_CLOSED, SC_REASON_APPLICATION);
	while (qp->error.ending.at > sh_now_ns())
		sh_wait_some(ENDING_LOOK_NS);
	if (qp->active->epoch && qp->active->qp)
		qp_stop_carrier(qp);
}

/*
 * True for a QP that names its own number: it may be a loopback QP, which only its GID tells, and
 * what follows must know it at once. Else the GID is found in the background: intro.c.
 */
static bool qp_maybe_itself(const struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return (mask & IBV_QP_AV) && (mask & IBV_QP_DEST_QPN) && attr->ah_attr.is_global &&
	       attr->dest_qp_num == qp->qp->qp_num && qp->init.qp_type == IBV_QPT_RC;
}

/* True if its NIC says so, which the kernel notes. */
static bool qp_in_rts(struct ibv_qp *real)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return !sh.real->query_qp(real, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS;
}

/*
 * Modifies from RTS to RTS, while another thread may post. libmlx5 is not to hear of that state:
 * at each modify to RTS it points wr_complete to its own again, which would leave a batch that
 * the engine began neither rung nor ended. To the kernel a state that is not named is the present
 * one; if that is another (ERR, SQE) it refuses, and is then asked as the application asks.
 */
static int modify_in_rts(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask)
{
	int others = mask & ~IBV_QP_STATE, ret = EINVAL;

	if (others)
		ret = sh.real->modify_qp(real, attr, others);
	else if (qp_in_rts(real))
		ret = 0;
	return ret == EINVAL ? sh.real->modify_qp(real, attr, mask) : ret;
}

static bool qp_stays_in_rts(const struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS &&
	       qp->app.state == IBV_QPS_RTS &&
	       (!(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == IBV_QPS_RTS);
}

static int qp_modify_real(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	bool ask = qp_maybe_itself(qp, attr, mask), stays = qp_stays_in_rts(qp, attr, mask);
	uint8_t port = qp->app.attr.port_num;
	union ibv_gid gid;
	int ret;

	if (sh_qp_hangs(qp))
		return EIO;
	sh_job_begin(&qp->busy);
	sh_unlock();
	ret = stays ? modify_in_rts(qp->qp, attr, mask) : sh.real->modify_qp(qp->qp, attr, mask);
	ask = ask && !ret &&
	      !sh.real->query_gid(qp->ctx->ctx, port, attr->ah_attr.grh.sgid_index, &gid);
	sh_lock();
	sh_job_end(&qp->busy);
	if (!(mask & IBV_QP_AV) || ret)
		return ret;
	qp->gid.valid = ask;
	qp->gid.kind = 0;
	qp->gid.vlan = 0;
	if (ask)
		memcpy(qp->gid.raw, gid.raw, sizeof(qp->gid.raw));
	return ret;
}

/*
 * True if the change holds for the carriers though its own NIC refuses, because that has been
 * left, or is dead. A NIC that is dead and has not said so yet is left now: what it has not taken
 * must not count there.
 */
static bool qp_modify_lost(struct sh_qp *qp, int ret) SH_LOCKED
{
	if (!sh_qp_moved(qp) && sh_qp_leaves(qp, ret))
		sh_conn_simple(qp, SC_EV_FAULT, SC_REASON_DEVICE);
	return sh_qp_moved(qp);
}

static int qp_modify_driven(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	bool ends = (mask & IBV_QP_STATE) &&
		    (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET);
	bool moved = sh_qp_moved(qp), legal = sh_qp_legal(qp->app.state, attr, mask), failed;
	struct ibv_qp_attr set = *attr;
	int set_mask = mask, ret;

	/* Legal changes would be refused, too, by its own NIC, where it is in ERR. */
	if (moved && !legal)
		return EINVAL;
	if (ends && attr->qp_state == IBV_QPS_RESET && sh_qp_hangs(qp))
		return EIO;
	if (ends)
		sh_qp_ends(qp);
	if (ends && attr->qp_state == IBV_QPS_RESET) {
		if (!sh_debt_idle(qp->ctx, &qp->busy))
			return EIO; /* a NIC that hangs is at it */
		sh_conn_close(qp);
	}
	sh_home_modify(qp, &set, &set_mask);
	ret = qp_modify_real(qp, &set, set_mask);
	if (ret && legal && !ends)
		moved = qp_modify_lost(qp, ret); /* perhaps meanwhile */
	failed = ret && (!moved || (ends && attr->qp_state == IBV_QPS_RESET));
	if (!failed)
		qp_capture(qp, attr, mask);
	sh_home_modified(qp);
	if (failed)
		return ret;
	if (ret)
		qp->qp->state = qp->app.state;
	qp_number(qp, mask);
	if (mask & IBV_QP_STATE) {
		qp_state_reached(qp, attr->qp_state);
		sh_carriers_wait_rts(qp);
	}
	if (qp->conn_id && qp->app.state == IBV_QPS_RTS)
		sh_rights_follow(qp, mask);
	if (!ret && !moved)
		qp_alternate(qp, mask);
	return 0;
}

/*
 * Connects a QP on a shared receive queue. It may take receives before the command to RTR has
 * returned, and the engine counts it behind that: meanwhile they must not be given to another
 * NIC.
 */
static int qp_modify_to_rtr(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	int ret;

	if (!sh_srq_await(qp)) {
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x cannot be connected: the receives of its shared queue have left "
		       "%s, which does not take back what it had of them; make it anew",
		       qp->qp->qp_num, qp->ctx->nic->name);
		return EIO;
	}
	qp->srq->pinned++;
	ret = qp_modify_driven(qp, attr, mask);
	qp->srq->pinned--;
	sh_srq_check(qp->srq);
	return ret;
}

static int qp_modify(struct sh_qp *qp, struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	if (qp->srq && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		return qp_modify_to_rtr(qp, attr, mask);
	return qp_modify_driven(qp, attr, mask);
}

/*
 * Modifies a foreign QP. SHIFT knows only its state, its port, and whether its peer's atomics may
 * come.
 */
static int qp_modify_foreign(struct sh_qp *qp, const struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	bool reset = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	struct ibv_qp_attr set = *attr;
	int set_mask = mask, ret;

	sh_home_modify(qp, &set, &set_mask);
	sh_job_begin(&qp->busy);
	if (reset)
		sh_qp_foreign_begin(qp);
	sh_unlock();
	ret = sh.real->modify_qp(qp->qp, &set, set_mask);
	sh_lock();
	if (reset)
		sh_qp_foreign_end(qp, !ret);
	sh_job_end(&qp->busy);
	if (!ret && (mask & IBV_QP_STATE))
		qp->app.set = qp->app.state = attr->qp_state;
	if (!ret && (mask & IBV_QP_PORT))
		qp->app.attr.port_num = attr->port_num;
	if (!ret && (mask & IBV_QP_ACCESS_FLAGS))
		qp->app.attr.qp_access_flags = attr->qp_access_flags;
	sh_home_modified(qp);
	return ret;
}

/* SHIFT has no record of it. Likewise. */
static int qp_modify_unknown(struct ibv_qp *real, const struct ibv_qp_attr *attr, int mask) SH_DROPS
{
	struct ibv_qp_attr set = *attr;
	int ret;

	sh_home_modify_unknown(real, sh_ctx_find(real->context), &set, mask);
	sh_unlock();
	ret = sh.real->modify_qp(real, &set, mask);
	sh_lock();
	return ret;
}

/*
 * Counts the QP anew: it may be a bystander now, or not masked any more; or the program has met a
 * dead device.
 */
static void qp_modify_seen(struct sh_qp *qp, int ret) SH_LOCKED
{
	sh_users_count(qp);
	if (sh_dead_device_error(ret) && qp->counted.user != SH_USER_MASKED)
		sh_ctx_met(qp->ctx, true);
	sh_ctx_tell_owed(qp->ctx);
}

int shift_modify_qp(struct ibv_qp *real, struct ibv_qp_attr *attr, int mask)
{
	struct sh_qp *qp;
	int ret;

	sh_lock();
	qp = sh_table_get(&sh_objects.by_qp, real);
	if (!qp && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_INIT)
		qp = sh_qp_adopt(real);
	if (!qp)
		ret = qp_modify_unknown(real, attr, mask);
	else if (qp->sp)
		ret = qp_modify(qp, attr, mask);
	else
		ret = qp->foreign.refused ? EOPNOTSUPP : qp_modify_foreign(qp, attr, mask);
	if (qp)
		qp_modify_seen(qp, ret);
	sh_unlock();
	return ret;
}
