/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Opening NICs, also again as the next incarnation: on their workers. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/pci.h"
#include "shiftlib/news.h"

/* ---- jobs on the NIC's worker: opening it, asking its port ---------------------------------- */

/* True if the device is that NIC, whatever its name is by now. */
static bool nic_is_device(const struct sh_nic *nic, const char *name)
{
	bool is;

	sh_lock();
	is = sh_nic_by_place(name) == nic;
	sh_unlock();
	return is;
}

#define NIC_FILES      8   /* descriptors that an open NIC takes, at most */
#define NIC_FILES_LOOK 256 /* numbers that are looked at in one call */

const char sh_nic_no_files[] = "no file descriptor was left to open the NIC (ulimit -n)";

/* Counts numbers below the limit that name nothing, up to NIC_FILES, and takes none for that. */
static unsigned int nic_files_left(void)
{
	struct pollfd fds[NIC_FILES_LOOK];
	struct rlimit limit;
	unsigned int left = 0;
	rlim_t at = 0, n;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return NIC_FILES;
	for (; at < limit.rlim_cur && left < NIC_FILES; at += n) {
		n = limit.rlim_cur - at < NIC_FILES_LOOK ? limit.rlim_cur - at : NIC_FILES_LOOK;
		for (rlim_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){ .fd = (int)(at + i) };
		if (poll(fds, (nfds_t)n, 0) < 0)
			return NIC_FILES;
		for (rlim_t i = 0; i < n; i++)
			left += !!(fds[i].revents & POLLNVAL);
	}
	return left;
}

/* Libraries between may have lost errno on their way out. */
static bool nic_lacks_files(int error)
{
	return error == EMFILE || error == ENFILE || nic_files_left() < NIC_FILES;
}

/* NULL: errno says why, as far as the library does. */
static struct ibv_context *nic_open_device(const struct sh_nic *nic, char name[64])
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int i, n = 0, error;

	errno = 0;
	pthread_mutex_lock(&sh.devices_lock);
	list = sh.real->get_device_list(&n);
	pthread_mutex_unlock(&sh.devices_lock);
	for (i = 0; list && i < n && !ctx; i++) {
		snprintf(name, 64, "%s", sh.real->get_device_name(list[i]));
		if (nic_is_device(nic, name))
			ctx = sh.real->open_device(list[i]);
	}
	error = errno;
	if (list)
		sh.real->free_device_list(list);
	errno = error;
	return ctx;
}

static void nic_close_parts(struct nic_parts *parts)
{
	if (parts->control)
		sh_control_close(parts->control);
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (parts->dev[i])
			sp_dev_uninit(parts->dev[i]);
	if (parts->ctx)
		sh.real->close_device(parts->ctx);
	if (parts->pci >= 0)
		close(parts->pci);
	*parts = (struct nic_parts){ .pci = -1 };
}

/* True if this NIC, or one that it stands in for, has that engine. Neither changes any more. */
static bool nic_wants(const struct sh_nic *nic, const struct shift_provider *engine)
{
	uint32_t i, k;

	for (i = 0; i < sh_nics.n; i++) {
		if (sh_nics.engine[i] != engine)
			continue;
		if (i == nic->index)
			return true;
		for (k = 0; k < sh_nics.map.n_backups[i]; k++)
			if (sh_nics.map.backups[i][k] == nic->index)
				return true;
	}
	return false;
}

static const char *nic_open_engines(const struct sh_nic *nic, struct nic_parts *parts)
{
	const char *why = "no engine is for it";

	for (uint32_t i = 0; i < SP_ENGINES; i++) {
		const struct shift_provider *engine = sp_engine_at(i);

		if (!nic_wants(nic, engine))
			continue;
		why = NULL;
		if (!engine->probe(parts->ctx, &why))
			return why;
		if (sp_dev_init(engine, parts->ctx, false, &sh_callbacks, &parts->dev[i]))
			return "no memory for the engine";
	}
	return why;
}

/* Takes SHIFT's own QPs from the engines: SHIFT posts to them and polls. */
static void nic_leave_control(const struct nic_parts *parts)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (parts->dev[i])
			sp_qp_foreign(parts->dev[i], sh_control_qp(parts->control));
}

/* True if atomics of eight bytes are global, over PCI or altogether. */
static bool nic_atomics_global(const struct nic_parts *parts)
{
	const uint16_t whole = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
	struct verbs_context *vctx = verbs_get_ctx_op(parts->ctx, query_device_ex);
	struct ibv_device_attr_ex attr = { 0 };

	if (parts->attr.atomic_cap == IBV_ATOMIC_GLOB)
		return true;
	if (!vctx || vctx->query_device_ex(parts->ctx, NULL, &attr, sizeof(attr)))
		return false;
	return (attr.pci_atomic_caps.fetch_add & whole) &&
	       (attr.pci_atomic_caps.compare_swap & whole);
}

