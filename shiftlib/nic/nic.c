/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NICs of this host: SHIFT's own context on each, its control channel, its health. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/shell.h"

#define NIC_PORT    1
#define NIC_LOOK_NS (500 * SH_NS_PER_MS) /* between looks whether a dead or sick NIC is back */

struct sh_nics sh_nics;

static void nic_add(const char *name)
{
	struct sh_nic *nic = &sh_nics.nic[sh_nics.n];

	memset(nic, 0, sizeof(*nic));
	strncpy(nic->name, name, sizeof(nic->name) - 1);
	nic->index = (uint8_t)sh_nics.n++;
	nic->incarnation = 1;
}

static void nics_map_tell(const struct backup_nic *nics)
{
	const struct backup_map *map = &sh_nics.map;
	const struct backup_nic *backup;
	uint32_t i;

	for (i = 0; i < map->n_nics && map->automatic; i++) {
		backup = &nics[map->backups[i][0]];
		if (map->n_backups[i])
			sh_log(SH_LOG_INFO, "%s: its backup is %s, %s", nics[i].name, backup->name,
			       backup_near_text(backup_near(&nics[i], backup)));
	}
}

/* What the devices say of themselves, as they are not opened yet. */
static void nics_map(struct ibv_device *const *list)
{
	struct backup_nic nics[SH_MAX_NICS];
	char err[BACKUP_MAP_ERR_MAX];
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		backup_nic_read("/sys", sh_nics.nic[i].name, &nics[i]);
		nics[i].foreign = !sp_engine_for(list[i]);
	}
	if (backup_map_parse(sh.config.backup, nics, sh_nics.n, &sh_nics.map, err, sizeof(err)))
		sh_log(SH_LOG_ERROR, "SHIFT_BACKUP: %s; the job runs without protection", err);
	else
		nics_map_tell(nics);
}

int sh_nics_load(void)
{
	struct ibv_device **list;
	int i, n = 0;

	if (sh_nics.known)
		return 0;
	list = sh.real->get_device_list(&n);
	if (!list)
		return -errno;
	for (i = 0; i < n && sh_nics.n < SH_MAX_NICS; i++)
		nic_add(sh.real->get_device_name(list[i]));
	sh_nics.known = true;
	nics_map(list);
	sh.real->free_device_list(list);
	return 0;
}

struct sh_nic *sh_nic_by_name(const char *name)
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (!strcmp(sh_nics.nic[i].name, name))
			return &sh_nics.nic[i];
	return NULL;
}

bool sh_nic_usable(const struct sh_nic *nic)
{
	return nic->state == SH_NIC_OPEN && !nic->fatal && !nic->port_down && !nic->link_lost;
}

bool sh_nic_up(const struct sh_nic *nic)
{
	return sh_nic_usable(nic) && !nic->sick;
}

/* ---- jobs on the NIC's worker: opening it, asking its port ---------------------------------- */

/* What is open, while it is not the NIC's yet, or not any more. */
struct nic_parts {
	struct ibv_context *ctx;
	struct sp_dev *dev;
	struct sh_control *control;
	struct ibv_device_attr attr; /* zeros: not known */
};

struct nic_job {
	struct sh_job job;
	struct sh_nic *nic;
	struct nic_parts made; /* open */
	struct sh_address address;
	const char *why; /* open: NULL if it worked */
	int ret;	 /* ask */
};

static struct ibv_context *nic_open_device(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int i, n = 0;

	pthread_mutex_lock(&sh.devices_lock);
	list = sh.real->get_device_list(&n);
	pthread_mutex_unlock(&sh.devices_lock);
	for (i = 0; list && i < n && !ctx; i++)
		if (!strcmp(sh.real->get_device_name(list[i]), name))
			ctx = sh.real->open_device(list[i]);
	if (list)
		sh.real->free_device_list(list);
	return ctx;
}

static void nic_close_parts(struct nic_parts *parts)
{
	if (parts->control)
		sh_control_close(parts->control);
	if (parts->dev)
		sp_dev_uninit(parts->dev);
	if (parts->ctx)
		sh.real->close_device(parts->ctx);
	*parts = (struct nic_parts){ 0 };
}

