/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The lines of shadows that are deregistered late: each NIC has one, and at most one job that
 * takes from it. The job is the worker's; where a connection waits for it and the worker is at
 * something that takes long, a thread of its own has it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/memory.h"

/* Time until a late shadow goes. Peers are told then, too, that it is gone: one alarm. */
#define LATE_NS	   SH_NS_PER_MS
#define LATE_BATCH 64
#define LATE_MAX   4096 /* left at once: from then on who deregisters waits */

struct late_mr {
	struct late_mr *next;
	struct sh_pd *pd;
	struct ibv_mr *mr;
	uint32_t incarnation;
	uint8_t path;
	int error;
};

/* The line of one NIC; it lives as long as the process. */
struct late_line {
	struct sh_job job; /* first */
	struct sh_nic *nic;
	struct sh_worker *own; /* NULL: there was no need yet */
	struct late_mr *first, **last;
	struct late_mr *taken; /* the job's, while it is under way */
	bool under_way;
};

static struct {
	struct late_line lines[SH_MAX_NICS];
	uint64_t at; /* the alarm; 0: there is none */
	uint64_t left, gone;
	bool missed;
	enum { FORK_NOT_KNOWN, FORK_MARKS, FORK_NO_MARKS } fork;
} late;

/* ---- may it be late? ------------------------------------------------------------------------ */

/*
 * True where fork is made safe by madvise(): a region that goes late takes a mark from memory
 * that is another's by then, and the mark of one that comes meanwhile is never set. It is decided
 * before the first region is registered. An old library does not tell.
 */
static bool late_forks_by_marks(void)
{
	if (late.fork == FORK_NOT_KNOWN)
		late.fork = sh.real->is_fork_initialized &&
					    sh.real->is_fork_initialized() != IBV_FORK_ENABLED
				    ? FORK_NO_MARKS
				    : FORK_MARKS;
	return late.fork == FORK_MARKS;
}

bool sh_late_may(const struct sh_ctx *ctx, uint8_t path)
{
	return !ctx->moving && !ctx->reached[path] && late.left - late.gone < LATE_MAX &&
	       !late_forks_by_marks();
}

/* ---- the job -------------------------------------------------------------------------------- */

static void late_run(struct sh_job *job)
{
	struct late_mr *mr;

	sh.real->thread_inside();
	for (mr = ((struct late_line *)job)->taken; mr; mr = mr->next)
		mr->error = sh.real->dereg_mr(mr->mr);
}

/*
 * Tells of a failure. Where the NIC died, or was left at the end, there is nothing to tell: the
 * kernel takes all away with its file.
 */
static void late_mr_tell(const struct sh_nic *nic, const struct late_mr *mr, bool canceled)
{
	if (mr->error && !canceled && !nic->fatal && mr->incarnation == nic->incarnation)
		sh_warn_once("%s: a region that the job has deregistered cannot be deregistered "
			     "there (%s): its memory stays locked until the job ends; no peer has "
			     "a key of it",
			     nic->name, strerror(mr->error));
}

static void late_mr_over(struct sh_nic *nic, struct late_mr *mr, bool canceled) SH_LOCKED
{
	late_mr_tell(nic, mr, canceled);
	sh_nic_release(nic, mr->incarnation);
	mr->pd->ctx->late[mr->path]--;
	late.gone++;
	sh_job_end(&sh_objects.deregs);
	sh_job_end(&mr->pd->busy);
	free(mr);
}

static void late_give(struct late_line *line, bool alone) SH_LOCKED;

/* The next of them; and what found no room while these were there. */
static void late_again(struct late_line *line) SH_LOCKED
{
	bool missed = late.missed;

	late_give(line, false);
	late.missed = false;
	if (missed)
		sh_replica_want_again();
}

static void late_done(struct sh_job *job)
{
	struct late_line *line = (struct late_line *)job;
	bool canceled = job->canceled; /* read here, as the job may be given again below */
	struct late_mr *mr, *next;

	sh_lock();
	for (mr = line->taken; mr; mr = next) {
		next = mr->next;
		late_mr_over(line->nic, mr, canceled);
	}
	line->taken = NULL;
	line->under_way = false;
	if (!canceled && !sh.stopping)
		late_again(line);
	sh_unlock();
}

static void late_take(struct late_line *line)
{
	uint32_t n = 1;
	struct late_mr *mr = line->first;

	line->taken = mr;
	for (; n < LATE_BATCH && mr->next; n++)
		mr = mr->next;
	line->first = mr->next;
	if (!line->first)
		line->last = &line->first;
	mr->next = NULL;
}

