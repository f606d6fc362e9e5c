/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The health of a NIC, by its port, its events, its answers and its network interface. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/apart.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/news.h"

#define NIC_LOOK_NS (500 * SH_NS_PER_MS) /* pause between looks at a dead or sick NIC */

void sh_nic_poll_soon(struct sh_nic *nic)
{
	nic->look_at = sh_now_ns() + NIC_LOOK_NS;
	sh_kick();
}

/*
 * Tells whether the device is gone. Sick firmware answers EIO too, but the kernel's own knowledge
 * of the device is still there to ask.
 */
bool sh_device_gone(struct ibv_context *context)
{
	struct ibv_device_attr attr;

	return sh.real->query_device(context, &attr) == EIO;
}

/*
 * Takes the NIC as sick: a carrier did not flush, or its command did not return, and nothing on
 * this NIC will, event or not. Its other connections that can move do so now, as they may never see
 * an error of their own. One that cannot is left alone: the NIC may only be slow.
 */
void sh_nic_sick(struct sh_nic *nic)
{
	if (nic->sick || nic->fatal)
		return;
	nic->sick = true;
	sh_nic_cut_begin(nic);
	sh_event_nic(nic->name, SH_EVENT_NIC_DOWN, SH_CAUSE_HANG, sh_news_nic_qps(nic, false));
	sh_log(SH_LOG_WARN, "%s: does not execute commands; its connections move away", nic->name);
	sh_news_nic_fault(nic, SC_REASON_DEVICE, true);
	sh_nic_poll_soon(nic);
}

void sh_nic_obeys(struct sh_nic *nic)
{
	if (!nic->sick)
		return;
	nic->sick = false;
	sh_event_nic(nic->name, SH_EVENT_NIC_UP, SH_CAUSE_HANG, sh_news_nic_qps(nic, true));
	sh_log(SH_LOG_WARN, "%s: executes commands again", nic->name);
	if (!nic->fatal)
		nic->look_at = 0;
	sh_news_nic_changed(nic);
}

/* Takes the NIC as lost: nothing that is open on it will ever work again. */
static void nic_lost(struct sh_nic *nic, enum sh_event_cause cause) SH_LOCKED
{
	if (nic->fatal)
		return;
	nic->fatal = true;
	nic->dead_by = cause;
	if (!nic->sick)
		sh_nic_cut_begin(nic);
	sh_event_nic(nic->name, SH_EVENT_NIC_DOWN, cause, sh_news_nic_qps(nic, false));
	sh_control_mark_dead(nic->control);
	sh_loop_remove(sh_control_fd(nic->control));
	sh_nic_poll_soon(nic);
}

static void nic_dead(struct sh_nic *nic, enum sh_event_cause cause, const char *how) SH_LOCKED
{
	if (!nic->fatal)
		sh_log(SH_LOG_WARN, "%s: %s; not used until it is back", nic->name, how);
	nic_lost(nic, cause);
	sh_news_nic_fault(nic, SC_REASON_DEVICE, false);
}

/* ---- its address ---------------------------------------------------------------------------- */

static bool address_moved(const struct sh_address *a, const struct sh_address *b)
{
	return memcmp(a->gid, b->gid, sizeof(a->gid)) || a->gid_index != b->gid_index ||
	       a->lid != b->lid || a->mtu != b->mtu || a->qpn != b->qpn || a->qkey != b->qkey;
}

static void ask_command(void *arg)
{
	struct nic_job *task = arg;

	task->ret = sh_control_refresh(task->nic->control, NULL, &task->address);
}

void sh_nic_ask_run(struct sh_job *job)
{
	((struct nic_job *)job)->began = sh_now_ns();
	sh.real->thread_inside();
	sh_apart(((struct nic_job *)job)->nic->ctx->cmd_fd, ask_command, job);
}

/* Sets the address. Peers are told, and paths to them are opened anew. */
void sh_nic_set_address(struct sh_nic *nic, const struct sh_address *address, bool closed)
{
	bool moved = closed || address_moved(&nic->address, address);

	nic->address = *address;
	nic->port_down = !address->active;
	if (!moved)
		return;
	nic->revision = ++sh_nics.revision;
	sh_news_nic_address(nic);
}

/*
 * Takes an answer, so the NIC obeys. A NIC that hangs holds this job up, and is asked when that is
 * over.
 */
static void nic_answered(struct sh_nic *nic, const struct sh_address *address) SH_LOCKED
{
	bool was_down = nic->port_down;

	sh_nic_set_address(nic, address, false);
	if (was_down && !nic->port_down)
		sh_log(SH_LOG_INFO, "%s: port %d is up", nic->name, NIC_PORT);
	if (was_down != nic->port_down)
		sh_event_nic(nic->name, was_down ? SH_EVENT_NIC_UP : SH_EVENT_NIC_DOWN,
			     SH_CAUSE_PORT_DOWN, sh_news_nic_qps(nic, was_down));
	sh_nic_obeys(nic);
	sh_news_nic_healed(nic);
}