static const char *nic_open_parts(const struct sh_nic *nic, struct nic_parts *parts)
{
	const char *why = NULL;
	int flags, ret;

	parts->ctx = nic_open_device(nic->name);
	if (!parts->ctx)
		return "it cannot be opened";
	if (!sp_probe(parts->ctx, &why))
		return why;
	if (sp_dev_init(parts->ctx, false, &sh_callbacks, &parts->dev))
		return "no memory for the engine";
	ret = sh_control_open(sh.real, parts->ctx, NIC_PORT, &parts->control);
	if (ret)
		return ret == -EADDRNOTAVAIL ? "its port has no GID"
					     : "its control channel cannot be opened";
	sp_qp_foreign(parts->dev, sh_control_qp(parts->control));
	if (sh.real->query_device(parts->ctx, &parts->attr))
		memset(&parts->attr, 0, sizeof(parts->attr));
	flags = fcntl(parts->ctx->async_fd, F_GETFL);
	fcntl(parts->ctx->async_fd, F_SETFL, flags | O_NONBLOCK);
	return NULL;
}

static void nic_open_run(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	sh.real->thread_inside();
	task->why = nic_open_parts(task->nic, &task->made);
	if (task->why)
		nic_close_parts(&task->made);
	else
		sh_control_address(task->made.control, &task->address);
}

static void nic_ask_run(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	sh.real->thread_inside();
	task->ret = sh_control_refresh(task->nic->control, &task->address);
}

static const char *nic_submit(struct sh_nic *nic, void (*run)(struct sh_job *),
			      void (*done)(struct sh_job *))
{
	struct nic_job *task;

	if (!nic->worker) {
		nic->worker = sh_worker_start(nic->name);
		if (!nic->worker)
			return "no memory for its worker";
		sh_loop_worker(nic->worker);
	}
	task = calloc(1, sizeof(*task));
	if (!task)
		return "no memory";
	*task = (struct nic_job){ .job = { .fn = run, .done = done }, .nic = nic };
	sh_job_begin(&nic->busy);
	if (!sh_worker_submit(nic->worker, &task->job)) {
		nic->asked = true;
		nic->ask_again = false;
		return NULL;
	}
	sh_job_end(&nic->busy);
	free(task);
	return "its worker thread cannot be started";
}

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
static void nic_fault(struct sh_nic *nic, enum sc_reason reason, bool guarded_only)
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
			if (qp->carriers.slot[i].nic == nic)
				sh_carrier_fault(qp, &qp->carriers.slot[i], reason);
	}
	sh_conns.faulted = 0;
	sh_outbox_release();
}

static void nic_look_soon(struct sh_nic *nic)
{
	nic->look_at = sh_now_ns() + NIC_LOOK_NS;
	sh_kick();
}

/*
 * A carrier did not flush, or its command did not return: nothing on this NIC will, event or not.
 * What else it carries and can move moves now, as those connections may never see an error of their own.
 * One that cannot is left alone: the NIC may only be slow.
 */
void sh_nic_sick(struct sh_nic *nic)
{
	if (nic->sick || nic->fatal)
		return;
	nic->sick = true;
	sh_incident_nic(nic, SH_EVENT_NIC_DOWN, SH_CAUSE_HANG);
	sh_log(SH_LOG_WARN, "%s: does not do what it is told; its connections move away",
	       nic->name);
	nic_fault(nic, SC_REASON_DEVICE, true);
	nic_look_soon(nic);
}

void sh_nic_obeys(struct sh_nic *nic)
{
	if (!nic->sick)
		return;
	nic->sick = false;
	sh_incident_nic(nic, SH_EVENT_NIC_UP, SH_CAUSE_HANG);
	sh_log(SH_LOG_WARN, "%s: does what it is told again", nic->name);
	if (!nic->fatal)
		nic->look_at = 0;
	sh_paths_changed_nic(nic);
}

/* Nothing of what is open on it will ever work again. */
static void nic_lost(struct sh_nic *nic, enum sh_event_cause cause)
{
	if (nic->fatal)
		return;
	nic->fatal = true;
	nic->dead_by = cause;
	sh_incident_nic(nic, SH_EVENT_NIC_DOWN, cause);
	sh_control_mark_dead(nic->control);
	sh_loop_remove(sh_control_fd(nic->control));
	nic_look_soon(nic);
}

static void nic_dead(struct sh_nic *nic, enum sh_event_cause cause, const char *how)
{
	if (!nic->fatal)
		sh_log(SH_LOG_WARN, "%s: %s; not used until it is back", nic->name, how);
	nic_lost(nic, cause);
	nic_fault(nic, SC_REASON_DEVICE, false);
}

/* ---- its address ---------------------------------------------------------------------------- */

static bool address_moved(const struct sh_address *a, const struct sh_address *b)
{
	return memcmp(a->gid, b->gid, sizeof(a->gid)) || a->gid_index != b->gid_index ||
	       a->lid != b->lid || a->mtu != b->mtu || a->qpn != b->qpn || a->qkey != b->qkey;
}