/* Not taken after all: in front again. */
static void late_put_back(struct late_line *line)
{
	struct late_mr *mr = line->taken;

	while (mr->next)
		mr = mr->next;
	mr->next = line->first;
	if (!line->first)
		line->last = &mr->next;
	line->first = line->taken;
	line->taken = NULL;
}

static bool late_worker_idle(const struct sh_nic *nic)
{
	return !sh_worker_busy_since_ns(nic->worker) && sh_worker_empty(nic->worker);
}

static struct sh_worker *late_worker(struct late_line *line, bool alone)
{
	if (!alone || late_worker_idle(line->nic))
		return line->nic->worker;
	if (!line->own)
		line->own = sh_worker_start("shift-dereg");
	return line->own ? line->own : line->nic->worker;
}

static void late_wake(void) SH_LOCKED
{
	if (!late.at)
		late.at = sh_now_ns() + LATE_NS;
	sh_wake_at(late.at);
}

static void late_give(struct late_line *line, bool alone) SH_LOCKED
{
	if (line->under_way || !line->first)
		return;
	late_take(line);
	line->job = (struct sh_job){ .fn = late_run, .done = late_done };
	line->under_way = !sh_worker_submit(late_worker(line, alone), &line->job);
	if (line->under_way)
		return;
	late_put_back(line); /* no thread for it now, or the process ends */
	late_wake();
}

/* ---- left, and awaited ---------------------------------------------------------------------- */

bool sh_late_defer(struct sh_pd *pd, uint8_t path, struct ibv_mr *shadow, uint32_t incarnation)
{
	struct sh_nic *nic = pd->ctx->path[path];
	struct late_line *line = &late.lines[nic->index];
	struct late_mr *mr = nic->worker ? malloc(sizeof(*mr)) : NULL;

	if (!mr)
		return false;
	*mr = (struct late_mr){ .pd = pd, .mr = shadow, .incarnation = incarnation, .path = path };
	line->nic = nic;
	*line->last = mr;
	line->last = &mr->next;
	sh_job_begin(&pd->busy);
	sh_job_begin(&sh_objects.deregs);
	pd->ctx->late[path]++;
	late.left++;
	late_wake();
	return true;
}

/* Gives a line to another thread if its job stands behind something that takes long. */
static void late_hurry(struct late_line *line) SH_LOCKED
{
	if (line->under_way && sh_worker_withdraw(line->nic->worker, &line->job)) {
		late_put_back(line);
		line->under_way = false;
	}
	late_give(line, true);
}

bool sh_late_over(const struct sh_ctx *ctx, uint8_t path)
{
	if (!ctx->late[path])
		return true;
	late_hurry(&late.lines[ctx->path[path]->index]);
	return false;
}

bool sh_late_hurry(void)
{
	uint32_t i;

	for (i = 0; i < SH_MAX_NICS; i++)
		if (late.lines[i].nic)
			late_hurry(&late.lines[i]);
	return late.left != late.gone;
}

void sh_late_begin_other(void)
{
	late.left++;
	sh_job_begin(&sh_objects.deregs);
}

void sh_late_end_other(void)
{
	bool missed = late.missed;

	late.gone++;
	sh_job_end(&sh_objects.deregs);
	pthread_cond_broadcast(&sh.idle); /* callers that find no room wait for it */
	late.missed = false;
	if (missed && !sh.stopping)
		sh_replica_want_again();
}

bool sh_late_missed(int error)
{
	if (late.left == late.gone || (error != ENOMEM && error != ENOSPC && error != EAGAIN))
		return false;
	late.missed = true;
	(void)sh_late_hurry();
	return true;
}

uint64_t sh_late_left(void)
{
	return late.left;
}

uint64_t sh_late_gone(void)
{
	return late.gone;
}

/* ---- the module ----------------------------------------------------------------------------- */

static void late_alarm(uint64_t now) SH_LOCKED
{
	uint32_t i;

	if (!late.at || late.at > now)
		return;
	late.at = 0;
	for (i = 0; i < SH_MAX_NICS; i++)
		late_give(&late.lines[i], false);
}

static uint64_t late_next_timer(void)
{
	return late.at;
}

static void late_reset(void)
{
	uint32_t i;

	memset(&late, 0, sizeof(late));
	for (i = 0; i < SH_MAX_NICS; i++)
		late.lines[i].last = &late.lines[i].first;
}

const struct sh_module sh_late_module = {
	.name = "late",
	.reset = late_reset,
	.run = late_alarm,
	.next_timer = late_next_timer,
};