static void nic_ask_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->ask.under_way = false;
	sh_hang_answered(&nic->hang, &sh.config.hang, sh_now_ns());
	if (!task->ret && !job->canceled)
		nic->ask.obeyed_at = task->began;
	if (nic->fatal)
		sh_nic_poll_soon(nic);
	else if (nic->ask.again)
		sh_nic_ask(nic); /* the port changed after the question */
	else if (!task->ret && !job->canceled)
		nic_answered(nic, &task->address);
	else
		sh_nic_poll_soon(nic);
	sh_job_end(&nic->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

/* Asks for the port's state, LID and GIDs, which may have changed while it was down. */
void sh_nic_ask(struct sh_nic *nic)
{
	if (nic->ask.under_way)
		nic->ask.again = true;
	else if (sh_nic_submit(nic, sh_nic_ask_run, nic_ask_done))
		sh_nic_poll_soon(nic);
}

/* ---- what its fds say ----------------------------------------------------------------------- */

void sh_nic_control_readable(void *arg)
{
	struct sh_nic *nic = arg;
	int n;

	if (nic->fatal)
		return;
	n = sh_news_nic_datagrams(nic);
	if (n != -EIO)
		return;
	sh_log(SH_LOG_INFO, "%s: its control QP is dead", nic->name);
	nic_lost(nic, SH_CAUSE_FATAL);
	sh_news_nic_changed(nic);
}

static void nic_port_event(struct sh_nic *nic, enum ibv_event_type type) SH_LOCKED
{
	nic->gid.valid = false;
	if (type == IBV_EVENT_PORT_ERR) {
		sh_log(SH_LOG_WARN, "%s: port %d is down", nic->name, NIC_PORT);
		if (!nic->port_down)
			sh_event_nic(nic->name, SH_EVENT_NIC_DOWN, SH_CAUSE_PORT_DOWN,
				     sh_news_nic_qps(nic, false));
		nic->port_down = true;
		nic->ask.again = nic->ask.under_way;
		sh_news_nic_fault(nic, SC_REASON_PORT, false);
	} else {
		sh_nic_ask(nic);
	}
}

/*
 * Takes the state of the interface. Only a change counts: an interface may be down, or another's,
 * where RDMA works well.
 */
void sh_nic_link(struct sh_nic *nic, bool running)
{
	bool lost = nic->ifrunning && !running;

	nic->ifrunning = running;
	if (lost && !nic->link_lost) {
		sh_log(SH_LOG_WARN, "%s: its network interface lost its link", nic->name);
		nic->link_lost = true;
		sh_event_nic(nic->name, SH_EVENT_NIC_DOWN, SH_CAUSE_LINK_LOST,
			     sh_news_nic_qps(nic, false));
		sh_news_nic_fault(nic, SC_REASON_PORT, false);
	} else if (running && nic->link_lost) {
		sh_log(SH_LOG_INFO, "%s: its network interface has a link again", nic->name);
		nic->link_lost = false;
		sh_event_nic(nic->name, SH_EVENT_NIC_UP, SH_CAUSE_LINK_LOST,
			     sh_news_nic_qps(nic, true));
		sh_nic_ask(nic);
	}
}

void sh_nic_taken(struct sh_nic *nic)
{
	nic_dead(nic, SH_CAUSE_REMOVED, "the device is being taken away");
}

void sh_nic_fatal(struct sh_nic *nic)
{
	if (nic->state == SH_NIC_OPEN)
		nic_dead(nic, SH_CAUSE_FATAL, "the device reported a fatal error");
}

static void nic_event(struct sh_nic *nic, const struct ibv_async_event *event) SH_LOCKED
{
	switch ((int)event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		nic->removal.told++;
		sh_nic_fatal(nic);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		if (event->element.port_num == NIC_PORT)
			nic_port_event(nic, event->event_type);
		break;
	case IBV_EVENT_PKEY_CHANGE:
		if (event->element.port_num == NIC_PORT)
			sh_nic_pkeys_ask(nic);
		break;
	default: break;
	}
}

static void nic_read_events(struct sh_nic *nic) SH_LOCKED
{
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
			sh_news_last_receive(event.element.qp);
		else if (event.event_type == IBV_EVENT_CQ_ERR)
			sh_news_cq_overran(nic, event.element.cq);
		sh.real->ack_async_event(&event);
		nic_event(nic, &copy);
	}
}

void sh_nic_async_readable(void *arg)
{
	struct sh_nic *nic = arg;

	if (!nic->ctx) /* the NIC was given up meanwhile */
		return;
	nic_read_events(nic);
	if (sh_removal_ends(&nic->removal, nic->ctx))
		sh_news_context_over(nic->ctx);
}