/* Peers are told, and what leads to them from here is opened anew. */
static void nic_set_address(struct sh_nic *nic, const struct sh_address *address, bool closed)
{
	bool moved = closed || address_moved(&nic->address, address);

	nic->address = *address;
	nic->port_down = !address->active;
	if (!moved)
		return;
	nic->revision = ++sh_nics.revision;
	sh_peers_nic_changed(nic);
}

static void nic_healed(struct sh_nic *nic)
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

/* It answered, so it obeys; a NIC that hangs holds this job up and is asked when it is over. */
static void nic_answered(struct sh_nic *nic, const struct sh_address *address)
{
	bool was_down = nic->port_down;

	nic_set_address(nic, address, false);
	if (was_down && !nic->port_down)
		sh_log(SH_LOG_INFO, "%s: port %d is up", nic->name, NIC_PORT);
	if (was_down != nic->port_down)
		sh_incident_nic(nic, was_down ? SH_EVENT_NIC_UP : SH_EVENT_NIC_DOWN,
				SH_CAUSE_PORT_DOWN);
	sh_nic_obeys(nic);
	nic_healed(nic);
}

static void nic_ask_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	pthread_mutex_lock(&sh.lock);
	nic->asked = false;
	sh_hang_answered(&nic->hang, &sh.config.hang, sh_now_ns());
	if (nic->fatal)
		nic_look_soon(nic);
	else if (nic->ask_again)
		sh_nic_ask(nic); /* the port changed after the question */
	else if (!task->ret && !job->canceled)
		nic_answered(nic, &task->address);
	else
		nic_look_soon(nic);
	sh_job_end(&nic->busy);
	sh_kick();
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

/* The port's state, LID and GIDs, which may be elsewhere after it was down. */
void sh_nic_ask(struct sh_nic *nic)
{
	if (nic->asked)
		nic->ask_again = true;
	else if (nic_submit(nic, nic_ask_run, nic_ask_done))
		nic_look_soon(nic);
}

/* ---- what its fds say ----------------------------------------------------------------------- */

static void nic_control_readable(void *arg)
{
	struct sh_nic *nic = arg;
	int n;

	if (nic->fatal)
		return;
	sh_outbox_hold();
	do { /* a full batch leaves the channel unarmed */
		n = sh_control_poll(nic->control, sh_receive, nic);
	} while (n == SH_CONTROL_RECEIVES);
	sh_outbox_release();
	if (n != -EIO)
		return;
	sh_log(SH_LOG_INFO, "%s: its control channel is dead", nic->name);
	nic_lost(nic, SH_CAUSE_FATAL);
	sh_paths_changed_nic(nic);
}

static void nic_port_event(struct sh_nic *nic, enum ibv_event_type type)
{
	nic->gid.valid = false;
	if (type == IBV_EVENT_PORT_ERR) {
		sh_log(SH_LOG_WARN, "%s: port %d is down", nic->name, NIC_PORT);
		if (!nic->port_down)
			sh_incident_nic(nic, SH_EVENT_NIC_DOWN, SH_CAUSE_PORT_DOWN);
		nic->port_down = true;
		nic->ask_again = nic->asked;
		nic_fault(nic, SC_REASON_PORT, false);
	} else {
		sh_nic_ask(nic);
	}
}

/* Only a change counts: an interface may be down, or another's, where RDMA works well. */
void sh_nic_link(struct sh_nic *nic, bool running)
{
	bool lost = nic->ifrunning && !running;

	nic->ifrunning = running;
	if (lost && !nic->link_lost) {
		sh_log(SH_LOG_WARN, "%s: its network interface lost its carrier", nic->name);
		nic->link_lost = true;
		sh_incident_nic(nic, SH_EVENT_NIC_DOWN, SH_CAUSE_LINK_LOST);
		nic_fault(nic, SC_REASON_PORT, false);
	} else if (running && nic->link_lost) {
		sh_log(SH_LOG_INFO, "%s: its network interface has a carrier again", nic->name);
		nic->link_lost = false;
		sh_incident_nic(nic, SH_EVENT_NIC_UP, SH_CAUSE_LINK_LOST);
		sh_nic_ask(nic);
	}
}

static void nic_event(struct sh_nic *nic, const struct ibv_async_event *event)
{
	switch ((int)event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		nic_dead(nic, SH_CAUSE_FATAL, "the device reported a fatal error");
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		if (event->element.port_num == NIC_PORT)
			nic_port_event(nic, event->event_type);
		break;
	default: break;
	}
}

