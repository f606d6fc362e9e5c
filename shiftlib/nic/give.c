/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The last resources that SHIFT can give back when a call of the program finds no room: its own
 * objects on NICs. A NIC that carries nothing and is nobody's default NIC is closed, like one whose
 * device goes (going.c). The control queue pair of a default NIC rests, without its memory: no
 * backup is left of which it could speak. It keeps its address, since nobody could tell peers
 * another one. Both are opened again when the pause of the NIC is over (yield.h); if there is no
 * room then, the next pause is longer.
 */
#include <stdlib.h>
#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/yield.h"

static void give_note(struct sh_nic *nic) SH_LOCKED
{
	sh_yield_pause(nic, true);
	nic->yield.closed = true;
	nic->look_at = atomic_load(&nic->yield.until);
	sh_log(SH_LOG_WARN,
	       "%s: no room for the job's own objects or memory: SHIFT closes what it has there, "
	       "and tries "
	       "again in %llu ms",
	       nic->name, (unsigned long long)(nic->yield.interval / SH_NS_PER_MS));
	sh_kick();
}

bool sh_nic_give_back(struct sh_nic *nic)
{
	if (!nic->ctx || !nic->control || nic->fatal || nic->sick || nic->ask.under_way ||
	    nic->removal.leaving || sh_news_nic_used(nic))
		return false;
	give_note(nic);
	nic->fatal = true; /* nothing of the NIC can be used until it is opened again */
	sh_control_mark_dead(nic->control);
	sh_loop_remove(sh_control_fd(nic->control));
	sh_news_nic_fault(nic, SC_REASON_RESOURCE, false);
	nic->removal.leaving = true;
	sh_nic_going_poll(nic);
	return true;
}

/* ---- the control queue pair of a default NIC rests ------------------------------------------- */

static void give_rest_run(struct sh_job *job)
{
	sh.real->thread_inside();
	sh_control_rest(((struct nic_job *)job)->nic->control);
}

static void give_rest_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	sh_lock();
	task->nic->ask.under_way = false;
	sh_news_nic_changed(task->nic);
	sh_job_end(&task->nic->busy);
	sh_unlock();
	free(task);
}

bool sh_nic_give_control_back(struct sh_nic *nic)
{
	if (!nic->control || nic->yield.closed || nic->fatal || nic->sick || nic->ask.under_way ||
	    sh_news_nic_away(nic) || sh_nic_submit(nic, give_rest_run, give_rest_done))
		return false;
	sh_control_rest_begin(nic->control);
	give_note(nic);
	return true;
}

/* ---- used again ------------------------------------------------------------------------------ */

static void give_wake_run(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;

	sh.real->thread_inside();
	task->ret = sh_control_wake(task->nic->control);
}

static void give_wake_done(struct sh_job *job)
{
	struct nic_job *task = (struct nic_job *)job;
	struct sh_nic *nic = task->nic;

	sh_lock();
	nic->ask.under_way = false;
	if (!task->ret && !job->canceled)
		sh_log(SH_LOG_INFO, "%s: SHIFT's control QP there has its memory again", nic->name);
	sh_nic_control_woken(nic, !task->ret && !job->canceled);
	sh_job_end(&nic->busy);
	sh_kick();
	sh_unlock();
	free(task);
}

void sh_nic_control_woken(struct sh_nic *nic, bool awake)
{
	nic->yield.closed = !awake;
	if (!awake) {
		sh_nic_give_again(nic);
		return;
	}
	sh_nic_ask(nic); /* events of the port in the meantime are not known */
	sh_news_nic_healed(nic);
}

void sh_nic_give_again(struct sh_nic *nic)
{
	sh_yield_pause(nic, true);
	nic->look_at = atomic_load(&nic->yield.until);
}

bool sh_nic_give_poll(struct sh_nic *nic)
{
	if (!nic->yield.closed)
		return false;
	if (sh_yields(nic))
		nic->look_at = atomic_load(&nic->yield.until);
	else if (nic->fatal)
		sh_nic_reopen(nic);
	else if (sh_nic_submit(nic, give_wake_run, give_wake_done))
		sh_nic_give_again(nic);
	return true;
}