static const char *nic_no_control(int ret)
{
	switch (ret) {
	case -EADDRNOTAVAIL: return "its port has no GID";
	case -EINVAL:
	case -EOPNOTSUPP: return "its control QP cannot be opened: the device refuses its size";
	default: return "its control QP cannot be opened";
	}
}

static const char *nic_open_parts(const struct sh_nic *nic, struct nic_parts *parts)
{
	const char *why;
	int flags, ret;

	parts->pci = -1;
	parts->ctx = nic_open_device(nic, parts->name);
	if (!parts->ctx)
		return nic_lacks_files(errno) ? sh_nic_no_files : "it cannot be opened";
	parts->pci = sh_pci_open("/sys", parts->name);
	sh_aside((int *[]){ &parts->ctx->cmd_fd, &parts->ctx->async_fd, &parts->pci }, 3);
	why = nic_open_engines(nic, parts);
	if (why)
		return why;
	ret = sh_control_open(sh.real, parts->ctx, NIC_PORT, &parts->control);
	if (ret && ret != -EADDRNOTAVAIL && nic_lacks_files(-ret))
		return sh_nic_no_files;
	if (ret)
		return nic_no_control(ret);
	nic_leave_control(parts);
	if (sh.real->query_device(parts->ctx, &parts->attr))
		memset(&parts->attr, 0, sizeof(parts->attr));
	parts->atomics_global = nic_atomics_global(parts);
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

/* prompt, worker and cut.eyes */
#define NIC_WORKERS 3
_Static_assert(NIC_WORKERS *SH_MAX_NICS <= SH_LOOP_WORKERS, "the loop has no room for them");

bool sh_nic_worker(struct sh_worker **worker, const char *name)
{
	if (*worker)
		return true;
	*worker = sh_worker_start(name);
	if (*worker)
		sh_loop_worker(*worker);
	return *worker;
}

static bool nic_workers(struct sh_nic *nic) SH_LOCKED
{
	return sh_nic_worker(&nic->prompt, nic->name) && sh_nic_worker(&nic->worker, nic->name);
}

const char *sh_nic_submit(struct sh_nic *nic, void (*run)(struct sh_job *),
			  void (*done)(struct sh_job *))
{
	struct nic_job *task;

	if (!nic_workers(nic))
		return "no memory for its workers";
	task = calloc(1, sizeof(*task));
	if (!task)
		return "no memory";
	*task = (struct nic_job){ .job = { .fn = run, .done = done }, .nic = nic };
	sh_job_begin(&nic->busy);
	if (!sh_worker_submit(run == sh_nic_ask_run ? nic->prompt : nic->worker, &task->job)) {
		nic->ask.under_way = true;
		nic->ask.again = false;
		return NULL;
	}
	sh_job_end(&nic->busy);
	free(task);
	return "its worker thread cannot be started";
}

/* ---- opened, and opened again --------------------------------------------------------------- */

static void nic_install(struct sh_nic *nic, const struct nic_parts *parts) SH_LOCKED
{
	nic->ctx = parts->ctx;
	nic->removal = (struct sh_removal){ 0 };
	nic->cut.fd = parts->pci;
	nic->cut.look_at = 0;
	nic->cut.once = nic->cut.off = nic->cut.seen = nic->cut.gone = false;
	memcpy(nic->dev, parts->dev, sizeof(nic->dev));
	nic->control = parts->control;
	nic->tenant.pkeys = *sh_control_pkeys(parts->control);
	nic->max = (struct sh_limits){ .qp_wr = parts->attr.max_qp_wr,
				       .sge = parts->attr.max_sge,
				       .cqe = parts->attr.max_cqe,
				       .reads_out = parts->attr.max_qp_init_rd_atom,
				       .reads_in = parts->attr.max_qp_rd_atom,
				       .atomics_global = parts->atomics_global };
	nic->fatal = nic->sick = false;
	nic->gid.valid = false;
	nic->look_at = 0;
	nic->control_handler = (struct sh_handler){ sh_nic_control_readable, nic };
	nic->async_handler = (struct sh_handler){ sh_nic_async_readable, nic };
	sh_loop_add(sh_control_fd(nic->control), &nic->control_handler);
	sh_loop_add(nic->ctx->async_fd, &nic->async_handler);
	nic->hang = (struct sh_hang){ 0 };
	sh_nic_going_watch(nic);
}

/* Takes the new name; its place, too, may have changed by one half. */
static void nic_renamed(struct sh_nic *nic, const char *name)
{
	backup_place_read("/sys", name, &nic->place);
	if (!strcmp(nic->name, name))
		return;
	sh_log(SH_LOG_WARN, "%s: the device has come back as %s", nic->name, name);
	snprintf(nic->name, sizeof(nic->name), "%s", name);
}

static void nic_open_finish(struct sh_nic *nic, const struct nic_job *task,
			    const char *why) SH_LOCKED
{
	nic->why = why;
	nic->state = why ? SH_NIC_FAILED : SH_NIC_OPEN;
	if (why) {
		sh_log(SH_LOG_WARN, "%s cannot serve as a backup or carry control messages: %s",
		       nic->name, why);
	} else {
		nic_install(nic, &task->made);
		nic_renamed(nic, task->made.name);
		sh_nic_set_address(nic, &task->address, true);
		sh_nic_link_find(nic);
		sh_nic_vlan_ask(nic);
		sh_news_nic_changed(nic);
	}
	sh_news_nic_opened(nic);
}

static void nic_open_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	sh_lock();
	task->nic->ask.under_way = false;
	nic_open_finish(task->nic, task, job->canceled ? "SHIFT is ending" : task->why);
	sh_job_end(&task->nic->busy);
	sh_unlock();
	free(task);
}