/* A shadow's QP takes no more receives. Its struct is there until the event is acknowledged. */
static void nic_last_receive(const struct ibv_qp *real)
{
	struct sh_qp *qp = real->qp_context;
	int i;

	if (real->qp_context == &sh_reclaim_mark)
		return;
	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (qp->carriers.slot[i].nic && qp->carriers.slot[i].qp == real) {
			sh_srq_last_receive(qp, &qp->carriers.slot[i]);
			return;
		}
}

static void nic_async_readable(void *arg)
{
	struct sh_nic *nic = arg;
	struct ibv_async_event event;
	int budget = 64;

	while (budget--) {
		struct ibv_async_event copy;

		if (sh.real->get_async_event(nic->ctx, &event)) {
			if (errno == EAGAIN || errno == EINTR)
				return;
			sh_loop_remove(nic->ctx->async_fd);
			nic_dead(nic, SH_CAUSE_REMOVED, "the device was taken away");
			return;
		}
		copy = event;
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			nic_last_receive(event.element.qp);
		sh.real->ack_async_event(&event);
		nic_event(nic, &copy);
	}
}

/* ---- opened, and opened again --------------------------------------------------------------- */

static void nic_install(struct sh_nic *nic, const struct nic_parts *parts)
{
	nic->ctx = parts->ctx;
	nic->dev = parts->dev;
	nic->control = parts->control;
	nic->max_qp_wr = parts->attr.max_qp_wr;
	nic->max_sge = parts->attr.max_sge;
	nic->fatal = nic->sick = false;
	nic->gid.valid = false;
	nic->look_at = 0;
	nic->control_handler = (struct sh_handler){ nic_control_readable, nic };
	nic->async_handler = (struct sh_handler){ nic_async_readable, nic };
	sh_loop_add(sh_control_fd(nic->control), &nic->control_handler);
	sh_loop_add(nic->ctx->async_fd, &nic->async_handler);
	nic->hang = (struct sh_hang){ 0 };
}

static void nic_start_intros(struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint8_t k;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (k = 0; qp->conn_id && k < qp->ctx->n_paths; k++)
			if (qp->ctx->path[k] == nic)
				sh_intro_start(qp);
	sh_kick();
}

static void nic_open_finish(struct sh_nic *nic, const struct nic_job *task, const char *why)
{
	nic->why = why;
	nic->state = why ? SH_NIC_FAILED : SH_NIC_OPEN;
	if (why) {
		sh_log(SH_LOG_WARN, "%s cannot serve as a backup or carry control messages: %s",
		       nic->name, why);
	} else {
		nic_install(nic, &task->made);
		nic_set_address(nic, &task->address, true);
		sh_detector_netdev(nic);
		sh_paths_changed_nic(nic);
	}
	nic_start_intros(nic);
}

static void nic_open_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	pthread_mutex_lock(&sh.lock);
	task->nic->asked = false;
	nic_open_finish(task->nic, task, job->canceled ? "SHIFT is ending" : task->why);
	sh_job_end(&task->nic->busy);
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

void sh_nic_open(struct sh_nic *nic)
{
	const char *why;

	if (nic->state != SH_NIC_CLOSED)
		return;
	nic->state = SH_NIC_OPENING;
	why = nic_submit(nic, nic_open_run, nic_open_done);
	if (why)
		nic_open_finish(nic, NULL, why);
}

/* What is left of carriers on the dead incarnation must not be waited for. */
static void nic_fault_stale(struct sh_nic *nic)
{
	struct sh_qp *qp;
	uint32_t i;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		for (i = 1; qp->conn_id && i < SH_MAX_CARRIERS; i++)
			if (qp->carriers.slot[i].nic == nic &&
			    qp->carriers.slot[i].incarnation != nic->incarnation)
				sh_carrier_fault(qp, &qp->carriers.slot[i], SC_REASON_DEVICE);
}

static void nic_close_run(struct sh_job *job)
{
	sh.real->thread_inside();
	nic_close_parts(&((struct nic_job *)job)->made);
}

static void nic_close_done(struct sh_job *job)
{
	free(job);
}

/* On the worker, behind the jobs that close what hangs on it. */
static void nic_close_later(struct sh_nic *nic, const struct nic_parts *parts)
{
	struct nic_job *task = calloc(1, sizeof(*task));

	if (!task)
		return;
	*task = (struct nic_job){ .job = { .fn = nic_close_run, .done = nic_close_done },
				  .nic = nic,
				  .made = *parts };
	if (sh_worker_submit(nic->worker, &task->job))
		free(task);
}

static void nic_close_past(struct sh_nic *nic, struct sh_past_nic **at)
{
	struct sh_past_nic *past = *at;
	struct nic_parts parts = { .ctx = past->ctx, .dev = past->dev };

	*at = past->next;
	nic_close_later(nic, &parts);
	free(past);
}

static struct sh_past_nic **nic_past(struct sh_nic *nic, uint32_t incarnation)
{
	struct sh_past_nic **at = &nic->past;

	while (*at && (*at)->incarnation != incarnation)
		at = &(*at)->next;
	return at;
}

void sh_nic_hold(struct sh_nic *nic, uint32_t incarnation)
{
	struct sh_past_nic *past = *nic_past(nic, incarnation);

	if (incarnation == nic->incarnation)
		nic->holds++;
	else if (past)
		past->holds++;
}

void sh_nic_release(struct sh_nic *nic, uint32_t incarnation)
{
	struct sh_past_nic **at = nic_past(nic, incarnation);

	if (incarnation == nic->incarnation)
		nic->holds--;
	else if (*at && !--(*at)->holds)
		nic_close_past(nic, at);
}

/* What is left on it is destroyed in its time, and the context after it. Without memory it stays. */
static void nic_retire(struct sh_nic *nic)
{
	struct nic_parts control = { .control = nic->control };
	struct sh_past_nic *past = malloc(sizeof(*past));

	nic_close_later(nic, &control);
	if (!past)
		return;
	*past = (struct sh_past_nic){ .next = nic->past,
				      .incarnation = nic->incarnation,
				      .holds = nic->holds,
				      .ctx = nic->ctx,
				      .dev = nic->dev };
	nic->past = past;
	if (!past->holds)
		nic_close_past(nic, &nic->past);
}

/* The device is back, and open under the old name. */
static void nic_reopened(struct sh_nic *nic, const struct nic_job *task)
{
	sh_loop_remove(nic->ctx->async_fd);
	sh_peers_nic_closed(nic); /* before the control channel that their paths lead from */
	nic_retire(nic);
	nic->incarnation++;
	nic->holds = 0;
	nic_install(nic, &task->made);
	nic_set_address(nic, &task->address, true);
	sh_detector_netdev(nic);
	sh_log(SH_LOG_WARN, "%s: the device is back and open again", nic->name);
	sh_incident_nic(nic, SH_EVENT_NIC_UP, nic->dead_by);
	nic_fault_stale(nic);
	sh_move_nic_reopened(nic);
	nic_healed(nic);
}

static void nic_reopen_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	pthread_mutex_lock(&sh.lock);
	nic->asked = false;
	if (task->why || job->canceled)
		nic_look_soon(nic);
	else
		nic_reopened(nic, task);
	sh_job_end(&nic->busy);
	sh_kick();
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

static void nic_look(struct sh_nic *nic)
{
	nic->look_at = 0;
	if (nic->asked)
		return; /* it looks again when that is over */
	if (!nic->fatal)
		sh_nic_ask(nic);
	else if (nic_submit(nic, nic_open_run, nic_reopen_done))
		nic_look_soon(nic);
}

static void nics_run(uint64_t now)
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		if (sh_nics.nic[i].look_at && sh_nics.nic[i].look_at <= now)
			nic_look(&sh_nics.nic[i]);
}

static uint64_t nics_next_timer(void)
{
	uint64_t at = 0;
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++)
		at = sh_earlier_ns(at, sh_nics.nic[i].look_at);
	return at;
}

/* ---- drained -------------------------------------------------------------------------------- */

void sh_nic_drain(struct sh_nic *nic, bool on)
{
	if (nic->drained == on)
		return;
	nic->drained = on;
	sh_log(SH_LOG_WARN, "%s: %s by the operator", nic->name, on ? "drained" : "used again");
	sh_incident_nic(nic, on ? SH_EVENT_DRAIN : SH_EVENT_UNDRAIN, SH_CAUSE_DRAIN);
	sh_paths_changed_nic(nic);
}

/* In the child of a fork: its parent hears of network interfaces by this socket. */
static void nics_reset(void)
{
	if (sh_nics.netdevs)
		close(sh_netdev_fd(sh_nics.netdevs));
	memset(&sh_nics, 0, sizeof(sh_nics));
}

const struct sh_module sh_nics_module = {
	.name = "NICs",
	.reset = nics_reset,
	.run = nics_run,
	.next_timer = nics_next_timer,
};