void sh_nic_open(struct sh_nic *nic)
{
	const char *why;

	if (nic->state != SH_NIC_CLOSED)
		return;
	nic->state = SH_NIC_OPENING;
	why = sh_nic_submit(nic, nic_open_run, nic_open_done);
	if (why)
		nic_open_finish(nic, NULL, why);
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

/* Closes the parts on the worker, after the jobs that close objects on them. */
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
	struct nic_parts parts = { .ctx = past->ctx, .pci = -1 };

	memcpy(parts.dev, past->dev, sizeof(parts.dev));
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

/*
 * Retires the incarnation: its objects are destroyed in their time, and the context after them.
 * Without memory it stays.
 */
static void nic_retire(struct sh_nic *nic)
{
	struct nic_parts control = { .control = nic->control, .pci = nic->cut.fd };
	struct sh_past_nic *past = malloc(sizeof(*past));

	nic_close_later(nic, &control);
	if (!past)
		return;
	*past = (struct sh_past_nic){ .next = nic->past,
				      .incarnation = nic->incarnation,
				      .holds = nic->holds,
				      .ctx = nic->ctx };
	memcpy(past->dev, nic->dev, sizeof(past->dev));
	nic->past = past;
	if (!past->holds)
		nic_close_past(nic, &nic->past);
}

static void nic_close_present(struct sh_nic *nic) SH_LOCKED
{
	sh_loop_remove(nic->ctx->async_fd);
	sh_news_nic_closing(nic); /* before the control QP that their paths lead from */
	nic_retire(nic);
}

/* Closes the emptied NIC, by a job of its worker after those of all objects there. */
void sh_nic_emptied(struct sh_nic *nic)
{
	if (!nic->removal.leaving || nic->holds)
		return;
	nic_close_present(nic);
	nic->ctx = NULL;
	nic->control = NULL;
	memset(nic->dev, 0, sizeof(nic->dev));
	nic->cut.fd = -1;
	nic->removal.leaving = false;
	nic->removal.look_at = 0;
	sh_log(SH_LOG_INFO, "%s: SHIFT has nothing open there any more", nic->name);
}

/* Takes a device that is back and open. */
static void nic_reopened(struct sh_nic *nic, const struct nic_job *task) SH_LOCKED
{
	if (nic->ctx)
		nic_close_present(nic);
	nic->incarnation++;
	nic->holds = 0;
	nic_install(nic, &task->made);
	nic_renamed(nic, task->made.name);
	sh_nic_set_address(nic, &task->address, true);
	sh_nic_link_find(nic);
	sh_nic_vlan_ask(nic);
	if (nic->yield.closed) {
		sh_log(SH_LOG_INFO, "%s: SHIFT has it open again", nic->name);
	} else {
		sh_log(SH_LOG_WARN, "%s: the device is back and open again", nic->name);
		sh_event_nic(nic->name, SH_EVENT_NIC_UP, nic->dead_by, sh_news_nic_qps(nic, true));
	}
	nic->yield.closed = false;
	sh_news_nic_reopened(nic);
}

static void nic_reopen_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->ask.under_way = false;
	if ((task->why || job->canceled) && nic->yield.closed)
		sh_nic_give_again(nic);
	else if (task->why || job->canceled)
		sh_nic_poll_soon(nic);
	else
		nic_reopened(nic, task);
	sh_job_end(&nic->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

void sh_nic_reopen(struct sh_nic *nic)
{
	if (sh_nic_submit(nic, nic_open_run, nic_reopen_done))
		sh_nic_poll_soon(nic);
}
